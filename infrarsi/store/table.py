"""Measured tables: a CSV file and a sidecar, read into tasks and their configurations."""

from __future__ import annotations

import csv
import difflib
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from infrarsi.errors import TableError
from infrarsi.records.base import Scalar
from infrarsi.records.table import Row, Sidecar, TableNote
from infrarsi.store.table_cells import is_blank, number_of, read_knob, scalar_of
from infrarsi.store.table_leaks import refuse_leaks
from infrarsi.store.table_tasks import merged, value_of


@dataclass(frozen=True)
class TableTask:
    """One task of a table: a pool of measured configurations."""

    name: str
    keys: dict[str, Scalar]
    """What tells it from the others."""
    context: dict[str, Scalar]
    """What is known of it besides, and is the same in all of its rows."""
    rows: tuple[Row, ...]
    """Each configuration once."""
    capacity_bytes: int | None

    @property
    def num_ok(self) -> int:
        """Give the number of configurations that were measured."""
        return sum(row.status == "ok" for row in self.rows)


@dataclass(frozen=True)
class Table:
    """A measured table."""

    name: str
    sidecar: Sidecar
    digest: str
    """SHA-256 of both files."""
    tasks: tuple[TableTask, ...]
    notes: tuple[TableNote, ...]
    """What was left out, merged or filled in."""


@dataclass(frozen=True)
class Line:
    """A row of the file, and its place in it."""

    number: int
    cells: dict[str, str]
    status: str


def read_table(place: Path) -> Table:
    """Read a table by its CSV file or its sidecar, which lie side by side.

    A row without its task, its status or a number that a knob needs is left out, and so is one
    that ended well without a metric. Configurations measured several times are merged: the
    median of those that ended well. All of that is noted.

    Raises
    ------
    TableError
        A file is missing or cannot be read, a column is unknown, or one gives the outcome away.
    """
    described = place if place.suffix.lower() in {".yaml", ".yml"} else place.with_suffix(".yaml")
    sidecar = _read_sidecar(described)
    measured = described.parent / sidecar.table
    header, lines = _read_lines(measured, sidecar)
    _refuse_unknown(sidecar, header, measured)
    refuse_leaks(sidecar, lines, name=measured.name)
    kept, notes = _kept(sidecar, lines)
    tasks = []
    for keys, own in _grouped(sidecar, kept).items():
        task, more = _task(sidecar, keys, own)
        notes += more
        tasks.append(task)
    if not tasks:
        raise TableError(
            f"{measured.name} holds no row that can be used",
            hint="see that the status column holds the words that the sidecar names",
        )
    digest = hashlib.sha256(described.read_bytes() + measured.read_bytes()).hexdigest()
    return Table(measured.stem, sidecar, digest, tuple(tasks), _summed(notes))


def _read_sidecar(path: Path) -> Sidecar:
    try:
        held = yaml.safe_load(path.read_text(encoding="utf-8"))
        if not isinstance(held, dict):
            raise ValueError("it is no mapping")
        return Sidecar.model_validate(held)
    except FileNotFoundError as error:
        raise TableError(
            f"there is no sidecar {path.name} beside the table",
            hint="write one that names task, knobs, metric and status: see docs/tables.md",
        ) from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(each) for each in first["loc"]) or "the whole"
        raise TableError(
            f"the sidecar {path.name} cannot be used: {where}: {first['msg']}",
            hint="correct it: docs/tables.md lists what may stand there",
        ) from error
    except (OSError, UnicodeDecodeError, yaml.YAMLError, ValueError) as error:
        raise TableError(
            f"the sidecar {path.name} cannot be read: {error}", hint="write it as a YAML mapping"
        ) from error


def _read_lines(path: Path, sidecar: Sidecar) -> tuple[list[str], list[Line]]:
    status = sidecar.status
    words = {**dict.fromkeys(status.oom, "oom"), **dict.fromkeys(status.ok, "ok")}
    lines = []
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, strict=True)
            header = list(reader.fieldnames or ())
            for cells in reader:
                if None in cells or None in cells.values():
                    raise TableError(
                        f"line {reader.line_num} of {path.name} has not as many cells as the "
                        f"header ({len(header)})",
                        hint="correct the line; a cell that holds a comma is put in quotes",
                    )
                ended = cells.get(status.column, "").strip()
                outcome = "" if is_blank(ended) else words.get(ended, "failed")
                lines.append(Line(reader.line_num, cells, outcome))
    except FileNotFoundError as error:
        raise TableError(
            f"the sidecar names the table {path.name}, which is not beside it",
            hint="put the CSV file there, or correct `table` in the sidecar",
        ) from error
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise TableError(
            f"the table {path.name} cannot be read: {error}", hint="write it as CSV in UTF-8"
        ) from error
    twice = [name for i, name in enumerate(header) if name in header[:i]]
    if twice:
        raise TableError(
            f"the column {twice[0]!r} stands twice in {path.name}", hint="rename one of them"
        )
    return header, lines


