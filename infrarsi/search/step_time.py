"""A roofline-like formula of the time of a training step, with unknown coefficients.

Every term is what a data sheet or a textbook says a part of the step takes; each is multiplied by a
coefficient with a log-normal prior, and trials teach the coefficients. Sources of the terms:

- arithmetic: 6 operations a parameter and token, and 12 a layer, channel, token and half
  the sequence for causal attention (Narayanan et al., "Efficient Large-Scale Language
  Model Training on GPU Clusters Using Megatron-LM", 2021, appendix); a third more with full
  recomputation. Matrix products reach 50-70 % of the peak on data sheets.
- traffic of element-wise work: 34 bytes a token, channel and layer are stored (Korthikanti
  et al., "Reducing Activation Recomputation in Large Transformer Models", 2022), each written
  once and read twice.
- weights: read in three passes, gradients accumulated in float32.
- launches: about 120 kernels a layer and micro-batch, forward and backward, at about 10
  microseconds of Python, dispatch and launch each; 40 microseconds until a collective begins.
- tensor parallelism: 4 all-reduces a layer and micro-batch; data parallelism: one all-reduce of the
  gradients, or the two halves of it with sharding; an all-reduce of n bytes over k ranks moves
  2 n (k - 1) / k (Megatron-LM 2021; Rajbhandari et al., "ZeRO", 2020).
- pipelines: idle for (stages - 1) micro-batches (Megatron-LM 2021).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from infrarsi.records.candidate import Effect
from infrarsi.search.hardware import Hardware
from infrarsi.search.mixture import Floats
from infrarsi.search.quantities import Quantities

_COEFFICIENTS = {
    "scale": (0.0, 0.3),
    "compute": (0.5, 0.3),
    "traffic": (0.3, 0.6),
    "weights": (0.3, 0.6),
    "launches": (0.0, 0.7),
    "tensor": (0.4, 0.6),
    "tensor_network": (0.4, 0.6),
    "latency": (0.0, 0.7),
    "stages": (0.4, 0.8),
    "bubble": (0.0, 0.4),
    "gradients": (0.4, 0.7),
    "optimizer": (0.4, 0.6),
    "fixed": (0.0, 0.8),
}
"""Mean and spread of the logarithm of each coefficient. 0.3-0.5 stands for the 60-75 % of a peak
that well written kernels and collectives reach."""
_UNKNOWN_SCALE = 6.0
"""Spread of the scale where the unit of the metric is not known."""
_PER_MICRO_BATCH = (
    "compute", "traffic", "weights", "launches", "tensor", "tensor_network", "latency", "stages",
)  # fmt: skip
_PER_STEP = ("gradients", "optimizer", "fixed")

NAMES = tuple(_COEFFICIENTS)


def prior_of(beliefs: Mapping[str, Effect], *, unit_is_known: bool) -> tuple[Floats, Floats]:
    """Give mean and sd of each coefficient's logarithm, in the order of ``NAMES``."""
    pairs = dict(_COEFFICIENTS)
    pairs.update({name: (each.mean, each.sd) for name, each in beliefs.items() if name in pairs})
    if not unit_is_known:
        pairs["scale"] = (pairs["scale"][0], _UNKNOWN_SCALE)
    mean, sd = np.array([pairs[name] for name in NAMES]).T
    return mean, sd


@dataclass(frozen=True)
class StepTime:
    """The formula's terms for ``m`` configurations.

    Attributes
    ----------
    per_micro_batch
        Seconds a step that each part takes over all micro-batches, shape ``(m, 8)``.
    bubble
        Share of that for which a pipeline idles, shape ``(m,)``.
    per_step
        Seconds of the parts that come once a step, shape ``(m, 3)``.
    work
        What the step's time is divided by: 1, or tokens a GPU, shape ``(m,)``.
    """

    per_micro_batch: Floats
    bubble: Floats
    per_step: Floats
    work: Floats

    def log_time(self, theta: Floats) -> tuple[Floats, Floats]:
        """Give the logarithm of the time, and its slope by each coefficient's logarithm.

        Parameters
        ----------
        theta
            Logarithms of the coefficients, shape ``(13,)``.

        Returns
        -------
        log_time, slopes
            Shapes ``(m,)`` and ``(m, 13)``.
        """
        factor = np.exp(np.clip(theta, -20.0, 20.0))
        of = dict(zip(NAMES, range(len(NAMES)), strict=True))
        busy = self.per_micro_batch * factor[[of[name] for name in _PER_MICRO_BATCH]]
        once = self.per_step * factor[[of[name] for name in _PER_STEP]]
        idle = self.bubble * factor[of["bubble"]]
        total = busy.sum(axis=1) * (1 + idle) + once.sum(axis=1)
        slopes = np.zeros((len(total), len(NAMES)))
        slopes[:, of["scale"]] = 1.0
        share = (1 + idle) / total
        slopes[:, [of[name] for name in _PER_MICRO_BATCH]] = busy * share[:, None]
        slopes[:, [of[name] for name in _PER_STEP]] = once / total[:, None]
        slopes[:, of["bubble"]] = busy.sum(axis=1) * idle / total
        return theta[of["scale"]] + np.log(total / self.work), slopes


