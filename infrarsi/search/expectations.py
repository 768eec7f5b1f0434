"""What is generally known of settings by their names, for spaces where no formula applies.

Signs and sizes from textbooks and the papers of the methods, not from any table: training
   adapters
needs no gradients of the frozen weights (Hu et al., "LoRA", 2021: two of three passes remain, and
optimizer state nearly vanishes); quantised weights are unpacked at every use (Dettmers et al.,
"QLoRA", 2023); padding is work for nothing; fused kernels save memory traffic, and a fused
   loss never
holds the logits (Hsu et al., "Liger Kernel", 2024); attention that tiles its scores never
   holds them
(Dao et al., "FlashAttention", 2022); recomputation adds a third pass and frees activations
   (Korthikanti
et al., 2022); float32 runs off the fast units; states on the host cross a slow link (Ren et al.,
"ZeRO-Offload", 2021). They are priors with a weight that trials decide.
"""

from __future__ import annotations

import re

import numpy as np

from infrarsi.records.base import Scalar
from infrarsi.records.task import Knob
from infrarsi.search.features import hunger_signs
from infrarsi.search.lattice import Lattice
from infrarsi.search.mixture import Floats

_HASTE_OF_HUNGER = 1.0
"""Log time that a knob which raises memory is thought to save from end to end, where nothing
else is known of it; half of it to begin with, and then as much as trials say."""
_OFF = r"none|false|0|no|off|disabled?|never"
_ON = rf"(?!(?:{_OFF})$).+"
_RULES: tuple[tuple[str, str, float, float], ...] = (
    (r"peft|lora|adapter", _ON.replace("never", "never|full"), -0.4, -1.0),
    (r"quant|bits|4bit|8bit", _ON.replace("never", "never|16|32"), 0.15, -0.5),
    (r"padding_free|packing|pad_free|unpad", _ON, -0.3, -0.1),
    (r"(liger|fused|chunked).*(ce|loss|entropy)|^ce$", _ON, -0.05, -0.2),
    (r"fused|liger|kernels?$|foreach", _ON, -0.1, -0.05),
    (r"attn|attention", r".*(flash|sdpa|xformers|mem.*eff).*", -0.25, -0.3),
    (r"compile", _ON, -0.15, 0.0),
    (r"recompute|checkpointing|remat", _ON, 0.29, -0.7),
    (r"offload", _ON, 0.7, -0.7),
    (r"dtype|precision|^amp$", r"(float32|fp32|32)", 0.8, 0.4),
    (r"moe|expert", _ON, -0.3, 0.0),
)
"""Patterns of a knob's name and of its value, and what it does to log time and log memory, against
its other values. The first rule whose name fits is taken."""


def time_claims(lattice: Lattice, *, has_formula: bool) -> dict[int, Floats]:
    """Give, for each knob of a pool that anything is thought of, log time by value.

    Against the reference. Where only the way of memory is known, the hungrier end is thought
    the faster. A launched search has a reference and patches to begin with, and a formula says
    more than a name.
    """
    found: dict[int, Floats] = {}
    if lattice.pool is None or has_formula:
        return found
    for i, (knob, sign) in enumerate(zip(lattice.knobs, hunger_signs(lattice), strict=True)):
        effects = expected_effects(knob)
        if effects is not None:
            claims = effects[0]
        elif sign and len(knob.values) > 1:
            claims = -_HASTE_OF_HUNGER * float(sign) * np.linspace(0.0, 1.0, len(knob.values))
        else:
            continue
        found[i] = claims - claims[lattice.reference[i]]
    return found


def memory_claims(lattice: Lattice, i: int) -> Floats | None:
    """Give the log memory of a pool's knob by value, against the reference; ``None``: unknown."""
    effects = expected_effects(lattice.knobs[i]) if lattice.pool is not None else None
    if effects is None or not effects[1].any():
        return None
    return np.asarray(effects[1] - effects[1][lattice.reference[i]])


def expected_effects(knob: Knob) -> tuple[Floats, Floats] | None:
    """Give what each value of a knob is thought to do to log time and to log memory.

    Parameters
    ----------
    knob
        Looked at by its name, and its values by how they are written.

    Returns
    -------
    time, memory or None
        Shape ``(num values,)`` each; ``None`` where the name says nothing, or all values are alike.

    Notes
    -----
    Not to be trusted where a name means something else in one's own program; the weight of these
    effects is learnt, and one that misleads loses it.
    """
    for name, value, time, memory in _RULES:
        if re.search(name, knob.name, re.IGNORECASE):
            fits = np.array([bool(re.fullmatch(value, _written(v))) for v in knob.values])
            if fits.all() or not fits.any():
                return None
            return time * fits, memory * fits
    return None


def _written(value: Scalar) -> str:
    return "none" if value is None else str(value).lower()
