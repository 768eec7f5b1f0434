"""What a promotion says of itself: an in-toto Statement, kept in the tree that it speaks of.

The files of the bundle stand in one folder of the promoted branch. A signature is detached and
covers the very bytes of ``statement.json``; everything else is bound to them by digests.
"""

from __future__ import annotations

import json
from typing import Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from infrarsi.records.base import Record, Scalar
from infrarsi.records.candidate import Candidate
from infrarsi.records.estimate import Estimate
from infrarsi.records.verdict import Layer, Ruling, Verdict

FOLDER = "infrarsi-promotion"
"""Where the bundle stands in the promoted tree."""
STATEMENT = f"{FOLDER}/statement.json"
EVIDENCE = f"{FOLDER}/evidence.tar.xz"
SIGNATURE = f"{FOLDER}/promotion.sig"
REVIEW = f"{FOLDER}/review.sig"
LAUNCH_FILE = "infrarsi-launch.json"
"""The confirmed launch settings, at the root of the promoted tree."""

PROMOTION_NAMESPACE = "infrarsi-promotion@v1"
REVIEW_NAMESPACE = "infrarsi-review@v1"
"""What an SSH signature says that it is for; each is refused where the other is asked for."""

_OF_SESSIONS = frozenset({"sessions", "session_gap_s"})


class Subject(Record):
    """One thing that a statement is about, by its digest."""

    name: str
    """A path, or ``tree``, ``contract``, ``patch NAME``."""
    digests: dict[str, str] = Field(alias="digest")
    """By algorithm: ``sha256``, or ``gitTree`` as git itself names a tree."""


class LaunchSettings(Record):
    """How the winner is launched, as the launch file of the branch says it."""

    command: tuple[str, ...]
    environment: dict[str, str]
    unset: tuple[str, ...]
    folder: str
    knobs: dict[str, Scalar]
    """Those that do not stand at their default."""

    def to_file(self) -> bytes:
        """Give it as a file that people and programs can read."""
        loaded = self.model_dump(mode="json")
        return (json.dumps(loaded, indent=2, ensure_ascii=False) + "\n").encode()


class LayerResult(Record):
    """What one layer of the judge concluded on the whole confirmation."""

    layer: Layer
    ruling: Ruling
    num_findings: int


class LaunchEvidence(Record):
    """One launch that the verdict rests on, and the digests of what it left."""

    trial_id: str
    purpose: str
    arm: str
    tree: str | None
    """Git tree id of the source that ran."""
    events: str | None
    """SHA-256 of the stamped events."""
    source: str | None
    """SHA-256 of what was seen of the source before and after."""
    sandbox: str


class ConfirmedBlock(Record):
    """One block of launches, in the order in which they ran."""

    order: str
    trials: tuple[str, ...]
    update_s: tuple[float | None, ...]
    session: int = Field(default=1, ge=1)
    """The session that it was launched in."""

    @model_serializer(mode="wrap")
    def _without_the_usual(self, plain: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # A statement from before there were sessions must stay the bytes that were signed.
        written: dict[str, Any] = plain(self)
        return {k: v for k, v in written.items() if k != "session" or v != 1}


class Promoted(Record):
    """The predicate: what was promoted, what it was judged by, and on what grounds."""

    infrarsi: str
    """Version of InfraRSI that judged."""
    contract: str
    """Digest of the locked task."""
    base_tree: str
    """Git tree id of the reference's source, bundle of an earlier promotion included."""
    candidate: Candidate
    launch: LaunchSettings
    attempt: int
    """Counts the confirmations of this contract, from 1."""
    alpha: float
    """The error rate that this confirmation might spend."""
    threshold: float
    """What the lower bound had to exceed."""
    blocks: tuple[ConfirmedBlock, ...]
    sessions: int = Field(default=1, ge=1)
    """In how many sessions the speedup had to recur."""
    session_gap_s: float = Field(default=0.0, ge=0)
    """The least time that had to lie between two of them."""
    speedup: Estimate | None
    layers: tuple[LayerResult, ...]
    evidence: tuple[LaunchEvidence, ...]
    verdict: Verdict
    ledger_head: str
    """Digest of the last event of the ledger that this was taken from."""

    @model_serializer(mode="wrap")
    def _without_the_usual(self, plain: SerializerFunctionWrapHandler) -> dict[str, Any]:
        written: dict[str, Any] = plain(self)
        usual = self.sessions == 1
        return {k: v for k, v in written.items() if not usual or k not in _OF_SESSIONS}


class Statement(Record):
    """An in-toto Statement v1."""

    kind: Literal["https://in-toto.io/Statement/v1"] = Field(
        default="https://in-toto.io/Statement/v1", alias="_type"
    )
    subject: tuple[Subject, ...]
    predicate_type: Literal["urn:infrarsi:promotion:v1"] = Field(
        default="urn:infrarsi:promotion:v1", alias="predicateType"
    )
    predicate: Promoted

    def to_bytes(self) -> bytes:
        """Give the one form in which it is written, signed and read."""
        loaded = self.model_dump(mode="json", by_alias=True)
        return (json.dumps(loaded, indent=1, ensure_ascii=False, sort_keys=True) + "\n").encode()
