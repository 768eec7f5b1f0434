"""What doctor learns of the reference: its launches, and what the checks see of falsifications."""
