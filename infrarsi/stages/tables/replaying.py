"""Replaying a strategy on a task of a measured table: the live search's way, without a launch."""

from __future__ import annotations

import itertools
import re
import time
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from infrarsi.records.base import Scalar
from infrarsi.records.beliefs import Beliefs
from infrarsi.records.bench import BenchPlan, Replay, Step
from infrarsi.records.candidate import Candidate, Edit, Effect, Patch
from infrarsi.records.constraint import expression_value
from infrarsi.records.history import UNKNOWN_CAPACITY, Observation, Space
from infrarsi.records.table import MetricColumn, Row, Sidecar, TableKnob
from infrarsi.records.task import Environment, Knob
from infrarsi.search import suggest_batch, suggest_next
from infrarsi.search.physics import PER_TOKEN, SOME_WORK
from infrarsi.store.table import TableTask

_LEAST_NOISE_SD = 0.01
_OF_WORK = re.compile(r"tok|sample|seq|example|image|epoch|byte|word|char|flop|mfu", re.IGNORECASE)
"""Units of metrics that go with the tokens trained on; other ones are of updates."""
_MOST_COMPLETED = 20_000


@dataclass(frozen=True)
class Pool:
    """A task as the search sees it."""

    space: Space
    rows: tuple[Row, ...]
    points: NDArray[np.int64]
    """Places of each row's knob values, then 0 or 1 for each patch, shape ``(num rows, d)``."""

    def candidate_of(self, row: Row) -> Candidate:
        """Give a row as the search calls it."""
        patches = {patch.name for patch in self.space.patches}
        knobs = {name: value for name, value in row.knobs.items() if name not in patches}
        return Candidate.of(knobs, (name for name in patches if row.knobs[name]))

    @cached_property
    def places(self) -> dict[str, int]:
        """Which row is which candidate, by its digest."""
        return {self.candidate_of(row).digest(): i for i, row in enumerate(self.rows)}


