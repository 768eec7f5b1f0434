"""Searches and models replayed on measured tables."""
