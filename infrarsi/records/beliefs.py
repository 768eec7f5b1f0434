"""What is believed of the formulas' coefficients before any trial."""

from __future__ import annotations

from infrarsi.records.base import Record
from infrarsi.records.candidate import Effect


class Beliefs(Record):
    """Log-normal beliefs on coefficients, by name; a coefficient not named keeps its own prior."""

    time: dict[str, Effect] = {}
    """Of the step-time formula: ``compute``, ``traffic``, ``gradients``, ..."""
    memory: dict[str, Effect] = {}
    """Of the peak-memory formula: ``optimizer``, ``activations``, ``logits``, ..."""

    def updated(self, other: Beliefs) -> Beliefs:
        """Give these with what another says in their place."""
        return Beliefs(time=self.time | other.time, memory=self.memory | other.memory)
