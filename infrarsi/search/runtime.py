"""The run-time model: how long an update takes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from infrarsi.records.history import Observation
from infrarsi.search.expectations import time_claims
from infrarsi.search.features import runtime_columns
from infrarsi.search.lattice import Lattice, Point
from infrarsi.search.linearise import most_likely
from infrarsi.search.mixture import Floats, Ints, Mixture
from infrarsi.search.physics import TimeFormula

DEFAULT_SD = 0.02
"""Standard deviation of log time where a trial does not tell its own."""
_NOISE_FLOOR = 0.003
_PRIOR_WEIGHT = 0.5
"""What is believed of the patches' priors before any trial; then the trials decide."""
_NUM_FIRST_DRAWS = 24
_NUM_LATER_DRAWS = 12
_NUM_GENERATIONS = 2
_NUM_KEPT = 5
_FEWEST_EFFECTIVE = 2.0
"""The average is tempered until it rests on this many draws: few trials cannot tell them apart."""
_UPDATES_OF_A_LAUNCH = 30
_NOTHING = 1e9
"""A length scale at which a column has no part in the smooth term."""
MISFIT_SD = 0.25
"""What a fitted formula is thought to miss, in log time."""
_SMALL_BIAS = 0.05
_MOST_WEIGHED = 150
"""Trials by which hyperparameters are weighed: of more, as many, evenly spaced."""


@dataclass(frozen=True)
class Setting:
    """One draw of the hyperparameters, all in log time.

    Attributes
    ----------
    knob_sd
        Effect of a knob from end to end, if it acted alone.
    patch_scale
        Factor on the spread that each patch's own prior claims.
    weight_sd
        Spread of the weight of the patches' prior means.
    bend_sd, length
        Size and length of the smooth term, which holds bends and interactions.
    wobble_sd
        What neither term can follow: added to the noise of each trial.
    relevance
        Factor on ``knob_sd``, and on the nearness of values, for each knob column.
    """

    knob_sd: float
    patch_scale: float
    weight_sd: float
    bend_sd: float
    length: float
    wobble_sd: float
    relevance: tuple[float, ...]

    @classmethod
    def of(cls, logs: Floats) -> Setting:
        """Make a setting from the logarithms of all its numbers."""
        knob_sd, patch_scale, weight_sd, bend_sd, length, wobble_sd, *relevance = (
            float(each) for each in np.exp(logs)
        )
        return cls(
            knob_sd, patch_scale, weight_sd, bend_sd, length, wobble_sd, relevance=tuple(relevance)
        )


_CENTRE = np.log([0.2, 1.0, 0.6, 0.1, 2.0, 0.005])
_CENTRE_OF_RESIDUAL = np.log([0.15, 1.0, 0.6, 0.2, 1.0, 0.02])
"""The same of what a formula leaves: knobs have had their say in it."""
_SPREAD = np.array([0.8, 0.5, 0.4, 0.9, 0.5, 0.8])
_RELEVANCE_SPREAD = 0.5


