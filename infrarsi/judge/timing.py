"""Layer 3: the parent's stamps, and whether the work stands behind them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from infrarsi.judge.case import Case, Launch
from infrarsi.judge.findings import fails, passes, unsure
from infrarsi.judge.series import Floats, Series, series_of
from infrarsi.judge.stamps import judge_stamps
from infrarsi.records.evidence import Evidence
from infrarsi.records.task import Window
from infrarsi.records.trial import Outcome
from infrarsi.records.verdict import Finding, Layer

_LAYER: Layer = "timing"
_DOUBT = 0.999
"""One-sided level of the tests within one launch: they run on every trial of a search."""
_LUMP = 0.8
"""A tail whose excess is this much one update's doing is a lump: a hiccup, or work put off."""
_DRIFT = 0.25
"""A second half slower than the first by this share says that there is no steady rate."""
_UNFINISHED = 3.0
"""How many times over the allowance a late mark is no hiccup any more."""
_PEAK_MARGIN = 2.0
"""FLOP counts charge embeddings too, and a measured peak is a lower bound: hence a factor."""


def steady_update_s(evidence: Evidence, window: Window) -> float:
    """Give the steady seconds an update over the window.

    Parameters
    ----------
    evidence : Evidence
        One launch; of several ranks, the slowest one's stamps count.
    window : Window
        Which updates are timed.

    Returns
    -------
    float
        ``(t[warmup + measured] - t[warmup]) / measured``, in seconds.

    Raises
    ------
    ValueError
        The launch did not reach the window's end, or its stamps go backwards.

    Notes
    -----
    When not to trust it: alone. Work that is put off until after the window, or still queued
    on a device at its end, is not in it; :func:`judge_timing` looks for both.
    """
    return _steady(series_of(evidence), window)


def _steady(series: Series, window: Window) -> float:
    if len(series) < window.last_update:
        raise ValueError(f"{len(series)} updates seen, the window ends at {window.last_update}")
    start, end = series.t_s[window.warmup_updates - 1], series.t_s[window.last_update - 1]
    if not end > start:
        raise ValueError(f"the window ends at {end:.6f} s and begins at {start:.6f} s")
    return float((end - start) / window.measured_updates)


def cold_start_s(evidence: Evidence) -> float:
    """Give the seconds from the launch to the end of the first update, slowest rank.

    It covers imports, compilation and the first batch; it is never part of the steady rate.

    Raises
    ------
    ValueError
        No update was seen.
    """
    series = series_of(evidence)
    if not len(series):
        raise ValueError("no update was seen")
    return float(series.t_s[0])


def judge_timing(case: Case) -> list[Finding]:
    """Check that the stamps make sense and that the work behind them was done in time.

    Parameters
    ----------
    case : Case
        The candidate's launch; the reference's shows what its updates cost outside the window
        too (evaluation, checkpoints), so that honest work is not taken for work put off.

    Notes
    -----
    Every test within a launch asks for significance (one-sided .999, the launch's own spread)
    *and* for relevance (the objective's least effect). One slow update after the window may
    be a hiccup of the machine: inconclusive alone; in a confirmation :func:`judge_tails` pools
    the launches.
    """
    window = case.task.window
    outcome = _judge_outcome(case.candidate)
    if outcome is not None:
        return [outcome]
    arms = {"candidate": case.candidate, "reference": case.reference}
    short = next((arm for arm, each in arms.items() if len(each.series) < window.last_update), None)
    if short is not None:
        return [
            unsure(
                _LAYER, "stamps",
                f"the {short}'s launch has stamps of {len(arms[short].series)} updates on every "
                f"rank; the window ends at update {window.last_update}",
                hint="run the trial again, with a later deadline if it was cut off",
            )
        ]  # fmt: skip
    stamps = judge_stamps(case.candidate, window)
    if stamps.ruling != "pass":
        return [stamps]
    checks = (_judge_tail, _judge_unfinished, _judge_halves, _judge_floor)
    return [stamps, *(check(case) for check in checks)]


