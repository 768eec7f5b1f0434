"""The run-time model: how long an update takes."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from infrarsi.records.history import Observation
from infrarsi.search.features import runtime_columns
from infrarsi.search.lattice import Lattice, Point
from infrarsi.search.mixture import Floats, Ints, Mixture

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
    """

    def __init__(self, lattice: Lattice, seen: Sequence[tuple[Point, Observation]]) -> None:
        self._columns = runtime_columns(lattice)
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
        residual = times - self._centre - _PRIOR_WEIGHT * self._claims(points)
        self._fit(points, residual, np.square(sds) + _NOISE_FLOOR**2)
        self.best = float(times.min()) if used else None

    def predict(self, points: Ints) -> Mixture:
        """Predict log seconds an update, without the noise of one trial."""
        if not len(points):
            return Mixture(self._weights, *np.zeros((2, 0, len(self._weights))))
        means, sds = [], []
        for setting, process in self._processes:
            with warnings.catch_warnings():
                # Rounding can make a variance slightly negative; it is set to 0 below.
                warnings.filterwarnings("ignore", message="Predicted variances smaller than 0")
                mean, sd = process.predict(self._scaled(points, setting), return_std=True)
            means.append(mean)
            sds.append(sd)
        base = self._centre + _PRIOR_WEIGHT * self._claims(points)
        spread = np.maximum(np.array(sds).T, 1e-6)
        return Mixture(self._weights, np.array(means).T + base[:, None], spread)

    def _fit(self, points: Ints, residual: Floats, noise: Floats) -> None:
        num_knob_columns = self._columns.num_columns - self._columns.num_patches
        centre = np.append(_CENTRE, np.zeros(num_knob_columns))
        spread = np.append(_SPREAD, np.full(num_knob_columns, _RELEVANCE_SPREAD))
        # Always the same draws: a model must not depend on the seed of the search.
        rng = np.random.default_rng(8)
        drawn = rng.standard_normal((_NUM_FIRST_DRAWS, len(centre)))
        drawn[0] = 0.0
        drafts: list[_Draft] = []
        for generation in range(1 + _NUM_GENERATIONS):
            for row in drawn:
                setting = Setting.of(centre + spread * row)
                evidence = self._evidence(setting, points, residual, noise)
                drafts.append(_Draft(evidence - 0.5 * float(row @ row), row, setting))
            drafts.sort(key=lambda each: -each.support)
            parents = np.array([each.row for each in drafts[:3]])
            steps = rng.standard_normal((_NUM_LATER_DRAWS, len(centre))) * 0.5 ** (generation + 0.5)
            drawn = np.tile(parents, (_NUM_LATER_DRAWS // 3, 1)) + steps
        kept = drafts[:_NUM_KEPT]
        self._weights = _tempered(np.array([each.support for each in kept]))
        self._processes = [
            (each.setting, self._process(each.setting, points, residual, noise)) for each in kept
        ]

    def _evidence(self, setting: Setting, points: Ints, residual: Floats, noise: Floats) -> float:
        """Give the log marginal likelihood of a setting."""
        if not len(points):
            return 0.0
        covariance = self._kernel(setting)(self._scaled(points, setting))
        covariance[np.diag_indices_from(covariance)] += noise + setting.wobble_sd**2
        factor = np.linalg.cholesky(covariance)
        white = np.linalg.solve(factor, residual)
        return float(-0.5 * (white @ white) - np.log(np.diag(factor)).sum())

    def _process(self, setting: Setting, points: Ints, residual: Floats, noise: Floats) -> Any:
        from sklearn.gaussian_process import GaussianProcessRegressor

        alpha = noise + setting.wobble_sd**2 if len(noise) else 1e-10
        process = GaussianProcessRegressor(self._kernel(setting), alpha=alpha, optimizer=None)
        return process.fit(self._scaled(points, setting), residual) if len(points) else process

    def _kernel(self, setting: Setting) -> Any:
        from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct, Matern

        scales = self._scales(setting)
        relevance = np.append(setting.relevance, np.ones(self._columns.num_patches))
        lengths = np.append(scales[:-1] * setting.length / relevance, _NOTHING)
        smooth = ConstantKernel(setting.bend_sd**2) * Matern(length_scale=lengths, nu=2.5)
        return DotProduct(sigma_0=self._bias_sd) + smooth

    def _scales(self, setting: Setting) -> Floats:
        """Give the prior sd of each column's linear effect; that of the claims comes last."""
        knobs = setting.knob_sd * np.array(setting.relevance)
        return np.concatenate([knobs, setting.patch_scale * self._spreads, [setting.weight_sd]])

    def _scaled(self, points: Ints, setting: Setting) -> Floats:
        columns = np.column_stack([self._columns.of(points), self._claims(points)])
        return np.asarray(columns * self._scales(setting))

    def _claims(self, points: Ints) -> Floats:
        bits = points[:, points.shape[1] - len(self._effects) :]
        return np.asarray(bits @ self._effects, dtype=np.float64)


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
