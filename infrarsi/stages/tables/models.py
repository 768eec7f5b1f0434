"""bench --models: how well memory is predicted from few trials, out-of-memories among them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from infrarsi.errors import TableError
from infrarsi.records.beliefs import Beliefs
from infrarsi.records.bench import BenchPlan
from infrarsi.records.bench_models import MemoryScore, ModelReport
from infrarsi.records.history import Observation
from infrarsi.records.table import Row
from infrarsi.render.bench_models import models_markdown
from infrarsi.search.lattice import Lattice, Point
from infrarsi.search.memory import MemoryModel
from infrarsi.search.mixture import Floats
from infrarsi.search.physics import MemoryFormula, formulas_of
from infrarsi.stages.tables.agreement import agreement_with_lifelines
from infrarsi.stages.tables.replaying import Pool, pool_of, replay
from infrarsi.stages.tables.time_models import joined_pool, score_times
from infrarsi.store.table import Table, read_table

OBSERVED = (8, 16, 32, 64)
WAYS = ("tobit", "dropped", "capacity")
_LEVEL = 0.9
_LEAST_CHANCE = 1e-3


@dataclass
class _Tally:
    """What was told of the rows that were not observed."""

    wrong: list[bool]
    chance: list[float]
    inside: list[bool]
    error: list[float]
    tasks: set[str]


def bench_models(
    place: Path, *, seeds: int, output: Path, formulas: bool = True,
    observed: Sequence[int] = OBSERVED, tell: Callable[[str], None],
) -> tuple[ModelReport, tuple[Path, Path]]:  # fmt: skip
    """Score the models on a table, and write what came of it.

    Raises
    ------
    TableError
        The table cannot be used, or holds neither memory nor several model sizes.
    """
    table = read_table(place)
    memory: list[MemoryScore] = []
    notes = []
    if table.sidecar.memory is not None and table.sidecar.status.oom:
        memory = _score_memory(table, observed, seeds=seeds, formulas=formulas, tell=tell)
    else:
        notes.append("memory was not scored: the table holds none, or no out-of-memory")
    tell("scoring the run-time models on model sizes left out")
    time = score_times(table)
    if not time:
        notes.append("time was not scored: the context does not tell model sizes apart")
    if not memory and not time:
        raise TableError(f"{table.name} holds nothing to score models on", hint="; ".join(notes))
    agreement = None
    if memory:
        tell("comparing with lifelines")
        agreement = agreement_with_lifelines(table)
        if agreement is None:
            notes.append("not compared with lifelines, which is not installed")
    report = ModelReport(
        table=table.name, table_digest=table.digest, memory=tuple(memory), time=tuple(time),
        agreement=agreement, notes=tuple(notes),
    )  # fmt: skip
    output.mkdir(parents=True, exist_ok=True)
    files = output / "models.json", output / "models.md"
    files[0].write_text(json.dumps(report.model_dump(mode="json"), indent=1) + "\n", "utf-8")
    files[1].write_text(models_markdown(report), encoding="utf-8")
    return report, files


def _score_memory(
    table: Table, sizes: Sequence[int], *, seeds: int, formulas: bool, tell: Callable[[str], None]
) -> list[MemoryScore]:
    scores = []
    pools = [(task.name, pool_of(table.sidecar, task)) for task in table.tasks]
    if all(len(pool.rows) < 2 * min(sizes) for _, pool in pools):
        joined = joined_pool(table)
        pools = [("all tasks, pooled", joined[0])] if joined else []
    chosen_by_search: dict[str, list[int]] = {}
    for chosen in ("random", "search"):
        for observed in sizes:
            tallies = {way: _Tally([], [], [], [], set()) for way in WAYS}
            large = [each for each in pools if len(each[1].rows) >= 2 * observed]
            for name, pool in large:
                if chosen == "search" and name not in chosen_by_search:
                    chosen_by_search[name] = _searched(pool, name, max(sizes))
                for seed in range(seeds if chosen == "random" else 1):
                    rng = np.random.default_rng([seed, observed])
                    drawn = [int(i) for i in rng.permutation(len(pool.rows))]
                    rows = (drawn if chosen == "random" else chosen_by_search[name])[:observed]
                    for way, tally in tallies.items():
                        _score(pool, name, rows, way=way, tally=tally, formulas=formulas)
            scores += [
                _summed(tally, way, observed, chosen)
                for way, tally in tallies.items()
                if tally.wrong
            ]
            tell(f"memory, {observed} {chosen} rows observed, {len(large)} tasks")
    return scores


def _searched(pool: Pool, name: str, num: int) -> list[int]:
    """Give the rows that a search of ours tries, in its order."""
    if not any(row.value is not None for row in pool.rows):
        return []
    num = min(num, len(pool.rows) // 2)
    return list(replay(pool, BenchPlan(trials=num), strategy="infrarsi", task=name, seed=0).places)


def _score(
    pool: Pool, name: str, observed: Sequence[int], *, way: str, tally: _Tally, formulas: bool
) -> None:
    """Fit one way to the observed rows, and tell of the others."""
    lattice = Lattice(pool.space, pool=pool.points)
    formula = formulas_of(lattice, Beliefs())[1] if formulas else None
    model = _model(lattice, pool, observed, way=way, formula=formula)
    seen = set(observed)
    others = [i for i, row in enumerate(pool.rows) if i not in seen and row.status != "failed"]
    if not observed or not others:
        return
    chance = np.clip(model.p_fits(pool.points[others]), _LEAST_CHANCE, 1 - _LEAST_CHANCE)
    fits = np.array([pool.rows[i].status == "ok" for i in others])
    tally.wrong += ((chance > 0.5) != fits).tolist()
    tally.chance += np.log(np.where(fits, chance, 1 - chance)).tolist()
    tally.tasks.add(name)
    measured = [i for i in others if pool.rows[i].peak_bytes]
    if measured:
        predicted = model.predict(pool.points[measured])
        logs = np.log([float(pool.rows[i].peak_bytes or 1) for i in measured])
        low, high = (predicted.quantile(each) for each in ((1 - _LEVEL) / 2, (1 + _LEVEL) / 2))
        tally.inside += ((low <= logs) & (logs <= high)).tolist()
        tally.error += np.abs(predicted.quantile(0.5) - logs).tolist()


def _model(
    lattice: Lattice, pool: Pool, observed: Sequence[int], *, way: str,
    formula: MemoryFormula | None,
) -> MemoryModel:  # fmt: skip
    seen: list[tuple[Point, Observation]] = []
    for i in observed:
        made = _observation(pool, pool.rows[i], way=way)
        if made is not None:
            seen.append((tuple(pool.points[i].tolist()), made))
    return MemoryModel(lattice, seen, formula=formula)


def _observation(pool: Pool, row: Row, *, way: str) -> Observation | None:
    """Give a row as a way to learn memory takes it."""
    candidate = pool.candidate_of(row)
    if row.status == "oom" and way == "dropped":
        return None
    if row.status == "oom" and way == "capacity":
        return Observation(
            candidate=candidate,
            status="ok",
            update_s=1.0,
            peak_bytes=pool.space.capacity_bytes,
            cost_s=1.0,
        )
    return Observation(
        candidate=candidate, status=row.status, update_s=row.value, peak_bytes=row.peak_bytes,
        cost_s=1.0,
    )  # fmt: skip


def _summed(tally: _Tally, way: str, observed: int, chosen: str) -> MemoryScore:
    def mean(values: Sequence[float] | Floats) -> float:
        return float(np.mean(values))

    return MemoryScore(
        way=way, observed=observed, chosen=chosen, num_tasks=len(tally.tasks),
        num_rows=len(tally.wrong), fit_error=mean(tally.wrong), log_likelihood=mean(tally.chance),
        coverage=mean(tally.inside) if tally.inside else None,
        peak_log_error=float(np.median(tally.error)) if tally.error else None,
    )  # fmt: skip
