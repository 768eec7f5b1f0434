"""The peak-memory model: which candidates fit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from infrarsi.records.history import Observation
from infrarsi.search.features import hunger_signs, memory_columns
from infrarsi.search.lattice import Lattice, Point
from infrarsi.search.mixture import Bools, Floats, Ints, Mixture
from infrarsi.search.tobit import TobitData, TobitPrior, fit_tobit

_SIGNED = {"doubling": (0.25, 0.25), "step": (0.3, 0.35)}
"""Mean and sd, log memory a unit, of a knob that is known to raise memory."""
_UNSIGNED_SD = 0.3
DOMINATED_P_FITS = 0.006
"""A candidate hungrier than one that ran out fits about this often (7 in 1,193 public cases)."""


class MemoryModel:
    """Log peak memory, linear in the columns, with an OOM censored at the capacity.

    A launch that fitted but whose peak is not known counts as lying below the capacity.
    Refused candidates are left out: what they measured may be of another workload.
    """

    def __init__(self, lattice: Lattice, seen: Sequence[tuple[Point, Observation]]) -> None:
        self._columns = memory_columns(lattice)
        self._log_capacity = float(np.log(max(lattice.space.capacity_bytes, 1)))
        used = [(point, each) for point, each in seen if each.status in ("ok", "oom")]
        num = lattice.num_knobs + lattice.num_patches
        points = np.array([p for p, _ in used], dtype=np.int64).reshape(len(used), num)
        observations = [each for _, each in used]
        self._fit = fit_tobit(
            TobitData(
                columns=self._design(points),
                outcome=np.array([self._outcome(each) for each in observations]),
                censored=np.array([_censoring(each) for each in observations], dtype=np.int64),
            ),
            self._prior(lattice),
        )
        ran_out = np.array([each.status == "oom" for each in observations], dtype=np.bool_)
        self._ran_out, self._fitted = points[ran_out], points[~ran_out]
        self.signs = self._hunger(lattice)

    def predict(self, points: Ints) -> Mixture:
        """Predict log peak memory in bytes."""
        return self._fit.predict(self._design(points))

    def p_fits(self, points: Ints) -> Floats:
        """Give the probability of staying under the capacity, shape ``(m,)``.

        A candidate at least as hungry as one that ran out, in every direction whose sign is
        known and equal in all others, practically never fits; one at most as hungry as one
        that fitted practically always does.
        """
        chance = self.predict(points).below(self._log_capacity)
        under = self._compare(points, self._fitted, way=-1)
        over = self._compare(points, self._ran_out, way=1)
        chance = np.where(under, np.maximum(chance, 0.98), chance)
        return np.where(over, np.minimum(chance, DOMINATED_P_FITS), chance)

    def saves(self) -> Floats:
        """Give the posterior mean of each patch's log effect on memory."""
        return self._moments()[0]

    def _moments(self) -> tuple[Floats, Floats]:
        mean, sd = self._fit.coefficient_moments()
        first = 1 + self._columns.num_columns - self._columns.num_patches
        return mean[first:], sd[first:]

    def _hunger(self, lattice: Lattice) -> Ints:
        # A patch's direction counts as known only where the posterior is clear about it.
        mean, sd = self._moments()
        patches = np.where(np.abs(mean) > 1.3 * sd, np.sign(mean), 0).astype(np.int64)
        return np.concatenate([hunger_signs(lattice), patches])

    def _compare(self, points: Ints, others: Ints, *, way: int) -> Bools:
        """Tell which points lie beyond any of the others, in the hungry way or against it."""
        if not len(others):
            return np.zeros(len(points), dtype=np.bool_)
        change = (points[:, None, :] - others[None, :, :]) * way
        beyond: Bools = np.where(self.signs == 0, change == 0, change * self.signs >= 0)
        return np.asarray(np.any(np.all(beyond, axis=2), axis=1))

    def _design(self, points: Ints) -> Floats:
        return np.hstack([np.ones((len(points), 1)), self._columns.of(points)])

    def _outcome(self, observation: Observation) -> float:
        if _censoring(observation):
            return self._log_capacity
        return float(np.log(observation.peak_bytes or 1))

    def _prior(self, lattice: Lattice) -> TobitPrior:
        columns = self._columns
        mean, sd = [self._log_capacity - 0.7], [1.5]
        for step, sign in zip(columns.steps, columns.signs, strict=True):
            size, spread = _SIGNED.get(step, (0.0, _UNSIGNED_SD)) if sign else (0.0, _UNSIGNED_SD)
            mean.append(size * float(sign))
            sd.append(spread)
        for i, patch in enumerate(lattice.patches, start=len(mean) - lattice.num_patches):
            mean[i], sd[i] = patch.log_memory.mean, patch.log_memory.sd
        return TobitPrior(np.array(mean), np.array(sd), np.concatenate([[0], columns.signs]))


def _censoring(observation: Observation) -> int:
    if observation.status == "oom":
        return 1
    return 0 if observation.peak_bytes else -1
