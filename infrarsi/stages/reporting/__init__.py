"""What report, status and show say that no other room knows."""
