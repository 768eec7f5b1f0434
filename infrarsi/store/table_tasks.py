"""Rows of one task: what was measured of each configuration, each configuration once."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Protocol

from infrarsi.records.base import Scalar
from infrarsi.records.table import MetricColumn, Row, Sidecar, TableNote
from infrarsi.store.table_cells import number_of, read_knob


class Line(Protocol):
    """A row of the file."""

    @property
    def number(self) -> int:
        """Its line."""
        ...

    @property
    def cells(self) -> dict[str, str]:
        """Its text, by column."""
        ...

    @property
    def status(self) -> str:
        """How it ended."""
        ...


def value_of(metric: MetricColumn, cells: Mapping[str, str]) -> float | None:
    """Give a row's seconds a unit of work: the metric, or one over it where more is better."""
    number = number_of(cells[metric.column])
    if number is None or number <= 0:
        return None
    return 1 / number if metric.direction == "max" else number


def merged(sidecar: Sidecar, lines: Sequence[Line]) -> tuple[tuple[Row, ...], list[TableNote]]:
    """Merge rows of the same knobs: the median of those that ended well, if any did.

    One that ran out of memory beside others that fitted is said, and counts as one that fits.
    """
    groups: dict[tuple[Scalar, ...], list[Line]] = {}
    for line in lines:
        values = tuple(
            read_knob(name, knob, line.cells[name], line=line.number)
            for name, knob in sidecar.knobs.items()
        )
        groups.setdefault(values, []).append(line)
    rows, notes = [], []
    for values, own in groups.items():
        rows.append(_row(sidecar, values, own))
        ended = {line.status for line in own}
        if len(own) > 1:
            what = "measured several times: the median of those that ended well"
            notes.append(TableNote(what=what, rows=len(own)))
        if "ok" in ended and len(ended) > 1:
            what = "ended well and otherwise with the same knobs: counts as ended well"
            notes.append(TableNote(what=what, rows=len(own)))
    return tuple(rows), notes


def _row(sidecar: Sidecar, values: Sequence[Scalar], lines: Sequence[Line]) -> Row:
    knobs = dict(zip(sidecar.knobs, values, strict=True))
    ok = [line for line in lines if line.status == "ok"]
    if not ok:
        oom = any(line.status == "oom" for line in lines)
        return Row(knobs=knobs, status="oom" if oom else "failed")
    measured = [value_of(sidecar.metric, line.cells) for line in ok]
    peaks = []
    if sidecar.memory is not None:
        read = [number_of(line.cells[sidecar.memory.column]) for line in ok]
        peaks = [each for each in read if each is not None and each > 0]
    unit = sidecar.memory.bytes_a_unit if sidecar.memory else 1
    return Row(
        knobs=knobs, status="ok", value=statistics.median(v for v in measured if v is not None),
        peak_bytes=int(statistics.median(peaks) * unit) if peaks else None,
    )  # fmt: skip
