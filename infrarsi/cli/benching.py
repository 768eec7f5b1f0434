"""The commands on measured tables: bench, sweep."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from infrarsi.cli.options import AsJson, Where
from infrarsi.cli.saying import print_json, say, say_dirty
from infrarsi.errors import UsageError

_DEFAULT = ("infrarsi", "hillclimb", "bestofk", "random", "gp")


def bench(
    table: Annotated[
        Path, typer.Option("--table", help="A measured table: its CSV file or its sidecar.")
    ],
    strategy: Annotated[
        list[str] | None,
        typer.Option(
            help="infrarsi, configonly, hillclimb, bestofk, random, gp, tpe; may be repeated. "
            "The first is compared with the others."
        ),
    ] = None,
    trials: Annotated[int, typer.Option(min=1, help="Trials of each search.")] = 16,
    seeds: Annotated[int, typer.Option(min=1, help="Searches of each strategy and task.")] = 3,
    batch: Annotated[
        int, typer.Option(min=1, help="Trials chosen at once, as if they ran in parallel.")
    ] = 1,
    formula: Annotated[
        str, typer.Option(help="on or off: whether our strategy uses formulas.")
    ] = "on",
    noise: Annotated[
        float, typer.Option(min=0.0, help="Noise on what a trial returns: 0.05 is 5 %.")
    ] = 0.0,
    experience: Annotated[
        bool,
        typer.Option("--experience", help="Start from what the tasks of other sizes teach."),
    ] = False,
    misled: Annotated[
        str | None,
        typer.Option(help="The same, falsified: shuffled, inverted or time-inverted."),
    ] = None,
    constants: Annotated[
        float, typer.Option(min=0.01, help="Make the formulas' constants wrong by this factor.")
    ] = 1.0,
    complete: Annotated[
        bool,
        typer.Option("--complete", help="Add what surely runs out of memory to the pools."),
    ] = False,
    share: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="The largest share of a task to try.")
    ] = 1.0,
    least_rows: Annotated[int, typer.Option(min=2, help="Configurations of a task.")] = 10,
    least_ok: Annotated[int, typer.Option(min=1, help="Of them, those that ended well.")] = 3,
    models: Annotated[
        bool,
        typer.Option("--models", help="Score the models of time and memory instead of searches."),
    ] = False,
    output: Annotated[
        Path | None, typer.Option("-o", help="Folder to write to: bench-TABLE.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Replay search strategies on a measured table; the same command goes on where it was."""
    from infrarsi.records.bench import BenchPlan
    from infrarsi.render.bench import bench_markdown
    from infrarsi.stages import bench as stage

    if formula not in {"on", "off"}:
        raise UsageError(f"--formula cannot be {formula!r}", hint="say --formula on, or off")
    if misled not in {None, "shuffled", "inverted", "time-inverted"}:
        raise UsageError(
            f"--misled cannot be {misled!r}", hint="say shuffled, inverted or time-inverted"
        )
    folder = output or Path(f"bench-{table.stem}")
    if models:
        _score_models(table, folder, seeds=seeds, formulas=formula == "on", as_json=as_json)
        return
    plan: dict[str, Any] = {
        "trials": trials, "batch": batch, "most_share": share or 1.0, "formulas": formula == "on",
        "beliefs": misled or ("experience" if experience else "none"), "constants": constants,
        "noise_sd": noise, "complete": complete,
    }  # fmt: skip
    report, files = stage.bench(
        table, BenchPlan(**plan), strategies=tuple(dict.fromkeys(strategy or _DEFAULT)),
        seeds=seeds, output=folder, least_rows=least_rows,
        least_ok=least_ok, tell=say,
    )  # fmt: skip
    if as_json:
        print_json(report)
    else:
        print(bench_markdown(report), end="")
        say(f"written: {files.json}, {files.markdown.name}, {files.svg.name}")


def _score_models(table: Path, folder: Path, *, seeds: int, formulas: bool, as_json: bool) -> None:
    from infrarsi.render.bench_models import models_markdown
    from infrarsi.stages.tables.models import bench_models

    report, files = bench_models(table, seeds=seeds, output=folder, formulas=formulas, tell=say)
    if as_json:
        print_json(report)
    else:
        print(models_markdown(report), end="")
        say(f"written: {files[0]}, {files[1].name}")


def sweep(
    directory: Where = Path(),
    sample: Annotated[
        int | None, typer.Option(min=1, help="How many candidates; otherwise the whole grid.")
    ] = None,
    knob: Annotated[
        list[str] | None, typer.Option(help="A knob to turn; may be repeated. None: all.")
    ] = None,
    patch: Annotated[
        list[str] | None, typer.Option(help="A patch to carry; may be repeated. None: all.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Draws the sample and the order.")] = 0,
    max_trials: Annotated[
        int | None, typer.Option(min=1, help="Launches of this command at most.")
    ] = None,
    output: Annotated[Path | None, typer.Option("-o", help="The CSV file to write.")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure a grid of knobs and patches into a table; the same command goes on where it was."""
    from infrarsi.stages import sweep as stage
    from infrarsi.stages.workspace import open_workspace

    if output is not None and output.suffix.lower() != ".csv":
        raise UsageError(f"{output} is no CSV file", hint="give -o a name that ends in .csv")
    with open_workspace(directory, command="sweep") as workspace:
        say_dirty(workspace)
        swept = stage.sweep(
            workspace, sample=sample, seed=seed, output=output, knobs=tuple(knob or ()),
            patches=tuple(patch or ()), max_trials=max_trials, tell=say,
        )  # fmt: skip
    if as_json:
        print_json(swept)
    else:
        counts = ", ".join(f"{number} {name}" for name, number in swept.by_status.items())
        say(f"{swept.num_measured} of {swept.num_planned} measured: {counts or 'nothing'}")
        say(f"written: {swept.table}, {swept.sidecar.name}")
