"""Expectation propagation: a normal posterior under one-sided (censored) observations.

A Laplace approximation at the mode is too narrow towards the open side of a censored
observation; matching moments is not. Source: T. Minka, "Expectation Propagation for
approximate Bayesian inference", 2001; the sites are those of probit regression.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from infrarsi.search.mixture import Floats

_SWEEPS = 40
_DAMPING = 0.8
_TOLERANCE = 1e-4


@dataclass(frozen=True)
class Sites:
    """Factors ``Phi(side * (row . beta - bound) / scale)``, ``k`` of them.

    Attributes
    ----------
    rows
        Shape ``(k, d)``.
    side, bound
        Shape ``(k,)``; side is +1 (above) or -1 (below).
    scale
        Shape ``(h, k)``: one for each of ``h`` settings that are solved together.
    """

    rows: Floats
    side: Floats
    bound: Floats
    scale: Floats


def hazard(u: Floats) -> Floats:
    """Give density over distribution function of the normal, stable far below zero."""
    from scipy.special import log_ndtr

    return np.asarray(np.exp(-0.5 * u**2 - 0.5 * np.log(2 * np.pi) - log_ndtr(u)))


def propagate(precision: Floats, shift: Floats, *, sites: Sites) -> tuple[Floats, Floats, Floats]:
    """Combine normal beliefs with the sites.

    Parameters
    ----------
    precision, shift
        Natural parameters of the normal part, shapes ``(h, d, d)`` and ``(h, d)``.

    Returns
    -------
    means, covariances, evidence
        Shapes ``(h, d)``, ``(h, d, d)``, ``(h,)``. The evidence is a log normaliser, up to
        what does not depend on the sites' scale or on the normal part's parameters.

    Notes
    -----
    All sites are updated in parallel with damping. The sites are log-concave, for which
    this settles in practice; after 40 sweeps the last state is taken as it is.
    """
    from scipy.special import log_ndtr

    rows = sites.rows
    tau = np.zeros(sites.scale.shape)
    nu = np.zeros(sites.scale.shape)
    for _ in range(_SWEEPS):
        covariance, mean = _state(precision, shift, rows, tau, nu)
        m_cavity, v_cavity = _cavity(covariance, mean, rows, tau, nu)
        width = np.sqrt(sites.scale**2 + v_cavity)
        z = sites.side * (m_cavity - sites.bound) / width
        ratio = hazard(z)
        m_tilted = m_cavity + sites.side * v_cavity * ratio / width
        shrink = np.clip(v_cavity * ratio * (z + ratio) / width**2, 0.0, 1 - 1e-9)
        v_tilted = v_cavity * (1 - shrink)
        new_tau = np.maximum(1 / v_tilted - 1 / v_cavity, 0.0)
        new_nu = m_tilted / v_tilted - m_cavity / v_cavity
        change = np.abs(new_tau - tau) / (1 + np.abs(tau)) + np.abs(new_nu - nu) / (1 + np.abs(nu))
        tau += _DAMPING * (new_tau - tau)
        nu += _DAMPING * (new_nu - nu)
        if not change.size or change.max() < _TOLERANCE:
            break
    covariance, mean = _state(precision, shift, rows, tau, nu)
    m_cavity, v_cavity = _cavity(covariance, mean, rows, tau, nu)
    z = sites.side * (m_cavity - sites.bound) / np.sqrt(sites.scale**2 + v_cavity)
    m, v = _marginals(covariance, mean, rows)
    normalisers = log_ndtr(z) + 0.5 * (m_cavity**2 / v_cavity + np.log(v_cavity))
    normalisers -= 0.5 * (m**2 / v + np.log(v))
    whole = 0.5 * np.einsum("hd,hd->h", shift + nu @ rows, mean)
    evidence = normalisers.sum(axis=1) + whole + 0.5 * np.linalg.slogdet(covariance)[1]
    return mean, covariance, evidence


def _state(
    precision: Floats, shift: Floats, rows: Floats, tau: Floats, nu: Floats
) -> tuple[Floats, Floats]:
    weighted = rows[None, :, :] * tau[:, :, None]
    covariance = np.linalg.inv(precision + np.swapaxes(weighted, 1, 2) @ rows)
    mean = (covariance @ (shift + nu @ rows)[:, :, None])[:, :, 0]
    return np.asarray(covariance), np.asarray(mean)


def _marginals(covariance: Floats, mean: Floats, rows: Floats) -> tuple[Floats, Floats]:
    """Give mean and variance of each site's projection, shape ``(h, k)``."""
    variance = ((rows @ covariance) * rows).sum(axis=2)
    return mean @ rows.T, np.maximum(variance, 1e-12)


def _cavity(
    covariance: Floats, mean: Floats, rows: Floats, tau: Floats, nu: Floats
) -> tuple[Floats, Floats]:
    """Give the same without the site's own part."""
    m, v = _marginals(covariance, mean, rows)
    v_cavity = 1 / np.maximum(1 / v - tau, 1e-9)
    return np.asarray(v_cavity * (m / v - nu)), np.asarray(v_cavity)
