"""The front door: parse, call one stage, show what it gives, map errors to exit codes.

The commands stand in modules by what they do: those that measure, that promote, that look.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import typer

from infrarsi.cli.bank import bank
from infrarsi.cli.benching import bench, sweep
from infrarsi.cli.looking import recheck, report, show, status
from infrarsi.cli.measuring import doctor, init, run
from infrarsi.cli.options import parse_bytes, parse_seconds
from infrarsi.cli.promoting import apply, gate
from infrarsi.errors import InfraRSIError

__all__ = ["app", "main", "parse_bytes", "parse_seconds"]

app = typer.Typer(
    name="infrarsi",
    help="Train the same model on the same data faster, and prove it.\n\n"
    "init -> doctor -> run -> report -> apply -> gate",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # rich takes longer to load than everything else together
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)

_COMMANDS: tuple[Callable[..., None], ...] = (
    doctor,
    run,
    status,
    report,
    show,
    recheck,
    apply,
    gate,
    bench,
    sweep,
)
"""In the order in which the help lists them, after ``init``."""

app.command(context_settings={"allow_interspersed_args": False})(init)
for _command in _COMMANDS:
    app.command()(_command)
app.add_typer(bank, name="bank")


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
