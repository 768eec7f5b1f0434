"""What was kept of an update, and what came of replaying it through the reference's own code."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from infrarsi.records.base import Record


class KeptSeen(Record):
    """One rank's answer to the request to keep the state of an update."""

    update: int
    rank: int = 0
    num_bytes: int = 0
    why: str | None = None
    """Why it was not kept; ``None``: it was."""


class TensorReplayed(Record):
    """How one parameter moved in an update that was replayed. ``None``: not a finite number."""

    name: str
    apart: float | None
    """L2 norm of the difference of the two displacements."""
    moved: float | None
    """L2 norm of the displacement that the reference's code made from the kept state."""
    said: float | None
    """L2 norm of the displacement that was kept."""
    size: float | None
    """L2 norm of the parameter before the update."""


class ReplaySeen(Record):
    """One rank's replay of one update."""

    update: int
    rank: int = 0
    tensors: tuple[TensorReplayed, ...] = ()
    left: tuple[str, ...] = ()
    """What could not be put in place and stayed the reference's own, in words."""
    why: str | None = None
    """Why it was not replayed; ``None``: it was."""


class ReplaySlot(Record):
    """An update that is replayed for both arms, each from its own launch's state."""

    update: int
    winner: str
    """Id of the winner's launch that was asked to keep its state."""
    reference: str
    """Id of the reference's launch that was asked to keep it at the same update."""
    ulps: float
    """By how many units in the last place the reference's state is nudged: that makes it a null."""
    scores: int
    """Batches after it that each arm's result is scored on."""
    digests: dict[str, dict[str, str]] = {}
    """SHA-256 of the kept files, by arm and name."""


def kept_of(event: Mapping[str, Any]) -> KeptSeen:
    """Read an event ``kept`` of the witness."""
    why = event.get("why")
    return KeptSeen(
        update=int(event["update"]), rank=int(event.get("rank", 0)),
        num_bytes=int(event.get("bytes", 0)), why=None if why is None else str(why)[:500],
    )  # fmt: skip


def replay_of(event: Mapping[str, Any]) -> ReplaySeen:
    """Read an event ``replayed`` of the witness."""
    why = event.get("why")
    return ReplaySeen(
        update=int(event["update"]), rank=int(event.get("rank", 0)),
        tensors=tuple(_tensor_of(row) for row in event["tensors"]),
        left=tuple(str(each) for each in event.get("left") or ()),
        why=None if why is None else str(why)[:500],
    )  # fmt: skip


def _tensor_of(row: Sequence[Any]) -> TensorReplayed:
    name, *values = row
    apart, moved, said, size = (
        number if math.isfinite(number := float(value)) else None for value in values
    )
    return TensorReplayed(name=str(name), apart=apart, moved=moved, said=said, size=size)
