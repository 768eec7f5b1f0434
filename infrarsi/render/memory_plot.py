"""The plot of memory: what was predicted against what was measured, or was out of reach."""

from __future__ import annotations

from infrarsi.records.report import Report, TrialRow
from infrarsi.render import numbers
from infrarsi.render.drawing import (
    WIDTH,
    Drawing,
    Scale,
    disc,
    element,
    horizontal_axis,
    label,
    legend,
    marked,
    rule,
    vertical_axis,
)
from infrarsi.render.rows import is_memory_failure

_REACH = 2.5
"""Predictions beyond so many capacities are drawn at the edge."""


def draw_memory(report: Report) -> Drawing:
    """Draw measured over predicted peak; a launch out of memory points up from the capacity."""
    rows = [row for row in report.trials.rows if row.predicted_peak_bytes is not None]
    measured = [row for row in rows if row.peak_bytes is not None]
    censored = [row for row in rows if row.peak_bytes is None and is_memory_failure(row)]
    entries = [
        (disc(0, 0, cls="mark pass"), "measured, with the interval predicted for it"),
        (_arrow(0, 6, cls="mark stroke memory"), "out of memory: demand above the capacity"),
    ]
    keys, used = legend(entries if censored else entries[:1], x=16, y=16, right=WIDTH - 10)
    xs, ys, scale, unit = _scales(report, measured, censored=censored, top=used + 36)
    line = ys(report.capacity_bytes / scale)
    drawn = [
        keys,
        horizontal_axis(xs, ys.start, top=ys.end, title=f"predicted peak, {unit}"),
        vertical_axis(ys, xs.start, right=xs.end, title=""),
        label(6, ys.end - 14, f"measured peak, {unit}", cls="axis-title"),
        _diagonal(xs, ys),
        rule(xs.start, line, xs.end, line, cls="capacity"),
        rule(xs(report.capacity_bytes / scale), ys.end, xs(report.capacity_bytes / scale), ys.start,
             cls="capacity faint"),
        label(xs.start + 8, line - 7, f"capacity {numbers.size(report.capacity_bytes)}",
              cls="value halo"),
    ]  # fmt: skip
    drawn += [_point(row, xs=xs, ys=ys, scale=scale) for row in measured]
    drawn += [_censored(row, xs=xs, line=line, scale=scale) for row in censored]
    return Drawing("".join(drawn), name="memory", title="Peak memory", height=ys.start + 46)


def _scales(
    report: Report, measured: list[TrialRow], *, censored: list[TrialRow], top: float
) -> tuple[Scale, Scale, float, str]:
    capacity = float(report.capacity_bytes)
    scale, unit = numbers.byte_unit(capacity)
    points = [_predicted(row) for row in (*measured, *censored)]
    peaks = [float(row.peak_bytes) for row in measured if row.peak_bytes is not None]
    top_x = max(capacity, *(min(each, _REACH * capacity) for each in points)) * 1.06
    low_x, low_y = min([*points, capacity]) * 0.85, min([*peaks, capacity]) * 0.85
    log = capacity / min(low_x, low_y) > 12
    if not log and min(low_x, low_y) < 0.4 * capacity:
        low_x = low_y = 0.0
    xs = Scale(low_x / scale, top_x / scale, start=76, end=WIDTH - 18, log=log)
    ys = Scale(low_y / scale, capacity * 1.17 / scale, start=top + 280, end=top, log=log)
    return xs, ys, scale, unit


def _predicted(row: TrialRow) -> float:
    if row.predicted_peak_bytes is None:
        raise ValueError("a point without a prediction")
    return row.predicted_peak_bytes.point


def _diagonal(xs: Scale, ys: Scale) -> str:
    low, high = max(xs.low, ys.low), min(xs.high, ys.high)
    if low >= high:
        return ""
    ends = xs(low), ys(low), xs(high), ys(high)
    # The name stands at the low end, below every measured point.
    x, y = ends[0] + 0.06 * (ends[2] - ends[0]), ends[1] + 0.06 * (ends[3] - ends[1])
    return rule(*ends, cls="diagonal") + label(x + 10, y + 4, "predicted = measured", cls="tick")


def _point(row: TrialRow, *, xs: Scale, ys: Scale, scale: float) -> str:
    estimate = row.predicted_peak_bytes
    if estimate is None or row.peak_bytes is None:
        return ""
    y = ys.clipped(row.peak_bytes / scale)
    low, high = xs.clipped(estimate.low / scale), xs.clipped(estimate.high / scale)
    tip = (
        f"Trial {row.index}: {row.change}; predicted {numbers.size_estimate(estimate)}, "
        f"measured {numbers.size(row.peak_bytes)}"
    )
    x = xs.clipped(estimate.point / scale)
    return marked(tip, rule(low, y, high, y, cls="whisker faint"), disc(x, y, cls="mark pass"))


def _censored(row: TrialRow, *, xs: Scale, line: float, scale: float) -> str:
    estimate = row.predicted_peak_bytes
    if estimate is None:
        return ""
    tip = (
        f"Trial {row.index}: {row.change}; predicted {numbers.size_estimate(estimate)}, ran out "
        f"of memory. {row.why}"
    )
    return marked(tip, _arrow(xs.clipped(estimate.point / scale), line, cls="mark stroke memory"))


def _arrow(x: float, y: float, *, cls: str) -> str:
    """Draw an arrow that rises from a point."""
    return element("path", d=f"M{x:.1f} {y:.1f}v-15m-4.5 5.5l4.5 -5.5l4.5 5.5", cls=cls)
