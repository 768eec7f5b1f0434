"""Experience: what searches have taught, as ratios that mean something on other machines too."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, Literal, Self, TypeAlias

from pydantic import (
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from infrarsi.records.base import Record, Scalar, canonical_json
from infrarsi.records.candidate import Effect

_ID = r"^[0-9a-f]{12}$"

LessonOutcome: TypeAlias = Literal[
    "confirmed", "accepted", "refused", "inconclusive", "oom", "failed"
]


class _Sparse(Record):
    """A record that is written without what it does not say."""

    @model_serializer(mode="wrap")
    def _without_what_is_not_said(self, plain: SerializerFunctionWrapHandler) -> dict[str, Any]:
        written: dict[str, Any] = plain(self)
        fields = type(self).model_fields
        return {
            name: value
            for name, value in written.items()
            if name in self._always or getattr(self, name) != fields[name].default
        }

    @property
    def _always(self) -> frozenset[str]:
        """Fields that are written whatever they hold."""
        return frozenset()


class Atom(_Sparse):
    """One part of a candidate: a patch, or a knob that was turned."""

    patch: str | None = None
    """The recipe's name."""
    proposer: str = "patchbook"
    """Of a patch. Names of other proposers' patches mean nothing in another repository."""
    knob: str | None = None
    role: str | None = None
    """What the knob is, whatever a program calls it, where that is known: ``recompute``."""
    before: Scalar = None
    """The knob's value in that search's reference."""
    after: Scalar = None

    @property
    def _always(self) -> frozenset[str]:
        return frozenset({"knob", "before", "after"} if self.patch is None else {"patch"})

    @model_validator(mode="after")
    def _is_one_thing(self) -> Self:
        if (self.patch is None) == (self.knob is None):
            raise ValueError("an atom is a patch or a knob, and one of the two")
        return self

    def in_words(self) -> str:
        """Say what it is: ``+sdpa``, ``recompute: true -> false``."""
        if self.patch is not None:
            return f"+{self.patch}"
        return f"{self.knob}: {_text(self.before)} -> {_text(self.after)}"


class Lesson(_Sparse):
    """What putting atoms to a candidate did, against the reference or beside other atoms."""

    id: str = Field(pattern=_ID)
    """Digest of all else that it says: one that was edited by hand is noticed."""
    atoms: tuple[Atom, ...] = Field(min_length=1)
    beside: tuple[Atom, ...] = ()
    """What both sides of the comparison carried; nothing where it was made with the reference."""
    outcome: LessonOutcome
    why: str = ""
    """Of what was not accepted: the checks that refused it, or how the launch ended."""
    log_time: Effect | None = None
    """log(update time with the atoms / without them), as a mean and a standard deviation."""
    log_memory: float | None = None
    """log(peak memory with the atoms / without them)."""
    log_memory_above: float | None = None
    """Of an out-of-memory: the logarithm of the capacity over the reference's peak."""
    evidence: tuple[str, ...] = ()
    """The first 16 hexadecimal digits of the SHA-256 of each evidence that it rests on."""

    @property
    def _always(self) -> frozenset[str]:
        return frozenset({"id", "atoms", "outcome"})

    @property
    def subject(self) -> bytes:
        """What it is about: two lessons of one search on the same subject say the same thing."""
        parts = [
            [each.model_dump(mode="json") for each in side] for side in (self.atoms, self.beside)
        ]
        return canonical_json(parts)

    def true_id(self) -> str:
        """Give the digest that its id must be."""
        said = {key: value for key, value in self.model_dump(mode="json").items() if key != "id"}
        return hashlib.sha256(canonical_json(said)).hexdigest()[:12]

    @classmethod
    def of(cls, **said: Any) -> Self:
        """Make a lesson with its id."""
        draft = cls(id="0" * 12, **said)
        return draft.model_copy(update={"id": draft.true_id()})


class TrainingContext(Record):
    """The training that a search was about, in figures that can be compared."""

    kind: str
    """What was improved, and how memory was counted: ``steady_update_s, process_data``."""
    num_parameters: int | None = None
    num_tensors: int | None = None
    """Parameter tensors: depth, by and large."""
    width: int | None = None
    """The commonest dimension of the parameters."""
    longest: int | None = None
    """The longest dimension of the parameters: the vocabulary, as a rule."""
    tokens_per_update: int | None = None
    num_ranks: int = 1
    matmul: tuple[str, ...] = ()
    """Dtypes of matmul operands that the contract allows."""
    memory_share: float | None = None
    """The reference's peak as a share of the capacity."""


class Hardware(Record):
    """The machine that a search ran on, in figures that can be compared."""

    device: Literal["cpu", "cuda"]
    name: str
    """The model of the processor or of the accelerator."""
    num: int
    """How many CPUs or accelerators."""
    memory_bytes: int
    """What a trial may use, in the contract's unit."""
    bandwidth_bytes_s: float | None = None
    """Of one accelerator's memory, by its data sheet."""
    peak_flops: dict[str, float] = {}
    """By dtype: as measured, else by the data sheet."""
    interconnect_bytes_s: float | None = None
    """Between accelerators of one machine, by the data sheet."""
    python: str
    torch: str
    cuda: str | None = None
    """Versions of the software, without their patch level."""


class Pack(Record):
    """What one search on one machine has taught."""

    schema_version: Literal[1] = 1
    id: str = Field(pattern=_ID)
    """Digest of the locked task, its commit and the machine: the same search, the same pack."""
    label: str
    context: TrainingContext
    hardware: Hardware
    lessons: tuple[Lesson, ...] = ()
    """In the order of their ids, so that what two people add seldom meets in one place."""


class AtomBelief(Record):
    """What experience says of one patch, or of one value of a knob here, against the reference."""

    patch: str | None = None
    knob: str | None = None
    value: Scalar = None
    log_time: Effect | None = None
    """Widened by how unlike the packs' searches are to this one. ``None``: nothing was learnt."""
    log_memory: Effect | None = None
    refused: float = Field(default=0.0, ge=0, le=1)
    """How much speaks for its being refused or crashing here too."""
    num_packs: int = 1


class Source(Record):
    """A pack that was recalled."""

    pack: str
    label: str
    device: str
    distance: float
    """0 is the same search; 1 is a factor of about 4 in everything that is compared."""
    num_compared: int
    """How many features were known on both sides."""
    num_lessons: int


class Experience(Record):
    """What a search starts from."""

    sources: tuple[Source, ...] = ()
    beliefs: tuple[AtomBelief, ...] = ()
    note: str = ""
    """Why nothing was recalled, where that needs saying."""


def ordered(lessons: Iterable[Lesson]) -> tuple[Lesson, ...]:
    """Put lessons in the order of a pack, each once."""
    by_id = {each.id: each for each in lessons}
    return tuple(by_id[name] for name in sorted(by_id))


def _text(value: Scalar) -> str:
    return canonical_json(value).decode() if not isinstance(value, str) else value
