"""Tobit regression: normal errors, with some outcomes known only to exceed a limit.

The maximum a posteriori estimate is found directly on (coefficients, log sigma) with an
analytic gradient. For intervals sigma is marginalised on a grid; at each of its values the
posterior of the coefficients is log-concave, and a normal with its moments stands for it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from infrarsi.search.mixture import Floats, Ints, Mixture
from infrarsi.search.propagation import Sites, hazard, propagate

_LOG_SIGMA_RANGE = (-9.0, 3.0)
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
    weights, sigmas, means, covariances
        The grid over sigma, shapes ``(h,)``, ``(h,)``, ``(h, d)``, ``(h, d, d)``.
    evidence
        Log marginal likelihood, up to what the prior does not change.
    """

    coefficients: Floats
    sigma: float
    weights: Floats
    sigmas: Floats
    means: Floats
    covariances: Floats
    evidence: float = 0.0

    def predict(self, columns: Floats) -> Mixture:
        """Predict new outcomes, noise included; ``columns`` has shape ``(m, d)``."""
        means = columns @ self.means.T
        spread = np.einsum("md,hde,me->mh", columns, self.covariances, columns, optimize=True)
        sds = np.sqrt(np.maximum(spread, 0.0) + self.sigmas**2)
        return Mixture(self.weights, means, sds)

    def coefficient_moments(self) -> tuple[Floats, Floats]:
        """Give the posterior mean and standard deviation of each coefficient."""
        mean = self.weights @ self.means
        within = np.einsum("hdd->hd", self.covariances)
        variance = self.weights @ (within + (self.means - mean) ** 2)
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
    from scipy.special import log_ndtr

    beta, log_sigma = theta[:-1], float(theta[-1])
    sigma = np.exp(log_sigma)
    measured = data.censored == 0
    z = (data.outcome - data.columns @ beta) / sigma
    u = np.where(measured, 0.0, -data.censored * z)
    ratio = hazard(u)
    cost = np.where(measured, 0.5 * z**2 + log_sigma, -log_ndtr(u))
    slope = np.where(measured, -z, -ratio * data.censored) / sigma
    by_log_sigma = np.where(measured, 1 - z**2, ratio * u).sum()

    away = (beta - prior.mean) / prior.sd
    known = prior.sign != 0
    v = prior.sign * beta / _SOFTNESS
    pull = np.where(known, hazard(v), 0.0) * prior.sign / _SOFTNESS
    off = (log_sigma - prior.log_sigma_mean) / prior.log_sigma_sd
    value = cost.sum() + 0.5 * (away**2).sum() - log_ndtr(v[known]).sum() + 0.5 * off**2
    gradient = data.columns.T @ slope + away / prior.sd - pull
    return float(value), np.append(gradient, by_log_sigma + off / prior.log_sigma_sd)


def most_likely_tobit(data: TobitData, prior: TobitPrior) -> Floats:
    """Give the maximum a posteriori coefficients, then log sigma, shape ``(d + 1,)``."""
    from scipy.optimize import minimize

    # In units of about a posterior sd each, the search needs few steps.
    pull = np.square(data.columns).sum(axis=0) * np.exp(-2 * prior.log_sigma_mean)
    unit = np.append(1 / np.sqrt(1 / prior.sd**2 + pull), min(prior.log_sigma_sd, 0.3))
    start = np.append(prior.mean, prior.log_sigma_mean)

    def objective(steps: Floats) -> tuple[float, Floats]:
        value, gradient = negative_log_posterior(start + unit * steps, data, prior=prior)
        return value, gradient * unit

    bounds = [(None, None)] * len(prior.mean)
    bounds += [tuple((np.array(_LOG_SIGMA_RANGE) - prior.log_sigma_mean) / unit[-1])]
    found = minimize(objective, np.zeros(len(start)), jac=True, method="L-BFGS-B", bounds=bounds)
    return np.asarray(start + unit * np.asarray(found.x))


def fit_tobit(data: TobitData, prior: TobitPrior, *, num_grid: int = 13) -> TobitFit:
    """Fit the model.

    Not to be trusted where the error is far from normal (two-peaked, or growing with a
    column), or far outside the range of the columns that were tried.
    """
    theta = most_likely_tobit(data, prior)
    beta, log_sigma = theta[:-1], float(theta[-1])
    grid = _sigma_grid(log_sigma, data, prior=prior, num=num_grid)
    means, covariances, evidence = propagate(
        *_normal_part(grid, data, prior), sites=_one_sided_part(grid, data, prior)
    )
    measured = data.outcome[data.censored == 0]
    evidence = evidence - 0.5 * (measured @ measured) / np.exp(2 * grid) - len(measured) * grid
    evidence = evidence - 0.5 * ((grid - prior.log_sigma_mean) / prior.log_sigma_sd) ** 2
    weights = np.exp(evidence - evidence.max())
    spacing = float(np.log(grid[1] - grid[0])) if len(grid) > 1 else 0.0
    of_prior = -0.5 * np.square(prior.mean / prior.sd).sum() - np.log(prior.sd).sum()
    return TobitFit(
        coefficients=beta,
        sigma=float(np.exp(log_sigma)),
        weights=weights / weights.sum(),
        sigmas=np.exp(grid),
        means=means,
        covariances=covariances,
        evidence=float(evidence.max() + np.log(weights.sum()) + spacing + of_prior),
    )


def _normal_part(grid: Floats, data: TobitData, prior: TobitPrior) -> tuple[Floats, Floats]:
    """Give precision and shift of the prior and the measured rows, for each log sigma."""
    measured = data.censored == 0
    rows, outcome = data.columns[measured], data.outcome[measured]
    certainty = np.exp(-2 * grid)
    precision = np.diag(1 / prior.sd**2) + certainty[:, None, None] * (rows.T @ rows)
    return precision, prior.mean / prior.sd**2 + certainty[:, None] * (rows.T @ outcome)


def _one_sided_part(grid: Floats, data: TobitData, prior: TobitPrior) -> Sites:
    """Give the censored rows, and the coefficients of known sign, as one-sided sites."""
    censored, known = data.censored != 0, prior.sign != 0
    num_signs = int(known.sum())
    sigmas = np.repeat(np.exp(grid)[:, None], int(censored.sum()), axis=1)
    return Sites(
        rows=np.vstack([data.columns[censored], np.eye(len(prior.mean))[known]]),
        side=np.concatenate([data.censored[censored], prior.sign[known]]).astype(np.float64),
        bound=np.concatenate([data.outcome[censored], np.zeros(num_signs)]),
        scale=np.hstack([sigmas, np.full((len(grid), num_signs), _SOFTNESS)]),
    )


def _sigma_grid(log_sigma: float, data: TobitData, *, prior: TobitPrior, num: int) -> Floats:
    """Spread a grid around the joint mode, farther up than down.

    The joint mode lies too low, for it has spent the data on the coefficients too; how far
    depends on how many measured rows are left over.
    """
    num_measured = int((data.censored == 0).sum())
    num_left = max(num_measured - len(prior.mean), 0)
    down = 1 / np.sqrt(1 / prior.log_sigma_sd**2 + 2 * num_measured)
    up = 1 / np.sqrt(1 / prior.log_sigma_sd**2 + 2 * num_left)
    low, high = log_sigma - 3 * min(down, 1.0), log_sigma + 4 * min(up, 1.0)
    return np.linspace(low, high, num)
