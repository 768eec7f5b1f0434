"""Layer 3, over many launches: work put off, and work done before the clock starts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from infrarsi.judge.findings import fails, passes, unsure
from infrarsi.judge.timing import Tail
from infrarsi.records.estimate import Estimate
from infrarsi.records.verdict import Finding, Layer

_LAYER: Layer = "timing"


def launch_slope(points: Sequence[tuple[int, float]], *, level: float = 0.95) -> Estimate:
    """Regress the time of launches on their hidden stops: seconds an update.

    Parameters
    ----------
    points : sequence of (int, float)
        For each launch its stop update, and the seconds from the end of the first update to
        the end of the stop update.
    level : float
        Coverage of the two-sided t interval.

    Returns
    -------
    Estimate
        The slope. It must agree with the steady rate: what is put off beyond the window, at
        every stop, is in the slope and not in the rate.

    Raises
    ------
    ValueError
        Fewer than three launches, or all with the same stop.

    Notes
    -----
    When not to trust it: stops close together give a wide interval, which contradicts nothing.
    Work done before the first update does not show here; that it does not grow with the
    updates ahead is what :func:`judge_cold_start` looks at.
    """
    return _regress(points, level=level)


def cold_start_growth(points: Sequence[tuple[int, float]], *, level: float = 0.95) -> Estimate:
    """Regress cold start on the number of updates ahead: seconds of preparation an update.

    Parameters
    ----------
    points : sequence of (int, float)
        For each launch the number of updates that the program was told to make, and its cold
        start in seconds.

    Raises
    ------
    ValueError
        Fewer than three launches, or all told the same.
    """
    return _regress(points, level=level)


def _regress(points: Sequence[tuple[int, float]], *, level: float) -> Estimate:
    from scipy.special import stdtrit

    if len(points) < 3 or len({x for x, _ in points}) < 2:
        raise ValueError("a slope needs three launches at two different numbers of updates")
    x, y = np.array(points, dtype=np.float64).T
    dx = x - x.mean()
    slope = float(dx @ y / (dx @ dx))
    residual = y - y.mean() - slope * dx
    error = float(np.sqrt(residual @ residual / (len(x) - 2) / (dx @ dx)))
    half = float(stdtrit(len(x) - 2, (1 + level) / 2)) * error
    return Estimate(low=slope - half, point=slope, high=slope + half, level=level)


def judge_slope(
    points: Sequence[tuple[int, float]], steady_s: float, *, least_effect: float
) -> Finding:
    """Check the slope of whole launches against the steady rate that they claim.

    Parameters
    ----------
    points : sequence of (int, float)
        As :func:`launch_slope` takes them.
    steady_s : float
        Mean steady seconds an update of the same launches.
    least_effect : float
        The relative speedup worth having; a slope above the rate by less is let be.
    """
    try:
        slope = launch_slope(points)
    except ValueError:
        return passes(
            _LAYER, "slope", "the launches had too few different stops for a slope; not compared"
        )
    allowed_s = steady_s * (1 + least_effect)
    stops = sorted(stop for stop, _ in points)
    words = (
        f"from the end of update 1 to hidden stops between updates {stops[0]} and {stops[-1]}, "
        f"launches took {slope.point:.4g} s an update more ({slope.low:.4g} to {slope.high:.4g} at "
        f"{slope.level:.0%}), the window says {steady_s:.4g}; the lower bound may be up to "
        f"{allowed_s:.4g} (the window's rate and the least effect of {least_effect:.1%})"
    )
    if slope.low > allowed_s:
        return fails(_LAYER, "slope", f"{words}: work is put off until after the window")
    return passes(_LAYER, "slope", words)


def judge_cold_start(
    points: Sequence[tuple[int, float]], steady_s: float, *, least_effect: float
) -> Finding:
    """Check that the cold start does not grow with the number of updates ahead.

    A launch that prepares tables or batches for every update before the first one has a cold
    start that grows by a share of the time that it seems to save.
    """
    try:
        growth = cold_start_growth(points)
    except ValueError:
        return passes(
            _LAYER, "cold_start",
            "all launches were told one number of updates; the cold start is charged to break-even",
        )  # fmt: skip
    allowed_s = least_effect * steady_s
    words = (
        f"each update ahead adds {growth.point:.3g} s to the cold start, before update 1 "
        f"({growth.low:.3g} to {growth.high:.3g} at {growth.level:.0%}); the lower bound may be up "
        f"to {allowed_s:.3g} s (the least effect of {least_effect:.1%} of an update)"
    )
    if growth.low > allowed_s:
        return fails(_LAYER, "cold_start", f"{words}: work is done before the clock starts")
    return passes(_LAYER, "cold_start", words)


def judge_ahead(
    winners: Sequence[float], references: Sequence[float], update_s: float, *, num_seen: int
) -> Finding:
    """Check that the start left no time to do the work of all updates that were seen.

    A launch that trains before its first update, where nobody watches, and then hands out what
    it knows, needs as long for that as the reference for those updates.

    Parameters
    ----------
    winners, references : sequence of float
        Seconds from the launch to the end of the first update, of both arms.
    update_s : float
        The reference's steady seconds an update.
    num_seen : int
        The most updates that a launch of the winner made.

    Notes
    -----
    The difference of the medians counts, less the range of the references: a machine's start-up
    noise says nothing. When not to trust it: work that goes on beside the loop needs less time
    ahead; and results of an earlier launch need none.
    """
    mine, theirs = float(np.median(winners)), float(np.median(references))
    held = max(0.0, mine - theirs - (max(references) - min(references))) / update_s
    words = (
        f"the first update came {mine:.3g} s after the start, the reference's {theirs:.3g} s "
        f"(the references differ by {max(references) - min(references):.2g} s)"
    )
    if held > num_seen:
        return unsure(
            _LAYER, "ahead",
            f"{words}: time enough for the work of {held:.0f} of its updates, and {num_seen} were "
            "seen at the most",
            hint="measure more updates, so that the launch outlasts what its start could hold",
        )  # fmt: skip
    return passes(_LAYER, "ahead", f"{words}: no time for the work of the {num_seen} updates seen")


def judge_tails(tails: Sequence[Tail], *, least_effect: float) -> Finding | None:
    """Check the updates after the window, over all launches of one arm.

    A hiccup of the machine strikes few launches, work put off strikes them alike. So the
    median share must matter, and either the mean must be above zero beyond its spread (one-sided
    .99) or four launches of five must show it. ``None`` where fewer than three launches have a
    tail.
    """
    from scipy.special import stdtrit

    if len(tails) < 3:
        return None
    shares = np.array([tail.excess_s / tail.window_s for tail in tails])
    middle = float(np.median(shares))
    error = float(shares.std(ddof=1) / np.sqrt(len(shares)))
    low = float(shares.mean() - stdtrit(len(shares) - 1, 0.99) * error)
    alike = float(np.mean(shares >= least_effect))
    words = (
        f"after the window the launches took {middle:.1%} of the window more than its rate "
        f"(median of {len(tails)} launches; {alike:.0%} of them at least {least_effect:.1%}, the "
        f"least effect, which is what is allowed; lower bound of the mean {low:.1%})"
    )
    if middle >= least_effect and (low > 0 or alike >= 0.8):
        return fails(_LAYER, "tails", f"{words}: work is put off until after the window")
    return passes(_LAYER, "tails", words)
