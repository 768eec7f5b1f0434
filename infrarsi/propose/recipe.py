"""A recipe of the patchbook: what it says of itself, and how a codemod declines."""

from __future__ import annotations

from pydantic import Field

from infrarsi.records.base import Record
from infrarsi.records.candidate import Effect, PrecisionClass


class DoesNotApply(Exception):  # noqa: N818 - an answer, not a defect
    """A codemod found nothing that it can change safely; ``because`` says why, in words."""

    def __init__(self, because: str) -> None:
        super().__init__(because)
        self.because = because


class Recipe(Record):
    """The content of ``recipe.yaml``."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    summary: str
    """What it does, in one sentence."""
    applies_when: str
    """The shape of code that it looks for, and what keeps it away."""
    precision: PrecisionClass = "same"
    """The lowest precision that it brings in."""
    conflicts: tuple[str, ...] = ()
    """Names of recipes that must not stand in the same candidate."""
    log_time: Effect = Effect()
    """Prior on log(update time with it / without it)."""
    log_memory: Effect = Effect()
    """Prior on log(peak memory with it / without it)."""
    cold_start_s: float = Field(default=0.0, ge=0)
    """Extra seconds that a launch with it is thought to take before it is steady."""
