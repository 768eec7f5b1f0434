"""How far one launch strays from another, update by update."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from infrarsi.judge.case import Launch
from infrarsi.judge.facts import LaunchFacts
from infrarsi.judge.series import Floats, length_of
from infrarsi.records.evidence import Evidence
from infrarsi.records.task import Metric, Window
from infrarsi.records.trial import Outcome


@dataclass(frozen=True)
class Deviation:
    """One metric's deviation from the reference at every update that both arms show."""

    updates: NDArray[np.int64]
    """The updates compared, counting from 1."""
    values: Floats
    """``|log(candidate / reference)|``, or the sketch's relative L2; ``inf`` where the ratio
    has no logarithm."""
    signed: Floats
    """The signed log ratio; empty for the sketch."""
    missing: tuple[int, ...] = ()
    """Updates up to the window's end at which the candidate does not show the metric."""
    absent: tuple[int, ...] = ()
    """The same of the reference."""
    non_finite: tuple[int, ...] = ()
    """Updates at which the candidate's value was not finite."""
    reference_non_finite: tuple[int, ...] = ()
    reason: str = ""
    """Why nothing could be compared, for the sketch."""
    start: float = field(default=0.0)
    """For the sketch: relative L2 of the *initial* parameters' difference."""


def deviations(candidate: Evidence, reference: Evidence, window: Window) -> dict[Metric, Deviation]:
    """Compare two launches of the same seed and data.

    Parameters
    ----------
    candidate, reference : Evidence
        The two launches.
    window : Window
        A metric missing at an update up to its end is reported as missing; updates after it
        are compared where both arms show them.

    Returns
    -------
    dict of Metric to Deviation
        For loss, gradient norm and update norm the absolute log ratio at each update; for the
        sketch ``||(Pc - P0c) - (Pr - P0r)|| / ||Pr - P0r||`` at each mark that both have.

    Notes
    -----
    Values of both signs, or zero in one arm only, have no log ratio: signs that differ give
    the relative difference (1 or more), a zero in one arm ``inf``, in both 0.
    """
    facts = LaunchFacts(trial_id="", outcome=Outcome.OK, stop_update=None)
    return compare(Launch(candidate, facts), Launch(reference, facts), window)


def compare(candidate: Launch, reference: Launch, window: Window) -> dict[Metric, Deviation]:
    """Do what :func:`deviations` does, on launches whose arrays are kept."""
    found = {
        metric: _compare_column(metric, candidate, reference, window)
        for metric in (Metric.LOSS, Metric.GRAD_NORM, Metric.UPDATE_NORM)
    }
    found[Metric.SKETCH] = _compare_sketches(candidate, reference, window)
    return found


def _compare_column(
    metric: Metric, candidate: Launch, reference: Launch, window: Window
) -> Deviation:
    mine, theirs = candidate.series, reference.series
    length = min(len(mine), len(theirs))
    c, r = mine.metric(metric)[:length], theirs.metric(metric)[:length]
    last = window.last_update
    broken = [tuple(u for u in arm.non_finite[metric] if u <= length) for arm in (mine, theirs)]
    both = np.isfinite(c) & np.isfinite(r)
    updates = np.flatnonzero(both) + 1
    signed = log_ratio(c[both], r[both])
    return Deviation(
        updates=updates, values=np.abs(signed), signed=signed,
        missing=_unseen(c, last, except_for=broken[0]),
        absent=_unseen(r, last, except_for=broken[1]),
        non_finite=broken[0], reference_non_finite=broken[1],
    )  # fmt: skip


def _unseen(values: Floats, last: int, *, except_for: tuple[int, ...]) -> tuple[int, ...]:
    unseen = np.flatnonzero(~np.isfinite(values[:last])) + 1
    beyond = range(len(values) + 1, last + 1)
    return tuple(int(u) for u in (*unseen, *beyond) if u not in except_for)


def log_ratio(candidate: Floats, reference: Floats) -> Floats:
    """Give ``log(candidate / reference)``; signs that differ give the relative difference."""
    size_c, size_r = np.abs(candidate), np.abs(reference)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        logs = np.log(size_c) - np.log(size_r)
        crossed = (candidate - reference) / np.maximum(size_c, size_r)
    logs = np.where(candidate * reference < 0, crossed, logs)
    return np.where((size_c == 0) & (size_r == 0), 0.0, logs)


def _compare_sketches(candidate: Launch, reference: Launch, window: Window) -> Deviation:
    mine, theirs = candidate.sketches, reference.sketches
    nothing = Deviation(
        updates=np.empty(0, dtype=np.int64), values=np.empty(0), signed=np.empty(0)
    )  # fmt: skip
    shared = sorted((set(mine) & set(theirs)) - {0})
    for name, sketches in (("candidate", mine), ("reference", theirs)):
        if 0 not in sketches:
            return _because(nothing, f"the {name}'s initial parameters were not seen")
    if not shared:
        return _because(nothing, "the two launches share no mark after the first update")
    if not all(theirs[0].fits(each) for u in (0, *shared) for each in (mine[u], theirs[u])):
        return _because(nothing, "the parameters differ in number, shape or order")
    distances = []
    # Random marks are drawn anew for each launch; those at the window's ends are not.
    ends = {window.warmup_updates, window.last_update}
    missing = tuple(sorted((ends & set(theirs)) - set(mine)))
    for update in shared:
        moved = theirs[update].values - theirs[0].values
        apart = length_of(mine[update].values - mine[0].values - moved)
        length = length_of(moved)
        distances.append(apart / length if length > 0 else (0.0 if apart == 0 else np.inf))
    size = length_of(theirs[0].values)
    gap = length_of(mine[0].values - theirs[0].values)
    return Deviation(
        updates=np.array(shared, dtype=np.int64), values=np.array(distances),
        signed=np.empty(0), start=gap / size if size > 0 else gap, missing=missing,
    )  # fmt: skip


def _because(nothing: Deviation, reason: str) -> Deviation:
    return Deviation(
        updates=nothing.updates, values=nothing.values, signed=nothing.signed, reason=reason
    )
