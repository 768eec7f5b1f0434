"""Search strategies on measured tables, all in one go; writes docs/search.md. Resumable.

    python tests/benches/search.py FOLDER [--seeds N] [--state FOLDER]

FOLDER holds tables: CSV files, each with its sidecar. What is replayed depends on what a table has:
formulas and their variants where the context gives the model's shape, half of each small task where
there is none, and scores of the models wherever there is memory or there are several model sizes.
"""

from __future__ import annotations

import argparse
import statistics
from dataclasses import dataclass
from pathlib import Path

from infrarsi.records.bench import BenchPlan, BenchReport
from infrarsi.render.bench import plan_in_words, standings_table
from infrarsi.render.bench_models import models_markdown
from infrarsi.stages.bench import bench
from infrarsi.stages.tables.models import bench_models
from infrarsi.stages.tables.replaying import pool_of
from infrarsi.store.table import Table, read_table

ROOT = Path(__file__).parents[2]
RIVALS = ("random", "hillclimb", "bestofk", "gp", "tpe")
LARGE = (50, 10)
"""Configurations, and those that ended well, of a task that counts as large."""
SMALL = (8, 3)


@dataclass(frozen=True)
class Variant:
    """One way to replay a table."""

    title: str
    plan: BenchPlan
    strategies: tuple[str, ...]


COLD = Variant("Cold, formulas on", BenchPlan(), ("infrarsi", *RIVALS))
VARIANTS = (
    COLD,
    Variant("Constants wrong by two", BenchPlan(constants=2.0), ("infrarsi",)),
    Variant("Formulas off", BenchPlan(formulas=False), ("infrarsi", *RIVALS)),
    Variant("With experience of other model sizes", BenchPlan(beliefs="experience"), ("infrarsi",)),
    Variant("Misled: shuffled", BenchPlan(beliefs="shuffled"), ("infrarsi",)),
    Variant("Misled: inverted", BenchPlan(beliefs="inverted"), ("infrarsi",)),
    Variant("Misled in time alone: inverted", BenchPlan(beliefs="time-inverted"), ("infrarsi",)),
    Variant("Pools completed", BenchPlan(complete=True), ("infrarsi", *RIVALS)),
    Variant("5 % noise", BenchPlan(noise_sd=0.05), ("infrarsi", *RIVALS)),
    Variant("10 % noise", BenchPlan(noise_sd=0.1), ("infrarsi", *RIVALS)),
)
POOLED = (Variant("Half of each task", BenchPlan(trials=8, most_share=0.5), ("infrarsi", *RIVALS)),)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", type=Path)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--state", type=Path, default=ROOT / ".demo" / "search")
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "search.md")
    args = parser.parse_args()
    places = sorted(p for p in args.tables.glob("*.csv") if p.with_suffix(".yaml").exists())
    if not places:
        raise SystemExit(f"no table with a sidecar in {args.tables}")
    parts = [HEAD]
    for place in places:
        parts += report_of(place, args.state / place.stem, seeds=args.seeds)
        args.output.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
        print(f"written up to {place.stem}: {args.output}", flush=True)


HEAD = """# Searching, measured on tables

Written by `make bench-search TABLES=FOLDER` from tables that others measured; none of their rows is kept here. How
strategies are compared, and what each does, stands in [tables.md](tables.md). Each cell: the best found as a share of
the task's optimum, the geometric mean over tasks with its 95 % interval over resampled tasks."""


def report_of(place: Path, state: Path, *, seeds: int) -> list[str]:
    """Replay one table in every way that it allows."""
    table = read_table(place)
    rows = [len(task.rows) for task in table.tasks]
    parts = [
        f"## {table.name}",
        f"{sum(rows):,} configurations in {len(rows)} tasks, {statistics.median(rows):g} in the "
        f"median task.",
    ]
    variants, least = variants_of(table)
    for variant in variants:
        print(f"{table.name}: {variant.title}", flush=True)
        report, _ = bench(
            place, variant.plan, strategies=variant.strategies, seeds=seeds,
            output=state, least_rows=least[0], least_ok=least[1], tell=say,
        )  # fmt: skip
        parts += section(variant, report)
    if table.sidecar.memory is not None or len(rows) > 1:
        report, _ = bench_models(place, seeds=seeds, output=state / "models", tell=say)
        parts.append(models_markdown(report).replace("# Models on", "### Models on").strip())
    return parts


def variants_of(table: Table) -> tuple[tuple[Variant, ...], tuple[int, int]]:
    """Give how a table is replayed, and which of its tasks are."""
    large = [t for t in table.tasks if len(t.rows) >= LARGE[0] and t.num_ok >= LARGE[1]]
    if table.sidecar.memory is None:
        return (), SMALL
    if len(large) < 3:
        return POOLED, SMALL
    has_context = any(pool_of(table.sidecar, task).space.context for task in large)
    return (VARIANTS if has_context else (COLD,)), LARGE


def section(variant: Variant, report: BenchReport) -> list[str]:
    """Give a variant's part of the document."""
    budget = report.budgets[-1]
    worst = [
        f"{each.strategy} {each.worst[b][1]:.3f} at {b}"
        for each in report.standings[:1]
        for b in report.budgets
        if b in {6, 12, budget}
    ]
    parts = [
        f"### {variant.title}",
        f"{len(report.tasks)} tasks, {report.seeds} searches each. {plan_in_words(report.plan)}",
        standings_table(report),
        f"Worst task: {'; '.join(worst)}.",
    ]
    ahead = [
        f"{each.strategy} {each.ahead[b].point:.2f}x ({each.ahead[b].low:.2f}-{each.ahead[b].high:.2f}) at {b}"
        for each in report.standings
        for b in report.budgets
        if each.ahead and b in {12, budget} and b <= 12
    ]
    if ahead:
        parts.append(f"Ours over theirs: {'; '.join(ahead)}.")
    return parts


def say(text: str) -> None:
    print(f"  {text}", flush=True)


if __name__ == "__main__":
    main()
