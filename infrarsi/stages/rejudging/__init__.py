"""Stored verdicts, reached anew from what was kept."""
