"""The cost model: how long a trial takes, compilation included."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from infrarsi.records.history import Observation
from infrarsi.search.features import runtime_columns
from infrarsi.search.lattice import Lattice, Point
from infrarsi.search.mixture import Floats, Ints

_EFFECT_SD = 0.5
_NOISE_SD = 0.25
_OOM_SHARE = 0.5
"""Share of a launch that an OOM takes, before one was seen."""
_FARTHEST = float(np.log(20))


class CostModel:
    """Log wall seconds of a trial, linear in knobs and patches (ridge regression).

    What a patch is thought to add (``cold_start_s``) is where its slope starts from. A trial
    that ran out of memory costs what such trials cost, whatever it carried.
    """

    def __init__(self, lattice: Lattice, seen: Sequence[tuple[Point, Observation]]) -> None:
        self._columns = runtime_columns(lattice)
        self._default = max(lattice.space.default_cost_s, 1e-6)
        whole = [(point, each) for point, each in seen if each.status != "oom"]
        num = lattice.num_knobs + lattice.num_patches
        points = np.array([point for point, _ in whole], dtype=np.int64).reshape(len(whole), num)
        design = self._design(points)
        prior = np.zeros(design.shape[1])
        prior[design.shape[1] - lattice.num_patches :] = [
            np.log1p(patch.cold_start_s / self._default) for patch in lattice.patches
        ]
        target = np.array([self._log_ratio(each.cost_s) for _, each in whole]) - design @ prior
        spread = np.full(design.shape[1], _EFFECT_SD)
        precision = design.T @ design / _NOISE_SD**2 + np.diag(1 / spread**2)
        self._slopes = prior + np.linalg.solve(precision, design.T @ target / _NOISE_SD**2)
        self._covariance = np.linalg.inv(precision)
        ooms = [self._log_ratio(each.cost_s) for _, each in seen if each.status == "oom"]
        self._oom = float(np.mean([float(np.log(_OOM_SHARE)), *ooms]))

    def expected(self, points: Ints, p_fits: Floats) -> Floats:
        """Give the expected wall seconds of a trial, shape ``(m,)``."""
        log_ratio = np.clip(self._design(points) @ self._slopes, -_FARTHEST, _FARTHEST)
        whole, cut = np.exp(log_ratio), np.exp(self._oom)
        return np.asarray(self._default * (p_fits * whole + (1 - p_fits) * cut))

    def at_most(self, points: Ints, p_fits: Floats) -> Floats:
        """Give the wall seconds that five trials in six stay under, shape ``(m,)``.

        What was never tried may take far longer than is thought: that is in the slopes' spread.
        """
        design = self._design(points)
        variance = ((design @ self._covariance) * design).sum(axis=1)
        return np.asarray(self.expected(points, p_fits) * np.exp(np.sqrt(variance)))

    def _log_ratio(self, cost_s: float) -> float:
        ratio = max(cost_s, 0.0) / self._default
        return float(np.clip(np.log(max(ratio, 1e-9)), -_FARTHEST, _FARTHEST))

    def _design(self, points: Ints) -> Floats:
        return np.hstack([np.ones((len(points), 1)), self._columns.of(points)])
