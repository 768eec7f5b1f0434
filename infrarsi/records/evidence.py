"""What one launch left behind: stamped events of the witness, and what the parent saw.

The raw form is a text artifact, one JSON object a line: ``{"t_ns": ..., "event": {...}}``,
the stamp being the parent's monotonic clock on receipt, counted from the moment before the
process was started. :func:`read_evidence` gives the parsed form that judging works on. The
event schema is documented in ``docs/witness-events.md``.
"""

from __future__ import annotations

import base64
import json
import math
import struct
from collections.abc import Iterable
from typing import Any

from infrarsi.records.base import Record


class UpdateSeen(Record):
    """One optimizer update, as one rank's witness saw it."""

    update: int
    """Counting from 1."""
    t_ns: int
    """When the parent received the end of the update, in ns since the launch."""
    loss: float | None = None
    grad_norm: float | None = None
    """Global L2 norm of the gradients, before clipping and after unscaling."""
    update_norm: float | None = None
    """L2 norm of the change of the sampled parameter elements."""
    batch: str | None = None
    """Order-free hash of the multiset of sequences that the update saw, with their targets
    where these enter the model too."""
    inputs: str | None = None
    """The same hash of the token ids alone."""
    sequences: int | None = None
    tokens: int | None = None
    """Input tokens, padding left out where an attention mask says so."""
    target_tokens: int | None = None
    """Targets that counted in the loss, where the witness could tell."""
    forwards: int | None = None
    """Outermost training forwards in this update (micro-batches)."""
    sharded: bool = False
    """Whether the gradients are this rank's shard, so that norms add up over ranks."""
    skipped: int = 0
    """Optimizer steps that a gradient scaler skipped since the update before."""
    phase_s: dict[str, float] = {}
    """Seconds by phase, by the child's own clock: informational, never a verdict."""
    non_finite: tuple[str, ...] = ()
    """Names of the values that were not finite; they read ``None`` above."""


class MarkSeen(Record):
    """What the witness saw at a mark, after a device synchronisation."""

    update: int
    """The mark stands after this update; 0 is before the first."""
    t_ns: int
    sketch: tuple[tuple[float, ...], ...] = ()
    """Sampled elements, one tuple for each parameter in order."""
    shapes: tuple[tuple[int, ...], ...] = ()
    """The shape of each parameter, in order."""
    census: dict[str, dict[str, int]] = {}
    """Element or call counts by dtype: parameters, gradients, optimizer_state, matmul."""
    flags: dict[str, str | bool | int | None] = {}
    """Global precision switches and generator facts."""
    memory: dict[str, int] = {}
    """Allocator figures in bytes, where there is an accelerator."""
    num_threads: int | None = None
    num_children: int | None = None


class Fault(Record):
    """An exception that ended the program."""

    type: str
    message: str
    phase: str
    memory: str = "no"
    """``yes``, ``no`` or ``ambiguous``: whether it is an out-of-memory."""


class Evidence(Record):
    """One launch, parsed. Of several ranks, ``ranks`` holds each rank's own updates."""

    hello: dict[str, Any] | None = None
    """The witness's first word of rank 0, or ``None`` where it never spoke."""
    updates: tuple[UpdateSeen, ...] = ()
    """Rank 0's updates, in order."""
    marks: tuple[MarkSeen, ...] = ()
    ranks: dict[int, tuple[UpdateSeen, ...]] = {}
    fault: Fault | None = None
    loaded_files: tuple[str, ...] = ()
    """Files of modules loaded from outside the interpreter's own packages."""
    ended_ns: int | None = None
    """When the witness said that the program ended by itself."""
    notes: tuple[str, ...] = ()
    """What the witness could not see, in its own words."""
    malformed: int = 0
    """Lines on the channel that were not events of this schema."""

    @property
    def tokens_per_update(self) -> int | None:
        """Input tokens of the first update whose values came; a killed launch loses the last."""
        return next((row.tokens for row in self.updates if row.tokens is not None), None)

    def mark_at(self, update: int) -> MarkSeen | None:
        """Give the mark that stands after an update, if there is one."""
        return next((mark for mark in self.marks if mark.update == update), None)


