"""What searches teach each other."""
