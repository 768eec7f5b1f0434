"""Columns for the models: how a point of the lattice becomes numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from infrarsi.records.base import Scalar
from infrarsi.records.task import Knob
from infrarsi.search.lattice import Lattice
from infrarsi.search.mixture import Floats, Ints


@dataclass(frozen=True)
class Columns:
    """A table from points to columns; the reference is the origin.

    Attributes
    ----------
    tables
        For each knob, the columns of each of its values, shape ``(num values, num columns)``.
    signs
        For each column, +1 where a larger number is known to need more memory, -1 where
        less, 0 where that is not known; shape ``(num columns,)``. Patches come last.
    steps
        For each column, what one unit of it is: ``doubling``, ``step`` or ``presence``.
    """

    tables: tuple[Floats, ...]
    signs: Ints
    steps: tuple[str, ...]
    num_patches: int

    @property
    def num_columns(self) -> int:
        """Give the number of columns, those of the patches included."""
        return len(self.steps)

    def of(self, points: Ints) -> Floats:
        """Give the columns of points, shape ``(num points, num columns)``."""
        points = np.asarray(points, dtype=np.int64)
        num_knobs = len(self.tables)
        parts = [table[points[:, i]] for i, table in enumerate(self.tables)]
        return np.hstack([*parts, points[:, num_knobs:].astype(np.float64)])


def runtime_columns(lattice: Lattice) -> Columns:
    """Make columns for run time: each knob spans about 1 from end to end."""
    tables, steps = [], []
    for i, knob in enumerate(lattice.knobs):
        column = _numeric_column(knob.values)
        table, step = _category(knob.values) if column is None else (column[0][:, None], column[1])
        span = np.ptp(table, axis=0)
        table = (table - table[lattice.reference[i]]) / np.where(span > 0, span, 1.0)
        tables.append(table)
        steps += [step] * table.shape[1]
    return _with_patches(lattice, tables, steps, signs=[0] * len(steps))


def memory_columns(lattice: Lattice) -> Columns:
    """Make columns for memory: doublings, steps or presence, with the known signs.

    A knob that says which way memory goes is at least ordered, whatever its values are.
    """
    tables, steps, signs = [], [], []
    for i, knob in enumerate(lattice.knobs):
        table, step = _memory_table(knob)
        table = table - table[lattice.reference[i]]
        tables.append(table)
        steps += [step] * table.shape[1]
        signs += [_column_sign(knob, table)] * table.shape[1]
    return _with_patches(lattice, tables, steps, signs=signs)


def hunger_signs(lattice: Lattice) -> Ints:
    """Give, for each knob, which way along its values memory rises: +1, -1, or 0 unknown."""
    ways = {"up": 1, "down": -1, None: 0}
    return np.array([ways[knob.raises_memory] for knob in lattice.knobs], dtype=np.int64)


def _with_patches(
    lattice: Lattice, tables: list[Floats], steps: list[str], *, signs: list[int]
) -> Columns:
    num = lattice.num_patches
    return Columns(
        tables=tuple(tables),
        signs=np.array([*signs, *[0] * num], dtype=np.int64),
        steps=(*steps, *["presence"] * num),
        num_patches=num,
    )


def _numeric_column(values: tuple[Scalar, ...]) -> tuple[Floats, str] | None:
    """Read numbers as doublings where they span a factor of 4, else as steps."""
    numbers = [float(v) for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    if len(numbers) == len(values) and all(math.isfinite(each) for each in numbers):
        if min(numbers) > 0 and max(numbers) >= 4 * min(numbers):
            return np.log2(np.array(numbers)), "doubling"
        ranks = np.unique(np.array(numbers), return_inverse=True)[1]
        return ranks.reshape(-1).astype(np.float64), "step"
    return _steps(values) if len(values) <= 2 else None


def _steps(values: tuple[Scalar, ...]) -> tuple[Floats, str]:
    return np.arange(len(values), dtype=np.float64), "step"


def _category(values: tuple[Scalar, ...]) -> tuple[Floats, str]:
    return np.eye(len(values)), "presence"


def _memory_table(knob: Knob) -> tuple[Floats, str]:
    column = _numeric_column(knob.values)
    if column is not None and (knob.raises_memory is None or _is_monotone(column[0])):
        return column[0][:, None], column[1]
    if knob.raises_memory is not None:
        ordered, step = _steps(knob.values)
        return ordered[:, None], step
    return _category(knob.values)


def _is_monotone(column: Floats) -> bool:
    change = np.diff(column)
    return bool((change >= 0).all() or (change <= 0).all())


def _column_sign(knob: Knob, table: Floats) -> int:
    if knob.raises_memory is None:
        return 0
    along = 1 if table[-1, 0] >= table[0, 0] else -1
    return along if knob.raises_memory == "up" else -along