def _refuse_unknown(sidecar: Sidecar, header: Sequence[str], path: Path) -> None:
    for name in sidecar.columns():
        if name not in header:
            near = difflib.get_close_matches(name, header, n=1)
            instead = f"did you mean {near[0]!r}?" if near else f"columns: {', '.join(header)}"
            raise TableError(
                f"the sidecar names the column {name!r}, which {path.name} does not have",
                hint=instead,
            )


def _kept(sidecar: Sidecar, lines: Iterable[Line]) -> tuple[list[Line], list[TableNote]]:
    """Leave out what cannot be used, and say how much of it and why."""
    kept, reasons = [], []
    for line in lines:
        reason = _unusable(sidecar, line)
        if reason is None:
            kept.append(line)
        else:
            reasons.append(TableNote(what=reason, rows=1))
    return kept, reasons


def _unusable(sidecar: Sidecar, line: Line) -> str | None:
    """Say why a row is left out, or give ``None``."""
    if not line.status:
        return f"left out: {sidecar.status.column!r} is blank"
    for name in sidecar.task:
        if is_blank(line.cells[name]):
            return f"left out: the task column {name!r} is blank"
    for name, knob in sidecar.knobs.items():
        if knob.scale != "category" and is_blank(line.cells[name]):
            return f"left out: the knob {name!r} is blank, and no category"
        read_knob(name, knob, line.cells[name], line=line.number)
    if line.status == "ok" and value_of(sidecar.metric, line.cells) is None:
        return f"left out: it ended well, and {sidecar.metric.column!r} is no number above 0"
    return None


def _grouped(sidecar: Sidecar, lines: Iterable[Line]) -> dict[tuple[str, ...], list[Line]]:
    groups: dict[tuple[str, ...], list[Line]] = {}
    for line in lines:
        groups.setdefault(tuple(line.cells[name].strip() for name in sidecar.task), []).append(line)
    return groups


def _task(
    sidecar: Sidecar, keys: tuple[str, ...], lines: Sequence[Line]
) -> tuple[TableTask, list[TableNote]]:
    """Make a task of its rows."""
    notes: list[TableNote] = []
    named: dict[str, Scalar] = {
        name: scalar_of(key) for name, key in zip(sidecar.task, keys, strict=True)
    }
    context: dict[str, Scalar] = dict(named)
    inputs = {name for name in sidecar.columns() if name not in sidecar.knobs}
    measured = {sidecar.metric.column, sidecar.status.column}
    measured |= {sidecar.memory.column} if sidecar.memory else set()
    for name in sorted(inputs - measured - set(named)):
        held = {line.cells[name].strip() for line in lines if not is_blank(line.cells[name])}
        if len(held) == 1:
            context[name] = scalar_of(held.pop())
        elif held:
            what = f"{name!r} is not the same in all rows of a task, and not used there"
            notes.append(TableNote(what=what, rows=len(lines)))
    rows, more = merged(sidecar, lines)
    label = ", ".join(f"{name}={key}" for name, key in zip(sidecar.task, keys, strict=True))
    task = TableTask(
        name=label or "the whole table", keys=named, context=context, rows=rows,
        capacity_bytes=_capacity(sidecar, lines),
    )  # fmt: skip
    return task, notes + more


def _capacity(sidecar: Sidecar, lines: Sequence[Line]) -> int | None:
    """Give the memory that there was: the least where the rows of a task differ."""
    memory = sidecar.memory
    if memory is None:
        return None
    if not isinstance(memory.capacity, str):
        return int(memory.capacity * memory.bytes_a_unit)
    column = memory.capacity
    held = [number_of(line.cells[column]) for line in lines]
    known = [each for each in held if each is not None and each > 0]
    return int(min(known) * memory.bytes_a_unit) if known else None


def _summed(notes: Iterable[TableNote]) -> tuple[TableNote, ...]:
    """Give each kind of note once, with all of its rows."""
    totals: dict[str, int] = {}
    for note in notes:
        totals[note.what] = totals.get(note.what, 0) + note.rows
    return tuple(TableNote(what=what, rows=rows) for what, rows in totals.items())


def written(rows: Iterable[dict[str, Any]], columns: Sequence[str], place: Path) -> None:
    """Write a table's CSV file anew, whole or not at all."""
    partial = place.with_suffix(".partial")
    with partial.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(columns), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    partial.replace(place)
