"""What a candidate is worth trying: all models together, on a pool of points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from infrarsi.records.beliefs import Beliefs
from infrarsi.records.experience import Experience
from infrarsi.records.history import Observation, Prediction
from infrarsi.search.acceptance import AcceptanceModel
from infrarsi.search.cost import CostModel
from infrarsi.search.guard import STILL_TRUSTED, GuardedMemory, GuardedRuntime, place
from infrarsi.search.lattice import Lattice, Point
from infrarsi.search.memory import MemoryModel
from infrarsi.search.mixture import Bools, Floats, Ints
from infrarsi.search.physics import formulas_of
from infrarsi.search.runtime import RuntimeModel
from infrarsi.search.trials import Trials

LEAST_P_FITS = 0.02
"""Below this no candidate is proposed: it would be an OOM known beforehand."""
P_FITS_WHEN_SPENT = 0.7
"""The floor on P(fits) once the budget for OOMs is spent."""
_OOM_SHARE = 1 / 3
_OOM_SHARE_OF_POOL, _P_FITS_OF_POOL = 0.15, 0.8
_LOWERED, _LOWERED_OF_POOL = 0.5, 0.8
"""Share of the floor that must do where it leaves nothing to gain. The constants of pools:
a trial is a trial there, whatever it took, and an OOM no cheaper than a measurement."""
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
        return Scores(**{name: values[mask] for name, values in vars(self).items()})

    def joined(self, other: Scores) -> Scores:
        """Give the scores of these points and then of others."""
        both = {name: [values, vars(other)[name]] for name, values in vars(self).items()}
        return Scores(**{name: np.concatenate(values) for name, values in both.items()})

    def point(self, index: int) -> Point:
        """Give one of the points."""
        return tuple(int(each) for each in self.points[index])


class Models(Trials):
    """Every model, fitted to what was seen.

    Parameters
    ----------
    lattice
        The space.
    observations
        All trials, in order. Those that lie outside the space teach nothing here.
    beliefs
        Of the formulas' coefficients, where they are not the usual ones.
    learnt
        What other searches taught of the coefficients, mixed in under guard.
    formulas
        Whether formulas are used at all, where the space's context allows them.
    experience
        What other searches taught of patches and knobs, mixed in under guard.
    """

    def __init__(
        self,
        lattice: Lattice,
        observations: Sequence[Observation],
        *,
        beliefs: Beliefs | None = None,
        learnt: Beliefs | None = None,
        formulas: bool = True,
        experience: Experience | None = None,
    ) -> None:
        super().__init__(lattice, observations)
        own = beliefs or Beliefs()
        time, memory = formulas_of(lattice, own) if formulas else (None, None)
        placed = None
        if experience is not None:
            placed = place(lattice, experience, seen=self.seen, knobs_too=time is None)
        self.placed = placed
        self.runtime: RuntimeModel | GuardedRuntime
        self.memory: MemoryModel | GuardedMemory
        self.runtime = RuntimeModel(lattice, self.seen, formula=time)
        self.memory = MemoryModel(lattice, self.seen, formula=memory)
        warm_time, warm_memory = time, memory
        if learnt is not None and time is not None:
            warm_time, warm_memory = formulas_of(lattice, own.updated(learnt))
        if placed is not None or warm_time is not time:
            told, seen = lattice if placed is None else placed.lattice, self.seen
            trend, believed = (placed.time_of, placed.memory_prior) if placed else (None, None)
            self.runtime = GuardedRuntime(
                self.runtime, RuntimeModel(told, seen, formula=warm_time, trend=trend)
            )
            self.memory = GuardedMemory(
                self.memory, MemoryModel(told, seen, formula=warm_memory, believed=believed)
            )
        self.cost = CostModel(lattice, self.seen)
        self.acceptance = AcceptanceModel(lattice, self.seen)
        best = self.runtime.best
        if best is None:
            origin = np.array([lattice.reference], dtype=np.int64)
            several = origin if lattice.pool is None else lattice.pool
            best = float(np.median(self.runtime.predict(several).mean()))
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
            p_accepted=self._p_accepted(points),
            cost_s=self._cost_s(points, p_fits),
            at_most_s=self.cost.at_most(points, p_fits),
        )

    def _p_accepted(self, points: Ints) -> Floats:
        """Give the chance of being accepted; a pool of mere settings is asked once one failed."""
        failed = any(each.status == "failed" for _, each in self.seen)
        if self.lattice.pool is not None and not self.lattice.patches and not failed:
            return np.ones(len(points))
        chance = self.acceptance.p_accepted(points)
        if self.placed is None or self.trust is None:
            return chance
        return chance * self.placed.p_unrefused(points, trust=self.trust[0])

    def _cost_s(self, points: Ints, p_fits: Floats) -> Floats:
        """Give the expected cost; in a pool, where no cost was measured, a trial is a trial."""
        if self.lattice.pool is not None:
            return np.full(len(points), self.lattice.space.default_cost_s)
        return self.cost.expected(points, p_fits)

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
            experience_in_time=self.trust[0] if self.trust else None,
            experience_in_memory=self.trust[1] if self.trust else None,
        )

    @property
    def trust(self) -> tuple[float, float] | None:
        """Give the weight of experience in time and in memory, where there is any."""
        if isinstance(self.runtime, GuardedRuntime) and isinstance(self.memory, GuardedMemory):
            return self.runtime.trust, self.memory.trust
        return None

    @property
    def is_guided(self) -> bool:
        """Whether experience explains the times well enough to take the place of the starts."""
        return self.trust is not None and self.trust[0] >= STILL_TRUSTED

    def oom_budget_is_spent(self) -> bool:
        """Tell whether one more OOM would make more than about a third of the trials."""
        ooms = sum(each.status == "oom" for _, each in self.seen)
        share = _OOM_SHARE if self.lattice.pool is None else _OOM_SHARE_OF_POOL
        return ooms + 1 > 1 + share * len(self.seen)

    def floor(self) -> float:
        """Give the least P(fits) that may be proposed now."""
        if not self.oom_budget_is_spent():
            return LEAST_P_FITS
        return P_FITS_WHEN_SPENT if self.lattice.pool is None else _P_FITS_OF_POOL

    def lowered_floor(self) -> float:
        """Give the floor where ``floor`` leaves nothing to gain."""
        share = _LOWERED if self.lattice.pool is None else _LOWERED_OF_POOL
        return max(share * self.floor(), LEAST_P_FITS)

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
            climbed = [self.lattice.neighbours(scores.points[i]) for i in (*order, *mean_order)]
            known = set(map(tuple, scores.points.tolist()))
            fresh = self.untried(np.vstack([scores.points[:0], *climbed]))
            fresh = fresh[[tuple(row) not in known for row in fresh.tolist()]]
            if not len(fresh):
                break
            scores = scores.joined(self.score(fresh))
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
