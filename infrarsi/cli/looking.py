"""The commands that look, and change nothing: status, report, show, recheck."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from infrarsi.cli.options import AsJson, Where
from infrarsi.cli.saying import draw, print_json, width


def status(directory: Where = Path(), as_json: AsJson = False) -> None:
    """Say where a search stands, while it runs or after."""
    from infrarsi.stages.status import read_status, status_in_words
    from infrarsi.stages.workspace import read_workspace

    found = read_status(read_workspace(directory))
    if as_json:
        print_json(found)
    else:
        print("\n".join(status_in_words(found)))


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
        print_json(written)
    else:
        draw(verdict_panel(written))
        print(f"written: {files.html}, {files.markdown.name}, {files.json.name}")


def recheck(directory: Where = Path(), as_json: AsJson = False) -> None:
    """Judge every stored trial again from its evidence, by today's rules.

    Offline and without training anything; nothing is written.
    """
    from infrarsi.render.rechecked import recheck_lines
    from infrarsi.stages import recheck as stage
    from infrarsi.stages.workspace import read_workspace

    found = stage.recheck(read_workspace(directory))
    if as_json:
        print_json(found)
    else:
        print("\n".join(recheck_lines(found, width=width())))
    stage.refuse_unless_upheld(found)


def show(
    trial: Annotated[
        str,
        typer.Argument(help="A trial's id (t0012, 12), or that of a candidate, or its beginning."),
    ],
    directory: Where = Path(),
    diff: Annotated[
        bool, typer.Option("--diff", help="Show the change of the source too.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show everything that is known of one trial, from why it was tried to what it cost."""
    from infrarsi.render.shown import shown_lines
    from infrarsi.stages import show as stage
    from infrarsi.stages.workspace import read_workspace

    found = stage.show(read_workspace(directory), trial, diff=diff)
    if as_json:
        print_json(found)
    else:
        print("\n".join(shown_lines(found, width=width())))
