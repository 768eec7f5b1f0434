"""A weighted mixture of normal distributions: what every model here predicts with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from infrarsi.records.estimate import Estimate

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]

_LARGEST_EXPONENT = 80.0
"""exp() of more would not be a number of seconds or bytes that means anything."""


@dataclass(frozen=True)
class Mixture:
    """Predictions for ``m`` candidates, averaged over ``h`` settings of a model.

    Attributes
    ----------
    weights
        Weight of each setting, shape ``(h,)``; sums to 1.
    means, sds
        Mean and standard deviation under each setting, shape ``(m, h)``, log units.
    """

    weights: Floats
    means: Floats
    sds: Floats

    def mean(self) -> Floats:
        """Give the mean of each prediction, shape ``(m,)``."""
        return np.asarray(self.means @ self.weights, dtype=np.float64)

    def below(self, bound: float | Floats) -> Floats:
        """Give the probability of lying below a bound (one, or one a candidate)."""
        from scipy.special import ndtr

        bounds = np.broadcast_to(np.asarray(bound, dtype=np.float64), self.means.shape[:1])
        return np.asarray(ndtr((bounds[:, None] - self.means) / self.sds) @ self.weights)

    def expected_below(self, bound: float) -> Floats:
        """Give the expected amount by which each prediction undercuts a bound.

        With log time this is the expected log improvement over the best time.
        """
        from scipy.special import ndtr

        standard = (bound - self.means) / self.sds
        density = np.exp(-0.5 * standard**2) / np.sqrt(2 * np.pi)
        gain = self.sds * (standard * ndtr(standard) + density)
        return np.asarray(np.maximum(gain, 0.0) @ self.weights)

    def quantile(self, level: float) -> Floats:
        """Give the quantile of each prediction, by bisection, shape ``(m,)``."""
        low = (self.means - 9 * self.sds).min(axis=1)
        high = (self.means + 9 * self.sds).max(axis=1)
        for _ in range(60):
            middle = 0.5 * (low + high)
            beneath = self.below(middle) < level
            low, high = np.where(beneath, middle, low), np.where(beneath, high, middle)
        return np.asarray(0.5 * (low + high))

    def widened(self, sd: float) -> Mixture:
        """Give this mixture with independent noise added."""
        return Mixture(self.weights, self.means, np.sqrt(self.sds**2 + sd**2))

    def estimate(self, level: float = 0.95) -> Estimate:
        """Give the first prediction on the natural scale: its median and its interval."""
        tail = (1 - level) / 2
        logs = [float(self.quantile(each)[0]) for each in (tail, 0.5, 1 - tail)]
        low, point, high = (float(np.exp(min(each, _LARGEST_EXPONENT))) for each in logs)
        return Estimate(low=low, point=point, high=high, level=level)
