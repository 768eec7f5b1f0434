"""A Candidate: knob values and a set of patches. A Patch: one atom of source change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

from pydantic import Field

from infrarsi.records.base import Record, Scalar

PrecisionClass: TypeAlias = Literal["same", "bfloat16", "float16", "tf32"]


class Edit(Record):
    """Replace the one place where ``search`` stands in a file by ``replace``.

    ``search`` is exact text that occurs once in the file at the locked commit. An empty
    ``search`` makes a new file, which must not exist yet.
    """

    path: str
    search: str
    replace: str


class Effect(Record):
    """A prior on what a patch does to the logarithm of a quantity: a mean and a spread."""

    mean: float = 0.0
    sd: float = Field(default=0.2, gt=0)


class Patch(Record):
    """One atom of source change, with what its proposer expects of it."""

    name: str
    """The recipe's or the proposer's name for it: ``sdpa``."""
    proposer: str
    edits: tuple[Edit, ...] = Field(min_length=1)
    summary: str
    precision: PrecisionClass = "same"
    conflicts: tuple[str, ...] = ()
    """Names of patches that must not stand in the same candidate."""
    log_time: Effect = Effect()
    """Prior on log(update time with it / without it)."""
    log_memory: Effect = Effect()
    """Prior on log(peak memory with it / without it)."""
    cold_start_s: float = Field(default=0.0, ge=0)
    """Extra seconds that a launch with it is thought to take before it is steady: compilation."""
    state_mapping: dict[str, tuple[str, ...]] = {}
    """Each parameter that it makes anew, by its name in the model, and those of the reference that
    it holds, one after the other along the first dimension: one for a rename, several where it
    fuses them. A patch that does neither needs none."""


class Candidate(Record):
    """A point of the joint space. Its identity does not depend on order."""

    knobs: dict[str, Scalar] = {}
    """Value of every knob of the surface, by name."""
    patches: tuple[str, ...] = ()
    """Names of the patches it carries, sorted."""

    @classmethod
    def of(cls, knobs: Mapping[str, Scalar], patches: Iterable[str] = ()) -> Candidate:
        """Make a candidate in its canonical order."""
        ordered = {name: knobs[name] for name in sorted(knobs)}
        return cls(knobs=ordered, patches=tuple(sorted(set(patches))))

    def without_patch(self, name: str) -> Candidate:
        """Give this candidate with one patch taken out."""
        return Candidate.of(self.knobs, (each for each in self.patches if each != name))

    def with_knob(self, name: str, value: Scalar) -> Candidate:
        """Give this candidate with one knob at another value."""
        return Candidate.of({**self.knobs, name: value}, self.patches)