def _judge_outcome(launch: Launch) -> Finding | None:
    facts, fault = launch.facts, launch.evidence.fault
    if facts.outcome is not Outcome.OK:
        return unsure(
            _LAYER, "outcome", f"the launch ended {facts.outcome.value}: {facts.reason or '-'}",
            hint="only a launch that reached its hidden stop can be judged",
        )  # fmt: skip
    if fault is not None:
        return unsure(
            _LAYER, "outcome",
            f"an exception ended the program after update {len(launch.series)}, in rank "
            f"{fault.rank}: {fault.type}: {fault.message}",
            hint="repair the change, or look at the program's log",
        )  # fmt: skip
    return None


@dataclass(frozen=True)
class Tail:
    """What the updates after the window took beyond the window's rate."""

    excess_s: float
    """Over all updates of the tail, less what the reference's same updates took so."""
    largest_s: float
    """The share of one single update in it."""
    error_s: float
    """Standard error of ``excess_s`` times the critical value of the test."""
    num_updates: int
    window_s: float


def tail_of(case: Case) -> Tail | None:
    """Measure the updates after the window up to the hidden stop; ``None`` where there are none.

    Notes
    -----
    The excess is ``sum(dt - mean window dt)`` in seconds. Where the reference's launch made
    the same update, its own excess, if positive, is taken off.
    """
    from scipy.special import stdtrit

    window = case.task.window
    timed, tail = _split(case.candidate.series.t_s, window, stop=case.candidate.facts.stop_update)
    if not len(tail):
        return None
    own = tail - timed.mean()
    ref_timed, ref_tail = _split(case.reference.series.t_s, window, stop=None)
    shared = min(len(tail), len(ref_tail))
    expected = np.zeros_like(own)
    expected[:shared] = np.maximum(ref_tail[:shared] - ref_timed.mean(), 0.0)
    net = own - expected
    n, m = len(timed), len(tail)
    critical = float(stdtrit(n - 1, _DOUBT))
    within = float(timed.std(ddof=1)) * float(np.sqrt(m + m**2 / n))
    # What moves the rate from launch to launch can move it within one launch too.
    between = (case.baseline.noise_sd if case.baseline else 0.0) * float(timed.mean()) * m
    return Tail(
        excess_s=float(net.sum()), largest_s=float(net.max()), num_updates=m,
        error_s=critical * float(np.hypot(within, between)), window_s=float(timed.sum()),
    )  # fmt: skip


def _split(t_s: Floats, window: Window, *, stop: int | None) -> tuple[Floats, Floats]:
    """Give the intervals in the window, and those after it."""
    intervals = np.diff(t_s)
    end = len(t_s) if stop is None else min(stop, len(t_s))
    first, last = window.warmup_updates - 1, window.last_update - 1
    return intervals[first:last], intervals[last : end - 1]


def _judge_tail(case: Case) -> Finding:
    tail = tail_of(case)
    if tail is None:
        return unsure(
            _LAYER, "tail", "no update after the window was seen",
            hint="stop launches some updates after the window, so that work put off shows",
        )  # fmt: skip
    share = tail.excess_s / tail.window_s
    least, first = case.task.objective.least_effect, case.task.window.last_update + 1
    words = (
        f"updates {first} to {first + tail.num_updates - 1}, after the window, took "
        f"{tail.excess_s:.3g} s more than the window's rate, {share:.1%} of the window; allowed "
        f"{tail.error_s:.3g} s (their spread, one-sided {_DOUBT:.1%}) or {least:.1%} (the least "
        "effect)"
    )
    if tail.excess_s <= tail.error_s or share < least:
        return passes(_LAYER, "tail", words)
    if tail.largest_s >= _LUMP * tail.excess_s:
        return unsure(
            _LAYER, "tail", f"{words}; nearly all of it in one update ({tail.largest_s:.3g} s)",
            hint="a hiccup of the machine, or work put off: launch it again",
        )  # fmt: skip
    return fails(_LAYER, "tail", f"{words}: work was put off until after the window")


