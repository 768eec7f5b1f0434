"""The machine that measurements were taken on."""

from __future__ import annotations

from infrarsi.records.base import Record


class Accelerator(Record):
    """One GPU."""

    name: str
    memory_bytes: int
    capability: str
    """Compute capability, ``9.0``."""


class Machine(Record):
    """Hardware and software that a baseline holds for; its digest keys the baseline."""

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
