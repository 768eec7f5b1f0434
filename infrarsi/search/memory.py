"""The peak-memory model: which candidates fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from infrarsi.records.history import Observation
from infrarsi.search.expectations import memory_claims
from infrarsi.search.features import hunger_signs, memory_columns
from infrarsi.search.lattice import Lattice, Point
from infrarsi.search.mixture import Bools, Floats, Ints, Mixture
from infrarsi.search.physics import MemoryFormula
from infrarsi.search.tobit import TobitData, TobitPrior, fit_tobit, most_likely_tobit

_SIGNED = {"doubling": (0.25, 0.25), "step": (0.3, 0.35)}
"""Mean and sd, log memory a unit, of a knob that is known to raise memory."""
_UNSIGNED_SD = 0.3
_LEFT_BY_FORMULA_SD = 0.05
"""Sd, log memory a unit of a knob, of what the formula does not explain."""
_LOG_SIGMA, _LOG_SIGMA_OF_FORMULA = -1.4, -2.3
"""Prior mean of the log error: columns that add up miss what a formula of terms follows."""
_LINEARISATIONS = 6
DOMINATED_P_FITS = 0.006
"""A candidate hungrier than one that ran out fits about this often (7 in 1,193 public cases)."""


class MemoryModel:
    """Log peak memory, linear in the columns, with an OOM censored at the capacity.

    A launch that fitted but whose peak is not known counts as lying below the capacity.
    Refused candidates are left out: what they measured may be of another workload.

    Parameters
    ----------
    believed
        Changes the prior of the coefficients to what is known from elsewhere.

    Attributes
    ----------
    evidence
        Log marginal likelihood, for comparing priors on the same trials.
    """

    def __init__(
        self,
        lattice: Lattice,
        seen: Sequence[tuple[Point, Observation]],
        *,
        formula: MemoryFormula | None = None,
        believed: Callable[[TobitPrior], TobitPrior] | None = None,
    ) -> None:
        self._formula = formula
        self._columns = memory_columns(lattice)
        self._knows_capacity = lattice.space.knows_capacity
        self._log_capacity = float(np.log(max(lattice.space.capacity_bytes, 1)))
        used = [(point, each) for point, each in seen if each.status in ("ok", "oom")]
        num = lattice.num_knobs + lattice.num_patches
        points = np.array([p for p, _ in used], dtype=np.int64).reshape(len(used), num)
        observations = [each for _, each in used]
        self.coefficients: Floats = formula.mean if formula else np.zeros(0)
        prior = self._prior(lattice) if believed is None else believed(self._prior(lattice))
        outcome = np.array([self._outcome(each) for each in observations])
        censored = np.array([self._censoring(each) for each in observations], dtype=np.int64)
        for _ in range(_LINEARISATIONS if formula else 0):
            data = TobitData(self._design(points), outcome - self._offset(points), censored)
            found = most_likely_tobit(data, prior)[: len(self.coefficients)]
            step = np.clip(found - self.coefficients, -1.0, 1.0)
            self.coefficients = self.coefficients + step
            if np.abs(step).max() < 1e-3:
                break
        self._fit = fit_tobit(
            TobitData(self._design(points), outcome - self._offset(points), censored), prior
        )
        self.evidence = self._fit.evidence
        ran_out = np.array([each.status == "oom" for each in observations], dtype=np.bool_)
        self._ran_out, self._fitted = points[ran_out], points[~ran_out]
        self.signs = self._hunger(lattice)

    def predict(self, points: Ints) -> Mixture:
        """Predict log peak memory in bytes."""
        found = self._fit.predict(self._design(points))
        return Mixture(found.weights, found.means + self._offset(points)[:, None], found.sds)

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

    def coefficient_moments(self) -> tuple[Floats, Floats]:
        """Give the posterior mean and sd of each of the formula's coefficients."""
        mean, sd = self._fit.coefficient_moments()
        num = len(self.coefficients)
        return mean[:num], sd[:num]

    def _moments(self) -> tuple[Floats, Floats]:
        mean, sd = self._fit.coefficient_moments()
        first = len(mean) - self._columns.num_patches
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
        signed = self.signs != 0
        # Of others that are equal where no direction is known, each asks its own points.
        alike = np.unique(np.vstack([points, others])[:, ~signed], axis=0, return_inverse=True)[1]
        mine, theirs = np.split(alike.reshape(-1), [len(points)])
        rank, bounds = (rows[:, signed] * self.signs[signed] * way for rows in (points, others))
        found = np.zeros(len(points), dtype=np.bool_)
        for kind in np.intersect1d(mine, theirs):
            here = np.flatnonzero(mine == kind)
            beyond = rank[here, None, :] >= bounds[None, theirs == kind, :]
            found[here] = beyond.all(axis=2).any(axis=1)
        return found

    def _design(self, points: Ints) -> Floats:
        first = np.ones((len(points), 1))
        if self._formula is not None:
            first = self._formula.at(points, self.coefficients)[1]
        return np.hstack([first, self._columns.of(points)])

    def _offset(self, points: Ints) -> Floats:
        """Give what the formula says beyond what is linear in its coefficients."""
        if self._formula is None:
            return np.zeros(len(points))
        value, slopes = self._formula.at(points, self.coefficients)
        return np.asarray(value - slopes @ self.coefficients)

    def _censoring(self, observation: Observation) -> int:
        """Tell what is known: 0 a peak, +1 it lies above the capacity, -1 below."""
        if observation.status == "oom":
            return 1
        # A peak means nothing beside a capacity that nobody knows.
        return 0 if observation.peak_bytes and self._knows_capacity else -1

    def _outcome(self, observation: Observation) -> float:
        if self._censoring(observation):
            return self._log_capacity
        return float(np.log(observation.peak_bytes or 1))

    def _prior(self, lattice: Lattice) -> TobitPrior:
        columns = self._columns
        mean, sd = [self._log_capacity - 0.7], [1.5]
        if self._formula is not None:
            mean, sd = self._formula.mean.tolist(), self._formula.sd.tolist()
        num_first = len(mean)
        for step, sign in zip(columns.steps, columns.signs, strict=True):
            if self._formula is not None:
                mean.append(0.0)
                sd.append(_LEFT_BY_FORMULA_SD)
                continue
            size, spread = _SIGNED.get(step, (0.0, _UNSIGNED_SD)) if sign else (0.0, _UNSIGNED_SD)
            mean.append(size * float(sign))
            sd.append(spread)
        if self._formula is None:
            self._take_claims(lattice, mean, num_first)
        for i, patch in enumerate(lattice.patches, start=len(mean) - lattice.num_patches):
            mean[i], sd[i] = patch.log_memory.mean, patch.log_memory.sd
        signs = columns.signs if self._formula is None else 0 * columns.signs
        first = np.zeros(num_first, dtype=np.int64)
        return TobitPrior(
            np.array(mean), np.array(sd), np.concatenate([first, signs]),
            log_sigma_mean=_LOG_SIGMA if self._formula is None else _LOG_SIGMA_OF_FORMULA,
        )  # fmt: skip

    def _take_claims(self, lattice: Lattice, mean: list[float], place: int) -> None:
        """Put what is generally known of a pool's knobs into the means of their columns."""
        for i, table in enumerate(self._columns.tables):
            claims = memory_claims(lattice, i)
            if claims is not None and not lattice.knobs[i].raises_memory:
                slopes = np.linalg.lstsq(table, claims, rcond=None)[0]
                mean[place : place + table.shape[1]] = slopes.tolist()
            place += table.shape[1]
