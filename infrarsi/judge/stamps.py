"""Layer 3, of one launch: the parent's stamps must be in order, and one by one."""

from __future__ import annotations

import numpy as np

from infrarsi.judge.case import Launch
from infrarsi.judge.findings import fails, passes, unsure
from infrarsi.judge.series import Floats
from infrarsi.records.task import Window
from infrarsi.records.verdict import Finding, Layer

_LAYER: Layer = "timing"
_BURST = 0.02
"""An interval below this share of the mean one came in a burst."""
_BURST_SHARE = 0.1
_SLACK_S = 30.0


def judge_stamps(launch: Launch, window: Window) -> Finding:
    """Check order, bursts, and that the stamps cover the wall time of the launch.

    Parameters
    ----------
    launch : Launch
        Its updates reach the window's end.
    window : Window
        Bursts count where updates are timed.
    """
    t_s, facts = launch.series.t_s, launch.facts
    intervals = np.diff(t_s)
    if t_s[0] <= 0 or np.any(intervals < 0):
        back = 0 if t_s[0] <= 0 else int(np.flatnonzero(intervals < 0)[0]) + 1
        earlier = float(t_s[back - 1]) if back else 0.0
        what = f"update {back}" if back else "the launch"
        return fails(
            _LAYER, "stamps",
            f"update {back + 1} is stamped {earlier - float(t_s[back]):.3g} s before {what}; it "
            "must be after it, by the parent's own clock",
        )  # fmt: skip
    bursts = _judge_bursts(intervals, window)
    if bursts is not None:
        return bursts
    if facts.stop_update is not None and len(t_s) < facts.stop_update:
        return unsure(
            _LAYER, "stamps",
            f"a rank ended {len(t_s)} updates of the {facts.stop_update} up to the hidden stop",
            hint="run the trial again: every rank must reach the stop",
        )  # fmt: skip
    if facts.wall_s is not None:
        idle_s, allowed_s = facts.wall_s - t_s[-1], max(_SLACK_S, facts.wall_s / 2)
        if idle_s < -1.0 or idle_s > allowed_s:
            return unsure(
                _LAYER, "stamps",
                f"update {len(t_s)}, the last, was stamped at {t_s[-1]:.3g} s of a launch of "
                f"{facts.wall_s:.3g} s: {idle_s:.3g} s before its end; allowed are -1 to "
                f"{allowed_s:.3g} s (the larger of {_SLACK_S:g} s and half the launch)",
                hint="stamps and wall time must be of one clock and in one unit",
            )  # fmt: skip
    return passes(_LAYER, "stamps", f"the stamps of all {len(t_s)} updates are in order")


def _judge_bursts(intervals: Floats, window: Window) -> Finding | None:
    """Look for updates that were announced together, in the window."""
    timed = intervals[window.warmup_updates - 1 : window.last_update - 1]
    mean = float(timed.mean())
    bursts = np.flatnonzero(timed <= _BURST * mean)
    if mean > 0 and not len(bursts):
        return None
    index = int(bursts[0]) if len(bursts) else 0
    update = window.warmup_updates + index + 1
    most = int(_BURST_SHARE * len(timed))
    words = (
        f"{max(len(bursts), 1)} of {len(timed)} measured updates arrived at once with the one "
        f"before; the first is update {update}, {timed[index]:.3g} s after it where the window's "
        f"mean is {mean:.3g} s (at once is below {_BURST:.0%} of the mean)"
    )
    if not mean > 0 or len(bursts) > _BURST_SHARE * len(timed):
        return fails(
            _LAYER, "stamps",
            f"{words}: more than {most} of them were announced, not made",
        )  # fmt: skip
    return unsure(
        _LAYER, "stamps", f"{words}; up to {most} may be the parent's doing",
        hint="the parent may have been kept from reading: run it again on an idle machine",
    )  # fmt: skip
