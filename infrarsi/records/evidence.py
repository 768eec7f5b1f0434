"""What one launch left behind: stamped events of the witness, and what the parent saw.

The raw form is a text artifact, one JSON object a line: ``{"t_ns": ..., "event": {...}}``,
the stamp being the parent's monotonic clock on receipt, counted from the moment before the
process was started. :func:`read_evidence` gives the parsed form that judging works on. The
event schema is documented in ``docs/witness-events.md``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from pydantic import TypeAdapter

from infrarsi.records.base import Record
from infrarsi.records.replayed import KeptSeen, ReplaySeen, kept_of, replay_of
from infrarsi.records.samples import Samples
from infrarsi.records.seen import Fault, MarkSeen, UpdateSeen, is_echo, join_marks

__all__ = ["Evidence", "Fault", "MarkSeen", "UpdateSeen", "is_echo", "lines_of", "read_evidence"]


class Evidence(Record):
    """One launch, parsed."""

    hello: dict[str, Any] | None = None
    """The witness's first word of rank 0, or ``None`` where it never spoke."""
    world_size: int | None = None
    """How many ranks there are, by the largest number that a rank named."""
    greeted: tuple[int, ...] = ()
    """The ranks whose witness spoke."""
    updates: tuple[UpdateSeen, ...] = ()
    """Rank 0's updates, in order."""
    marks: tuple[MarkSeen, ...] = ()
    ranks: dict[int, tuple[UpdateSeen, ...]] = {}
    """Each rank's own updates; none of a rank that spoke and made none."""
    fault: Fault | None = None
    """The exception that ended it: of several ranks the first that is no echo of another's."""
    loaded_files: tuple[str, ...] = ()
    """Files of modules loaded from outside the interpreter's own packages."""
    own_modules: tuple[str, ...] = ()
    """Names of the top-level modules among them."""
    packages: tuple[str, ...] | None = None
    """Entries of the interpreter's package folders that modules were loaded from: ``numpy``.
    ``None``: the witness did not say."""
    ended_ns: int | None = None
    """When the witness said that the program ended by itself."""
    notes: tuple[str, ...] = ()
    """What the witness could not see, in its own words."""
    kept: tuple[KeptSeen, ...] = ()
    """What each rank says of the state that it was asked to keep."""
    replayed: tuple[ReplaySeen, ...] = ()
    """What each rank says of the updates that it was to replay, in order."""
    malformed: int = 0
    """Lines on the channel that were not events of this schema."""

    @property
    def tokens_per_update(self) -> int | None:
        """Input tokens of all ranks in the first update whose values came.

        A killed launch loses the last.
        """
        ranks = list(self.ranks.values()) or [self.updates]
        for rows in zip(*ranks, strict=False):
            counts: list[int] = [row.tokens for row in rows if row.tokens is not None]
            if len(counts) == len(rows):
                return sum(counts)
        return None

    @property
    def missing_ranks(self) -> tuple[int, ...]:
        """The ranks that should have spoken and did not."""
        return tuple(sorted(set(range(self.world_size or 0)) - set(self.greeted)))

    def mark_at(self, update: int) -> MarkSeen | None:
        """Give the mark that stands after an update, if there is one."""
        return next((mark for mark in self.marks if mark.update == update), None)


def lines_of(content: bytes) -> list[bytes]:
    """Split what a channel left into its lines."""
    # A carriage return ends a line too; looking for one first is far quicker than splitlines.
    return content.splitlines() if b"\r" in content else content.split(b"\n")


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
            stamped = _parsed(line)
            reader.take(int(stamped["t_ns"]), stamped["event"])
        except (ValueError, KeyError, TypeError, OverflowError):
            reader.malformed += 1
    return reader.evidence()


@lru_cache(maxsize=16)
def _whole(shapes: tuple[tuple[Any, ...], ...]) -> tuple[tuple[int, ...], ...]:
    """Read shapes as whole numbers: equal ones as one object, so that comparing takes no time."""
    return tuple(tuple(map(int, shape)) for shape in shapes)


_JSON: TypeAdapter[Any] = TypeAdapter(Any)


def _parsed(line: bytes | str) -> Any:
    """Read a line of JSON; what the quick parser refuses (lone surrogates), the other may read."""
    try:
        return _JSON.validate_json(line)
    except ValueError:
        return json.loads(line)


