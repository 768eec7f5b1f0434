"""The Plan: how much to spend and how to search. It may change between invocations."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from infrarsi.records.base import Record
from infrarsi.records.task import Task


class Budget(Record):
    """What a search may spend."""

    max_trials: int = Field(default=40, ge=1)
    max_wall_s: float = Field(default=3600.0, gt=0)
    trial_deadline_s: float = Field(default=300.0, gt=0)
    """A launch that has not reached its stop by then is hung, and is killed."""


class Plan(Record):
    """The free half of a contract."""

    budget: Budget = Budget()
    proposers: tuple[Literal["patchbook", "sweep"], ...] = ("patchbook", "sweep")
    strategy: Literal["infrarsi", "random", "hillclimb", "configonly"] = "infrarsi"
    seed: int = 0
    starts: int = Field(default=3, ge=1)
    """Starting configurations explored before the search narrows."""
    confirmation_blocks: int = Field(default=6, ge=2)
    """Randomised ABBA or BAAB blocks of the final confirmation, fixed in advance."""
    ablation_rounds: int = Field(default=3, ge=2)
    """Interleaved rounds in which the winner meets itself with each part taken out."""


class Contract(Record):
    """The whole of ``infrarsi.yaml``."""

    schema_version: Literal[1] = 1
    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    task: Task
    plan: Plan = Plan()


class Lock(Record):
    """What the lock fixed: the first event of the ledger."""

    name: str
    task_digest: str
    commit: str
    """The git commit that every trial starts from, 40 hexadecimal digits."""
    protected: dict[str, str]
    """SHA-256 of every protected tracked file as it stood in the working tree, by path."""
    inputs: dict[str, str]
    """SHA-256 of every locked input, by path."""
    dirty: tuple[str, ...] = ()
    """Tracked files that differed from the commit when the lock was made."""
