"""How well time is predicted for model sizes that were left out, over all tasks of a table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from infrarsi.records.base import Scalar
from infrarsi.records.beliefs import Beliefs
from infrarsi.records.bench_models import TimeScore
from infrarsi.records.history import Observation, Space
from infrarsi.records.table import Row, TableKnob
from infrarsi.search.calibration import score_predictions
from infrarsi.search.lattice import Lattice
from infrarsi.search.mixture import Bools, Floats
from infrarsi.search.physics import formulas_of
from infrarsi.search.quantities import canonical
from infrarsi.search.runtime import RuntimeModel
from infrarsi.stages.tables.replaying import Pool, pool_of
from infrarsi.store.table import Table, TableTask

_LEVEL = 0.9
_MOST_ROWS = 700
"""Rows learnt from: more make no difference and take long."""


def score_times(table: Table) -> list[TimeScore]:
    """Leave each model size out in turn; learn from the others, and predict it."""
    joined = joined_pool(table)
    if joined is None:
        return []
    pool, sizes = joined
    kept = np.flatnonzero([row.value is not None for row in pool.rows])
    scores = []
    for size in np.unique(sizes[kept]):
        test = kept[sizes[kept] == size]
        train = kept[sizes[kept] != size]
        if len(test) < 5 or len(train) < 20:
            continue
        rng = np.random.default_rng(0)
        train = rng.permutation(train)[:_MOST_ROWS]
        label = f"{size:g} billion parameters"
        for way, logs, inside in _predicted(pool, train, test):
            scores.append(_scored(pool, test, way=way, label=label, logs=logs, inside=inside))
    return [*scores, *_overall(scores)]


def joined_pool(table: Table) -> tuple[Pool, Floats] | None:
    """Make one pool of all tasks, in which what tells them apart are knobs like others."""
    named = [name for task in table.tasks for name in task.context if canonical(name) == "params_b"]
    size = named[0] if named else "params_b"
    tasks = [task for task in table.tasks if _is_number(task.context.get(size))]
    if len({task.context[size] for task in tasks}) < 2:
        return None
    columns = [
        name
        for name in dict.fromkeys(name for task in tasks for name in task.context)
        if all(_is_number(task.context.get(name)) for task in tasks)
    ]
    varying = [name for name in columns if len({task.context[name] for task in tasks}) > 1]
    same = {
        name: value
        for name, value in tasks[0].context.items()
        if name not in varying and all(task.context.get(name) == value for task in tasks)
    }
    rows = tuple(
        Row(
            knobs={**row.knobs, **{name: task.context[name] for name in varying}},
            status=row.status, value=row.value, peak_bytes=row.peak_bytes,
        )
        for task in tasks
        for row in task.rows
    )  # fmt: skip
    capacities = [task.capacity_bytes for task in tasks if task.capacity_bytes]
    capacity = min(capacities, default=None)
    whole = TableTask("all tasks", {}, same, rows, capacity)
    knobs = {**table.sidecar.knobs, **{name: TableKnob(scale="linear") for name in varying}}
    sidecar = table.sidecar.model_copy(update={"knobs": knobs})
    sizes = np.array([float(str(row.knobs.get(size, same.get(size)))) for row in rows])
    return pool_of(sidecar, whole), sizes


def _is_number(value: Scalar) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _predicted(
    pool: Pool, train: Sequence[int] | Floats, test: Sequence[int] | Floats
) -> list[tuple[str, Floats, Bools | None]]:
    """Predict log time in each way, and tell which measurements lie inside its interval."""
    found: list[tuple[str, Floats, Bools | None]] = []
    lattice = Lattice(pool.space, pool=pool.points)
    logs = np.log([pool.rows[i].value or 1.0 for i in test])
    seen = [(tuple(pool.points[i].tolist()), _observation(pool, pool.rows[i])) for i in train]
    formula = formulas_of(lattice, Beliefs())[0]
    for way, used in (("formula and process", formula), ("process", None)):
        if way != "process" and used is None:
            continue
        model = RuntimeModel(lattice, seen, formula=used)
        predicted = model.predict(pool.points[test]).widened(model.noise_sd)
        low, high = (predicted.quantile(each) for each in ((1 - _LEVEL) / 2, (1 + _LEVEL) / 2))
        found.append((way, predicted.mean(), (low <= logs) & (logs <= high)))
    found.append(("forest", _by_forest(pool.space, pool, train, test), None))
    return found


def _by_forest(
    space: Space, pool: Pool, train: Sequence[int] | Floats, test: Sequence[int] | Floats
) -> Floats:
    from sklearn.ensemble import RandomForestRegressor

    columns = []
    for i, knob in enumerate(space.knobs):
        numeric = all(_is_number(value) for value in knob.values)
        held = [float(str(v)) for v in knob.values] if numeric else range(len(knob.values))
        columns.append(np.array(list(held), dtype=np.float64)[pool.points[:, i]])
    table = np.column_stack([*columns, pool.points[:, len(space.knobs) :]])
    forest = RandomForestRegressor(n_estimators=200, min_samples_leaf=1, random_state=0)
    forest.fit(table[train], np.log([pool.rows[i].value or 1.0 for i in train]))
    return np.asarray(forest.predict(table[test]), dtype=np.float64)


def _observation(pool: Pool, row: Row) -> Observation:
    return Observation(
        candidate=pool.candidate_of(row), status="ok", update_s=row.value, cost_s=1.0
    )


def _scored(
    pool: Pool, test: Sequence[int] | Floats, *, way: str, label: str, logs: Floats,
    inside: Bools | None,
) -> TimeScore:  # fmt: skip
    measured = [pool.rows[i].value or 1.0 for i in test]
    errors = np.abs(logs - np.log(measured))
    ranked = score_predictions([float(each) for each in np.exp(logs)], measured)
    return TimeScore(
        way=way, left_out=label, num_rows=len(measured), median_log_error=float(np.median(errors)),
        rank_correlation=ranked.rank_correlation,
        coverage=float(inside.mean()) if inside is not None else None,
    )  # fmt: skip


def _overall(scores: Sequence[TimeScore]) -> list[TimeScore]:
    """Give the mean over sizes of each way."""
    found = []
    for way in dict.fromkeys(each.way for each in scores):
        own = [each for each in scores if each.way == way]
        ranks = [each.rank_correlation for each in own if each.rank_correlation is not None]
        inside = [each.coverage for each in own if each.coverage is not None]
        found.append(
            TimeScore(
                way=way, left_out="all", num_rows=sum(each.num_rows for each in own),
                median_log_error=float(np.mean([each.median_log_error for each in own])),
                rank_correlation=float(np.mean(ranks)) if ranks else None,
                coverage=float(np.mean(inside)) if inside else None,
            )
        )  # fmt: skip
    return found
