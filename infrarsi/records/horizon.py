"""A Horizon: what both arms have learnt after many updates, seed by seed."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from infrarsi.records.base import Record
from infrarsi.records.candidate import Candidate
from infrarsi.records.estimate import Estimate
from infrarsi.records.verdict import Finding, Ruling


class SeedScored(Record):
    """One seed: a launch of each arm, and what their states lose on the same later batches."""

    seed: str
    """In words: ``7``, or how the initial weights were disturbed."""
    winner: str
    """Id of the winner's launch."""
    reference: str
    """Id of the reference's launch."""
    winner_loss: float | None
    """Mean over the batches. ``None``: not a finite number."""
    reference_loss: float | None
    base_loss: float | None
    """That of the first seed's reference on these batches."""


class Horizon(Record):
    """What training both arms for many updates came to."""

    candidate: Candidate
    updates: int = Field(ge=1)
    attempt: int = Field(ge=1)
    """Counts the tests of this candidate at this horizon: each spends its own error rate."""
    varied: Literal["seed", "weights"]
    """What differs between seeds: the program's own seed, or the last digits of its weights."""
    seeds: tuple[SeedScored, ...]
    scored_by: tuple[str, ...]
    """Ids of the launches of the reference's code that scored the states."""
    num_batches: int
    """Batches that each state was scored on."""
    ruling: Ruling
    findings: tuple[Finding, ...]
    excess: Estimate | None = None
    """The winner's loss less the reference's."""
    spread: float | None = None
    """Standard deviation of the reference's loss between seeds."""
    margin: float | None = None
    needed: int | None = None
    """Seeds that would tell; ``None``: it told, or not even many would."""
