"""The machine that measurements were taken on, and what makes it another one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from infrarsi.records.base import Record


class Accelerator(Record):
    """One GPU."""

    name: str
    memory_bytes: int
    capability: str
    """Compute capability, ``9.0``."""


class Machine(Record):
    """Hardware and software that a baseline holds for."""

    cpu: str
    num_cpus: int
    memory_bytes: int
    kernel: str
    python: str
    """Version of the training interpreter."""
    torch: str
    """Version of torch in the training interpreter."""
    cuda: str | None = None
    driver: str | None = None
    accelerators: tuple[Accelerator, ...] = ()
    sandbox: str
    """The containment tier: ``bubblewrap`` or ``process group (uncontained)``."""


_NAMES = {
    "cpu": "processor", "num_cpus": "number of CPUs", "memory_bytes": "memory",
    "python": "training interpreter: Python", "cuda": "CUDA", "driver": "GPU driver",
    "accelerators": "GPUs", "sandbox": "containment",
}  # fmt: skip
"""How a field is called in a sentence; a field that is not named here is called by its name."""

_SAME_MEMORY = 0.02
"""Sizes this near are one size: what the kernel and the driver keep to themselves varies."""


def differences(before: Machine, after: Machine) -> tuple[str, ...]:
    """Say in words what makes two machines different: ``torch 2.12.0 -> 2.13.0``; empty if nothing.

    Every field counts, by its exact value, but for two that change without meaning: the patch
    level of the kernel (a distribution moves it with every security update; only its first two
    numbers count), and sizes of memory within 2 % (what a kernel or a driver reserves varies
    from boot to boot). A field that ``before`` was stored without is unknown, not different.
    """
    fields = [name for name in Machine.model_fields if name in before.model_fields_set]
    return tuple(
        f"{_NAMES.get(name, name.replace('_', ' '))} {_words(name, old)} -> {_words(name, new)}"
        for name in fields
        if not _is_same(name, old := getattr(before, name), new := getattr(after, name))
    )


def _is_same(name: str, old: Any, new: Any) -> bool:
    match name:
        case "kernel":
            return _series(old) == _series(new)
        case "memory_bytes":
            return _near(old, new)
        case "accelerators":
            return len(old) == len(new) and all(map(_is_same_gpu, old, new))
        case _:
            return bool(old == new)


def _is_same_gpu(old: Accelerator, new: Accelerator) -> bool:
    return (old.name, old.capability) == (new.name, new.capability) and _near(
        old.memory_bytes, new.memory_bytes
    )


def _near(old: int, new: int) -> bool:
    return abs(old - new) <= _SAME_MEMORY * max(old, new)


def _series(kernel: str) -> str:
    """Give the first two numbers of a kernel's version: ``6.8`` of ``6.8.0-45-generic``."""
    found = re.match(r"\d+\.\d+", kernel)
    return found.group() if found else kernel


def _words(name: str, value: Any) -> str:
    match name:
        case "memory_bytes":
            return f"{value / 2**30:.1f} GiB"
        case "accelerators":
            return _gpu_words(value)
        case _:
            return "none" if value is None else str(value)


def _gpu_words(gpus: Sequence[Accelerator]) -> str:
    if not gpus:
        return "none"
    kinds = [f"{gpu.name} ({gpu.memory_bytes / 2**30:.0f} GiB)" for gpu in gpus]
    return ", ".join(f"{kinds.count(kind)} x {kind}" for kind in dict.fromkeys(kinds))
