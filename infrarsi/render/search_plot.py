"""The plot of the search: update time against the order of the trials."""

from __future__ import annotations

import math

from infrarsi.records.report import Report, TrialRow
from infrarsi.records.trial import Outcome
from infrarsi.records.verdict import Ruling
from infrarsi.render import numbers
from infrarsi.render.drawing import (
    WIDTH,
    Drawing,
    Scale,
    cross,
    diamond,
    disc,
    element,
    horizontal_axis,
    label,
    legend,
    marked,
    rule,
    square,
    triangle,
    vertical_axis,
)
from infrarsi.render.rows import is_memory_failure, is_refused, winner_row

_LEFT, _RIGHT = 76.0, 82.0
_KINDS = {
    "passed": "passed screening",
    "refused": "refused by the judge",
    "inconclusive": "inconclusive",
    "stopped": "stopped early, not judged",
    "unjudged": "measured, not judged",
    "oom": "out of memory",
    "failed": "crashed, hung or not measured",
}


def draw_search(report: Report, *, width: float = WIDTH, height: float = 330.0) -> Drawing:
    """Draw every trial at its update time; those without a time stand in lanes above."""
    rows = report.trials.rows
    present = [kind for kind in _KINDS if any(_kind(row) == kind for row in rows)]
    entries = [(_mark(kind, 0, 0), _KINDS[kind]) for kind in present]
    entries.append((rule(-6, 0, 6, 0, cls="best"), "best that passed so far"))
    if winner_row(report) is not None:
        entries.append((disc(0, 0, radius=6.5, cls="ring"), "put forward"))
    keys, used = legend(entries, x=_LEFT - 60, y=16, right=width - 10)

    lanes = _lanes(rows)
    top = used + 18
    plot_top = top + 20 * len(lanes) + (22 if lanes else 14)
    bottom = height + used - 46
    times = [row.update_s for row in rows if row.update_s is not None]
    if report.reference_update_s is not None:
        times.append(report.reference_update_s.point)
    xs = Scale(0.3, max(row.index for row in rows) + 0.7, start=_LEFT, end=width - _RIGHT)
    drawn = [keys, _draw_lanes(lanes, rows, xs=xs, top=top)]
    if times:
        drawn.append(_draw_times(report, times, xs=xs, top=plot_top, bottom=bottom))
    drawn.append(_trial_axis(rows, xs, bottom))
    return Drawing(
        "".join(drawn), name="search", title="Search progress", height=bottom + 46, width=width
    )


def _draw_times(report: Report, times: list[float], *, xs: Scale, top: float, bottom: float) -> str:
    scale, unit = numbers.time_unit(max(times))
    low, high = min(times) / scale, max(times) / scale
    log = high / low > 4
    bounds = (low / 1.15, high * 1.08) if log else (max(0.0, low - 0.15 * (high - low)), high)
    ys = Scale(*bounds, start=bottom, end=top + 6, log=log)
    title = f"{unit} per update" + (" (log)" if log else "")
    axis = vertical_axis(ys, xs.start, right=xs.end, title="")
    drawn = [axis, label(6, top - 6, title, cls="axis-title")]
    reference = report.reference_update_s
    ends: list[tuple[str, float]] = []
    if reference is not None:
        y = ys(reference.point / scale)
        drawn.append(rule(xs.start, y, xs.end, y, cls="reference"))
        ends.append(("reference", reference.point))
    best = _best_so_far(report)
    if best:
        drawn.append(_best_line(report, best, xs=xs, ys=ys, scale=scale))
        ends.append(("best", best[-1][1]))
    drawn.append(_line_ends(ends, xs=xs, ys=ys, scale=scale))
    winner = report.winner.candidate if report.winner else None
    for row in report.trials.rows:
        if row.update_s is None:
            continue
        x, y = xs(row.index), ys(row.update_s / scale)
        ring = disc(x, y, radius=9.5, cls="ring") if row.candidate == winner else ""
        drawn.append(marked(_tip(row), ring, _mark(_kind(row), x, y)))
    return "".join(drawn)


def _best_so_far(report: Report) -> list[tuple[int, float]]:
    """Give each trial that passed and was the fastest till then, with its time."""
    best = report.reference_update_s.point if report.reference_update_s else math.inf
    steps = []
    for row in sorted(report.trials.rows, key=lambda each: each.index):
        if _kind(row) == "passed" and row.update_s is not None and row.update_s < best:
            best = row.update_s
            steps.append((row.index, best))
    return steps