_MOST_RANKS = 1 << 16
_AS_THEY_ARE = (
    "batch", "inputs", "sequences", "tokens", "target_tokens", "phase_s", "sharded", "skipped",
)  # fmt: skip


class _Reader:
    """Folds stamped events into an Evidence."""

    def __init__(self) -> None:
        self.hello: dict[str, Any] | None = None
        self.world_size: int | None = None
        self.updates: dict[int, dict[int, dict[str, Any]]] = {}
        self.marks: dict[int, dict[int, MarkSeen]] = {}
        self.faults: list[Fault] = []
        self.loaded_files: set[str] = set()
        self.own_modules: set[str] = set()
        self.packages: set[str] | None = None
        self.ended_ns: int | None = None
        self.notes: list[str] = []
        self.kept: list[KeptSeen] = []
        self.replayed: list[ReplaySeen] = []
        self.malformed = 0

    def take(self, t_ns: int, event: dict[str, Any]) -> None:
        rank = int(event.get("rank", 0))
        match event["kind"]:
            case "hello":
                self._take_hello(rank, event)
            case "update":
                self._take_update(t_ns, rank, int(event["update"]))
            case "values":
                self._take_values(rank, event)
            case "mark":
                self._take_mark(t_ns, rank, event)
            case "modules":
                self._take_modules(event)
            case "fault":
                self.faults.append(
                    Fault(
                        type=event["type"], message=event["message"], phase=event["phase"],
                        memory=event.get("memory", "no"), rank=rank,
                    )
                )  # fmt: skip
            case "bye":
                if rank == 0:
                    self.ended_ns = t_ns
            case "note" | "kept" | "replayed":
                self._take_answer(event)
            case _:
                self.malformed += 1

    def _take_modules(self, event: dict[str, Any]) -> None:
        self.loaded_files.update(str(file) for file in event["files"])
        self.own_modules.update(str(name) for name in event.get("own") or ())
        if event.get("packages") is not None:
            self.packages = (self.packages or set()) | {str(each) for each in event["packages"]}

    def _take_answer(self, event: dict[str, Any]) -> None:
        match event["kind"]:
            case "kept":
                self.kept.append(kept_of(event))
            case "replayed":
                self.replayed.append(replay_of(event))
            case _:
                self.notes.append(str(event["text"]))

    def _take_hello(self, rank: int, event: dict[str, Any]) -> None:
        if rank == 0 and self.hello is None:
            self.hello = event
        said = event.get("world_size")
        if isinstance(said, int) and 0 < said <= _MOST_RANKS:
            self.world_size = max(said, self.world_size or 1)
        self.updates.setdefault(rank, {})

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

    def _take_mark(self, t_ns: int, rank: int, event: dict[str, Any]) -> None:
        sketch = Samples.from_base64(event["sketch"], _whole((tuple(event["counts"]),))[0])
        mark = MarkSeen(
            update=int(event["update"]), t_ns=t_ns, sketch=sketch,
            census=event["census"], flags=event.get("flags", {}),
            memory=event.get("memory", {}), num_threads=event.get("num_threads"),
            num_children=event.get("num_children"),
        )  # fmt: skip
        # Shapes are whole numbers by now; as fields they would be looked at one by one again.
        shapes = _whole(tuple(map(tuple, event["shapes"])))
        self.marks.setdefault(mark.update, {})[rank] = mark.model_copy(update={"shapes": shapes})

    def evidence(self) -> Evidence:
        ranks = {
            rank: tuple(UpdateSeen.model_validate(row) for _, row in sorted(rows.items()))
            for rank, rows in self.updates.items()
        }
        own = [each for each in self.faults if not each.is_echo]
        return Evidence(
            hello=self.hello, updates=ranks.get(0, ()), ranks=ranks,
            world_size=self.world_size, greeted=tuple(sorted(ranks)),
            fault=next(iter(own or self.faults), None),
            marks=tuple(join_marks(marks) for _, marks in sorted(self.marks.items()) if 0 in marks),
            loaded_files=tuple(sorted(self.loaded_files)), ended_ns=self.ended_ns,
            own_modules=tuple(sorted(self.own_modules)),
            packages=None if self.packages is None else tuple(sorted(self.packages)),
            notes=tuple(dict.fromkeys(self.notes)), malformed=self.malformed,
            kept=tuple(self.kept), replayed=tuple(self.replayed),
        )  # fmt: skip
