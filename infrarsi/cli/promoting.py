"""The commands that promote: apply, gate."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from infrarsi.cli.options import AsJson, BankFolder, NoBank, Where, override, parse_seconds
from infrarsi.cli.saying import print_json, say, say_dirty
from infrarsi.errors import UsageError


def apply(
    directory: Where = Path(),
    revert: Annotated[bool, typer.Option("--revert", help="Take the branch away again.")] = False,
    blocks: Annotated[
        int | None, typer.Option(min=2, help="Blocks of four launches; overrides the plan.")
    ] = None,
    sessions: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Confirm in so many sessions, each of so many blocks, hours apart: the speedup "
            "must recur. Each call holds one. Overrides the plan.",
        ),
    ] = None,
    horizon: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Train both arms so many updates with several seeds, and promote only what is "
            "shown to learn as well. What is promoted already is only tested.",
        ),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(min=3, help="Seeds of each arm for --horizon; overrides the plan.")
    ] = None,
    max_wall: Annotated[
        str | None, typer.Option(help="Time that this confirmation may take: 30m, 2h.")
    ] = None,
    max_usd: Annotated[
        float | None, typer.Option(help="US dollars that this confirmation may cost.")
    ] = None,
    sign: Annotated[
        str | None,
        typer.Option(
            metavar="KEY",
            help="Sign the evidence with this SSH key; by default the one that git signs with.",
        ),
    ] = None,
    unsigned: Annotated[bool, typer.Option("--unsigned", help="Do not sign.")] = False,
    bank: BankFolder = None,
    no_bank: NoBank = False,
    as_json: AsJson = False,
) -> None:
    """Confirm the winner back to back with the reference, and put it on a branch."""
    from infrarsi.render.console import verdict_lines
    from infrarsi.stages import apply as stage
    from infrarsi.stages.confirming.limits import Limits
    from infrarsi.stages.experience.recall import banks_of, remember
    from infrarsi.stages.workspace import open_workspace

    if sign is not None and unsigned:
        raise UsageError("--sign and --unsigned contradict each other", hint="leave one out")
    banks = banks_of(bank, off=no_bank)
    with open_workspace(directory, command="apply") as workspace:
        if revert:
            say(f"the branch {stage.revert(workspace).branch} is gone")
            return
        say_dirty(workspace)
        override(
            workspace,
            confirmation_blocks=blocks,
            confirmation_sessions=sessions,
            horizon_seeds=seeds,
        )
        limits = Limits(parse_seconds(max_wall) if max_wall else None, max_usd)
        key = _key(workspace, sign, unsigned=unsigned)
        verdict, promotion = stage.confirm_and_promote(
            workspace, limits=limits, key=key, horizon=horizon, tell=say
        )
        remember(workspace, banks, tell=say)
    if as_json:
        print_json({"verdict": verdict, "promotion": promotion})
    else:
        print("\n".join(verdict_lines(verdict)))
        if horizon is not None:
            print(f"it learns as well over {horizon} updates; `infrarsi report` has the figures")
        print(f"promoted to the branch {promotion.branch} (commit {promotion.commit[:12]})")
        print(f"signed with {key}" if key else f"not signed: {_UNSIGNED}")


_UNSIGNED = "`infrarsi gate` lets it pass only with --rerun; sign with `--sign KEY`"


def _key(workspace: Any, given: str | None, *, unsigned: bool) -> str | None:
    """Give the key to sign with: the one that was named, else the one that git signs with."""
    from infrarsi.execute.signature import signing_key

    if unsigned:
        return None
    return given or signing_key(workspace.repository)


def gate(
    directory: Where = Path(),
    base: Annotated[
        str,
        typer.Option(
            help="What the change goes into. Contract, policy and signers are read from here."
        ),
    ] = "HEAD",
    head: Annotated[
        str, typer.Option(help="The change. The same as the base: what stands there is judged.")
    ] = "HEAD",
    rerun: Annotated[
        bool,
        typer.Option("--rerun", help="Confirm again on this machine. This runs the change's code."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Refuse a promotion whose evidence does not hold: for CI."""
    from infrarsi.render.gate import gate_markdown
    from infrarsi.stages import gate as stage

    report = stage.gate(directory, base=base, head=head, rerun=rerun, tell=say)
    summary = gate_markdown(report)
    place = os.environ.get("GITHUB_STEP_SUMMARY")
    if place:
        with Path(place).open("a", encoding="utf-8") as file:
            file.write(summary)
    if as_json:
        print_json(report)
    else:
        print(summary, end="")
    stage.raise_for(report)
