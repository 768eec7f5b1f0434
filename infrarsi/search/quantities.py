"""Physical quantities of configurations: what the formulas are written in."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np

from infrarsi.records.base import Scalar
from infrarsi.records.constraint import expression_value
from infrarsi.search.hardware import Hardware, hardware_of
from infrarsi.search.lattice import Lattice
from infrarsi.search.mixture import Floats, Ints

Quantities: TypeAlias = Mapping[str, Floats]
"""Each quantity of ``m`` configurations, shape ``(m,)``."""

_NAMES = {
    "params_b": ("model_params_b", "num_params_b", "parameters_b"),
    "n_layers": ("num_layers", "layers", "num_hidden_layers", "n_layer"),
    "hidden": ("hidden_size", "d_model", "n_embd", "hidden_dim"),
    "seq_len": ("sequence_length", "seq_length", "block_size", "context_length", "max_seq_len"),
    "vocab": ("vocab_size", "vocabulary"),
    "num_gpus": ("gpus", "world_size", "num_devices", "n_gpus"),
    "gpus_per_node": ("gpus_a_node", "num_gpus_per_node", "local_world_size"),
    "global_batch_samples": ("global_batch", "global_batch_size", "gbs"),
    "tp": ("tensor_parallel", "tp_size", "tensor_parallel_size", "tensor_model_parallel_size"),
    "cp": ("context_parallel", "cp_size", "context_parallel_size"),
    "sequence_parallel": ("sequence_parallelism", "use_sequence_parallel"),
    "vpp": ("virtual_pipeline", "virtual_pp", "interleave", "num_model_chunks"),
    "active_params_b": ("params_active_b", "activated_params_b"),
    "pp": ("pipeline_parallel", "pp_size", "pipeline_parallel_size"),
    "dp": ("data_parallel", "dp_size", "data_parallel_size"),
    "zero_stage": ("zero", "zero_optimization_stage"),
    "micro_batch": ("micro_batch_size", "mbs", "per_device_train_batch_size", "micro_bs"),
    "grad_accum": ("gradient_accumulation_steps", "grad_acc", "accumulation", "num_microbatches"),
    "recompute": ("gradient_checkpointing", "activation_checkpointing", "recomputation", "remat"),
}
"""Each quantity, and other names that tools have for it."""
_CANONICAL = {other: name for name, others in _NAMES.items() for other in others}
_WORDS = {"none": 0.0, "off": 0.0, "selective": 0.1, "partial": 0.5, "full": 1.0}
"""How much is recomputed, in words. Selective recomputation is of attention alone."""
NEEDED = ("params_b", "n_layers", "hidden", "seq_len", "micro_batch")
"""What the formulas cannot do without."""
_TYPICAL_VOCAB = 64_000.0
"""Vocabularies of open models range from 32 to 256 thousand."""


def canonical(name: str) -> str:
    """Give the name that the formulas have for a knob or a context column."""
    return _CANONICAL.get(name, name)


class Configurations:
    """Gives the quantities of any points of a lattice, from knobs, context and derivations.

    Parameters
    ----------
    lattice
        Its space holds the context and the derived expressions.
    """

    def __init__(self, lattice: Lattice) -> None:
        self._space = lattice.space
        self._tables = [_numbers(knob.values) for knob in lattice.knobs]
        self._names = [knob.name for knob in lattice.knobs]
        self.hardware: Hardware = hardware_of(str(lattice.space.context.get("gpu", "")))
        sample = self.of(_some_of_each_value(lattice))
        self.is_complete = all(
            name in sample and bool((np.isfinite(sample[name]) & (sample[name] > 0)).all())
            for name in NEEDED
        )

    def of(self, points: Ints) -> dict[str, Floats]:
        """Give every known quantity of points, with what follows from them."""
        num = len(points)
        known: dict[str, Floats] = {}
        for name, value in self._space.context.items():
            if isinstance(value, int | float):
                known[name] = np.full(num, float(value))
        for i, (name, table) in enumerate(zip(self._names, self._tables, strict=True)):
            if table is not None:
                known[name] = table[points[:, i]]
        for name, expression in self._space.derived.items():
            computed = _computed(expression, known, num)
            if computed is not None:
                known[name] = computed
        return completed({canonical(name): value for name, value in known.items()}, num)


def _some_of_each_value(lattice: Lattice) -> Ints:
    """Give the whole pool, or else the reference and its neighbours along each knob."""
    if lattice.pool is not None:
        return lattice.pool
    rows = [lattice.reference]
    for i, knob in enumerate(lattice.knobs):
        rows += [
            (*lattice.reference[:i], value, *lattice.reference[i + 1 :])
            for value in range(len(knob.values))
        ]
    return np.array(rows, dtype=np.int64)


def completed(known: dict[str, Floats], num: int) -> dict[str, Floats]:
    """Add what follows from the quantities given, and what is usual for those that are not.

    One device where nothing is said of several; parallelism 1 where no knob sets it; as many
    micro-batches as the global batch takes, else one.
    """
    single = {name: np.ones(num) for name in ("num_gpus", "tp", "pp", "cp", "vpp")}
    full = {**single, **known}
    full.setdefault("zero_stage", np.zeros(num))
    full.setdefault("recompute", np.zeros(num))
    full.setdefault("gpus_per_node", np.full(num, 8.0))
    if "params_b" in full:
        full.setdefault("active_params_b", full["params_b"])
    full.setdefault("vocab", np.full(num, _TYPICAL_VOCAB))
    full["dp"] = np.maximum(full.get("dp", _data_parallel(full)), 1.0)
    # With sequence parallelism, today's rule, all of a layer is split as its products are.
    full["sp"] = np.where(full.get("sequence_parallel", np.ones(num)) > 0, full["tp"], 1.0)
    if "micro_batch" not in full and {"global_batch_samples", "grad_accum"} <= full.keys():
        full["micro_batch"] = full["global_batch_samples"] / (full["dp"] * full["grad_accum"])
    if "grad_accum" not in full:
        accumulated = np.ones(num)
        if {"global_batch_samples", "micro_batch"} <= full.keys():
            accumulated = full["global_batch_samples"] / (full["dp"] * full["micro_batch"])
        full["grad_accum"] = accumulated
    for name in ("tp", "pp", "cp", "vpp", "grad_accum", "gpus_per_node"):
        full[name] = np.maximum(full[name], 1.0)
    return full


def _data_parallel(q: Mapping[str, Floats]) -> Floats:
    return q["num_gpus"] / (q["tp"] * q["pp"] * q["cp"])


def _computed(expression: str, known: Mapping[str, Floats], num: int) -> Floats | None:
    """Compute a derived quantity, or give ``None`` where it needs what is not known."""
    try:
        with np.errstate(all="ignore"):
            value = np.broadcast_to(np.asarray(expression_value(expression, known), float), num)
    except ValueError:
        return None
    return np.where(np.isfinite(value), value, 1.0)


def _numbers(values: Sequence[Scalar]) -> Floats | None:
    """Give a knob's values as numbers, or ``None`` where some are none."""
    said = [_WORDS.get(value, value) if isinstance(value, str) else value for value in values]
    try:
        numbers = [float("nan" if value is None else value) for value in said]
    except ValueError:
        return None
    return None if any(math.isnan(each) for each in numbers) else np.array(numbers)
