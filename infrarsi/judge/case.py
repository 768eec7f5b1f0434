"""What the judge is asked to judge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from infrarsi.judge.facts import ChangedFile, LaunchFacts, SourceFacts
from infrarsi.judge.series import Series, Sketch, series_of, sketch_of
from infrarsi.records.baseline import Band, Baseline, Control
from infrarsi.records.evidence import Evidence
from infrarsi.records.replayed import ReplaySlot
from infrarsi.records.task import Task


@dataclass(frozen=True)
class Launch:
    """One launch: its parsed evidence and the facts around it.

    Keep one ``Launch`` for the reference and judge every candidate against it: its arrays
    are made once.
    """

    evidence: Evidence
    facts: LaunchFacts
    source: SourceFacts | None = None
    """What was true of the source; for a reference launch it may be left out."""

    @cached_property
    def series(self) -> Series:
        """The updates as arrays."""
        return series_of(self.evidence)

    @cached_property
    def sketches(self) -> dict[int, Sketch]:
        """The sampled parameters, by the update that the mark stands after."""
        return {mark.update: sketch_of(mark) for mark in self.evidence.marks if mark.sketch}


@dataclass(frozen=True)
class Case:
    """One launch of a candidate, paired with the launch of the original reference."""

    subject: str
    """The candidate's short id."""
    task: Task
    baseline: Baseline | None
    """Bands, FLOPs and noise of this machine; without it numerics are inconclusive."""
    candidate: Launch
    reference: Launch
    """The launch named by ``baseline.reference_trial``, same seed and data."""
    changed: tuple[ChangedFile, ...] = ()
    """What the candidate changes in the source, for the audit."""

    @property
    def bands(self) -> tuple[Band, ...]:
        """The allowed deviations."""
        return self.baseline.bands if self.baseline else ()

    @property
    def redraws(self) -> Mapping[str, float]:
        """By metric, how far another draw of the model's own random numbers moved it."""
        randomness = self.baseline.randomness if self.baseline else None
        return randomness.redraw if randomness else {}

    @property
    def controls(self) -> tuple[Control, ...]:
        """The falsifications that doctor made and could make."""
        tried = self.baseline.controls if self.baseline else ()
        return tuple(each for each in tried if each.applied)


@dataclass(frozen=True)
class Block:
    """Four launches run back to back."""

    order: str
    """``ABBA`` or ``BAAB``; A is the reference, B the candidate."""
    launches: tuple[Launch, ...]
    """In the order in which they ran, one a letter."""

    def arm(self, letter: str) -> tuple[Launch, ...]:
        """Give the launches of one arm."""
        return tuple(
            launch for each, launch in zip(self.order, self.launches, strict=True) if each == letter
        )


@dataclass(frozen=True)
class Replay:
    """Launches of the reference's own source that replayed what a confirmation's launches kept."""

    slots: tuple[ReplaySlot, ...]
    of_winner: Launch | None
    """The launch that replayed the winner's states."""
    of_reference: Launch | None
    """The launch that replayed the reference's, nudged: the nulls."""

    @property
    def launches(self) -> tuple[Launch, ...]:
        """Its launches."""
        both = (self.of_winner, self.of_reference)
        return tuple(each for each in both if each is not None)


@dataclass(frozen=True)
class Confirmation:
    """All launches of a confirmation, in the order in which they ran."""

    subject: str
    task: Task
    baseline: Baseline
    reference: Launch
    """The original reference's evidence, which both arms are paired with."""
    blocks: tuple[Block, ...]
    planned_blocks: int
    """The number of blocks fixed in advance."""
    attempt: int = 1
    """Counts the confirmations of this contract, from 1; it sets the share of alpha spent."""
    changed: tuple[ChangedFile, ...] = ()
    replay: Replay | None = None
    """``None``: no update was replayed, which leaves that layer inconclusive."""