def _best_line(
    report: Report, steps: list[tuple[int, float]], *, xs: Scale, ys: Scale, scale: float
) -> str:
    path = ""
    if report.reference_update_s is not None:
        path = f"M{xs.start:.1f} {ys(report.reference_update_s.point / scale):.1f}"
    for index, seconds in steps:
        x, y = xs(index), ys(seconds / scale)
        path += f"H{x:.1f}V{y:.1f}" if path else f"M{x:.1f} {y:.1f}"
    return element("path", d=f"{path}H{xs.end:.1f}", cls="best")


def _line_ends(ends: list[tuple[str, float]], *, xs: Scale, ys: Scale, scale: float) -> str:
    """Name the lines at their right ends, moved apart where they would touch."""
    drawn, above = [], -math.inf
    for name, seconds in sorted(ends, key=lambda end: -end[1]):
        y = max(ys(seconds / scale), above + 32)
        above = y
        drawn += [
            label(xs.end + 8, y - 2, name, cls="tick"),
            label(xs.end + 8, y + 13, numbers.duration(seconds), cls="value strong"),
        ]
    return "".join(drawn)


def _lanes(rows: tuple[TrialRow, ...]) -> list[tuple[str, str]]:
    timeless = {_kind(row) for row in rows if row.update_s is None}
    names = {"oom": "memory", "failed": "failed", "refused": "refused"}
    lanes = [(kind, name) for kind, name in names.items() if kind in timeless]
    if timeless - set(names):
        lanes.append(("other", "no time"))
    return lanes


def _draw_lanes(
    lanes: list[tuple[str, str]], rows: tuple[TrialRow, ...], *, xs: Scale, top: float
) -> str:
    drawn = []
    for place, (lane, name) in enumerate(lanes):
        y = top + 20 * place + 4
        room = xs.start - 12
        drawn += [
            rule(xs.start, y, xs.end, y, cls="lane"),
            label(xs.start - 8, y + 4, name, anchor="end", cls="tick", room=room),
        ]
        for row in rows:
            kind = _kind(row)
            own = kind if any(kind == each for each, _ in lanes) else "other"
            if row.update_s is None and own == lane:
                drawn.append(marked(_tip(row), _mark(kind, xs(row.index), y)))
    return "".join(drawn)


def _trial_axis(rows: tuple[TrialRow, ...], xs: Scale, bottom: float) -> str:
    last = max(row.index for row in rows)
    if last > 2 and len(Scale(1, last, start=0, end=1).ticks(8)) > 1:
        whole = all(float(tick).is_integer() for tick in xs.ticks(8))
        if whole:
            return horizontal_axis(xs, bottom, top=bottom, title="trial, in order", most=8)
    drawn = [rule(xs.start, bottom, xs.end, bottom, cls="axis")]
    for index in range(1, last + 1):
        drawn.append(label(xs(index), bottom + 16, str(index), anchor="middle", cls="tick"))
    middle = (xs.start + xs.end) / 2
    drawn.append(label(middle, bottom + 34, "trial, in order", anchor="middle", cls="axis-title"))
    return "".join(drawn)


def _kind(row: TrialRow) -> str:
    kind = "failed"
    if is_memory_failure(row):
        kind = "oom"
    elif is_refused(row):
        kind = "refused"
    elif row.verdict is Ruling.INCONCLUSIVE:
        kind = "inconclusive"
    elif row.verdict is Ruling.PASS:
        kind = "passed"
    elif row.outcome == Outcome.STOPPED_EARLY:
        kind = "stopped"
    elif row.outcome == Outcome.OK:
        kind = "unjudged"
    return kind


def _mark(kind: str, x: float, y: float) -> str:
    draw, cls = {
        "passed": (disc, "mark pass"),
        "refused": (disc, "mark hollow fail"),
        "inconclusive": (diamond, "mark hollow warn"),
        "stopped": (triangle, "mark hollow mute"),
        "unjudged": (disc, "mark mute"),
        "oom": (cross, "mark stroke memory"),
        "failed": (square, "mark hollow mute"),
    }[kind]
    return draw(x, y, cls=cls)


def _tip(row: TrialRow) -> str:
    parts = [f"Trial {row.index}: {row.change}", f"tried because: {row.reason}"]
    ruling = f", {row.verdict.value}" if row.verdict else ""
    parts.append(f"{row.outcome}{ruling}")
    if row.update_s is not None:
        parts.append(f"{numbers.duration(row.update_s)} per update")
    if row.screening_speedup is not None:
        parts.append(f"screening {numbers.ratio(row.screening_speedup)}")
    if row.peak_bytes is not None:
        parts.append(f"peak {numbers.size(row.peak_bytes)}")
    if row.why:
        parts.append(row.why)
    return "; ".join(parts)
