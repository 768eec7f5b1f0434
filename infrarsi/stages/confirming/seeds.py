"""How a seed is varied: by the program's own setting, else by the last digits of its weights."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Literal

from infrarsi.frameworks.given import Given, given_values
from infrarsi.frameworks.program import entry_script
from infrarsi.records.base import Scalar
from infrarsi.records.task import Knob
from infrarsi.stages.drafting.settings import read_program
from infrarsi.stages.workspace import Workspace

_NAMES = re.compile(r"((random|global|manual|torch|train|training|base)_)?seed")
_ULPS = 16.0
"""As far as the largest null launch of doctor: differences that mean nothing."""
_MOST = 1_000_000
KNOB = "the seed of the horizon"


@dataclass(frozen=True)
class Seed:
    """One seed of both arms."""

    words: str
    knob: tuple[Knob, Scalar] | None = None
    """The program's setting and its value; ``None``: the weights are disturbed."""
    ulps: float | None = None


@dataclass(frozen=True)
class Seeds:
    """Seeds, the first of which is the contract's own."""

    varied: Literal["seed", "weights"]
    all: tuple[Seed, ...]

    @property
    def words(self) -> str:
        """What differs between them."""
        if self.varied == "seed":
            return "the program's own seed varied"
        return (
            f"no seed of the program was found: initial weights disturbed by {_ULPS:g} units in "
            "the last place"
        )


def seeds_of(workspace: Workspace, count: int) -> Seeds:
    """Give so many seeds, drawn by the lock, so that nobody chooses them."""
    given = _setting_of(workspace)
    if given is None or not isinstance(given.value, int):
        disturbed = (
            Seed(f"weights disturbed, draw {number}", ulps=_ULPS) for number in range(1, count)
        )
        return Seeds("weights", (Seed("weights as they are"), *disturbed))
    values = list(
        dict.fromkeys([given.value, *(_drawn(workspace, n) for n in range(1, 2 * count))])
    )
    values = values[:count]
    knob = Knob(name=KNOB, reach=given.reach, values=tuple(values), default=given.value)
    return Seeds("seed", tuple(Seed(str(value), knob=(knob, value)) for value in values))


def _drawn(workspace: Workspace, number: int) -> int:
    place = f"{workspace.lock.digest()}/horizon/{number}"
    return int(hashlib.sha256(place.encode()).hexdigest()[:12], 16) % _MOST


def _setting_of(workspace: Workspace) -> Given | None:
    """Find the one setting of the program that is its seed; ``None`` where none is plain."""
    task = workspace.contract.task
    script = entry_script(task.command, task.folder)
    program = read_program(
        workspace.repository, workspace.lock.commit, task.command, folder=task.folder,
        script=script if script in workspace.tracked else None,
    )  # fmt: skip
    found = [
        each
        for each in given_values(program.settings, task.command)
        if _NAMES.fullmatch(each.setting.known_as)
        and isinstance(each.value, int)
        and not isinstance(each.value, bool)
    ]
    plain = [each for each in found if each.setting.known_as == "seed"] or found
    return plain[0] if len(plain) == 1 else None
