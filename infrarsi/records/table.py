"""A measured table's sidecar: what its columns mean. And what was found wrong with its rows."""

from __future__ import annotations

from typing import Literal, Self, TypeAlias

from pydantic import Field, field_validator, model_validator

from infrarsi.records.base import Record, Scalar
from infrarsi.records.candidate import Effect
from infrarsi.records.constraint import check_expression, names_in

Scale: TypeAlias = Literal["log2", "linear", "ordinal", "category"]

_BYTES = {
    "bytes": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30,
}  # fmt: skip


class TableKnob(Record):
    """A column that could be chosen before the launch."""

    scale: Scale = "category"
    raises_memory: Literal["up", "down"] | None = None
    """Whether larger values need more memory, or less."""
    patch: bool = False
    """Whether it says that a patch is carried, not how a launch is set."""
    log_time: Effect | None = None
    """What was expected of a patch, in log time, before it was measured."""
    log_memory: Effect | None = None
    may_decide: bool = False
    """Whether its value alone may say which launches failed. Without that such a column is taken
    for one that gives the outcome away, unless the value is its hungriest."""


class MetricColumn(Record):
    """What was measured."""

    column: str
    direction: Literal["max", "min"]
    unit: str = ""
    """``tokens/s/GPU`` is understood by the formulas; of others they learn the scale too."""


class MemoryColumn(Record):
    """Peak memory, and how much there was."""

    column: str
    capacity: str | float
    """A column, or a number in the same unit."""
    unit: Literal["bytes", "KB", "MB", "GB", "KiB", "MiB", "GiB"] = "GiB"

    @property
    def bytes_a_unit(self) -> int:
        """Give the bytes in one unit."""
        return _BYTES[self.unit]


class StatusColumn(Record):
    """How each launch ended. What is neither of the two has failed."""

    column: str
    ok: tuple[str, ...]
    oom: tuple[str, ...] = ()

    @field_validator("ok", "oom", mode="before")
    @classmethod
    def _one_or_several_as_written(cls, value: object) -> object:
        each = value if isinstance(value, list | tuple) else (value,)
        return tuple(one if isinstance(one, str) else str(one) for one in each)


class Sidecar(Record):
    """The YAML file beside a table."""

    table: str
    """Name of the CSV file, which lies beside this one."""
    task: tuple[str, ...] = ()
    """Columns that tell one task from another; none: the whole table is one task."""
    context: dict[str, str] = {}
    """Columns that say what a task is about (model, cluster), each with its unit or kind."""
    knobs: dict[str, TableKnob] = Field(min_length=1)
    derived: dict[str, str] = {}
    """Quantities that follow from knobs and other columns, as expressions."""
    metric: MetricColumn
    memory: MemoryColumn | None = None
    status: StatusColumn

    @model_validator(mode="after")
    def _says_one_thing_of_each_column(self) -> Self:
        measured = {self.metric.column, self.status.column}
        measured |= {self.memory.column} if self.memory else set()
        for name in self.knobs:
            if name in self.task or name in self.context:
                raise ValueError(f"{name!r} is a knob, and cannot tell tasks apart as well")
        for name in (*self.knobs, *self.task, *self.context):
            if name in measured:
                raise ValueError(f"{name!r} was measured, and cannot be known beforehand as well")
        for name, expression in self.derived.items():
            check_expression(expression)
            used = set(names_in(expression)) & measured
            if used:
                raise ValueError(
                    f"{name!r} is derived from {min(used)!r}, which was measured: it would be "
                    "known only afterwards"
                )
        return self

    def columns(self) -> tuple[str, ...]:
        """Give every column that the table must have, each once."""
        named = [*self.task, *self.context, *self.knobs, self.metric.column, self.status.column]
        if self.memory:
            named.append(self.memory.column)
            if isinstance(self.memory.capacity, str):
                named.append(self.memory.capacity)
        for expression in self.derived.values():
            named += [name for name in names_in(expression) if name not in self.derived]
        return tuple(dict.fromkeys(named))


class TableNote(Record):
    """Something about a table's rows that a reader should know."""

    what: str
    """In words, with figures."""
    rows: int
    """How many rows it concerns."""


class Row(Record):
    """One configuration of a task, as measured."""

    knobs: dict[str, Scalar]
    status: Literal["ok", "oom", "failed"]
    value: float | None = None
    """Seconds a unit of work: smaller is better, whatever the direction of the metric."""
    peak_bytes: int | None = None
