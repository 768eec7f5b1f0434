"""What a knob is seen to do, where it is turned."""

from __future__ import annotations

from typing import Literal, TypeAlias

from infrarsi.records.base import Record, Scalar

Claim: TypeAlias = Literal["micro_batches", "dtypes", "threads", "workers", "anything"]
"""What a knob seems to set, by its name: where its effect is to be looked for."""


class KnobEffect(Record):
    """A knob that had no visible effect wherever it was turned and could be compared."""

    knob: str
    reached_by: str
    """How it reaches the program: ``--micro-batch``."""
    values: tuple[Scalar, ...]
    """The values that were tried, apart from the reference's."""
    default: Scalar
    together_with: tuple[str, ...] = ()
    """Knobs that a constraint turned along with it."""
    compared: str
    """What was compared, with figures, in words."""
    trials: tuple[str, ...]
    """Ids of the launches that it rests on."""
