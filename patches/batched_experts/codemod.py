"""A loop that looks for each expert's tokens becomes one sort of all tokens by expert."""

from __future__ import annotations

from collections.abc import Mapping

from infrarsi.propose.experts.dispatch import rewrite_loops
from infrarsi.propose.experts.inserted import one_by_one


def transform(sources: Mapping[str, str]) -> dict[str, str]:
    """Rewrite every loop over experts that can be rewritten safely."""
    return rewrite_loops(sources, one_by_one)
