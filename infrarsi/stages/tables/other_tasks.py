"""What other tasks of a table teach of the formulas; and how to be misled by it on purpose."""

from __future__ import annotations

import math

import numpy as np

from infrarsi.records.base import Scalar
from infrarsi.records.beliefs import Beliefs
from infrarsi.records.candidate import Effect
from infrarsi.records.history import Observation
from infrarsi.search.learning import learned, pooled
from infrarsi.search.physics import default_beliefs
from infrarsi.search.quantities import canonical
from infrarsi.stages.tables.replaying import pool_of
from infrarsi.store.table import Table, TableTask

_SIZE = "params_b"
_FREE = {"scale"}
"""Coefficients that are no constants of a data sheet."""


class OtherTasks:
    """What every task of a table teaches, each learned once, when it is asked for."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._of: dict[str, Beliefs | None] = {}

    def for_task(self, task: TableTask, *, misled: str, seed: int) -> Beliefs | None:
        """Give what ``true_of`` gives, falsified: ``shuffled``, ``inverted``, ``time-inverted``."""
        beliefs = self.true_of(task)
        if beliefs is None or misled == "experience":
            return beliefs
        rng = np.random.default_rng([seed, 11])
        change = _shuffled if misled == "shuffled" else _inverted
        memory = beliefs.memory if misled == "time-inverted" else change(beliefs.memory, rng)
        return Beliefs(time=change(beliefs.time, rng), memory=memory)

    def true_of(self, task: TableTask) -> Beliefs | None:
        """Give what the tasks of other model sizes teach together; ``None`` where nothing."""
        others = [each for each in self._table.tasks if _is_of_another_size(each, task)]
        found = [beliefs for each in others if (beliefs := self._beliefs(each)) is not None]
        return pooled(found) if found else None

    def _beliefs(self, task: TableTask) -> Beliefs | None:
        if task.name not in self._of:
            self._of[task.name] = _learned(self._table, task) if task.num_ok else None
        return self._of[task.name]


def _is_of_another_size(one: TableTask, other: TableTask) -> bool:
    sizes = [size_of(each) for each in (one, other)]
    if sizes[0] is None and sizes[1] is None:
        return one.name != other.name
    return None not in sizes and sizes[0] != sizes[1]


def size_of(task: TableTask) -> Scalar:
    """Give the model's size, whatever its column is called; ``None`` where it is not known."""
    sizes = [value for name, value in task.context.items() if canonical(name) == _SIZE]
    return sizes[0] if sizes else None


def _learned(table: Table, task: TableTask) -> Beliefs | None:
    pool = pool_of(table.sidecar, task)
    observations = [
        Observation(
            candidate=pool.candidate_of(row), status=row.status, update_s=row.value,
            peak_bytes=row.peak_bytes, cost_s=1.0,
        )
        for row in pool.rows
    ]  # fmt: skip
    return learned(pool.space, observations, pool=pool.points)


def shifted_constants(factor: float, *, seed: int) -> Beliefs | None:
    """Make every constant of the formulas wrong by a factor, up or down at random."""
    if factor == 1:
        return None
    start, rng = default_beliefs(), np.random.default_rng([seed, 7])
    return Beliefs(
        time=_shifted(start.time, math.log(factor), rng),
        memory=_shifted(start.memory, math.log(factor), rng),
    )


def _shuffled(effects: dict[str, Effect], rng: np.random.Generator) -> dict[str, Effect]:
    dealt = rng.permutation(len(effects))
    held = list(effects.values())
    return {name: held[i] for name, i in zip(effects, dealt, strict=True)}


def _inverted(effects: dict[str, Effect], _rng: np.random.Generator) -> dict[str, Effect]:
    return {name: each.model_copy(update={"mean": -each.mean}) for name, each in effects.items()}


def _shifted(
    effects: dict[str, Effect], size: float, rng: np.random.Generator
) -> dict[str, Effect]:
    return {
        name: effect
        if name in _FREE
        else effect.model_copy(update={"mean": effect.mean + float(rng.choice([-1, 1])) * size})
        for name, effect in effects.items()
    }
