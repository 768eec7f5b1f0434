"""States that a launch of the reference starts single updates from: a replay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infrarsi.execute.keeping import lay_out


@dataclass(frozen=True)
class Start:
    """One update, and the state that it is started from."""

    update: int
    place: Path
    """The folder of the files that another launch kept."""
    ulps: float
    """By how many units in the last place its parameters are nudged."""
    seed: int
    scores: int
    """Batches after it that the other launch's result is scored on."""
    mapping: Mapping[str, tuple[str, ...]]
    """Parameters of the other launch, and those of the reference that each holds."""


def lay_out_all(starts: Sequence[Start], scratch: Path) -> None:
    """Give a launch files of its own of every state."""
    for number, start in enumerate(starts):
        lay_out(start.place, scratch, name=str(number))


def told(starts: Sequence[Start], scratch: Path) -> list[dict[str, Any]] | None:
    """Give the states as the witness is told of them; ``scratch`` is as the program sees it."""
    return [
        {
            "update": start.update, "folder": str(scratch / "replay" / str(number)),
            "ulps": start.ulps, "seed": start.seed, "scores": start.scores,
            "mapping": {name: list(held) for name, held in start.mapping.items()},
        }
        for number, start in enumerate(starts)
    ] or None  # fmt: skip
