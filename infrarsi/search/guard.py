"""Experience in a mixture with a cold expert, so that what misleads costs little.

Two models of each quantity are kept: one that starts from experience, and one that knows nothing
of it. Their weights follow how well each explains the trials; the cold one keeps 0.3 whatever
they say. Time and memory are weighed apart: a pack may be right about one and wrong about the
other.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from infrarsi.records.candidate import Effect, Patch
from infrarsi.records.experience import AtomBelief, Experience
from infrarsi.records.history import Observation
from infrarsi.search.features import memory_columns
from infrarsi.search.lattice import Lattice, Point, index_of
from infrarsi.search.memory import MemoryModel
from infrarsi.search.mixture import Floats, Ints, Mixture
from infrarsi.search.runtime import RuntimeModel
from infrarsi.search.tobit import TobitPrior

LEAST_COLD = 0.3
"""Weight that the cold expert keeps."""
COLD_EVERY = 3
"""Every third pick is the cold expert's own."""
STILL_TRUSTED = 0.35
"""Weight of experience in time at which it still replaces the starts."""


@dataclass(frozen=True)
class Placed:
    """Beliefs on a lattice.

    Attributes
    ----------
    lattice
        The same space, with patches whose spread is what experience leaves of it; those that it
        knows are centred on ``time_of``, and for memory on their own mean.
    knob_time, knob_refused
        For each knob, by value: log time against the default, and what speaks against it.
    knob_memory
        For each knob, by value: mean and sd of log memory; NaN where nothing was learnt.
    patch_time, patch_refused
        The same for each patch.
    """

    lattice: Lattice
    knob_time: tuple[Floats, ...]
    knob_memory: tuple[tuple[Floats, Floats], ...]
    knob_refused: tuple[Floats, ...]
    patch_time: Floats
    patch_refused: Floats

    def time_of(self, points: Ints) -> Floats:
        """Give the log time that experience expects against the reference, shape ``(m,)``."""
        return self._total(points, self.knob_time, self.patch_time)

    def p_unrefused(self, points: Ints, *, trust: float) -> Floats:
        """Give the factor on the chance of being accepted, shape ``(m,)``.

        Experience that is wrong about time is not trusted with refusals either.
        """
        knobs = tuple(np.log1p(-trust * each) for each in self.knob_refused)
        return np.exp(self._total(points, knobs, np.log1p(-trust * self.patch_refused)))

    def memory_prior(self, prior: TobitPrior) -> TobitPrior:
        """Put what experience says of the knobs' memory into the prior of their columns."""
        columns = memory_columns(self.lattice)
        mean, sd = prior.mean.copy(), prior.sd.copy()
        place = len(mean) - columns.num_columns
        for table, (effects, spreads) in zip(columns.tables, self.knob_memory, strict=True):
            own = slice(place, place + table.shape[1])
            mean[own], sd[own] = _slopes(table, effects, spreads, mean[own], sd[own])
            place += table.shape[1]
        return TobitPrior(mean, sd, prior.sign, prior.log_sigma_mean, prior.log_sigma_sd)

    def _total(self, points: Ints, knobs: tuple[Floats, ...], patches: Floats) -> Floats:
        points = np.asarray(points, dtype=np.int64)
        total = points[:, len(knobs) :] @ patches
        for i, table in enumerate(knobs):
            total = total + table[points[:, i]]
        return np.asarray(total, dtype=np.float64)


def place(
    lattice: Lattice,
    experience: Experience,
    *,
    seen: Sequence[tuple[Point, Observation]] = (),
    knobs_too: bool = True,
) -> Placed | None:
    """Place beliefs on a lattice; ``None`` where they say nothing of it.

    Parameters
    ----------
    seen
        What was tried here: an atom that was accepted is not held back for what it did elsewhere.
    knobs_too
        Whether experience speaks for the knobs; a formula speaks for them better.
    """
    sizes = [len(knob.values) for knob in lattice.knobs]
    knob_time = tuple(np.zeros(size) for size in sizes)
    knob_memory = tuple((np.full(size, np.nan), np.full(size, np.nan)) for size in sizes)
    knob_refused = tuple(np.zeros(size) for size in sizes)
    by_patch = {each.patch: each for each in experience.beliefs if each.patch is not None}
    num, passed = 0, _passed(seen)
    for belief in experience.beliefs if knobs_too else ():
        spot = _spot(lattice, belief)
        if spot is None:
            continue
        num += 1
        knob, value = spot
        if belief.log_time is not None:
            knob_time[knob][value] = belief.log_time.mean
        if belief.log_memory is not None:
            knob_memory[knob][0][value] = belief.log_memory.mean
            knob_memory[knob][1][value] = belief.log_memory.sd
        knob_refused[knob][value] = 0.0 if (knob, value) in passed else belief.refused
    known = [by_patch.get(each.name) for each in lattice.patches]
    if not num and not any(known):
        return None
    joined = [_joined(patch, belief) for patch, belief in zip(lattice.patches, known, strict=True)]
    moved = copy.copy(lattice)
    moved.patches = tuple(patch for patch, _ in joined)
    return Placed(
        moved, knob_time, knob_memory, knob_refused,
        patch_time=np.array([mean for _, mean in joined], dtype=np.float64),
        patch_refused=np.array([
            0.0 if each is None or (i, 1) in passed else each.refused
            for i, each in enumerate(known, start=lattice.num_knobs)
        ], dtype=np.float64),
    )  # fmt: skip


