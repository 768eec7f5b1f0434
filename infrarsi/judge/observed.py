"""What can be seen of one launch, in a form in which two launches can be compared."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median, pstdev
from typing import TypeAlias

from infrarsi.records.evidence import Evidence, MarkSeen

Exact: TypeAlias = str | tuple[object, ...] | int | float | None

_SPREADS = 4.0
"""A difference within so many standard deviations of equal launches is noise."""
_LEAST_TIME, _LEAST_SHARE, _LEAST_MEMORY = 0.01, 0.03, 0.03
_SLACK_BYTES = 100_000_000
"""What the data of equal processes may differ by."""
_GENERATOR_FLAGS = frozenset({"generator", "initial_seed"})
_FIGURES = frozenset({
    "forwards an update", "rows a forward", "sequences an update", "tokens an update",
    "threads of torch", "live threads", "child processes",
})  # fmt: skip
"""Observables whose value is told, not only that it is the same."""


@dataclass(frozen=True)
class Observed:
    """One launch, as far as it can be compared with another."""

    exact: Mapping[str, Exact]
    """What two equal launches of a deterministic program agree on; ``None``: not seen."""
    update_s: float | None = None
    peak_bytes: int | None = None
    phases: Mapping[str, float] = field(default_factory=dict)
    """Share of each phase in an update."""
    argv: tuple[str, ...] | None = None
    """The training process's own command line."""


def observe(
    evidence: Evidence, *, update_s: float | None, peak_bytes: int | None, last_update: int
) -> Observed:
    """Gather what can be compared.

    Parameters
    ----------
    evidence : Evidence
        One launch.
    update_s : float or None
        Its steady seconds an update.
    peak_bytes : int or None
        Its peak memory, in the contract's unit.
    last_update : int
        The last update of the window: later ones are not compared, for launches stop apart.
    """
    rows = [row for row in evidence.updates if row.update <= last_update]
    marks = [mark for mark in evidence.marks if 0 < mark.update <= last_update]
    hello = evidence.hello or {}
    argv, files = hello.get("argv"), evidence.loaded_files
    exact: dict[str, Exact] = {
        "forwards an update": _one({row.forwards for row in rows}),
        "rows a forward": _one({
            row.sequences / row.forwards if row.sequences and row.forwards else None for row in rows
        }),
        "sequences an update": _one({row.sequences for row in rows}),
        "tokens an update": _one({row.tokens for row in rows}),
        "loss of every update": tuple(row.loss for row in rows) or None,
        "dtypes": tuple(map(_census, marks)) or None,
        "precision switches": tuple(map(_flags, marks)) or None,
        "threads of torch": hello.get("num_threads"),
        "live threads": _one({mark.num_threads for mark in marks}),
        "child processes": _one({mark.num_children for mark in marks}),
        "modules": tuple(sorted({file.rsplit("/", 1)[-1] for file in files})) or None,
    }  # fmt: skip
    return Observed(
        exact, update_s, peak_bytes, _shares(evidence),
        tuple(map(str, argv)) if isinstance(argv, list | tuple) else None,
    )  # fmt: skip


def _one(values: set[int | None] | set[float | None]) -> Exact:
    """Give the value where all updates agree; else all values, smallest first."""
    if None in values or not values:
        return None
    ordered = sorted(value for value in values if value is not None)
    return ordered[0] if len(ordered) == 1 else tuple(ordered)


def _census(mark: MarkSeen) -> tuple[object, ...]:
    return tuple(
        (group, tuple(sorted(counts.items()))) for group, counts in sorted(mark.census.items())
    )


def _flags(mark: MarkSeen) -> tuple[object, ...]:
    return tuple(
        (name, str(value))
        for name, value in sorted(mark.flags.items())
        if name not in _GENERATOR_FLAGS
    )


def _shares(evidence: Evidence) -> dict[str, float]:
    totals: dict[str, float] = {}
    for update in evidence.updates[1:]:
        for phase, seconds in update.phase_s.items():
            totals[phase] = totals.get(phase, 0.0) + max(seconds, 0.0)
    whole = sum(totals.values())
    return {phase: total / whole for phase, total in totals.items()} if whole > 0 else {}


