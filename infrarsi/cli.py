"""The front door: parse, call one stage, show what it gives, map errors to exit codes."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from infrarsi.errors import InfraRSIError, UsageError

if TYPE_CHECKING:
    from infrarsi.stages.workspace import Workspace

app = typer.Typer(
    name="infrarsi",
    help="Train the same model on the same data faster, and prove it.\n\n"
    "init -> doctor -> run -> report -> apply",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Where = Annotated[
    Path, typer.Option("-C", "--directory", help="The repository, or a folder in it.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]


@app.command(context_settings={"allow_interspersed_args": False})
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
        _print_json({"contract": locked.contract, "lock": locked.lock})
    else:
        _print(contract_summary(locked.contract, locked.in_words()))


@app.command()
def doctor(
    directory: Where = Path(),
    fresh: Annotated[bool, typer.Option("--fresh", help="Measure anew.")] = False,
    as_json: AsJson = False,
) -> None:
    """Measure the reference: phases, MFU, memory, and how noisy this machine is."""
    from infrarsi.render.console import baseline_table
    from infrarsi.stages.doctor import diagnose
    from infrarsi.stages.workspace import open_workspace

    with open_workspace(directory, command="doctor") as workspace:
        _say_dirty(workspace)
        diagnosis = diagnose(workspace, fresh=fresh, tell=_say)
    if as_json:
        _print_json({"baseline": diagnosis.baseline, "machine": diagnosis.machine})
    else:
        if diagnosis.cached:
            _say("measured before on this machine; measure anew with --fresh")
        _print(baseline_table(diagnosis.baseline))


@app.command()
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
    as_json: AsJson = False,
) -> None:
    """Search launch settings and patches together; the same command resumes.

    No limit is exceeded by more than the trial in flight.

    Where a search has ended, only a larger limit goes on with it.
    """
    from rich.console import Console

    from infrarsi.render.live import SearchView
    from infrarsi.stages.expect import expect
    from infrarsi.stages.forecast import forecast_lines
    from infrarsi.stages.run import run_search
    from infrarsi.stages.status import outcome_in_words, search_in_short
    from infrarsi.stages.view import SearchWatcher
    from infrarsi.stages.workspace import open_workspace, read_workspace

    limits = {"max_trials": max_trials, "max_usd": max_usd,
              "max_wall_s": parse_seconds(max_wall) if max_wall else None}  # fmt: skip
    if estimate:
        looked_at = read_workspace(directory)
        _override(looked_at, limits, strategy=strategy, proposers=proposers or None)
        forecast = expect(looked_at)
        if as_json:
            _print_json(forecast)
        else:
            print("\n".join(forecast_lines(forecast)))
        return
    with open_workspace(directory, command="run") as workspace:
        _say_dirty(workspace)
        language = {"model": model, "provider": provider, "base_url": base_url}
        _override_language(workspace, language, allow_upload=allow_upload)
        _override(workspace, limits, strategy=strategy, seed=seed, proposers=proposers or None)
        seen = workspace.ledger.head
        with SearchView(Console(stderr=True, quiet=as_json)) as view:
            watcher = SearchWatcher(workspace, view)
            history = run_search(workspace, view=watcher, typed_url=base_url)
    if as_json:
        _print_json(search_in_short(workspace.contract.plan, history))
    else:
        _say(outcome_in_words(workspace, history, idle=workspace.ledger.head == seen))


@app.command()
def status(directory: Where = Path(), as_json: AsJson = False) -> None:
    """Say where a search stands, while it runs or after."""
    from infrarsi.stages.status import read_status, status_in_words
    from infrarsi.stages.workspace import read_workspace

    found = read_status(read_workspace(directory))
    if as_json:
        _print_json(found)
    else:
        print("\n".join(status_in_words(found)))


@app.command()
def report(
    directory: Where = Path(),
    output: Annotated[Path | None, typer.Option("-o", help="Folder to write to.")] = None,
    as_json: AsJson = False,
) -> None:
    """Write report.html, report.md and report.json."""
    from infrarsi.render.console import verdict_panel
    from infrarsi.stages.report import write_report
    from infrarsi.stages.workspace import read_workspace

    written, files = write_report(read_workspace(directory), output)
    if as_json:
        _print_json(written)
    else:
        _print(verdict_panel(written))
        print(f"written: {files.html}, {files.markdown.name}, {files.json.name}")


@app.command()
def apply(
    directory: Where = Path(),
    revert: Annotated[bool, typer.Option("--revert", help="Take the branch away again.")] = False,
    blocks: Annotated[
        int | None, typer.Option(min=2, help="Blocks of four launches; overrides the plan.")
    ] = None,
    max_wall: Annotated[
        str | None, typer.Option(help="Time that this confirmation may take: 30m, 2h.")
    ] = None,
    max_usd: Annotated[
        float | None, typer.Option(help="US dollars that this confirmation may cost.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Confirm the winner back to back with the reference, and put it on a branch."""
    from infrarsi.render.console import verdict_lines
    from infrarsi.stages import apply as stage
    from infrarsi.stages.limits import Limits
    from infrarsi.stages.workspace import open_workspace

    with open_workspace(directory, command="apply") as workspace:
        if revert:
            _say(f"the branch {stage.revert(workspace).branch} is gone")
            return
        _say_dirty(workspace)
        if blocks is not None:
            _override(workspace, confirmation_blocks=blocks)
        limits = Limits(parse_seconds(max_wall) if max_wall else None, max_usd)
        verdict, promotion = stage.confirm_and_promote(workspace, limits=limits, tell=_say)
    if as_json:
        _print_json({"verdict": verdict, "promotion": promotion})
    else:
        print("\n".join(verdict_lines(verdict)))
        print(f"promoted to the branch {promotion.branch} (commit {promotion.commit[:12]})")


