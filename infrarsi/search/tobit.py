"""Tobit regression: normal errors, with some outcomes known only to exceed a limit.

The maximum a posteriori estimate is found directly on (coefficients, log sigma) with an
analytic gradient. For intervals sigma is marginalised on a grid; at each of its values the
posterior of the coefficients is log-concave, and a Laplace approximation stands for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from infrarsi.search.mixture import Floats, Ints, Mixture

_SOFTNESS = 0.02
"""How far past zero a coefficient of known sign may stray before it costs much."""


@dataclass(frozen=True)
class TobitPrior:
    """What is believed before any data.

    Attributes
    ----------
    mean, sd
        Normal prior of each coefficient, shape ``(num columns,)``, log units a column unit.
    sign
        +1 or -1 where the coefficient is known to have that sign, else 0.
    log_sigma_mean, log_sigma_sd
        Normal prior of the logarithm of the error's standard deviation.
    """

    mean: Floats
    sd: Floats
    sign: Ints
    log_sigma_mean: float = -2.3
    log_sigma_sd: float = 0.6


@dataclass(frozen=True)
class TobitData:
    """Rows of columns and outcomes.

    Attributes
    ----------
    columns
        Shape ``(n, num columns)``; a column of ones stands for an intercept.
    outcome
        The measured value, or the limit where it was not measured; shape ``(n,)``.
    censored
        0 measured; +1 the value lies above ``outcome``; -1 below; shape ``(n,)``.
    """

    columns: Floats
    outcome: Floats
    censored: Ints


@dataclass(frozen=True)
class TobitFit:
    """A fitted model.

    Attributes
    ----------
    coefficients, sigma
        The joint maximum a posteriori estimate.
    weights, sigmas, modes, covariances
        The grid over sigma, shapes ``(h,)``, ``(h,)``, ``(h, d)``, ``(h, d, d)``.
    """

    coefficients: Floats
    sigma: float
    weights: Floats
    sigmas: Floats
    modes: Floats
    covariances: Floats

    def predict(self, columns: Floats) -> Mixture:
        """Predict new outcomes, noise included; ``columns`` has shape ``(m, d)``."""
        means = columns @ self.modes.T
        spread = np.einsum("md,hde,me->mh", columns, self.covariances, columns, optimize=True)
        sds = np.sqrt(np.maximum(spread, 0.0) + self.sigmas**2)
        return Mixture(self.weights, means, sds)

    def coefficient_moments(self) -> tuple[Floats, Floats]:
        """Give the posterior mean and standard deviation of each coefficient."""
        mean = self.weights @ self.modes
        within = np.einsum("hdd->hd", self.covariances)
        variance = self.weights @ (within + (self.modes - mean) ** 2)
        return mean, np.sqrt(np.maximum(variance, 0.0))


def negative_log_posterior(
    theta: Floats, data: TobitData, *, prior: TobitPrior
) -> tuple[float, Floats]:
    """Give the negative log posterior and its gradient, up to a constant.

    Parameters
    ----------
    theta
        The coefficients, then log sigma; shape ``(d + 1,)``.
    """
    beta, log_sigma = theta[:-1], float(theta[-1])
    value, gradient, _, by_log_sigma = _at_sigma(beta, log_sigma, data, prior)
    off = (log_sigma - prior.log_sigma_mean) / prior.log_sigma_sd
    return value + 0.5 * off**2, np.append(gradient, by_log_sigma + off / prior.log_sigma_sd)


def fit_tobit(data: TobitData, prior: TobitPrior, *, num_grid: int = 9) -> TobitFit:
    """Fit the model.

    Not to be trusted where the error is far from normal (two-peaked, or growing with a
    column), or far outside the range of the columns that were tried.
    """
    from scipy.optimize import minimize

    start = np.append(prior.mean, prior.log_sigma_mean)
    bounds = [(None, None)] * len(prior.mean) + [(-9.0, 3.0)]
    objective = partial(negative_log_posterior, data=data, prior=prior)
    found = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds)
    beta, log_sigma = np.asarray(found.x[:-1]), float(found.x[-1])
    num_measured = int((data.censored == 0).sum())
    width = 1 / np.sqrt(1 / prior.log_sigma_sd**2 + 2 * num_measured)
    grid = log_sigma + width * np.linspace(-2.5, 3.5, num_grid)
    modes, covariances, evidence = [], [], []
    for each in grid:
        mode, hessian, value = _mode_at(beta, float(each), data, prior)
        off = (each - prior.log_sigma_mean) / prior.log_sigma_sd
        modes.append(mode)
        covariances.append(np.linalg.inv(hessian))
        evidence.append(-value - 0.5 * off**2 - 0.5 * np.linalg.slogdet(hessian)[1])
    weights = np.exp(np.array(evidence) - max(evidence))
    return TobitFit(
        coefficients=beta,
        sigma=float(np.exp(log_sigma)),
        weights=weights / weights.sum(),
        sigmas=np.exp(grid),
        modes=np.array(modes),
        covariances=np.array(covariances),
    )


def _at_sigma(
    beta: Floats, log_sigma: float, data: TobitData, prior: TobitPrior
) -> tuple[float, Floats, Floats, float]:
    """Give value, gradient and Hessian in the coefficients, and the slope in log sigma."""
    from scipy.special import log_ndtr

    sigma = np.exp(log_sigma)
    mu = data.columns @ beta
    measured = data.censored == 0
    z = (data.outcome - mu) / sigma
    u = np.where(measured, 0.0, -data.censored * z)
    hazard = _hazard(u)
    slope = np.where(measured, -z, -hazard * data.censored) / sigma
    curve = np.where(measured, 1.0, hazard * (hazard + u)) / sigma**2
    cost = np.where(measured, 0.5 * z**2 + log_sigma, -log_ndtr(u))
    by_log_sigma = float(np.where(measured, 1 - z**2, hazard * u).sum())

    away = (beta - prior.mean) / prior.sd
    known = prior.sign != 0
    v = prior.sign * beta / _SOFTNESS
    pull = np.where(known, _hazard(v), 0.0)
    value = cost.sum() + 0.5 * (away**2).sum() - np.where(known, log_ndtr(v), 0.0).sum()
    gradient = data.columns.T @ slope + away / prior.sd - pull * prior.sign / _SOFTNESS
    own = 1 / prior.sd**2 + np.where(known, pull * (pull + v), 0.0) / _SOFTNESS**2
    hessian = (data.columns * curve[:, None]).T @ data.columns + np.diag(own)
    return float(value), gradient, hessian, by_log_sigma


def _hazard(u: Floats) -> Floats:
    """Give density over distribution function of the normal, stable far below zero."""
    from scipy.special import log_ndtr

    return np.asarray(np.exp(-0.5 * u**2 - 0.5 * np.log(2 * np.pi) - log_ndtr(u)))


def _mode_at(
    beta: Floats, log_sigma: float, data: TobitData, prior: TobitPrior
) -> tuple[Floats, Floats, float]:
    """Find the mode at a given sigma by damped Newton steps; the problem is convex."""
    value, gradient, hessian, _ = _at_sigma(beta, log_sigma, data, prior)
    for _ in range(40):
        step = np.linalg.solve(hessian, gradient)
        decrement = float(gradient @ step)
        if decrement < 1e-10:
            break
        scale = 1.0
        while scale > 1e-6:
            moved = beta - scale * step
            trial = _at_sigma(moved, log_sigma, data, prior)
            if trial[0] <= value - 1e-4 * scale * decrement:
                beta, (value, gradient, hessian, _) = moved, trial
                break
            scale /= 2
        else:
            break
    return beta, hessian, value
