"""bench: search strategies replayed on a measured table, at equal numbers of trials."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from infrarsi.errors import TableError, UsageError
from infrarsi.records.base import canonical_json
from infrarsi.records.bench import BenchPlan, BenchReport, BenchTask, Replay
from infrarsi.render.bench import bench_markdown
from infrarsi.render.bench_plot import bench_svg
from infrarsi.search import STRATEGIES
from infrarsi.search.strategies import OURS
from infrarsi.stages.tables.other_tasks import OtherTasks, shifted_constants
from infrarsi.stages.tables.replaying import Pool, pool_of, replay
from infrarsi.stages.tables.standings import budgets_of, standings_of
from infrarsi.store.table import Table, TableTask, read_table

_JOURNAL = "replays.jsonl"
_METHOD = 3
"""Raised when replays made before are no longer what would be made now."""
_TELL_EVERY_S = 10.0
_FOR_RIVALS = {"formulas": True, "beliefs": "none", "constants": 1.0}
"""What makes no difference to them."""


@dataclass(frozen=True)
class BenchFiles:
    """Where a bench was written."""

    json: Path
    markdown: Path
    svg: Path


def bench(
    place: Path, plan: BenchPlan, *, strategies: Sequence[str], seeds: int, output: Path,
    least_rows: int = 10, least_ok: int = 3, tell: Callable[[str], None],
) -> tuple[BenchReport, BenchFiles]:  # fmt: skip
    """Replay strategies on every task of a table, and write what came of it.

    Every replay is kept as it ends: the same command goes on where it was stopped.

    Raises
    ------
    TableError
        The table cannot be used, or no task is large enough.
    UsageError
        A strategy is unknown, or needs a package that is not installed.
    """
    for strategy in strategies:
        if strategy not in STRATEGIES:
            raise UsageError(
                f"there is no strategy {strategy!r}", hint=f"known are {', '.join(STRATEGIES)}"
            )
    table = read_table(place)
    large = [t for t in table.tasks if len(t.rows) >= least_rows and t.num_ok >= least_ok]
    if not large:
        raise TableError(
            f"no task of {table.name} has {least_rows} configurations, {least_ok} of them measured",
            hint="lower --least-rows and --least-ok, or pool tasks by naming fewer task columns",
        )
    pools = {t.name: pool_of(table.sidecar, t, complete=plan.complete) for t in large}
    for note in table.notes:
        tell(f"note: {note.rows} rows {note.what}")
    output.mkdir(parents=True, exist_ok=True)
    maker = _Maker(table, plan, pools, _Journal(output / _JOURNAL), tell)
    replays = [
        each
        for number, strategy in enumerate(strategies, start=1)
        for each in maker.replays(strategy, large, seeds, what=f"{number} of {len(strategies)}")
    ]
    report = BenchReport(
        table=table.name, table_digest=table.digest, plan=plan, strategies=tuple(strategies),
        seeds=seeds, tasks=tuple(_described(task.name, pools[task.name]) for task in large),
        left_out=len(table.tasks) - len(large), notes=table.notes, budgets=budgets_of(plan),
        standings=standings_of(replays, strategies, budgets_of(plan)), replays=tuple(replays),
    )  # fmt: skip
    return report, _write(report, output)


class _Maker:
    """Makes replays that were not made before, and says now and then how far it is."""

    def __init__(
        self, table: Table, plan: BenchPlan, pools: dict[str, Pool], journal: _Journal,
        tell: Callable[[str], None],
    ) -> None:  # fmt: skip
        self._table, self._plan, self._pools, self._journal = table, plan, pools, journal
        self._tell = tell
        uses = plan.beliefs != "none" and plan.formulas
        self._others = OtherTasks(table) if uses else None
        # Nothing is drawn then: every seed gives the same search.
        self._is_drawn = (
            plan.noise_sd > 0 or plan.constants != 1 or (uses and plan.beliefs == "shuffled")
        )

    def replays(
        self, strategy: str, tasks: Sequence[TableTask], seeds: int, *, what: str
    ) -> list[Replay]:
        """Give a strategy's searches of every task."""
        found: list[Replay] = []
        told = time.monotonic()
        for number, task in enumerate(tasks, start=1):
            for seed in range(seeds):
                is_same = seed > 0 and strategy in OURS and not self._is_drawn
                if is_same:
                    found.append(found[-1].model_copy(update={"seed": seed}))
                else:
                    found.append(self._replay(strategy, task, seed=seed))
            if time.monotonic() - told > _TELL_EVERY_S:
                self._tell(f"{what}: {strategy}, {number} of {len(tasks)} tasks")
                told = time.monotonic()
        trials = sum(len(each.steps) for each in found)
        self._tell(f"{what}: {strategy}, {len(found)} searches, {trials} trials")
        return found

    def _replay(self, strategy: str, task: TableTask, *, seed: int) -> Replay:
        plan = self._plan if strategy in OURS else self._plan.model_copy(update=_FOR_RIVALS)
        said = {
            "method": _METHOD, "table": self._table.digest, "strategy": strategy,
            "plan": plan.model_dump(mode="json"), "task": task.name, "seed": seed,
        }  # fmt: skip
        key = hashlib.sha256(canonical_json(said)).hexdigest()
        held = self._journal.held.get(key)
        if held is not None:
            return held
        learnt = (
            self._others.for_task(task, misled=plan.beliefs, seed=seed)
            if self._others and strategy in OURS
            else None
        )
        done = replay(
            self._pools[task.name], plan, strategy=strategy, task=task.name, seed=seed,
            beliefs=shifted_constants(plan.constants, seed=seed), learnt=learnt,
        )  # fmt: skip
        self._journal.add(key, done)
        return done


class _Journal:
    """Replays that were made before, one a line; a torn last line is made again."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self.held = dict(self._read())

    def _read(self) -> Iterator[tuple[str, Replay]]:
        if not self._place.exists():
            return
        text = self._place.read_text(encoding="utf-8")
        for line in text.splitlines():
            try:
                entry = json.loads(line)
                yield entry["key"], Replay.model_validate(entry["replay"])
            except (ValueError, KeyError, TypeError):
                continue
        if text and not text.endswith("\n"):
            with self._place.open("a", encoding="utf-8") as file:
                file.write("\n")

    def add(self, key: str, done: Replay) -> None:
        """Keep a replay."""
        with self._place.open("a", encoding="utf-8") as file:
            entry = {"key": key, "replay": done.model_dump(mode="json")}
            file.write(json.dumps(entry, separators=(",", ":")) + "\n")
        self.held[key] = done


def _described(name: str, pool: Pool) -> BenchTask:
    from infrarsi.search.lattice import Lattice
    from infrarsi.search.quantities import Configurations

    known = bool(pool.space.context) and Configurations(Lattice(pool.space, pool=pool.points))
    return BenchTask(
        name=name, num_rows=len(pool.rows), num_ok=sum(row.status == "ok" for row in pool.rows),
        formulas=bool(known and known.is_complete),
    )  # fmt: skip


def _write(report: BenchReport, output: Path) -> BenchFiles:
    files = BenchFiles(output / "bench.json", output / "bench.md", output / "bench.svg")
    written = json.dumps(report.model_dump(mode="json"), indent=1, ensure_ascii=False)
    files.json.write_text(written + "\n", encoding="utf-8")
    files.markdown.write_text(bench_markdown(report), encoding="utf-8")
    files.svg.write_text(bench_svg(report), encoding="utf-8")
    return files
