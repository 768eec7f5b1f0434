"""Rotary tables and position ids that every forward pass builds anew are built once."""

from __future__ import annotations

from collections.abc import Mapping

from infrarsi.propose.tables import build_once


def transform(sources: Mapping[str, str]) -> dict[str, str]:
    """Build each table once for each size."""
    return build_once(sources, masks=False)
