"""Intervals in rows against lines that matter: the shape of several plots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from infrarsi.records.report import Part
from infrarsi.render import numbers
from infrarsi.render.drawing import (
    WIDTH,
    Drawing,
    Scale,
    diamond,
    disc,
    element,
    horizontal_axis,
    label,
    marked,
    rule,
    text_width,
)

_ROW = 27.0


@dataclass(frozen=True)
class Bar:
    """A row: a point, and where known its interval."""

    name: str
    point: float | None
    """``None``: not measurable; the row then holds words alone."""
    value: str
    """The number as written, on the right."""
    tip: str
    low: float | None = None
    high: float | None = None
    cls: str = "mark pass"
    whole: bool = False
    """Whether it is the result that the other rows lead to."""


@dataclass(frozen=True)
class Line:
    """A value that rows are held against."""

    value: float
    name: str
    cls: str


def draw_forest(
    bars: Sequence[Bar],
    lines: Sequence[Line],
    *,
    name: str,
    title: str,
    axis_title: str,
    names_width: float = 150.0,
    values_width: float = 150.0,
    width: float = WIDTH,
) -> Drawing:
    """Draw rows of intervals, with the lines named above them and the numbers at their right."""
    values = [line.value for line in lines]
    for bar in bars:
        values += [each for each in (bar.low, bar.point, bar.high) if each is not None]
    pad = 0.04 * (max(values) - min(values)) or 0.02
    xs = Scale(
        min(values) - pad, max(values) + pad, start=names_width, end=width - values_width - 14
    )
    top = 10 + 17.0 * len(lines)
    bottom = top + _ROW * len(bars) + 4
    drawn = [horizontal_axis(xs, bottom, top=top, title=axis_title)]
    for place, line in enumerate(lines):
        drawn.append(_draw_line(line, xs, y=14 + 17.0 * place, bottom=bottom))
    for place, bar in enumerate(bars):
        drawn.append(_draw_bar(bar, xs, y=top + _ROW * (place + 0.5) + 2, width=width))
    return Drawing("".join(drawn), name=name, title=title, height=bottom + 44, width=width)


def draw_parts(parts: Sequence[Part]) -> Drawing:
    """Draw what each part of the winner adds; dropped ones stand back."""
    bars = [
        Bar(
            name=part.name,
            point=part.gain.point if part.gain else None,
            low=part.gain.low if part.gain else None,
            high=part.gain.high if part.gain else None,
            value=numbers.ratio_estimate(part.gain),
            tip=f"{part.name} ({part.kind}): {numbers.ratio_estimate(part.gain)}, "
            f"{'kept' if part.kept else 'dropped'}. {part.note}",
            cls="mark pass" if part.kept else "mark dropped",
        )
        for part in parts
    ]
    longest = max(text_width(part.name) for part in parts) + 24
    return draw_forest(
        bars,
        [Line(1.0, "1x: adds nothing", "reference")],
        name="parts",
        title="What each part adds",
        axis_title="time without the part / time with it",
        names_width=min(max(110.0, longest), 260.0),
        values_width=max(text_width(bar.value) for bar in bars) + 12,
    )


def _draw_line(line: Line, xs: Scale, *, y: float, bottom: float) -> str:
    x = xs(line.value)
    # The name stands on whichever side of the line has room for it.
    right = x + text_width(line.name) + 8 < xs.end + 120
    words = label(
        x + 6 if right else x - 6, y, line.name, anchor="start" if right else "end",
        cls="value",
    )  # fmt: skip
    return rule(x, y - 10, x, bottom, cls=line.cls) + words


def _draw_bar(bar: Bar, xs: Scale, *, y: float, width: float) -> str:
    weight = "value strong" if bar.whole else "label"
    quiet = " quiet" if "dropped" in bar.cls else ""
    words = [
        label(xs.start - 12, y + 4, bar.name, anchor="end", cls=weight + quiet, room=xs.start - 14),
        label(width - 4, y + 4, bar.value, anchor="end", cls=weight + quiet),
    ]
    hit = element("rect", x=0.0, y=y - _ROW / 2, width=float(width), height=_ROW, cls="hit")
    return marked(bar.tip, hit, *_draw_interval(bar, xs, y=y), *words)


def _draw_interval(bar: Bar, xs: Scale, *, y: float) -> list[str]:
    if bar.point is None:
        return []
    drawn = []
    if bar.low is not None and bar.high is not None:
        low, high = xs(bar.low), xs(bar.high)
        thick = "whisker thick" if bar.whole else "whisker"
        drawn.append(rule(low, y, high, y, cls=f"{thick} {bar.cls}"))
        drawn += [rule(end, y - 5, end, y + 5, cls=f"whisker {bar.cls}") for end in (low, high)]
    x = xs(bar.point)
    shape = diamond(x, y, radius=7.5, cls=bar.cls) if bar.whole else disc(x, y, cls=bar.cls)
    return [*drawn, shape]