def _passed(seen: Sequence[tuple[Point, Observation]]) -> set[tuple[int, int]]:
    """Give the places of all values and patches that were accepted here."""
    points = [point for point, each in seen if each.status == "ok"]
    return {(i, index) for point in points for i, index in enumerate(point)}


def _spot(lattice: Lattice, belief: AtomBelief) -> tuple[int, int] | None:
    """Give the place of a belief's knob and of its value."""
    for i, knob in enumerate(lattice.knobs):
        if knob.name == belief.knob:
            value = index_of(knob.values, belief.value)
            return None if value is None or value == lattice.reference[i] else (i, value)
    return None


def _joined(patch: Patch, belief: AtomBelief | None) -> tuple[Patch, float]:
    """Join a patch's own prior with experience; give also the mean log time taken off it."""
    if belief is None:
        return patch, 0.0
    changed: dict[str, Effect] = {}
    taken = 0.0
    if belief.log_time is not None:
        both = _both(patch.log_time, belief.log_time)
        taken, changed["log_time"] = both.mean, Effect(mean=0.0, sd=both.sd)
    if belief.log_memory is not None:
        changed["log_memory"] = _both(patch.log_memory, belief.log_memory)
    return patch.model_copy(update=changed), taken


def _both(left: Effect, right: Effect) -> Effect:
    precision = 1 / left.sd**2 + 1 / right.sd**2
    mean = (left.mean / left.sd**2 + right.mean / right.sd**2) / precision
    return Effect(mean=mean, sd=precision**-0.5)


def _slopes(
    table: Floats, effects: Floats, spreads: Floats, mean: Floats, sd: Floats
) -> tuple[Floats, Floats]:
    """Update the prior of a knob's columns by effects of its values."""
    known = ~np.isnan(effects)
    if not known.any():
        return mean, sd
    rows, noise = table[known], np.square(spreads[known])
    precision = np.diag(1 / sd**2) + rows.T @ (rows / noise[:, None])
    covariance = np.linalg.inv(precision)
    updated = covariance @ (mean / sd**2 + rows.T @ (effects[known] / noise))
    return np.asarray(updated), np.sqrt(np.diag(covariance))


class GuardedRuntime:
    """The run-time model without experience and with it, mixed.

    Attributes
    ----------
    trust
        Weight of the model with experience, at most 0.7.
    """

    def __init__(self, cold: RuntimeModel, warm: RuntimeModel) -> None:
        self.cold, self.warm = cold, warm
        self.trust = trust_of(self.warm.support - self.cold.support)
        self.noise_sd, self.best = self.cold.noise_sd, self.cold.best

    def predict(self, points: Ints) -> Mixture:
        """Predict log seconds an update, without the noise of one trial."""
        return _mixed(self.cold.predict(points), self.warm.predict(points), self.trust)


class GuardedMemory:
    """The same of peak memory; what is known to dominate counts in both."""

    def __init__(self, cold: MemoryModel, warm: MemoryModel) -> None:
        self.cold, self.warm = cold, warm
        self.trust = trust_of(self.warm.evidence - self.cold.evidence)
        self.signs = self.cold.signs

    def predict(self, points: Ints) -> Mixture:
        """Predict log peak memory in bytes."""
        return _mixed(self.cold.predict(points), self.warm.predict(points), self.trust)

    def p_fits(self, points: Ints) -> Floats:
        """Give the probability of staying under the capacity, shape ``(m,)``."""
        cold, warm = self.cold.p_fits(points), self.warm.p_fits(points)
        return np.asarray((1 - self.trust) * cold + self.trust * warm)

    def saves(self) -> Floats:
        """Give the posterior mean of each patch's log effect on memory."""
        return np.asarray((1 - self.trust) * self.cold.saves() + self.trust * self.warm.saves())


def is_cold_pick(num_tried: int) -> bool:
    """Tell whether the pick after so many trials is the cold expert's own."""
    return num_tried % COLD_EVERY == COLD_EVERY - 1


def trust_of(log_evidence: float) -> float:
    """Give the weight of experience, by how much better it explains the trials (log ratio).

    Before any trial 0.7, and never more; then by Bayes' rule.
    """
    odds = math.log((1 - LEAST_COLD) / LEAST_COLD) + log_evidence
    return min(1 - LEAST_COLD, 1 / (1 + math.exp(-max(min(odds, 50.0), -50.0))))


def _mixed(cold: Mixture, warm: Mixture, trust: float) -> Mixture:
    return Mixture(
        np.concatenate([(1 - trust) * cold.weights, trust * warm.weights]),
        np.hstack([cold.means, warm.means]),
        np.hstack([cold.sds, warm.sds]),
    )
