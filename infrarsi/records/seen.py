"""What one rank's witness saw, piece by piece, and how the ranks' marks become one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from infrarsi.records.base import Record
from infrarsi.records.samples import Sampled, Samples


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
    """What the witness saw at a mark, after a device synchronisation.

    Of several ranks, the sketch and the shapes are rank 0's; the census is all ranks' together,
    so that no rank computes in a precision of its own unseen.
    """

    update: int
    """The mark stands after this update; 0 is before the first."""
    t_ns: int
    """When the parent received it, from the slowest rank."""
    sketch: Sampled = Samples.of(())
    """Sampled elements, one tuple for each parameter in order."""
    shapes: tuple[tuple[int, ...], ...] = ()
    """The shape of each parameter, in order."""
    census: dict[str, dict[str, int]] = {}
    """Element or call counts by dtype: parameters, gradients, optimizer_state, matmul."""
    flags: dict[str, str | bool | int | None] = {}
    """Global precision switches and generator facts of rank 0, and under ``name (rank k)`` those
    of another rank that differ from them."""
    memory: dict[str, int] = {}
    """Allocator figures in bytes, where there is an accelerator: the largest rank's."""
    num_threads: int | None = None
    num_children: int | None = None


class Fault(Record):
    """An exception that ended the program."""

    type: str
    message: str
    phase: str
    memory: str = "no"
    """``yes``, ``no`` or ``ambiguous``: whether it is an out-of-memory."""
    rank: int = 0

    @property
    def is_echo(self) -> bool:
        """Whether it is what a rank says when another one is gone, and no cause of its own."""
        return is_echo(f"{self.type}: {self.message}")


_ECHO = re.compile(
    r"connection (was )?(closed|reset|refused|aborted)|broken pipe|socket (closed|timeout)|"
    r"remote process (exited|has been terminated)|ncclRemoteError|communicator was aborted|"
    r"timed out waiting \d+ ?ms for (recv|send)|recvBytes|sendBytes|RendezvousClosedError|"
    r"watchdog caught collective|collective operation timeout|DistNetworkError|DistStoreError|"
    r"peer .*(gone|disconnected)|failed to recv",
    re.IGNORECASE,
)


def is_echo(text: str) -> bool:
    """Tell whether an exception only says that another rank, or its connection, is gone."""
    return _ECHO.search(text) is not None


_LISTING_FLAGS = {"autocast_dtypes": ",", "precision_calls": ";"}
"""Flags that hold a list, and what stands between its entries."""


def join_marks(marks: Mapping[int, MarkSeen]) -> MarkSeen:
    """Join the ranks' marks after one update into one; rank 0 must be among them."""
    first = marks[0]
    if len(marks) == 1:
        return first
    others = [marks[rank] for rank in sorted(marks)]
    flags = dict(first.flags)
    for rank, mark in sorted(marks.items()):
        different = {k: v for k, v in mark.flags.items() if v != first.flags.get(k)}
        for name, value in different.items():
            if name in _LISTING_FLAGS:
                flags[name] = _listed(flags.get(name), value, separator=_LISTING_FLAGS[name])
            else:
                flags[f"{name} (rank {rank})"] = value
    return first.model_copy(
        update={
            "t_ns": max(each.t_ns for each in others),
            "census": {
                kind: _summed(each.census.get(kind, {}) for each in others)
                for kind in dict.fromkeys(kind for each in others for kind in each.census)
            },
            "flags": flags,
            "memory": _largest(others),
        }
    )


def _listed(left: object, right: object, *, separator: str) -> str:
    """Join two lists that are written as texts."""
    entries = [
        part.strip() for text in (left, right) if text for part in str(text).split(separator)
    ]
    return f"{separator} ".join(dict.fromkeys(filter(None, entries)))


def _summed(counts: Iterable[dict[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for each in counts:
        for dtype, count in each.items():
            total[dtype] = total.get(dtype, 0) + count
    return total


def _largest(marks: Sequence[MarkSeen]) -> dict[str, int]:
    largest: dict[str, int] = {}
    for each in marks:
        for name, size in each.memory.items():
            largest[name] = max(size, largest.get(name, size))
    return largest
