"""What a candidate is worth trying: all models together, on a pool of points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from infrarsi.records.history import Observation, Prediction
from infrarsi.search.acceptance import AcceptanceModel
from infrarsi.search.cost import CostModel
from infrarsi.search.lattice import Lattice, Point
from infrarsi.search.memory import MemoryModel
from infrarsi.search.mixture import Bools, Floats, Ints
from infrarsi.search.runtime import RuntimeModel

LEAST_P_FITS = 0.02
"""Below this no candidate is proposed: it would be an OOM known beforehand."""
P_FITS_WHEN_SPENT = 0.7
"""The floor on P(fits) once the budget for OOMs is spent."""
_OOM_SHARE = 1 / 3
_NUM_SAMPLED = 400
_NUM_CENTRES = 4
_ROUNDS = 2
_LARGEST_LOG = 600.0
"""exp() of a little more is no number; sums of improvements stay far below."""


@dataclass(frozen=True)
class Scores:
    """What each of ``m`` points is worth; every array has shape ``(m,)``.

    Attributes
    ----------
    points
        Shape ``(m, d)``.
    gain
        Expected log improvement over the best so far.
    optimum
        Log improvement of the posterior mean over the best so far; may be negative.
    p_fits, p_accepted
        Probabilities of fitting, and of being neither refused nor crashing.
    cost_s, at_most_s
        Wall seconds of the trial: expected, and what it stays under five times in six.
    """

    points: Ints
    gain: Floats
    optimum: Floats
    p_fits: Floats
    p_accepted: Floats
    cost_s: Floats
    at_most_s: Floats

    @property
    def chance(self) -> Floats:
        """Give the probability that the trial ends as an accepted measurement."""
        return self.p_fits * self.p_accepted

    @property
    def value(self) -> Floats:
        """Give expected log improvement a wall second."""
        return self.gain * self.chance / self.cost_s

    def where(self, mask: Bools) -> Scores:
        """Give the scores of some of the points."""
        return Scores(
            self.points[mask],
            self.gain[mask],
            self.optimum[mask],
            self.p_fits[mask],
            self.p_accepted[mask],
            self.cost_s[mask],
            self.at_most_s[mask],
        )

    def point(self, index: int) -> Point:
        """Give one of the points."""
        return tuple(int(each) for each in self.points[index])


class Models:
    """Every model, fitted to what was seen.

    Parameters
    ----------
    lattice
        The space.
    observations
        All trials, in order. Those that lie outside the space teach nothing here.
    """

    def __init__(self, lattice: Lattice, observations: Sequence[Observation]) -> None:
        self.lattice = lattice
        placed = [(lattice.point_of(each.candidate), each) for each in observations]
        self.seen = [(point, each) for point, each in placed if point is not None]
        self.tried = {point for point, _ in self.seen}
        self.runtime = RuntimeModel(lattice, self.seen)
        self.memory = MemoryModel(lattice, self.seen)
        self.cost = CostModel(lattice, self.seen)
        self.acceptance = AcceptanceModel(lattice, self.seen)
        best = self.runtime.best
        if best is None:
            origin = np.array([lattice.reference], dtype=np.int64)
            best = float(self.runtime.predict(origin).mean()[0])
        self.best = best

    def score(self, points: Ints) -> Scores:
        """Score points, shape ``(m, d)``."""
        times = self.runtime.predict(points)
        p_fits = self.memory.p_fits(points)
        return Scores(
            points=points,
            gain=times.expected_below(self.best),
            optimum=self.best - times.mean(),
            p_fits=p_fits,
            p_accepted=self.acceptance.p_accepted(points),
            cost_s=self.cost.expected(points, p_fits),
            at_most_s=self.cost.at_most(points, p_fits),
        )

    def predict(self, point: Point) -> Prediction:
        """Say of one point what the models expect, with intervals for one trial."""
        row = np.array([point], dtype=np.int64)
        scores = self.score(row)
        return Prediction(
            update_s=self.runtime.predict(row).widened(self.runtime.noise_sd).estimate(),
            peak_bytes=self.memory.predict(row).estimate(),
            p_fits=float(np.clip(scores.p_fits[0], 0.0, 1.0)),
            expected_improvement=float(min(scores.gain[0], _LARGEST_LOG)),
            cost_s=float(scores.cost_s[0]),
        )

    def tried_points(self) -> Ints:
        """Give every tried point once, in a fixed order, shape ``(n, d)``."""
        num = self.lattice.num_knobs + self.lattice.num_patches
        return np.array(sorted(self.tried), dtype=np.int64).reshape(len(self.tried), num)

    def oom_budget_is_spent(self) -> bool:
        """Tell whether one more OOM would make more than about a third of the trials."""
        ooms = sum(each.status == "oom" for _, each in self.seen)
        return ooms + 1 > 1 + _OOM_SHARE * len(self.seen)

    def floor(self) -> float:
        """Give the least P(fits) that may be proposed now."""
        return P_FITS_WHEN_SPENT if self.oom_budget_is_spent() else LEAST_P_FITS

    def untried(self, points: Ints) -> Ints:
        """Drop repeated, tried and infeasible points."""
        points = np.unique(points, axis=0)
        keep = [
            tuple(row) not in self.tried and self.lattice.is_feasible(row)
            for row in points.tolist()
        ]
        return points[np.array(keep, dtype=np.bool_)]

    def pool(self, rng: np.random.Generator) -> Scores:
        """Score a pool of untried points: all of a small space, else a search of a large one.

        In a large space: random points, the neighbours of the best and of the latest
        trials, and then, twice, the neighbours of the best points found so far.
        """
        listing = self.lattice.listing()
        if listing is not None:
            return self.score(self.untried(listing))
        near = [self.lattice.neighbours(point) for point in self._centres()]
        points = self.untried(np.vstack([self.lattice.sample(_NUM_SAMPLED, rng), *near]))
        scores = self.score(points)
        for _ in range(_ROUNDS):
            order = np.argsort(-scores.value)[:_NUM_CENTRES]
            mean_order = np.argsort(-scores.optimum * scores.chance)[:1]
            climbed = [self.lattice.neighbours(points[i]) for i in (*order, *mean_order)]
            fresh = self.untried(np.vstack([points, *climbed])) if climbed else points
            if len(fresh) == len(points):
                break
            points, scores = fresh, self.score(fresh)
        return scores

    def _centres(self) -> list[Point]:
        measured = sorted(
            (
                (each.update_s, point)
                for point, each in self.seen
                if each.status == "ok" and each.update_s
            ),
        )
        best = [point for _, point in measured]
        latest = [point for point, _ in self.seen[-2:]]
        centres = dict.fromkeys([*best[:_NUM_CENTRES], *latest, self.lattice.reference])
        return list(centres)
