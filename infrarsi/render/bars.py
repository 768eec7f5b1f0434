"""Stacked bars: time by phase before and after, and the cost by purpose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from infrarsi.records.report import Cost, PhaseTime
from infrarsi.render import numbers
from infrarsi.render.drawing import (
    WIDTH,
    Drawing,
    Scale,
    element,
    horizontal_axis,
    label,
    marked,
    text_width,
)

_LEFT, _BAR, _GAP = 92.0, 34.0, 14.0
_COLUMNS = 3
_NUM_COLOURS = 9


@dataclass(frozen=True)
class Stack:
    """One bar: its name, and the seconds of each of its parts."""

    name: str
    seconds: tuple[float | None, ...]


def draw_phases(phases: Sequence[PhaseTime]) -> Drawing:
    """Draw the time of one update by phase: the reference, and the winner below it."""
    stacks = [Stack("reference", tuple(phase.reference_s for phase in phases))]
    if any(phase.winner_s is not None for phase in phases):
        stacks.append(Stack("winner", tuple(phase.winner_s for phase in phases)))
    legends = []
    for phase in phases:
        after = "" if len(stacks) == 1 else f" → {numbers.duration(phase.winner_s)}"
        legends.append(f"{phase.phase}: {numbers.duration(phase.reference_s)}{after}")
    return _draw_stacks(
        stacks,
        [phase.phase for phase in phases],
        legends=legends,
        name="phases",
        title="Time of one update by phase",
        axis="one update",
    )


def draw_cost(cost: Cost) -> Drawing:
    """Draw the wall time of all launches by purpose."""
    stack = Stack("launches", tuple(cost.by_purpose_s.values()))
    legends = [f"{name}: {numbers.duration(s)}" for name, s in cost.by_purpose_s.items()]
    return _draw_stacks(
        [stack],
        list(cost.by_purpose_s),
        legends=legends,
        name="cost",
        title="Where the search spent its time",
        axis="wall time",
    )


def _draw_stacks(
    stacks: Sequence[Stack],
    parts: Sequence[str],
    *,
    legends: Sequence[str],
    name: str,
    title: str,
    axis: str,
) -> Drawing:
    totals = [sum(each or 0.0 for each in stack.seconds) for stack in stacks]
    scale, unit = _axis_unit(max(totals))
    xs = Scale(0, max(totals) / scale or 1.0, start=_LEFT, end=WIDTH - 84)
    bottom = 10 + (_BAR + _GAP) * len(stacks)
    drawn = [horizontal_axis(xs, bottom, top=4, title=f"{axis}, {unit}")]
    for place, (stack, total) in enumerate(zip(stacks, totals, strict=True)):
        y = 10 + (_BAR + _GAP) * place
        drawn.append(_draw_stack(stack, parts, xs=xs, y=y, scale=scale))
        drawn.append(label(_LEFT - 10, y + _BAR / 2 + 4, stack.name, anchor="end"))
        drawn.append(
            label(xs(total / scale) + 8, y + _BAR / 2 + 4, numbers.duration(total),
                  cls="value strong")
        )  # fmt: skip
    top = bottom + 62
    step = (WIDTH - 16) / _COLUMNS
    for index, words in enumerate(legends):
        x, y = 16 + step * (index % _COLUMNS), top + 21 * (index // _COLUMNS)
        drawn.append(
            element("rect", x=float(x), y=y - 10.0, width=11, height=11, rx=2, cls=_colour(index))
        )
        drawn.append(label(x + 18, y, words, room=step - 24))
    height = top + 21 * ((len(legends) - 1) // _COLUMNS) + 12
    return Drawing("".join(drawn), name=name, title=title, height=height)


def _draw_stack(stack: Stack, parts: Sequence[str], *, xs: Scale, y: float, scale: float) -> str:
    drawn, start = [], 0.0
    for index, (part, seconds) in enumerate(zip(parts, stack.seconds, strict=True)):
        if not seconds or seconds < 0:
            continue
        left, right = xs(start / scale), xs((start + seconds) / scale)
        start += seconds
        block = element(
            "rect", x=left, y=float(y), width=max(0.5, right - left), height=_BAR,
            cls=f"segment {_colour(index)}",
        )  # fmt: skip
        inner = ""
        if right - left > text_width(part) + 10:
            inner = label((left + right) / 2, y + _BAR / 2 + 4, part, anchor="middle", cls="inside")
        drawn.append(marked(f"{stack.name}, {part}: {numbers.duration(seconds)}", block, inner))
    return "".join(drawn)


def _axis_unit(seconds: float) -> tuple[float, str]:
    if seconds >= 3 * 3600:
        return 3600.0, "hours"
    if seconds >= 180:
        return 60.0, "minutes"
    return numbers.time_unit(seconds)


def _colour(index: int) -> str:
    return f"fill-{index % _NUM_COLOURS}"
