"""The mind: pure functions from evidence to a verdict, one module a layer; see ``decide``."""