def main() -> None:
    """Run the command line, and end with a documented exit code."""
    try:
        app()
    except InfraRSIError as error:
        print(f"infrarsi: {error}\n  -> {error.hint}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("infrarsi: stopped; the same command goes on where it was", file=sys.stderr)
        sys.exit(130)


def parse_bytes(text: str) -> int:
    """Read a size: ``1500MB`` is decimal, ``1.5GiB`` binary, and a bare number is bytes.

    Raises
    ------
    UsageError
        It is no size.
    """
    found = re.fullmatch(r"\s*([\d.]+)\s*([KMGT]?)(i?)B?\s*", text, re.IGNORECASE)
    try:
        number = float(found.group(1)) if found else 0.0
    except ValueError:
        number = 0.0
    if found is None or number <= 0:
        raise UsageError(f"{text!r} is not a size", hint="write it as 1500MB or 1.5GiB")
    power = " KMGT".index(found.group(2).upper() or " ")
    return int(number * (1024 if found.group(3) else 1000) ** power)


def parse_seconds(text: str) -> float:
    """Read a duration: ``90``, ``90s``, ``10m``, ``2h``.

    Raises
    ------
    UsageError
        It is no duration.
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smh]?)\s*", text)
    if found is None or float(found.group(1)) <= 0:
        raise UsageError(f"{text!r} is not a duration", hint="write it as 90s, 10m or 2h")
    return float(found.group(1)) * {"": 1, "s": 1, "m": 60, "h": 3600}[found.group(2)]


_FLAGS = {"max_wall_s": "--max-wall", "confirmation_blocks": "--blocks", "proposers": "--proposer"}
"""Flags that are called otherwise than what they set in the plan."""


def _override(
    workspace: Workspace, limits: dict[str, Any] | None = None, **changed: object
) -> None:
    """Change the plan, and the limits of its budget, for this command; what is ``None`` stays."""
    from pydantic import ValidationError

    plan = workspace.contract.plan
    kept = {key: value for key, value in changed.items() if value is not None}
    tighter = {key: value for key, value in (limits or {}).items() if value is not None}
    if tighter:
        kept["budget"] = {**plan.budget.model_dump(), **tighter}
    try:
        plan = plan.model_validate({**plan.model_dump(), **kept})
    except ValidationError as error:
        first = error.errors()[0]
        place = str(first["loc"][1 if first["loc"][0] in {"budget", "language"} else 0])
        flag = _FLAGS.get(place, f"--{place.replace('_', '-')}")
        message = f"{flag} cannot be {first['input']}: {first['msg'].lower()}"
        raise UsageError(message, hint=f"correct {flag}") from error
    workspace.contract = workspace.contract.model_copy(update={"plan": plan})


def _override_language(
    workspace: Workspace, changed: dict[str, str | None], *, allow_upload: bool
) -> None:
    """Change how a language model is asked; to name one is to want it asked."""
    plan = workspace.contract.plan
    kept: dict[str, Any] = {key: value for key, value in changed.items() if value is not None}
    proposers = tuple(dict.fromkeys([*plan.proposers, *(["language"] if kept else [])]))
    if allow_upload:
        kept["allow_upload"] = True
    language = {**plan.language.model_dump(), **kept}
    _override(workspace, language=language, proposers=proposers)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _say_dirty(workspace: Any) -> None:
    for note in workspace.notes:
        _say(f"note: {note}")
    dirty = workspace.repository.dirty()
    if dirty:
        more = f" and {len(dirty) - 1} more" if len(dirty) > 1 else ""
        commit = workspace.lock.commit[:12]
        _say(f"note: trials run the commit {commit}, without the changes to {dirty[0]}{more}")


def _print(renderable: Any) -> None:
    from rich.console import Console

    Console().print(renderable)


def _print_json(value: Any) -> None:
    print(json.dumps(value, default=_plain, indent=2, ensure_ascii=False))


def _plain(value: Any) -> Any:
    """Give JSON's own types for records, dataclasses and paths."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    return str(value)
