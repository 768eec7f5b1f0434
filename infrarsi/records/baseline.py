"""A Baseline: what doctor measured of the reference on this machine."""

from __future__ import annotations

from infrarsi.records.base import Record
from infrarsi.records.estimate import Estimate


class Band(Record):
    """The allowed deviation of one metric from the reference, and where it came from."""

    metric: str
    """``loss``, ``grad_norm``, ``update_norm`` (log ratios) or ``sketch`` (relative L2)."""
    limit: float
    """Largest deviation over all compared updates that still passes."""
    source: str
    """The null launches and the rule that gave the limit, in words."""


class Randomness(Record):
    """What depends on the program's global generators, as a launch that stirred them showed."""

    data_from: int | None = None
    """The first update whose batch came out otherwise; ``None``: none did."""
    redraw: dict[str, float] = {}
    """By metric, how far another draw of the model's own numbers (dropout) moved it, where that
    left the band of the other null launches. Empty: the model draws none."""

    @property
    def is_none(self) -> bool:
        """Whether nothing moved."""
        return self.data_from is None and not self.redraw


class Control(Record):
    """A falsification that the harness made itself, and what the checks said to it."""

    kind: str
    """``coarse_gradients``, ``stale_gradients`` or ``frozen_tensor``."""
    what: str = ""
    """What that is, in words."""
    trial_id: str
    seen_by: tuple[str, ...] = ()
    """The checks that refused it: ``numerics loss``. Empty: nothing did."""
    applied: bool = True
    """Whether it could be made: not where the optimizer steps out of the witness's reach."""


class Baseline(Record):
    """The reference run on one machine: speed, memory, noise and numerical bands."""

    task_digest: str
    machine_digest: str
    trials: tuple[str, ...]
    """Ids of the A/A launches."""
    null_trials: tuple[str, ...]
    update_s: Estimate
    """Steady seconds an update."""
    cold_start_s: float
    """Median seconds from launch to the end of the first update."""
    launch_s: float
    """Median wall seconds of one launch: what one trial costs."""
    peak_bytes: int
    """Largest peak of the A/A launches, in the contract's unit."""
    phase_share: dict[str, float]
    """Share of the steady update time by phase; sums to 1."""
    mfu: float | None = None
    """Model FLOP/s over measured peak FLOP/s, as a fraction."""
    flops_per_update: float | None = None
    """6 * parameters * tokens, plus the causal attention term where known."""
    peak_flops: float | None = None
    """Measured by a float32 matmul in the training interpreter, FLOP/s."""
    num_parameters: int | None = None
    noise_sd: float
    """Standard deviation of log update time between launches."""
    bias: float
    """Mean log ratio between interleaved A and A': should be near zero."""
    least_detectable: float
    """Relative speedup that the planned confirmation can tell from none."""
    bands: tuple[Band, ...]
    nondeterministic: bool
    """Whether two identical launches differed in any compared number."""
    reference_trial: str
    """Id of the launch that candidates are paired with."""
    wall_s: float
    """What the calibration cost."""
    packages: dict[str, str] = {}
    """What was installed where the training imports from, by distribution: its version, and the
    beginning of the digest of its record of files. Empty: not on record."""
    imports: tuple[str, ...] = ()
    """Entries of the package folders that the reference imported."""
    randomness: Randomness | None = None
    """``None``: the generators were not stirred."""
    controls: tuple[Control, ...] = ()
    """Known falsifications that were tried. Empty: none was."""
