"""A Verdict: the conjunction of findings, each of one layer of the judge."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal, TypeAlias

from pydantic import SerializerFunctionWrapHandler, model_serializer

from infrarsi.records.base import Record
from infrarsi.records.estimate import Estimate


class Ruling(StrEnum):
    """What a layer, or the judge, concludes."""

    PASS = "pass"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"


Layer: TypeAlias = Literal[
    "integrity", "workload", "timing", "numerics", "precision", "replay", "audit"
]


class Finding(Record):
    """What one layer concludes, and why, in words for a person."""

    layer: Layer
    check: str
    """The check within the layer: ``batch_digest``."""
    ruling: Ruling
    reason: str
    """What was compared, at which update, by how much, and the allowed band and its source."""
    hint: str = ""
    """What would settle it, or what to do."""


class Verdict(Record):
    """The judge's conclusion on one candidate."""

    subject: str
    """The candidate's short id."""
    kind: Literal["screen", "confirm"]
    ruling: Ruling
    findings: tuple[Finding, ...]
    speedup: Estimate | None = None
    """Reference time over candidate time, of a confirmation."""
    trials: tuple[str, ...] = ()
    """Ids of the trials it rests on."""
    rules: int
    """Version of the judge's rules."""
    sandbox: tuple[str, ...] = ()
    """How its launches were contained, every tier that one of them ran in; empty: not on record."""

    @model_serializer(mode="wrap")
    def _without_an_unknown_containment(
        self, plain: SerializerFunctionWrapHandler
    ) -> dict[str, Any]:
        # The bytes of a verdict that was reached before this was recorded must stay.
        written: dict[str, Any] = plain(self)
        return {k: v for k, v in written.items() if k != "sandbox" or v}

    @property
    def reasons(self) -> tuple[Finding, ...]:
        """The findings that kept it from passing."""
        return tuple(each for each in self.findings if each.ruling is not Ruling.PASS)