def step_time(q: Quantities, hardware: Hardware, *, per_token: bool) -> StepTime:
    """Compute the terms of configurations.

    Parameters
    ----------
    q
        Quantities of ``m`` configurations, completed.
    hardware
        The accelerator.
    per_token
        Whether times are of one token on one GPU (tables of throughput), else of an update.

    Notes
    -----
    Not to be trusted for models that are no plain decoders of equal layers, where communication
    is hidden behind arithmetic (the coefficients then learn how much is left), or for schedules
    other than one forward, one backward.
    """
    layers = q["n_layers"] / q["pp"]
    tokens = q["micro_batch"] * q["seq_len"] / q["cp"]
    params = q["params_b"] * 1e9 / (q["tp"] * q["pp"])
    active = q["active_params_b"] * 1e9 / (q["tp"] * q["pp"])
    num = q["grad_accum"]
    passes = 1 + q["recompute"] / 3
    attention = 6 * layers * q["hidden"] * q["seq_len"] * tokens / q["tp"]
    message = tokens * q["hidden"] * 2
    inside = np.minimum(q["tp"], q["gpus_per_node"])
    outside = q["tp"] > q["gpus_per_node"]
    ring = 4 * layers * 2 * (1 - 1 / q["tp"]) * message
    hops = np.log2(inside) + 3 * np.log2(np.maximum(q["tp"] / inside, 1.0))
    busy = {
        "compute": passes * (6 * active * tokens + attention) / hardware.flops,
        "traffic": passes * 3 * tokens * q["hidden"] * layers * (10 / q["sp"] + 24 / q["tp"])
        / hardware.memory_bw,
        "weights": params * (3 * 2 + 2 * 4) / hardware.memory_bw,
        "launches": passes * layers * 120 * 1e-5,
        "tensor": np.where(outside, 0.0, ring / hardware.link_bw),
        "tensor_network": np.where(outside, ring / hardware.network_bw, 0.0),
        "latency": 4 * layers * 4e-5 * hops,
        "stages": np.where(q["pp"] > 1, 2 * message / hardware.network_bw + 1e-4, 0.0),
    }  # fmt: skip
    once = _once_a_step(q, params, hardware)
    return StepTime(
        per_micro_batch=np.column_stack([num * busy[name] for name in _PER_MICRO_BATCH]),
        bubble=(q["pp"] - 1) / (num * q["vpp"]),
        per_step=np.column_stack([once[name] for name in _PER_STEP]),
        work=num * tokens / (q["tp"] * q["pp"]) if per_token else np.ones(len(num)),
    )


def _once_a_step(q: Quantities, params: Floats, hardware: Hardware) -> dict[str, Floats]:
    """Give what comes once a step: gradients, the optimizer, and the rest."""
    sharded = q["zero_stage"] >= 1
    near = q["tp"] * q["cp"] * q["dp"] <= q["gpus_per_node"]
    rails = np.maximum(q["gpus_per_node"] / q["tp"], 1.0)
    far_bw = np.minimum(hardware.network_bw * rails, hardware.link_bw)
    others = 1 - 1 / (q["dp"] * q["cp"])
    moved = others * params * np.where(sharded, 4 + 2, 2 * 4)
    gathered = np.where(q["zero_stage"] >= 3, q["grad_accum"] * 2 * 2 * params, 0.0)
    moved = moved + others * gathered
    states = params / np.where(sharded, q["dp"] * q["cp"], 1.0)
    return {
        "gradients": moved / np.where(near, hardware.link_bw, far_bw),
        "optimizer": states * 30 / hardware.memory_bw,
        "fixed": np.full(len(params), 0.02),
    }
