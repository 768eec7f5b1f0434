"""Columns that give the outcome away: known only after the launch, whatever the sidecar says."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from infrarsi.errors import TableError
from infrarsi.records.constraint import names_in
from infrarsi.records.table import Sidecar, TableKnob
from infrarsi.store.table_cells import is_blank, number_of

_FEWEST = 2
"""Fewer rows of an outcome prove nothing."""
_SHARE = 0.5
"""Blank in so many of the failed rows, and in no other, is no accident."""


class Line(Protocol):
    """A row of the file."""

    @property
    def cells(self) -> dict[str, str]:
        """Its text, by column."""
        ...

    @property
    def status(self) -> str:
        """How it ended."""
        ...


def refuse_leaks(sidecar: Sidecar, lines: Sequence[Line], *, name: str) -> None:
    """Refuse a table whose inputs are blank, or constant, where launches failed and only there.

    A knob may decide alone where it says so, or where the value is the hungriest of a knob
    that raises memory. What is the same in all rows of each task cannot tell them apart.

    Raises
    ------
    TableError
        Such a column is a knob, part of the context, or used by a derived quantity.
    """
    ended = [line for line in lines if line.status]
    for column in _inputs(sidecar):
        knob = sidecar.knobs.get(column)
        mixed = list(_mixed(sidecar, ended, column))
        ok = [line.cells[column].strip() for line in mixed if line.status == "ok"]
        failed = [line.cells[column].strip() for line in mixed if line.status != "ok"]
        if len(ok) < _FEWEST or len(failed) < _FEWEST:
            continue
        if knob and knob.may_decide:
            continue
        how = _blank_where_failed(ok, failed)
        if how is None:
            how = _constant_where_failed(ok, failed, knob)
        if how is not None:
            raise TableError(
                f"the column {column!r} of {name} gives the outcome away: {how}",
                hint="take it out of the sidecar's knobs and context; a knob that was chosen "
                "beforehand and does decide says so with `may_decide: true`",
            )


def _inputs(sidecar: Sidecar) -> tuple[str, ...]:
    used = [name for each in sidecar.derived.values() for name in names_in(each)]
    measured = {sidecar.metric.column, sidecar.status.column}
    measured |= {sidecar.memory.column} if sidecar.memory else set()
    named = [*sidecar.knobs, *sidecar.context, *used]
    if sidecar.memory and isinstance(sidecar.memory.capacity, str):
        named.append(sidecar.memory.capacity)
    kept = [each for each in named if each not in measured and each not in sidecar.derived]
    return tuple(each for each in dict.fromkeys(kept) if each not in sidecar.task)


def _mixed(sidecar: Sidecar, lines: Iterable[Line], column: str) -> Iterable[Line]:
    """Give the rows of tasks that ended in both ways, and in which the column is not constant."""
    tasks: dict[tuple[str, ...], list[Line]] = {}
    for line in lines:
        tasks.setdefault(tuple(line.cells[name] for name in sidecar.task), []).append(line)
    for own in tasks.values():
        both = len({line.status == "ok" for line in own}) > 1
        if both and len({line.cells[column].strip() for line in own}) > 1:
            yield from own


def _blank_where_failed(ok: Sequence[str], failed: Sequence[str]) -> str | None:
    blank = sum(is_blank(cell) for cell in failed)
    if blank < max(_FEWEST, _SHARE * len(failed)) or any(is_blank(cell) for cell in ok):
        return None
    return f"it is blank in {blank} of {len(failed)} rows that failed, and in none that went well"


def _constant_where_failed(
    ok: Sequence[str], failed: Sequence[str], knob: TableKnob | None
) -> str | None:
    for one, other, words in (
        (failed, ok, "that failed, and in none that went well"),
        (ok, failed, "that went well, and in none that failed"),
    ):
        values = set(one)
        if len(values) == 1 and not values & set(other):
            value = next(iter(values))
            if not _is_at_its_end(value, other, knob, failed=one is failed):
                return f"it is {value!r} in all {len(one)} rows {words}"
    return None


def _is_at_its_end(
    value: str, others: Sequence[str], knob: TableKnob | None, *, failed: bool
) -> bool:
    """Tell whether failing is what such a value does: it asks for the most memory of all."""
    if knob is None or knob.raises_memory is None:
        return False
    numbers = [_place(each) for each in (value, *others)]
    if any(number is None for number in numbers):
        return False
    first, *rest = (number for number in numbers if number is not None)
    hungry_high = (knob.raises_memory == "up") == failed
    return first > max(rest) if hungry_high else first < min(rest)


def _place(cell: str) -> float | None:
    return {"true": 1.0, "false": 0.0}.get(cell.lower(), number_of(cell))