@dataclass(frozen=True)
class Tolerance:
    """How far equal launches of the reference differ among themselves."""

    unsteady: frozenset[str]
    """Exact observables on which they do not agree: those say nothing."""
    time: float
    """Largest log ratio of seconds an update that is noise between single launches."""
    share: float
    memory: float
    """Largest log ratio of peak memory that is noise."""

    @classmethod
    def of(cls, equal: Sequence[Observed]) -> Tolerance:
        """Learn it from equal launches; from fewer than two, only the floors are known."""
        names = {name for each in equal for name in each.exact}
        unsteady = frozenset(
            name for name in names if len({each.exact.get(name) for each in equal}) > 1
        )
        phases = {phase for each in equal for phase in each.phases}
        shares = [_spread([each.phases.get(phase, 0.0) for each in equal]) for phase in phases]
        return cls(
            unsteady=unsteady,
            time=max(_LEAST_TIME, _SPREADS * _log_spread([each.update_s for each in equal])),
            share=max(_LEAST_SHARE, _SPREADS * max(shares, default=0.0)),
            memory=max(_LEAST_MEMORY, _SPREADS * _log_spread([each.peak_bytes for each in equal])),
        )


def _spread(values: Sequence[float]) -> float:
    return pstdev(values) if len(values) > 1 else 0.0


def _log_spread(values: Sequence[float | None]) -> float:
    return _spread([math.log(value) for value in values if value])


def differing(
    turned: Sequence[Observed],
    against: Sequence[Observed],
    tolerance: Tolerance,
    *,
    only: Sequence[str] = (),
) -> tuple[str, ...]:
    """Name what differs between two groups of launches; with ``only``, of these alone."""
    names = only or tuple(against[0].exact)
    found = [name for name in names if _exactly_differs(name, turned, against, tolerance)]
    if only:
        return tuple(found)
    if _ratio(turned, against, "update_s", tolerance.time):
        found.append("time of an update")
    if _memory_differs(turned, against, tolerance):
        found.append("peak memory")
    if any(abs(share) > tolerance.share for share in _share_changes(turned, against)):
        found.append("share of a phase")
    return tuple(found)


def _exactly_differs(
    name: str, turned: Sequence[Observed], against: Sequence[Observed], tolerance: Tolerance
) -> bool:
    if name in tolerance.unsteady:
        return False
    left = {each.exact.get(name) for each in turned} - {None}
    right = {each.exact.get(name) for each in against} - {None}
    return bool(left and right and left.isdisjoint(right))


def _typical(launches: Sequence[Observed], name: str) -> float | None:
    values = [value for each in launches if (value := getattr(each, name))]
    return median(values) if values else None


def _ratio(
    turned: Sequence[Observed], against: Sequence[Observed], name: str, limit: float
) -> bool:
    left, right = _typical(turned, name), _typical(against, name)
    return bool(left and right and abs(math.log(left / right)) > limit)


def _memory_differs(
    turned: Sequence[Observed], against: Sequence[Observed], tolerance: Tolerance
) -> bool:
    left, right = _typical(turned, "peak_bytes"), _typical(against, "peak_bytes")
    far = bool(left and right and abs(left - right) > _SLACK_BYTES)
    return far and _ratio(turned, against, "peak_bytes", tolerance.memory)


def _share_changes(turned: Sequence[Observed], against: Sequence[Observed]) -> list[float]:
    phases = {phase for each in (*turned, *against) for phase in each.phases}
    if not all(each.phases for each in (*turned, *against)):
        return []
    return [
        median(each.phases.get(phase, 0.0) for each in turned)
        - median(each.phases.get(phase, 0.0) for each in against)
        for phase in phases
    ]


def words_of(
    turned: Sequence[Observed],
    against: Sequence[Observed],
    tolerance: Tolerance,
    *,
    only: Sequence[str] = (),
) -> str:
    """Say what was compared and found the same, with figures; empty where nothing was."""
    names = [
        name
        for name in (only or against[0].exact)
        if name not in tolerance.unsteady
        and all(each.exact.get(name) is not None for each in (*turned, *against))
    ]
    same = [_named(name, turned[0].exact[name]) for name in names]
    if only:
        return f"the same {_listed(same)}"
    before, after = _typical(against, "update_s"), _typical(turned, "update_s")
    if not same or before is None or after is None:
        return ""
    text = (
        f"the same {_listed(same)}; {after:.4g} s an update against {before:.4g} s, where "
        f"{100 * math.expm1(tolerance.time):.1f} % either way is noise"
    )
    peaks = _typical(against, "peak_bytes"), _typical(turned, "peak_bytes")
    if peaks[0] and peaks[1]:
        text += f"; peak memory {peaks[1] / 1e6:,.0f} MB against {peaks[0] / 1e6:,.0f} MB"
    return f"{text}; what it prints and writes was not compared"


def _named(name: str, value: Exact) -> str:
    if name in _FIGURES and isinstance(value, int | float):
        return f"{name} ({value:g})"
    return name


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