def _judge_unfinished(case: Case) -> Finding:
    """Compare the window between device synchronisations with the window between stamps."""
    window = case.task.window
    lags = [_lag_growth(each, window) for each in (case.candidate, case.reference)]
    if lags[0] is None:
        return unsure(
            _LAYER, "unfinished", "there is no mark at the window's start or end",
            hint="run the trial again; without a synchronisation queued work does not show",
        )  # fmt: skip
    length = _steady(case.candidate.series, window) * window.measured_updates
    share = (lags[0] - max(lags[1] or 0.0, 0.0)) / length
    # A device queue may hold one update more at one end than at the other.
    allowed = max(case.task.objective.least_effect, 1.5 / window.measured_updates)
    words = (
        f"the mark after update {window.last_update} came {share:.1%} of the window later after "
        f"its update than the one after update {window.warmup_updates}; allowed {allowed:.1%} "
        "(the larger of the least effect and one and a half updates)"
    )
    if share > _UNFINISHED * allowed:
        words += f"; beyond {_UNFINISHED:g} times that it was announced before it was done"
        return fails(_LAYER, "unfinished", words)
    if share > allowed:
        return unsure(
            _LAYER, "unfinished", words,
            hint="a hiccup of the machine, or work still queued: launch it again",
        )  # fmt: skip
    return passes(_LAYER, "unfinished", f"{words}: the device was done when the window ended")


def _lag_growth(launch: Launch, window: Window) -> float | None:
    ends = (window.warmup_updates, window.last_update)
    marks = [launch.evidence.mark_at(update) for update in ends]
    if marks[0] is None or marks[1] is None:
        return None
    lags = [
        mark.t_ns * 1e-9 - launch.series.t_s[update - 1]
        for mark, update in zip(marks, ends, strict=True)
        if mark is not None
    ]
    return float(lags[1] - lags[0])


def _judge_halves(case: Case) -> Finding:
    from scipy.special import stdtrit

    drifts = []
    for launch in (case.candidate, case.reference):
        timed, _ = _split(launch.series.t_s, case.task.window, stop=None)
        halves = timed[: len(timed) // 2], timed[len(timed) // 2 :]
        means = [float(half.mean()) for half in halves]
        drifts.append(means[1] / means[0] - 1)
        if launch is case.candidate and len(timed) >= 4:
            spread = np.sqrt(sum(half.var(ddof=1) / len(half) for half in halves))
            noise = float(stdtrit(len(timed) - 2, _DOUBT) * spread / means[0])
    excess = drifts[0] - max(drifts[1], 0.0)
    if len(timed) >= 4 and excess > max(_DRIFT, noise):
        return unsure(
            _LAYER, "halves",
            f"the second half of updates {case.task.window.warmup_updates + 1} to "
            f"{case.task.window.last_update} was {drifts[0]:.0%} slower than the first, the "
            f"reference's {drifts[1]:+.0%}; allowed {max(_DRIFT, noise):.0%} beyond that (the "
            f"larger of {_DRIFT:.0%} and the spread within the halves)",
            hint="there is no steady rate yet: measure more updates, or find what grows",
        )  # fmt: skip
    return passes(_LAYER, "halves", f"the window's halves differ by {drifts[0]:+.1%}")


def _judge_floor(case: Case) -> Finding:
    baseline = case.baseline
    if baseline is None or baseline.flops_per_update is None or baseline.peak_flops is None:
        return passes(_LAYER, "flop_floor", "the model's FLOPs or the peak are not known")
    allowed = case.task.numerics
    if set(allowed.matmul) != {"float32"} or allowed.tf32:
        return passes(_LAYER, "flop_floor", "the peak is of float32, and less is allowed")
    share = baseline.flops_per_update / _steady(case.candidate.series, case.task.window)
    share /= baseline.peak_flops
    words = (
        f"over updates {case.task.window.warmup_updates + 1} to {case.task.window.last_update} it "
        f"would run at {share:.0%} of the float32 peak that doctor measured; up to 100% is allowed"
    )
    if share > _PEAK_MARGIN:
        words += f", and beyond {_PEAK_MARGIN:.0%} the work cannot have been done"
        return fails(_LAYER, "flop_floor", words)
    if share > 1:
        return unsure(
            _LAYER, "flop_floor", f"{words}, and the count charges embeddings too",
            hint="measure the peak again, on an idle machine",
        )  # fmt: skip
    return passes(_LAYER, "flop_floor", words)
