"""What a candidate is called where people read of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from infrarsi.records.candidate import Candidate


def words_of(candidate: Candidate, defaults: Mapping[str, Any]) -> str:
    """Say what a candidate changes: ``+sdpa, recompute=False``."""
    knobs = [f"{k}={v}" for k, v in candidate.knobs.items() if v != defaults.get(k)]
    return ", ".join([*(f"+{name}" for name in candidate.patches), *knobs]) or "the reference"
