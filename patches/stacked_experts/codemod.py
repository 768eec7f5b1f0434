"""A loop over experts becomes batched matrix products over all of them at once."""

from __future__ import annotations

from collections.abc import Mapping

from infrarsi.propose.experts.dispatch import rewrite_loops
from infrarsi.propose.experts.stacking import all_at_once


def transform(sources: Mapping[str, str]) -> dict[str, str]:
    """Rewrite every loop over experts that can be rewritten safely."""
    return rewrite_loops(sources, all_at_once)
