"""What the gate looks at, piece by piece."""
