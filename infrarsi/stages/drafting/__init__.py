"""What init finds in a repository, and what it makes of it."""
