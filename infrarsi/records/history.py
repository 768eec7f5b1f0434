"""What is known so far: the fold of the ledger that searching reads."""

from __future__ import annotations

from typing import Literal

from infrarsi.records.base import Record, Scalar
from infrarsi.records.candidate import Candidate, Patch
from infrarsi.records.estimate import Estimate
from infrarsi.records.task import Knob

UNKNOWN_CAPACITY = 2**62
"""Bytes, where nobody knows how much memory there is: some launches ran out of it all the same."""


class Space(Record):
    """The joint space that is searched."""

    knobs: tuple[Knob, ...]
    constraints: tuple[str, ...] = ()
    patches: tuple[Patch, ...] = ()
    incompatible: tuple[tuple[str, str], ...] = ()
    """Pairs of patches that do not apply together."""
    capacity_bytes: int
    default_cost_s: float
    """Wall seconds of one reference launch: the cost of a trial that nothing is known of."""
    context: dict[str, Scalar] = {}
    """What is known of model and cluster, for the formulas: ``params_b``, ``n_layers``, ``hidden``,
    ``seq_len``, ``gpu``, ``num_gpus``, ``gpus_per_node``, ``global_batch_samples``, ..."""
    derived: dict[str, str] = {}
    """Quantities that follow from knobs and context, as expressions: ``dp``, ``grad_accum``."""
    unit: str = ""
    """What ``update_s`` is the time of: empty for an update; in tables of throughput ``token/GPU``,
    or ``work`` where all that is known is that it goes with tokens."""

    @property
    def knows_capacity(self) -> bool:
        """Whether it is known how much memory there is."""
        return self.capacity_bytes < UNKNOWN_CAPACITY


class Observation(Record):
    """What one trial taught about one candidate."""

    candidate: Candidate
    status: Literal["ok", "oom", "failed", "refused"]
    """``refused``: it ran, and the judge said fail. ``failed``: it could not be measured."""
    update_s: float | None = None
    """Steady seconds an update, where measured (also of a refused one)."""
    update_sd: float | None = None
    """Standard deviation of log(update_s)."""
    peak_bytes: int | None = None
    """Measured peak. For ``oom`` it is ``None``: the demand is above the capacity."""
    cost_s: float
    """Wall seconds that it took, whatever came of it."""


class Prediction(Record):
    """What the models said of a candidate before it was tried."""

    update_s: Estimate
    peak_bytes: Estimate
    p_fits: float
    """Probability that the peak stays under the capacity."""
    expected_improvement: float
    """Expected log improvement over the best so far."""
    cost_s: float
    """Expected wall seconds of the trial."""
    experience_in_time: float | None = None
    """Weight of experience in what was said of time; at most 0.7. ``None``: it had no part."""
    experience_in_memory: float | None = None
    """The same of memory."""


class Suggestion(Record):
    """The next candidate to try, and why."""

    candidate: Candidate
    reason: str
    """In words: ``start 2 of 3``, ``probe of sdpa``, ``partner for an OOM of ...``."""
    prediction: Prediction | None = None
