"""A formula of the peak memory of a training step, with unknown coefficients.

Sources of the terms: Rajbhandari et al., "ZeRO", 2020 (2 bytes of weights, 4 of gradients
accumulated in float32, 12 of optimizer state a parameter; what each stage shards); Korthikanti
et al., "Reducing Activation Recomputation in Large Transformer Models", 2022 (34 / tp bytes of
activations a token, channel and layer with sequence parallelism, 10 + 24 / tp without it, and
without attention's scores, as fused attention keeps none; the first of ``pp`` stages holds ``pp``
micro-batches); logits in 2 bytes and, with their gradient, twice in 4.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from infrarsi.records.candidate import Effect
from infrarsi.search.mixture import Floats
from infrarsi.search.quantities import Quantities

_COEFFICIENTS = {
    "weights": (0.1, 0.2),
    "optimizer": (0.0, 0.25),
    "activations": (0.2, 0.35),
    "logits": (0.0, 0.7),
    "fixed": (0.0, 0.6),
}
"""Mean and spread of the logarithm of each coefficient: buffers and fragmentation come on
top of what is counted, tenths of it."""
_FIXED_BYTES = 1.5e9
"""Of communication buffers, workspaces and the allocator."""

NAMES = tuple(_COEFFICIENTS)


def prior_of(beliefs: Mapping[str, Effect]) -> tuple[Floats, Floats]:
    """Give mean and sd of each coefficient's logarithm, in the order of ``NAMES``."""
    pairs = dict(_COEFFICIENTS)
    pairs.update({name: (each.mean, each.sd) for name, each in beliefs.items() if name in pairs})
    mean, sd = np.array([pairs[name] for name in NAMES]).T
    return mean, sd


@dataclass(frozen=True)
class Footprint:
    """The formula's terms for ``m`` configurations, in bytes.

    Attributes
    ----------
    first, last
        Terms of the first and the last stage of a pipeline, shape ``(m, 5)`` each; the
        hungrier one counts.
    """

    first: Floats
    last: Floats

    def log_bytes(self, theta: Floats) -> tuple[Floats, Floats]:
        """Give the logarithm of the peak and its slopes, shapes ``(m,)`` and ``(m, 5)``."""
        factor = np.exp(np.clip(theta, -20.0, 20.0))
        first, last = self.first * factor, self.last * factor
        is_first = first.sum(axis=1) >= last.sum(axis=1)
        parts = np.where(is_first[:, None], first, last)
        total = parts.sum(axis=1)
        return np.log(total), parts / total[:, None]


def footprint(q: Quantities) -> Footprint:
    """Compute the terms of configurations from their completed quantities.

    Notes
    -----
    Not to be trusted where weights are quantised or mostly frozen, or states are offloaded.
    """
    params = q["params_b"] * 1e9 / (q["tp"] * q["pp"])
    stage, shards = q["zero_stage"], q["dp"] * q["cp"]
    weights = 2 * params / np.where(stage >= 3, shards, 1.0)
    weights = weights + 4 * params / np.where(stage >= 2, shards, 1.0)
    optimizer = 12 * params / np.where(stage >= 1, shards, 1.0)
    tokens = q["micro_batch"] * q["seq_len"] / q["cp"]
    layers = q["n_layers"] / q["pp"]
    layer = tokens * q["hidden"] * (10 / q["sp"] + 24 / q["tp"])
    share = np.clip(q["recompute"], 0.0, 1.0)
    kept = (1 - share) * layers * layer + share * (2 * tokens * q["hidden"] * layers + layer)
    logits = tokens * q["vocab"] * (2 + 4 + 4) / q["tp"]
    fixed = np.full(len(params), _FIXED_BYTES)
    waiting = np.minimum(q["pp"], np.maximum(q["grad_accum"], 1.0))
    alone = q["pp"] <= 1
    first = (weights, optimizer, kept * waiting, np.where(alone, logits, 0.0), fixed)
    last = (weights, optimizer, kept, logits, fixed)
    return Footprint(np.column_stack(first), np.column_stack(last))
