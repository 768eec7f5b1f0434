"""What several commands take: common options, sizes and durations, and changes to the plan."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from infrarsi.errors import UsageError

if TYPE_CHECKING:
    from infrarsi.stages.workspace import Workspace

Where = Annotated[
    Path, typer.Option("-C", "--directory", help="The repository, or a folder in it.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
BankFolder = Annotated[
    Path | None,
    typer.Option(
        "--bank",
        metavar="DIR",
        help="Folder of packs of experience. Else $INFRARSI_BANK, else one in your home.",
    ),
]
NoBank = Annotated[
    bool, typer.Option("--no-bank", help="Neither use experience nor keep what is learnt.")
]


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


_FLAGS = {
    "max_wall_s": "--max-wall",
    "confirmation_blocks": "--blocks",
    "confirmation_sessions": "--sessions",
    "horizon_seeds": "--seeds",
    "proposers": "--proposer",
}
"""Flags that are called otherwise than what they set in the plan."""


def override(workspace: Workspace, limits: dict[str, Any] | None = None, **changed: object) -> None:
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


def override_language(
    workspace: Workspace, changed: dict[str, str | None], *, allow_upload: bool
) -> None:
    """Change how a language model is asked; to name one is to want it asked."""
    plan = workspace.contract.plan
    kept: dict[str, Any] = {key: value for key, value in changed.items() if value is not None}
    proposers = tuple(dict.fromkeys([*plan.proposers, *(["language"] if kept else [])]))
    if allow_upload:
        kept["allow_upload"] = True
    language = {**plan.language.model_dump(), **kept}
    override(workspace, language=language, proposers=proposers)
