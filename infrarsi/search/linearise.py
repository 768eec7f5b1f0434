"""Coefficients of a formula from measurements: Gauss-Newton steps on their logarithms."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from infrarsi.search.mixture import Floats, Ints

_STEPS = 12
_LONGEST_STEP = 1.0
_SETTLED = 1e-4


class Formula(Protocol):
    """A formula with coefficients."""

    mean: Floats
    sd: Floats

    def at(self, points: Ints, theta: Floats) -> tuple[Floats, Floats]:
        """Give log values and their slopes at points."""
        ...


def most_likely(formula: Formula, points: Ints, *, logs: Floats, noise: Floats) -> Floats:
    """Give the maximum a posteriori logarithms of the coefficients.

    Parameters
    ----------
    formula
        With a normal prior on the logarithms.
    points
        What was measured, shape ``(n, d)``.
    logs, noise
        Logarithms measured and their variances, shape ``(n,)``.

    Notes
    -----
    Steps are no longer than a factor e in any coefficient and are halved where they would not
    help, so that a poor start cannot send it far; it ends after 12.
    """
    theta = formula.mean.copy()
    certainty = 1 / formula.sd**2

    def loss(at: Floats) -> float:
        left = logs - formula.at(points, at)[0]
        away = (at - formula.mean) ** 2 @ certainty
        return float((left**2 / noise).sum() + away)

    here = loss(theta)
    for _ in range(_STEPS if len(logs) else 0):
        value, slopes = formula.at(points, theta)
        weighted = slopes / noise[:, None]
        precision = weighted.T @ slopes + np.diag(certainty)
        pull = weighted.T @ (logs - value) - certainty * (theta - formula.mean)
        step = np.linalg.solve(precision, pull)
        longest = float(np.abs(step[formula.sd < 2]).max(initial=0.0))
        step *= min(1.0, _LONGEST_STEP / max(longest, 1e-12))
        while (there := loss(theta + step)) > here and np.abs(step).max() > _SETTLED:
            step = step / 2
        if there > here:
            break
        theta, here = theta + step, there
        if np.abs(step).max() < _SETTLED:
            break
    return theta


def spread_of(formula: Formula, points: Ints, *, theta: Floats, noise: Floats) -> Floats:
    """Give the posterior standard deviation of each coefficient's logarithm at the mode."""
    slopes = formula.at(points, theta)[1]
    precision = (slopes / noise[:, None]).T @ slopes + np.diag(1 / formula.sd**2)
    return np.asarray(np.sqrt(np.diag(np.linalg.inv(precision))))
