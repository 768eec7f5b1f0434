"""The commands that measure: init, doctor, run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from infrarsi.cli.options import (
    AsJson,
    BankFolder,
    NoBank,
    Where,
    override,
    override_language,
    parse_bytes,
    parse_seconds,
)
from infrarsi.cli.saying import draw, print_json, say, say_dirty


def init(
    command: Annotated[
        list[str] | None,
        typer.Argument(help="The reference launch, after --: python train.py --steps 500"),
    ] = None,
    directory: Where = Path(),
    name: Annotated[str | None, typer.Option(help="Name of the contract.")] = None,
    memory: Annotated[
        str | None, typer.Option(help="Memory capacity of a trial: 1500MB, 1.5GiB.")
    ] = None,
    python: Annotated[
        str | None,
        typer.Option(help="What trains: an interpreter, a virtual environment or conda prefix."),
    ] = None,
    inputs: Annotated[
        list[str] | None, typer.Option("--input", help="A git-ignored input to lock and mount.")
    ] = None,
    editable: Annotated[
        list[str] | None, typer.Option(help="Glob of files that patches may edit.")
    ] = None,
    protected: Annotated[
        list[str] | None, typer.Option(help="Glob of files that no patch may edit.")
    ] = None,
    warmup_updates: Annotated[
        int | None, typer.Option(min=1, help="Updates before the timed ones: 10.")
    ] = None,
    measured_updates: Annotated[int | None, typer.Option(min=2, help="Timed updates: 20.")] = None,
    relock: Annotated[bool, typer.Option("--relock", help="Lock anew, as things are now.")] = False,
    as_json: AsJson = False,
) -> None:
    """Draft the contract of a training command, rehearse it, and lock it."""
    from infrarsi.render.console import contract_summary
    from infrarsi.stages.init import Draft, lock_task

    draft = Draft(
        command=tuple(command or ()),
        name=name,
        python=python,
        memory_bytes=parse_bytes(memory) if memory else None,
        inputs=tuple(inputs or ()),
        editable=tuple(editable or ()),
        protected=tuple(protected or ()),
        warmup_updates=warmup_updates,
        measured_updates=measured_updates,
        relock=relock,
    )
    locked = lock_task(directory, draft)
    if as_json:
        print_json({"contract": locked.contract, "lock": locked.lock})
    else:
        draw(contract_summary(locked.contract, locked.in_words()))


def doctor(
    directory: Where = Path(),
    fresh: Annotated[bool, typer.Option("--fresh", help="Measure anew.")] = False,
    controls: Annotated[
        bool,
        typer.Option("--controls", help="Train falsely on purpose: what do the checks see?"),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Measure the reference: phases, MFU, memory, and how noisy this machine is."""
    from infrarsi.render.console import baseline_table
    from infrarsi.stages.doctor import diagnose
    from infrarsi.stages.workspace import open_workspace

    with open_workspace(directory, command="doctor") as workspace:
        say_dirty(workspace)
        diagnosis = diagnose(workspace, fresh=fresh, controls=controls, tell=say)
    if as_json:
        print_json({"baseline": diagnosis.baseline, "machine": diagnosis.machine})
    else:
        if diagnosis.cached:
            say("measured before on this machine; measure anew with --fresh")
        draw(baseline_table(diagnosis.baseline))


def run(
    directory: Where = Path(),
    max_trials: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Candidates to screen, repeats included; taking the winner apart comes on top. "
            "Overrides the plan.",
        ),
    ] = None,
    max_wall: Annotated[
        str | None,
        typer.Option(
            help="Time that this search may be at work, all its runs together, pauses left out: "
            "10m, 2h. Overrides the plan.",
        ),
    ] = None,
    max_usd: Annotated[
        float | None,
        typer.Option(
            help="US dollars that this search may cost, machine (plan.prices) and language models "
            "together. Overrides the plan.",
        ),
    ] = None,
    estimate: Annotated[
        bool, typer.Option("--estimate", help="Only say what it is expected to take.")
    ] = False,
    strategy: Annotated[str | None, typer.Option(help="infrarsi, random, hillclimb, ...")] = None,
    seed: Annotated[int | None, typer.Option(help="Overrides the plan.")] = None,
    proposers: Annotated[
        list[str] | None,
        typer.Option("--proposer", help="patchbook, language, sweep; may be repeated."),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="A language model to ask for ideas as well.")
    ] = None,
    provider: Annotated[
        str | None, typer.Option(help="openai (or a server that speaks its API), or anthropic.")
    ] = None,
    base_url: Annotated[str | None, typer.Option(help="Address of the model's server.")] = None,
    allow_upload: Annotated[
        bool, typer.Option("--allow-upload", help="Let source files leave this machine.")
    ] = False,
    bank: BankFolder = None,
    no_bank: NoBank = False,
    as_json: AsJson = False,
) -> None:
    """Search launch settings and patches together; the same command resumes.

    No limit is exceeded by more than the trial in flight.

    Where a search has ended, only a larger limit goes on with it.
    """
    from rich.console import Console

    from infrarsi.render.live import SearchView
    from infrarsi.stages.experience.recall import banks_of
    from infrarsi.stages.run import run_search
    from infrarsi.stages.searching.expect import expect
    from infrarsi.stages.searching.forecast import forecast_lines
    from infrarsi.stages.searching.view import SearchWatcher
    from infrarsi.stages.status import outcome_in_words, search_in_short
    from infrarsi.stages.workspace import open_workspace, read_workspace

    banks = banks_of(bank, off=no_bank)
    limits = {"max_trials": max_trials, "max_usd": max_usd,
              "max_wall_s": parse_seconds(max_wall) if max_wall else None}  # fmt: skip
    if estimate:
        looked_at = read_workspace(directory)
        override(looked_at, limits, strategy=strategy, proposers=proposers or None)
        forecast = expect(looked_at)
        if as_json:
            print_json(forecast)
        else:
            print("\n".join(forecast_lines(forecast)))
        return
    with open_workspace(directory, command="run") as workspace:
        say_dirty(workspace)
        language = {"model": model, "provider": provider, "base_url": base_url}
        override_language(workspace, language, allow_upload=allow_upload)
        override(workspace, limits, strategy=strategy, seed=seed, proposers=proposers or None)
        seen = workspace.ledger.head
        with SearchView(Console(stderr=True, quiet=as_json)) as view:
            watcher = SearchWatcher(workspace, view)
            history = run_search(workspace, view=watcher, typed_url=base_url, banks=banks)
    if as_json:
        print_json(search_in_short(workspace.contract.plan, history))
    else:
        say(outcome_in_words(workspace, history, idle=workspace.ledger.head == seen))
