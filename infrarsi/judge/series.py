"""The numbers of one launch as arrays, ranks joined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from infrarsi.records.evidence import Evidence, MarkSeen, UpdateSeen
from infrarsi.records.samples import Samples

Floats = NDArray[np.float64]

_SAME_NORM = 1e-5
"""Ranks whose norms agree this closely hold the same gradient; else each holds a part."""


@dataclass(frozen=True)
class Series:
    """Columns over updates 1..n, at index update - 1; ``nan`` is "not seen"."""

    t_s: Floats
    """Seconds since the launch at which the *slowest* rank ended the update."""
    loss: Floats
    grad_norm: Floats
    update_norm: Floats
    non_finite: dict[str, tuple[int, ...]]
    """By metric: the updates at which some rank saw a value that was not finite."""

    def __len__(self) -> int:
        return len(self.t_s)

    def metric(self, name: str) -> Floats:
        """Give the column of a metric by its name."""
        columns = {
            "loss": self.loss, "grad_norm": self.grad_norm, "update_norm": self.update_norm
        }  # fmt: skip
        return columns[name]


@dataclass(frozen=True)
class Sketch:
    """The sampled parameter elements at one mark, flat."""

    values: Floats
    sizes: tuple[int, ...]
    """Sampled elements of each parameter, in order."""
    shapes: tuple[tuple[int, ...], ...]

    def fits(self, other: Sketch) -> bool:
        """Tell whether the two sample the same parameters in the same order."""
        return self.sizes == other.sizes and self.shapes == other.shapes


def rows_of(evidence: Evidence) -> list[tuple[UpdateSeen, ...]]:
    """Give each rank's updates; a launch of one process has one rank."""
    ranks = [evidence.ranks[rank] for rank in sorted(evidence.ranks)]
    return ranks or [evidence.updates]


def series_of(evidence: Evidence) -> Series:
    """Join the ranks of a launch.

    The stamp is the slowest rank's; the loss is the mean over the ranks that have one; a norm
    is the ranks' common value where they agree (replicated gradients) and the root of the sum
    of squares where they do not, or where the witness saw shards. Ends at the last update that
    all ranks ended.
    """
    ranks = rows_of(evidence)
    length = min(len(rows) for rows in ranks)
    ranks = [rows[:length] for rows in ranks]
    sharded = any(row.sharded for rows in ranks for row in rows)
    stamps = np.array([[row.t_ns for row in rows] for rows in ranks], dtype=np.float64)
    broken: dict[str, tuple[int, ...]] = {}
    for name in ("loss", "grad_norm", "update_norm"):
        seen = {row.update for rows in ranks for row in rows if name in row.non_finite}
        broken[name] = tuple(sorted(seen))
    return Series(
        t_s=stamps.max(axis=0) * 1e-9 if length else np.empty(0),
        loss=_mean(_column(ranks, "loss")),
        grad_norm=_norm(_column(ranks, "grad_norm"), sharded=sharded),
        update_norm=_norm(_column(ranks, "update_norm"), sharded=sharded),
        non_finite=broken,
    )


def length_of(values: Floats) -> float:
    """Give the L2 norm; summed by numpy itself, for BLAS would wake a thread for each processor."""
    return float(np.sqrt(np.square(values).sum()))


def sketch_of(mark: MarkSeen) -> Sketch:
    """Flatten a mark's sketch."""
    samples = Samples.of(mark.sketch)
    flat = np.array(samples.flat, dtype=np.float64)
    return Sketch(values=flat, sizes=samples.counts, shapes=mark.shapes)


def _column(ranks: Sequence[Sequence[UpdateSeen]], name: str) -> Floats:
    return np.array(
        [[np.nan if (v := getattr(row, name)) is None else v for row in rows] for rows in ranks],
        dtype=np.float64,
    ).reshape(len(ranks), -1)


def _mean(values: Floats) -> Floats:
    seen = np.isfinite(values)
    count = seen.sum(axis=0)
    total = np.where(seen, values, 0.0).sum(axis=0)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _norm(values: Floats, *, sharded: bool) -> Floats:
    seen = np.isfinite(values)
    if len(values) == 1:
        return np.where(seen[0], values[0], np.nan)
    filled = np.where(seen, values, 0.0)
    high, low = filled.max(axis=0), np.where(seen, values, np.inf).min(axis=0)
    replicated = seen.all(axis=0) & (high - low <= _SAME_NORM * high) & (not sharded)
    joined = np.where(replicated, filled[0], np.sqrt((filled**2).sum(axis=0)))
    return np.where(seen.any(axis=0), joined, np.nan)
