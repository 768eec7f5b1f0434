"""One line of the ledger."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from infrarsi.records.base import Record

EventKind: TypeAlias = Literal[
    "locked",
    "began",
    "estimated",
    "baseline",
    "trial_started",
    "trial_ended",
    "proposed",
    "recalled",
    "asked",
    "screened",
    "measured",
    "chosen",
    "session",
    "confirmed",
    "horizon",
    "promoted",
    "reverted",
    "repaired",
]

SCHEMA_VERSION = 2
"""Of what events say. `store` reads older ones as this one."""


class Event(Record):
    """Something that happened, chained to what happened before it."""

    schema_version: int = SCHEMA_VERSION
    seq: int
    """Counting from 0."""
    at: str
    """UTC, ISO 8601."""
    kind: EventKind
    body: dict[str, Any]
    previous: str
    """Digest of the event before it; 64 zeros for the first."""
