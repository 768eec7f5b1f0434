"""Bytes to bytes: search/replace and diffs, applied exactly or refused whole. Pure."""

from infrarsi.edits.apply import apply_edits
from infrarsi.edits.combine import combine, incompatible_pairs
from infrarsi.edits.difference import edits_between
from infrarsi.edits.surface import within_surface

__all__ = ["apply_edits", "combine", "edits_between", "incompatible_pairs", "within_surface"]
