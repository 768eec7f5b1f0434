"""Several candidates at once, for machines that can be kept apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from infrarsi.records.history import Observation, Space, Suggestion
from infrarsi.search.strategies import OURS, suggest_next


def suggest_batch(
    space: Space, observations: Sequence[Observation], num: int, **how: Any
) -> tuple[Suggestion, ...]:
    """Suggest up to ``num`` candidates to be tried at the same time.

    Each is chosen as if those before it had come out as predicted (the "Kriging believer" of
    Ginsbourger, Le Riche and Carraro, 2010), so that they do not ask the same question. For rivals,
    which have no such models, as if they had come out as slow as the slowest seen (their "constant
    liar").

    Parameters
    ----------
    space, observations
        As for ``suggest_next``, which is asked for each of them.
    num
        How many trials can run beside each other. Those of one machine cannot: they would
        slow each other down.
    how
        Everything else that ``suggest_next`` takes, ``strategy`` among it.

    Raises
    ------
    ValueError, UsageError
        As ``suggest_next``.
    """
    chosen: list[Suggestion] = []
    believed = list(observations)
    is_ours = how["strategy"] in OURS
    slowest = max((each.update_s for each in observations if each.update_s), default=None)
    while len(chosen) < num:
        made = suggest_next(space, believed, **{"predict": is_ours, **how})
        if made is None:
            break
        chosen.append(made)
        believed.append(_as_predicted(made) if is_ours else _as_slow(made, slowest, space))
    return tuple(chosen)


def _as_slow(made: Suggestion, slowest: float | None, space: Space) -> Observation:
    status: Literal["ok", "failed"] = "failed" if slowest is None else "ok"
    return Observation(
        candidate=made.candidate, status=status, update_s=slowest, cost_s=space.default_cost_s
    )


def _as_predicted(made: Suggestion) -> Observation:
    said = made.prediction
    if said is None:
        raise ValueError("a suggestion without a prediction cannot be believed")
    if said.p_fits < 0.5:
        return Observation(candidate=made.candidate, status="oom", cost_s=said.cost_s)
    return Observation(
        candidate=made.candidate, status="ok", update_s=said.update_s.point,
        peak_bytes=int(said.peak_bytes.point), cost_s=said.cost_s,
    )  # fmt: skip
