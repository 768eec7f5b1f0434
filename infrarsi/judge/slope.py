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
    Work done before the first update does not show here: :func:`judge_ahead` looks at that.
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


def judge_ahead(
    winners: Sequence[float],
    references: Sequence[float],
    steady_s: tuple[float, float],
    *,
    num_seen: int,
    compiles: bool = False,
) -> Finding:
    """Check that the start left no time to do beforehand what the updates seen did not.

    A launch that works ahead of its first update, where nobody watches, and then hands out what
    it knows, needs as long for that as it seems to save: a part of the updates' work, or all.

    Parameters
    ----------
    winners, references : sequence of float
        Seconds from the launch to the end of the first update, of both arms.
    steady_s : tuple of float
        Steady seconds an update of the winner and of the reference.
    num_seen : int
        The most updates that a launch of the winner made.
    compiles : bool
        Whether it compiles what the reference does not. That takes time at the start, so that
        only time for *all* the work of the updates speaks against it then.

    Notes
    -----
    The difference of the medians counts, less the range of either arm: a machine's start-up
    noise says nothing. When not to trust it: work that goes on beside the loop needs less time
    ahead; results of an earlier launch need none; and compiling can hide a part of it.
    """
    mine, theirs = float(np.median(winners)), float(np.median(references))
    noise_s = max(max(each) - min(each) for each in (winners, references))
    held_s = max(0.0, mine - theirs - noise_s)
    saved_s = steady_s[1] if compiles else min(steady_s[1], steady_s[1] - steady_s[0])
    words = (
        f"the first update came {mine:.3g} s after the start, the reference's {theirs:.3g} s "
        f"(launches of one arm differ by up to {noise_s:.2g} s)"
    )
    what = "the work" if compiles else "what it seems to save"
    if saved_s > 0 and held_s > saved_s * num_seen:
        return unsure(
            _LAYER, "ahead",
            f"{words}: time enough for {what} in {held_s / saved_s:.0f} updates, and {num_seen} "
            "were seen at the most",
            hint="measure more updates, so that the launch outlasts what its start could hold",
        )  # fmt: skip
    return passes(
        _LAYER, "ahead", f"{words}: no time for {what} in the {num_seen} updates seen"
    )  # fmt: skip


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