def pool_of(sidecar: Sidecar, task: TableTask, *, complete: bool = False) -> Pool:
    """Make the space of a task and its pool of rows."""
    rows = task.rows
    turned = {name: knob for name, knob in sidecar.knobs.items() if not knob.patch}
    carried = {name: knob for name, knob in sidecar.knobs.items() if knob.patch}
    values = {name: _ordered(row.knobs[name] for row in rows) for name in turned}
    knobs = tuple(
        Knob(
            name=name, reach=Environment(variable="IN_THE_TABLE"), values=values[name],
            default=values[name][len(values[name]) // 2], raises_memory=knob.raises_memory,
        )
        for name, knob in turned.items()
    )  # fmt: skip
    space = Space(
        knobs=knobs,
        patches=tuple(_patch(name, knob) for name, knob in carried.items()),
        capacity_bytes=task.capacity_bytes or UNKNOWN_CAPACITY, default_cost_s=1.0,
        context=task.context, derived=sidecar.derived,
        unit=_unit(sidecar.metric),
    )  # fmt: skip
    if complete and not carried:
        rows = (*rows, *_implied(space, rows))
    places = [{_key(value): i for i, value in enumerate(knob.values)} for knob in knobs]
    points = np.array(
        [
            [
                *(place[_key(row.knobs[k.name])] for k, place in zip(knobs, places, strict=True)),
                *(int(bool(row.knobs[name])) for name in carried),
            ]
            for row in rows
        ],
        dtype=np.int64,
    ).reshape(len(rows), len(sidecar.knobs))
    return Pool(space, rows, points)


def _unit(metric: MetricColumn) -> str:
    """Give what a row's seconds are the time of, as the formulas have it.

    By the unit, else by the column's name; of neither, throughput is of tokens and a time of an
    update.
    """
    if metric.unit == "tokens/s/GPU" and metric.direction == "max":
        return PER_TOKEN
    said = f"{metric.unit} {metric.column}"
    if re.search(r"\b(steps?|iter|iterations?|its?|updates?)(/|_per_|\b)", said, re.IGNORECASE):
        return ""
    return SOME_WORK if _OF_WORK.search(said) or metric.direction == "max" else ""


def _patch(name: str, knob: TableKnob) -> Patch:
    """Give a patch that stands for a column; what it edits is not known, nor needed."""
    return Patch(
        name=name, proposer="table", summary=name,
        edits=(Edit(path=name, search=name, replace=""),),
        log_time=knob.log_time or Effect(), log_memory=knob.log_memory or Effect(),
    )  # fmt: skip


def _key(value: Scalar) -> tuple[str, Scalar]:
    return type(value).__name__, value


def _ordered(values: Iterable[Scalar]) -> tuple[Scalar, ...]:
    """Give the distinct values of a knob in their order: numbers by size, nothing first."""
    held = list({_key(value): value for value in values}.values())
    return tuple(sorted(held, key=lambda value: (value is not None, isinstance(value, str), value)))


def _implied(space: Space, rows: Sequence[Row]) -> list[Row]:
    """Give the configurations outside the table that are hungrier than one that ran out.

    Hungrier in knobs that say which way memory goes, and the same in all others. Derived
    quantities of a real configuration are whole numbers.
    """
    known = {tuple(_key(row.knobs[k.name]) for k in space.knobs) for row in rows}
    ran_out = [row for row in rows if row.status == "oom"]
    total = float(np.prod([float(len(knob.values)) for knob in space.knobs]))
    found = []
    grid = itertools.product(*(knob.values for knob in space.knobs))
    for values in grid if total <= _MOST_COMPLETED else ():
        knobs = dict(zip((k.name for k in space.knobs), values, strict=True))
        if tuple(map(_key, values)) in known or not _is_whole(space, knobs):
            continue
        if any(_is_hungrier(space, knobs, row.knobs) for row in ran_out):
            found.append(Row(knobs=knobs, status="oom"))
    return found


def _is_whole(space: Space, knobs: dict[str, Scalar]) -> bool:
    seen: dict[str, object] = {**space.context, **knobs}
    for name, expression in space.derived.items():
        try:
            value = expression_value(expression, seen)
        except ValueError:
            return False
        if not isinstance(value, int | float) or value < 1 or value != int(value):
            return False
        seen[name] = value
    return True


def _is_hungrier(space: Space, one: dict[str, Scalar], other: dict[str, Scalar]) -> bool:
    for knob in space.knobs:
        mine, theirs = (knob.values.index(each[knob.name]) for each in (one, other))
        way = {"up": mine - theirs, "down": theirs - mine, None: -abs(mine - theirs)}
        if way[knob.raises_memory] < 0:
            return False
    return True


def _chosen(
    space: Space, observations: Sequence[Observation], num: int, how: dict[str, Any]
) -> list[Candidate]:
    if num > 1:
        return [each.candidate for each in suggest_batch(space, observations, num, **how)]
    made = suggest_next(space, observations, predict=False, **how)
    return [made.candidate] if made else []


def replay(
    pool: Pool, plan: BenchPlan, *, strategy: str, task: str, seed: int,
    beliefs: Beliefs | None = None, learnt: Beliefs | None = None,
) -> Replay:  # fmt: skip
    """Let a strategy search a pool, and give what it found trial by trial.

    The optimum is that of the whole pool, also for ``configonly``, which leaves patches off.
    """
    best = min(row.value for row in pool.rows if row.value is not None)
    started = time.perf_counter()
    noise = np.random.default_rng([seed, zlib.crc32(task.encode())])
    observations: list[Observation] = []
    steps: list[Step] = []
    tried: list[int] = []
    budget = min(plan.trials, max(1, int(plan.most_share * len(pool.rows))))
    how = {
        "strategy": strategy, "starts": 0, "seed": seed, "pool": pool.points, "beliefs": beliefs,
        "learnt": learnt, "formulas": plan.formulas,
    }  # fmt: skip
    while len(steps) < budget:
        chosen = _chosen(pool.space, observations, min(plan.batch, budget - len(steps)), how)
        if not chosen:
            break
        for candidate in chosen:
            tried.append(pool.places[candidate.digest()])
            row = pool.rows[tried[-1]]
            returned = row.value
            if returned is not None:
                returned *= float(np.exp(noise.normal(0.0, plan.noise_sd)))
            observations.append(
                Observation(
                    candidate=candidate, status=row.status, update_s=returned, cost_s=1.0,
                    update_sd=max(plan.noise_sd, _LEAST_NOISE_SD) if returned else None,
                    peak_bytes=row.peak_bytes,
                )
            )  # fmt: skip
            quality = best / row.value if row.value is not None else None
            steps.append(Step(status=row.status, quality=quality, returned=returned))
    return Replay(
        strategy=strategy, task=task, seed=seed, steps=tuple(steps), places=tuple(tried),
        wall_s=time.perf_counter() - started,
    )  # fmt: skip
