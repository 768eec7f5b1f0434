"""Packs on a terminal: what a bank holds, what a pack says, what a search would start from."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from infrarsi.records.candidate import Effect
from infrarsi.records.experience import AtomBelief, Lesson, Pack, Source
from infrarsi.render import numbers
from infrarsi.render.document import printable

_TWO_SIDES = 1.96


def bank_table(rows: Iterable[Any]) -> Any:
    """Draw the packs of a bank."""
    from rich.table import Table

    table = Table(box=None, header_style="bold", padding=(0, 1))
    for title in ("Pack", "Search", "Machine", "Parameters", "Lessons", "Outcomes"):
        table.add_column(title, justify="right" if title in {"Parameters", "Lessons"} else "left")
    for row in rows:
        table.add_row(
            row.id, printable(row.label), printable(f"{row.num_devices} x {row.device}"),
            "not known" if row.num_parameters is None else numbers.count(row.num_parameters),
            numbers.count(row.num_lessons),
            ", ".join(f"{number} {name}" for name, number in row.outcomes.items()),
        )  # fmt: skip
    return table


def pack_lines(pack: Pack, atoms: Sequence[AtomBelief]) -> list[str]:
    """Say what a pack holds, a fact a line."""
    context, machine = pack.context, pack.hardware
    sizes = [
        f"{numbers.count(context.num_parameters)} parameters" if context.num_parameters else "",
        f"{numbers.count(context.tokens_per_update)} tokens an update"
        if context.tokens_per_update
        else "",
        f"{context.num_ranks} ranks" if context.num_ranks > 1 else "",
        f"the reference filled {numbers.percent(context.memory_share)} of the memory"
        if context.memory_share
        else "",
    ]
    lines = [
        f"pack {pack.id}: {printable(pack.label)}",
        f"training: {context.kind}; {', '.join(each for each in sizes if each)}",
        f"machine: {machine.num} x {printable(machine.name)}, {numbers.size(machine.memory_bytes)} "
        f"for a trial; Python {machine.python}, torch {machine.torch}"
        + (f", CUDA {machine.cuda}" if machine.cuda else ""),
        f"{numbers.counted(len(pack.lessons), 'lesson')}, of ratios to its own reference:",
    ]
    lines += [f"  {_lesson(each)}" for each in sorted(pack.lessons, key=_order)]
    if atoms:
        lines.append("each patch alone, as far as they tell:")
        lines += [f"  {belief_line(each)}" for each in atoms]
    return lines


def recollection_lines(sources: Sequence[Source], beliefs: Sequence[AtomBelief]) -> list[str]:
    """Say what a search would start from, a fact a line."""
    if not beliefs:
        return ["no pack says anything of this search"]
    lines = [
        f"{each.label} ({each.pack}) on {printable(each.device)}: distance {each.distance:.2f} "
        f"over {numbers.counted(each.num_compared, 'feature')}, "
        f"{numbers.counted(each.num_lessons, 'lesson')}"
        for each in sources
    ]
    return [*lines, *(f"  {belief_line(each)}" for each in beliefs)]


def belief_line(belief: AtomBelief) -> str:
    """Say what is believed of one patch or setting."""
    name = f"+{belief.patch}" if belief.patch else f"{belief.knob}={numbers.scalar(belief.value)}"
    said = [
        f"time {times(belief.log_time)}" if belief.log_time else "",
        f"memory {times(belief.log_memory)}" if belief.log_memory else "",
        f"refused or crashed elsewhere ({numbers.percent(belief.refused)})"
        if belief.refused >= 0.05
        else "",
    ]
    told = ", ".join(each for each in said if each) or "nothing against it"
    return f"{printable(name)}: {told}; {numbers.counted(belief.num_packs, 'pack')}"


def times(effect: Effect) -> str:
    """Write an effect as a ratio with its interval: ``x0.85 [0.78, 0.93]``."""
    low, point, high = (
        math.exp(min(effect.mean + side * _TWO_SIDES * effect.sd, 50.0)) for side in (-1, 0, 1)
    )
    return f"x{point:.2f} [{low:.2f}, {high:.2f}]"


def _lesson(lesson: Lesson) -> str:
    atoms = ", ".join(atom.in_words() for atom in lesson.atoms)
    beside = f" beside {', '.join(a.in_words() for a in lesson.beside)}" if lesson.beside else ""
    said = [
        lesson.outcome + (f" ({lesson.why})" if lesson.why else ""),
        f"time {times(lesson.log_time)}" if lesson.log_time else "",
        f"memory x{math.exp(lesson.log_memory):.2f}" if lesson.log_memory is not None else "",
        f"memory above x{math.exp(lesson.log_memory_above):.2f}"
        if lesson.log_memory_above is not None
        else "",
    ]
    return printable(f"{atoms}{beside}: {', '.join(each for each in said if each)}")


def _order(lesson: Lesson) -> tuple[int, float]:
    return bool(lesson.beside), lesson.log_time.mean if lesson.log_time else math.inf
