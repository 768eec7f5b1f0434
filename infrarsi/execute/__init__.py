"""Hands: worktrees, the sandbox, processes, and the machine that they run on."""
