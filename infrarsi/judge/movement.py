"""Updates that were replayed, as the judge reads them: who kept a state, and how far it moved."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from infrarsi.judge.bands import EPSILON, arithmetic_floor, student_limit
from infrarsi.judge.case import Confirmation, Launch, Replay
from infrarsi.records.replayed import ReplaySeen, ReplaySlot
from infrarsi.records.task import Metric, Numerics
from infrarsi.records.trial import Outcome

_ROUNDING = 4.0
"""Epsilons of itself by which rounding may move a stored parameter in one update."""


@dataclass(frozen=True)
class Movement:
    """How one parameter moved in a replayed update, all ranks together: L2 norms."""

    apart: float
    """Of the difference of the two displacements; ``inf`` where anything was not finite."""
    moved: float
    """Of the displacement that the reference's code made."""
    said: float
    """Of the displacement that the other launch had kept."""
    size: float
    """Of the parameter before."""

    def share(self, epsilon: float) -> float:
        """Give how far apart the displacements are, as a share of the reference code's."""
        if self.moved > 0:
            return self.apart / self.moved
        return 0.0 if self.apart <= _ROUNDING * epsilon * self.size else math.inf

    def rounding(self, epsilon: float) -> float:
        """Give the share that the rounding of the stored parameter explains."""
        return _ROUNDING * epsilon * self.size / self.moved if self.moved > 0 else 0.0


@dataclass(frozen=True)
class Null:
    """The reference's own state of an update, nudged and replayed by the reference's code."""

    kept_by: Launch
    replayed_by: Launch
    movements: Mapping[str, Movement]


@dataclass(frozen=True)
class Replayed:
    """One update, replayed by the reference's code from the winner's state."""

    slot: ReplaySlot
    kept_by: Launch
    """The winner's launch that kept it."""
    replayed_by: Launch
    movements: Mapping[str, Movement]
    left: tuple[str, ...]
    """What could not be put in place and stayed the reference's own."""
    null: Null | None


@dataclass(frozen=True)
class Gap:
    """An update that was to be replayed and was not."""

    update: int
    why: str
    of_winner: bool
    """Whether only the winner's state is missing: the reference's was kept and replayed."""


def replayed_of(confirmation: Confirmation, replay: Replay) -> tuple[list[Replayed], list[Gap]]:
    """Pair what was kept with what came of replaying it; and say what is missing, and why."""
    launches = {
        each.facts.trial_id: each for block in confirmation.blocks for each in block.launches
    }
    found, gaps = [], []
    for slot in replay.slots:
        mine = _replays(launches.get(slot.winner), replay.of_winner, slot.update)
        theirs = _replays(launches.get(slot.reference), replay.of_reference, slot.update)
        null = None
        if not isinstance(theirs, str):
            null = Null(theirs.kept_by, theirs.replayed_by, _joined(theirs.ranks))
        if isinstance(mine, str):
            gaps.append(Gap(slot.update, mine, of_winner=null is not None))
            continue
        left = tuple(dict.fromkeys(each for rank in mine.ranks for each in rank.left))
        found.append(
            Replayed(slot, mine.kept_by, mine.replayed_by, _joined(mine.ranks), left, null)
        )
    return found, gaps


@dataclass(frozen=True)
class _Ranks:
    kept_by: Launch
    replayed_by: Launch
    ranks: tuple[ReplaySeen, ...]


def _replays(kept_by: Launch | None, replayed_by: Launch | None, update: int) -> _Ranks | str:
    """Give every rank's replay of an update, or why there is none."""
    if kept_by is None:
        return "the launch that was to keep its state is not in this confirmation"
    for kept in kept_by.evidence.kept:
        if kept.why is not None:
            return f"its state was not kept: {kept.why}"
    if not any(kept.update == update for kept in kept_by.evidence.kept):
        last = len(kept_by.series)
        return f"its state was not kept: the launch ended with update {last}"
    if replayed_by is None:
        return "it was kept and not replayed"
    ranks = tuple(each for each in replayed_by.evidence.replayed if each.update == update)
    for rank in ranks:
        if rank.why is not None:
            return rank.why
    if len(ranks) < max(1, replayed_by.evidence.world_size or 1):
        facts = replayed_by.facts
        ended = f"{facts.outcome.value}: {facts.reason or '-'}"
        ok = facts.outcome is Outcome.OK
        return "not every rank said how it replayed it" if ok else f"the replay ended {ended}"
    return _Ranks(kept_by, replayed_by, ranks)


def _joined(ranks: Sequence[ReplaySeen]) -> dict[str, Movement]:
    """Join the ranks' norms: shards add up, and of equal copies the shares stay what they are."""
    rows: dict[str, list[list[float | None]]] = {}
    for rank in ranks:
        for row in rank.tensors:
            rows.setdefault(row.name, []).append([row.apart, row.moved, row.said, row.size])
    joined = {}
    for name, of_ranks in rows.items():
        norms = [_root_of_squares(column) for column in zip(*of_ranks, strict=True)]
        apart = norms[0] if all(map(math.isfinite, norms)) else math.inf
        moved, said, size = (norm if math.isfinite(norm) else 0.0 for norm in norms[1:])
        joined[name] = Movement(apart=apart, moved=moved, said=said, size=size)
    return joined


def _root_of_squares(values: Sequence[float | None]) -> float:
    return math.inf if None in values else math.sqrt(sum(v * v for v in values if v is not None))


class Limits:
    """How far a parameter's movement may be from the reference code's, and where that comes from.

    Parameters
    ----------
    found : sequence of Replayed
        Their nulls give the limits.
    numerics : Numerics
        The precision allowed, which sets the floors.
    """

    def __init__(self, found: Sequence[Replayed], numerics: Numerics) -> None:
        self.epsilon = max(
            (EPSILON.get(dtype, 0.0) for dtype in numerics.parameters), default=EPSILON["float32"]
        )
        self._floor = arithmetic_floor(Metric.SKETCH, numerics)
        nulls = [each.null.movements for each in found if each.null is not None]
        names = dict.fromkeys(name for each in nulls for name in each)
        self._nulls: dict[str, tuple[float, str]] = {}
        for name in names:
            scores = [each[name].share(self.epsilon) for each in nulls if name in each]
            finite = [score for score in scores if math.isfinite(score)]
            limit, rule = student_limit(finite, bands=len(names))
            words = f"{len(finite)} nulls, largest {max(finite, default=0.0):.2g}; {rule}"
            self._nulls[name] = (limit, words)

    def of(self, name: str, movement: Movement) -> tuple[float, str]:
        """Give a parameter's limit in one update, and its source in words."""
        value, words = self._nulls.get(name, (0.0, "no null"))
        rounding = movement.rounding(self.epsilon)
        floors = [self._floor, (rounding, "the rounding of the stored parameter")]
        floor = max(floors, key=lambda each: each[0])
        return (value, words) if value >= floor[0] else (floor[0], f"{words}; raised to {floor[1]}")
