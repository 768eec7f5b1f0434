"""A Trial: one launch of one candidate, how it ended, and where its evidence lies."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, TypeAlias

from infrarsi.records.base import Record
from infrarsi.records.candidate import Candidate


class Outcome(StrEnum):
    """How a launch ended."""

    OK = "ok"
    OOM = "oom"
    AMBIGUOUS_MEMORY = "ambiguous_memory"
    CRASHED = "crashed"
    HUNG = "hung"
    STOPPED_EARLY = "stopped_early"
    PREEMPTED = "preempted"
    """The harness died while it ran; it counts neither for nor against the candidate."""
    REFUSED = "refused"
    """It never started: the candidate could not be applied."""
    HARNESS_ERROR = "harness_error"
    """The disk was full: it counts neither for nor against the candidate."""


Purpose: TypeAlias = Literal[
    "rehearsal",
    "baseline",
    "null",
    "control",
    "screen",
    "ablation",
    "confirm",
    "replay",
    "horizon",
    "sweep",
]


class Trial(Record):
    """One launch. Identity is tree, launch and replicate; evidence is kept by digest."""

    trial_id: str
    candidate: Candidate
    purpose: Purpose
    arm: str = ""
    """For null launches, which disturbance; for a control, which falsification; for confirmation,
    ``reference`` or ``winner``; for a replay, the arm whose states are replayed; for a horizon, the
    arm that trained, or whose states were scored."""
    replicate: int = 0
    outcome: Outcome
    tree_digest: str | None = None
    """Git tree id of the source that ran."""
    argv: tuple[str, ...] = ()
    stop_update: int | None = None
    """The hidden update at which the parent stops the launch."""
    evidence_digest: str | None = None
    """SHA-256 of the stamped events in the artifact store."""
    source_digest: str | None = None
    """SHA-256 of what was seen of the source before and after, in the artifact store."""
    log_digest: str | None = None
    """SHA-256 of the program's output in the artifact store."""
    wall_s: float
    cpu_s: float | None = None
    gpu_s: float = 0.0
    """Seconds that accelerators were held: wall seconds times their number."""
    peak_bytes: int | None = None
    """Peak memory in the contract's unit, for a launch that ended ok."""
    sandbox: str = ""
    cold_cache: bool = False
    """Whether the compile caches were empty when it started."""
    reason: str = ""
    """For every outcome but ok: one sentence of what happened."""
