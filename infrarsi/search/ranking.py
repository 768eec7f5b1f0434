"""Which of the measured candidates is fastest."""

from __future__ import annotations

from collections.abc import Sequence

from infrarsi.records.history import Observation


def rank(observations: Sequence[Observation]) -> tuple[Observation, ...]:
    """Give the accepted and measured observations, fastest first.

    One launch each: this ranks, and never decides. Ties keep their order.
    """
    measured = [
        (each.update_s, i, each)
        for i, each in enumerate(observations)
        if each.status == "ok" and each.update_s is not None
    ]
    return tuple(each for _, _, each in sorted(measured, key=lambda entry: entry[:2]))


def best_so_far(observations: Sequence[Observation]) -> Observation | None:
    """Give the fastest accepted observation, or ``None`` where nothing was measured."""
    ranked = rank(observations)
    return ranked[0] if ranked else None
