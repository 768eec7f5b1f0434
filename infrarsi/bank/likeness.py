"""How unlike two searches are: distance over normalised features, known before any trial.

Every size counts by its logarithm, one unit being a factor of 4; what is not a size counts by
whether it is the same. The distance is the root of the mean of squares over what is known on both
sides, each feature by its weight: 0 is the same, and 1 a factor of 4 in everything.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from infrarsi.records.experience import Hardware, TrainingContext

_UNIT = math.log(4)
_FARTHEST = 3.0
"""A feature counts at most this much: beyond it, unlike is unlike."""
_DEVICE = 3.0
_KIND = 1.0
_PRECISION = 1.0
_SOFTWARE = 0.25


@dataclass(frozen=True)
class Likeness:
    """What came of comparing two searches."""

    distance: float
    num_compared: int


def compare(
    left: tuple[TrainingContext, Hardware], right: tuple[TrainingContext, Hardware]
) -> Likeness:
    """Give the distance between two searches, and how many features it rests on."""
    rows = [*_contexts(left[0], right[0]), *_machines(left[1], right[1])]
    known = [(weight, distance) for weight, distance in rows if distance is not None]
    total = sum(weight for weight, _ in known)
    squares = sum(weight * distance**2 for weight, distance in known)
    return Likeness(math.sqrt(squares / total) if total else _FARTHEST, len(known))


def _contexts(a: TrainingContext, b: TrainingContext) -> Iterator[tuple[float, float | None]]:
    yield 1.0, _KIND * (a.kind != b.kind)
    yield 1.0, _PRECISION * (a.matmul != b.matmul)
    yield 2.0, _sizes(a.num_parameters, b.num_parameters)
    yield 1.0, _sizes(a.num_tensors, b.num_tensors)
    yield 1.0, _sizes(a.width, b.width)
    yield 0.5, _sizes(a.longest, b.longest)
    yield 2.0, _sizes(a.tokens_per_update, b.tokens_per_update)
    yield 1.0, _sizes(a.num_ranks, b.num_ranks)
    yield 1.0, _sizes(a.memory_share, b.memory_share)


def _machines(a: Hardware, b: Hardware) -> Iterator[tuple[float, float | None]]:
    yield 2.0, _DEVICE * (a.device != b.device)
    yield 1.0, _sizes(a.num, b.num)
    yield 1.0, _sizes(a.memory_bytes, b.memory_bytes)
    yield 1.0, _sizes(a.bandwidth_bytes_s, b.bandwidth_bytes_s)
    yield 1.0, _sizes(a.interconnect_bytes_s, b.interconnect_bytes_s)
    for dtype in sorted(a.peak_flops.keys() & b.peak_flops.keys()):
        yield 1.0, _sizes(a.peak_flops[dtype], b.peak_flops[dtype])
    yield 0.5, _SOFTWARE * (a.torch != b.torch)
    yield 0.5, _SOFTWARE * (a.cuda != b.cuda)


def _sizes(left: float | None, right: float | None) -> float | None:
    if not left or not right:
        return None
    return min(abs(math.log(left / right)) / _UNIT, _FARTHEST)