class RuntimeModel:
    """A Gaussian process on log update time, over knobs and patch indicators.

    Its mean is ``w * (sum of the patches' prior log effects)`` with a weight ``w`` that has
    a prior of its own (mean 0.5) and is learned: priors that mislead lose their weight. The
    covariance is a linear term (effects that multiply) plus a Matern term (bends and
    interactions); predictions are averaged over draws of the hyperparameters from their
    prior, weighted by marginal likelihood, so that no optimiser can fail.

    Only accepted trials teach it: a refused one may have timed another workload. Without
    any, the scale is a guess from the cost of a launch, and the interval says so.

    Parameters
    ----------
    trend
        Log time of points against the reference, as told from elsewhere: what is left of it is
        learned.

    Attributes
    ----------
    support
        Log marginal likelihood of the best draw, for comparing models of the same trials.
    """

    def __init__(
        self,
        lattice: Lattice,
        seen: Sequence[tuple[Point, Observation]],
        *,
        formula: TimeFormula | None = None,
        trend: Callable[[Ints], Floats] | None = None,
    ) -> None:
        self._formula = formula
        self._trend = trend
        self._num_coefficients = len(formula.mean) if formula else 0
        self.coefficients: Floats = np.zeros(self._num_coefficients)
        self._columns = runtime_columns(lattice)
        self._knob_claims = time_claims(lattice, has_formula=formula is not None)
        self._effects = np.array([patch.log_time.mean for patch in lattice.patches], dtype=float)
        self._spreads = np.array([patch.log_time.sd for patch in lattice.patches], dtype=float)
        used = [(p, each) for p, each in seen if each.status == "ok" and each.update_s]
        num = lattice.num_knobs + lattice.num_patches
        points = np.array([p for p, _ in used], dtype=np.int64).reshape(len(used), num)
        times = np.array([np.log(each.update_s or 1.0) for _, each in used])
        sds = [DEFAULT_SD if each.update_sd is None else each.update_sd for _, each in used]
        self.noise_sd = float(np.median(sds)) if sds else DEFAULT_SD
        at_reference = [i for i, (p, _) in enumerate(used) if p == lattice.reference]
        if used:
            self._centre = float(times[at_reference].mean() if at_reference else times.mean())
        else:
            self._centre = float(np.log(max(lattice.space.default_cost_s, 1e-6)))
            self._centre -= float(np.log(_UPDATES_OF_A_LAUNCH))
        self._bias_sd = 0.05 if at_reference else 1.0 if used else 1.5
        noise = np.square(sds) + _NOISE_FLOOR**2
        if formula is not None:
            # The formula has a scale of its own.
            self._centre, self._bias_sd = 0.0, _SMALL_BIAS
            logs = times - self._told(points)
            self.coefficients = most_likely(formula, points, logs=logs, noise=noise + MISFIT_SD**2)
        self._fit(points, times - self._expected(points), noise)
        self.best = float(times.min()) if used else None

    def predict(self, points: Ints) -> Mixture:
        """Predict log seconds an update, without the noise of one trial."""
        if not len(points):
            return Mixture(self._weights, *np.zeros((2, 0, len(self._weights))))
        means, sds, raw = [], [], self._raw(points)
        for setting, process in self._processes:
            with warnings.catch_warnings():
                # Rounding can make a variance slightly negative; it is set to 0 below.
                warnings.filterwarnings("ignore", message="Predicted variances smaller than 0")
                mean, sd = process.predict(raw * self._scales(setting), return_std=True)
            means.append(mean)
            sds.append(sd)
        base = self._expected(points)
        spread = np.maximum(np.array(sds).T, 1e-6)
        return Mixture(self._weights, np.array(means).T + base[:, None], spread)

    def _fit(self, points: Ints, residual: Floats, noise: Floats) -> None:
        num_knob_columns = self._columns.num_columns - self._columns.num_patches
        start = _CENTRE if self._formula is None else _CENTRE_OF_RESIDUAL
        centre = np.append(start, np.zeros(num_knob_columns))
        spread = np.append(_SPREAD, np.full(num_knob_columns, _RELEVANCE_SPREAD))
        # Always the same draws: a model must not depend on the seed of the search.
        rng = np.random.default_rng(8)
        drawn = rng.standard_normal((_NUM_FIRST_DRAWS, len(centre)))
        drawn[0] = 0.0
        drafts: list[_Draft] = []
        raw = self._raw(points)
        some = np.unique(np.linspace(0, max(len(points) - 1, 0), _MOST_WEIGHED).astype(np.int64))
        some = some[: len(points)]
        for generation in range(1 + _NUM_GENERATIONS):
            for row in drawn:
                setting = Setting.of(centre + spread * row)
                evidence = self._evidence(setting, raw[some], residual[some], noise[some])
                drafts.append(_Draft(evidence - 0.5 * float(row @ row), row, setting))
            drafts.sort(key=lambda each: -each.support)
            parents = np.array([each.row for each in drafts[:3]])
            steps = rng.standard_normal((_NUM_LATER_DRAWS, len(centre))) * 0.5 ** (generation + 0.5)
            drawn = np.tile(parents, (_NUM_LATER_DRAWS // 3, 1)) + steps
        kept = drafts[:_NUM_KEPT]
        self.support = kept[0].support
        self._weights = _tempered(np.array([each.support for each in kept]))
        self._processes = [
            (each.setting, self._process(each.setting, raw, residual, noise)) for each in kept
        ]

    def _evidence(self, setting: Setting, raw: Floats, residual: Floats, noise: Floats) -> float:
        """Give the log marginal likelihood of a setting."""
        if not len(raw):
            return 0.0
        covariance = self._kernel(setting)(raw * self._scales(setting))
        covariance[np.diag_indices_from(covariance)] += noise + setting.wobble_sd**2
        factor = np.linalg.cholesky(covariance)
        white = np.linalg.solve(factor, residual)
        return float(-0.5 * (white @ white) - np.log(np.diag(factor)).sum())

    def _process(self, setting: Setting, raw: Floats, residual: Floats, noise: Floats) -> Any:
        from sklearn.gaussian_process import GaussianProcessRegressor

        alpha = noise + setting.wobble_sd**2 if len(noise) else 1e-10
        process = GaussianProcessRegressor(self._kernel(setting), alpha=alpha, optimizer=None)
        return process.fit(raw * self._scales(setting), residual) if len(raw) else process

    def _kernel(self, setting: Setting) -> Any:
        from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct, Matern

        scales = self._scales(setting)
        relevance = np.append(setting.relevance, np.ones(self._columns.num_patches))
        num = len(relevance)
        lengths = np.full(len(scales), _NOTHING)
        lengths[:num] = scales[:num] * setting.length / relevance
        smooth = ConstantKernel(setting.bend_sd**2) * Matern(length_scale=lengths, nu=2.5)
        return DotProduct(sigma_0=self._bias_sd) + smooth

    def _scales(self, setting: Setting) -> Floats:
        """Give the prior sd of each column's linear effect; claims and coefficients come last."""
        knobs = setting.knob_sd * np.array(setting.relevance)
        patches = setting.patch_scale * self._spreads
        return np.concatenate(
            [knobs, patches, [setting.weight_sd], np.ones(self._num_coefficients)]
        )

    def _raw(self, points: Ints) -> Floats:
        """Give the columns of points before they are scaled, claims and coefficients last."""
        parts = [self._columns.of(points), self._claims(points)[:, None]]
        if self._formula is not None:
            parts.append(self._formula.at(points, self.coefficients)[1] * self._formula.sd)
        return np.hstack(parts)

    def _expected(self, points: Ints) -> Floats:
        """Give the mean before any trial: what is claimed, or what the formula says."""
        base = self._centre + _PRIOR_WEIGHT * self._claims(points) + self._told(points)
        if self._formula is None:
            return np.asarray(base)
        value, slopes = self._formula.at(points, self.coefficients)
        # Slopes at what the trials say, and the prior mean as where coefficients start from.
        return np.asarray(base + value + slopes @ (self._formula.mean - self.coefficients))

    def _told(self, points: Ints) -> Floats:
        """Give what was told from elsewhere, against the reference."""
        return np.zeros(len(points)) if self._trend is None else self._trend(points)

    def _claims(self, points: Ints) -> Floats:
        bits = points[:, points.shape[1] - len(self._effects) :]
        total = np.asarray(bits @ self._effects, dtype=np.float64)
        for i, claims in self._knob_claims.items():
            total = total + claims[points[:, i]]
        return total


@dataclass(frozen=True)
class _Draft:
    support: float
    """Log marginal likelihood plus log prior, up to a constant."""
    row: Floats
    setting: Setting


def _tempered(support: Floats) -> Floats:
    """Turn log weights into weights, flattened until they rest on two draws or more."""
    heat = 1.0
    while True:
        weights = np.exp((support - support.max()) / heat)
        weights /= weights.sum()
        if 1 / float(weights @ weights) >= min(_FEWEST_EFFECTIVE, len(weights)):
            return np.asarray(weights)
        heat *= 1.5
