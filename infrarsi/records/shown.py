"""A Shown: everything that is known of one trial."""

from __future__ import annotations

from typing import Literal

from infrarsi.records.base import Record, Scalar
from infrarsi.records.candidate import Effect, PrecisionClass
from infrarsi.records.estimate import Estimate
from infrarsi.records.history import Prediction
from infrarsi.records.trial import Trial
from infrarsi.records.verdict import Finding, Verdict


class KnobShown(Record):
    """A knob as the trial had it."""

    name: str
    value: Scalar
    default: Scalar
    reached_by: str
    """How it reaches the program; empty where today's contract does not have it."""


class PatchShown(Record):
    """A patch that the candidate carries."""

    name: str
    proposer: str
    summary: str
    precision: PrecisionClass
    log_time: Effect
    """What was expected of it: log(update time with it / without it)."""
    paths: tuple[str, ...]


class MarkShown(Record):
    """What stood after one update: dtypes, switches, memory."""

    update: int
    census: dict[str, dict[str, int]]
    flags: dict[str, str | bool | int | None]
    memory: dict[str, int]
    num_threads: int | None
    num_children: int | None


class SeenShown(Record):
    """What the witness and the parent saw of the launch."""

    python: str | None
    torch: str | None
    argv: tuple[str, ...]
    """The training process's own command line."""
    world_size: int | None
    num_updates: int
    """Updates that every rank ended."""
    cold_start_s: float | None
    update_s: float | None
    """Steady seconds an update, over the contract's window."""
    phase_share: dict[str, float]
    first_loss: float | None
    last_loss: float | None
    marks: tuple[MarkShown, ...]
    fault: str | None
    notes: tuple[str, ...]
    malformed: int


class ArtifactShown(Record):
    """One piece of evidence, and whether its bytes are still what they were."""

    what: str
    sha256: str
    state: Literal["verified", "missing", "altered"]
    num_bytes: int | None
    """Unpacked; ``None`` where it cannot be read."""


class Shown(Record):
    """Everything that is known of one trial, from why it was tried to what it cost."""

    schema_version: Literal[1] = 1
    trial: Trial
    candidate: str
    """The candidate's short id."""
    change: str
    """What the candidate changes, in words."""
    why: str
    """Why it was tried."""
    started_at: str
    ended_at: str | None
    commit: str
    """The locked commit that it started from."""
    task_digest: str
    is_current: bool
    """Whether the lock that it ran under is today's."""
    knobs: tuple[KnobShown, ...]
    patches: tuple[PatchShown, ...]
    diff: str | None
    """What it changes in the source, as a unified diff; ``None`` where that was not asked for."""
    prediction: Prediction | None
    reference_update_s: Estimate | None
    """Of the baseline that it was held against."""
    speedup: float | None
    """Reference over this one launch: it ranks, and decides nothing."""
    capacity_bytes: int | None
    memory_unit: str | None
    containment: str
    """What the tier stops, and what it does not."""
    seen: SeenShown | None
    """``None``: no evidence, or none that can be read."""
    verdicts: tuple[Verdict, ...]
    """Every verdict on record that rests on it, the oldest first."""
    own_findings: tuple[Finding, ...]
    """Of a launch of a confirmation: what today's rules find in it alone."""
    artifacts: tuple[ArtifactShown, ...]
    usd: float | None
    """``None``: the machine has no price."""
    others: tuple[str, ...]
    """Other launches of the same candidate, by id, purpose and outcome."""
