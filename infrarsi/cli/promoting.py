"""The commands that promote: apply."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from infrarsi.cli.options import AsJson, Where, override, parse_seconds
from infrarsi.cli.saying import print_json, say, say_dirty


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
            say(f"the branch {stage.revert(workspace).branch} is gone")
            return
        say_dirty(workspace)
        if blocks is not None:
            override(workspace, confirmation_blocks=blocks)
        limits = Limits(parse_seconds(max_wall) if max_wall else None, max_usd)
        verdict, promotion = stage.confirm_and_promote(workspace, limits=limits, tell=say)
    if as_json:
        print_json({"verdict": verdict, "promotion": promotion})
    else:
        print("\n".join(verdict_lines(verdict)))
        print(f"promoted to the branch {promotion.branch} (commit {promotion.commit[:12]})")