def read_evidence(lines: Iterable[bytes | str]) -> Evidence:
    """Parse the stamped events of one launch.

    Lines that are not events of the known schema are counted in ``malformed``, never
    guessed at; a second ``update`` with a number already seen is malformed too.
    """
    reader = _Reader()
    for line in lines:
        if not line.strip():
            continue
        try:
            stamped = json.loads(line)
            reader.take(int(stamped["t_ns"]), stamped["event"])
        except (ValueError, KeyError, TypeError, struct.error):
            reader.malformed += 1
    return reader.evidence()


_AS_THEY_ARE = (
    "batch", "inputs", "sequences", "tokens", "target_tokens", "phase_s", "sharded", "skipped",
)  # fmt: skip


class _Reader:
    """Folds stamped events into an Evidence."""

    def __init__(self) -> None:
        self.hello: dict[str, Any] | None = None
        self.updates: dict[int, dict[int, dict[str, Any]]] = {}
        self.marks: dict[int, MarkSeen] = {}
        self.fault: Fault | None = None
        self.loaded_files: set[str] = set()
        self.ended_ns: int | None = None
        self.notes: list[str] = []
        self.malformed = 0

    def take(self, t_ns: int, event: dict[str, Any]) -> None:  # noqa: C901  # one case a kind
        rank = int(event.get("rank", 0))
        match event["kind"]:
            case "hello":
                if rank == 0 and self.hello is None:
                    self.hello = event
            case "update":
                self._take_update(t_ns, rank, int(event["update"]))
            case "values":
                self._take_values(rank, event)
            case "mark":
                if rank == 0:
                    self._take_mark(t_ns, event)
            case "modules":
                self.loaded_files.update(str(file) for file in event["files"])
            case "fault":
                self.fault = self.fault or Fault(
                    type=event["type"], message=event["message"], phase=event["phase"],
                    memory=event.get("memory", "no"),
                )  # fmt: skip
            case "bye":
                if rank == 0:
                    self.ended_ns = t_ns
            case "note":
                self.notes.append(str(event["text"]))
            case _:
                self.malformed += 1

    def _take_update(self, t_ns: int, rank: int, update: int) -> None:
        seen = self.updates.setdefault(rank, {})
        if update != len(seen) + 1:
            raise ValueError(f"update {update} after {len(seen)}")
        seen[update] = {"update": update, "t_ns": t_ns}

    def _take_values(self, rank: int, event: dict[str, Any]) -> None:
        row = self.updates[rank][int(event["update"])]
        if "forwards" in row:
            raise ValueError("values said twice")
        row["non_finite"] = []
        for name in ("loss", "grad_norm", "update_norm"):
            value = event.get(name)
            number = None if value is None else float(value)
            if number is not None and not math.isfinite(number):
                row["non_finite"].append(name)
                number = None
            row[name] = number
        for name in _AS_THEY_ARE:
            if event.get(name) is not None:
                row[name] = event[name]
        row["forwards"] = event.get("forwards")

    def _take_mark(self, t_ns: int, event: dict[str, Any]) -> None:
        shapes = tuple(tuple(int(size) for size in shape) for shape in event["shapes"])
        flat = base64.b64decode(event["sketch"])
        values = struct.unpack(f"<{len(flat) // 4}f", flat)
        counts = [int(count) for count in event["counts"]]
        if sum(counts) != len(values):
            raise ValueError("a sketch that does not match its counts")
        sketch, start = [], 0
        for count in counts:
            part = values[start : start + count]
            sketch.append(tuple(v if math.isfinite(v) else 0.0 for v in part))
            start += count
        self.marks[int(event["update"])] = MarkSeen(
            update=int(event["update"]), t_ns=t_ns, sketch=tuple(sketch), shapes=shapes,
            census=event["census"], flags=event.get("flags", {}),
            memory=event.get("memory", {}), num_threads=event.get("num_threads"),
            num_children=event.get("num_children"),
        )  # fmt: skip

    def evidence(self) -> Evidence:
        ranks = {
            rank: tuple(UpdateSeen.model_validate(row) for _, row in sorted(rows.items()))
            for rank, rows in self.updates.items()
        }
        return Evidence(
            hello=self.hello, updates=ranks.get(0, ()), ranks=ranks, fault=self.fault,
            marks=tuple(mark for _, mark in sorted(self.marks.items())),
            loaded_files=tuple(sorted(self.loaded_files)), ended_ns=self.ended_ns,
            notes=tuple(self.notes), malformed=self.malformed,
        )  # fmt: skip
