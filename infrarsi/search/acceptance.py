"""Which atoms are at fault when a candidate is refused, or crashes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from infrarsi.records.history import Observation
from infrarsi.search.lattice import Lattice, Point
from infrarsi.search.mixture import Bools, Floats, Ints

_AT_FAULT = 0.05
"""Share of atoms that a judge refuses or that crash, before any trial."""
_AT_FAULT_UNREVIEWED = 0.35
"""The same of patches that a language model wrote for this repository, and nobody reviewed. So
they are no part of the first bundles, where one fault costs what the others would teach."""
_PASSES_AT_FAULT = 0.05
"""Chance that a candidate with an atom at fault passes all the same."""
_LEAK = {"refused": 0.02, "failed": 0.1}
"""Chance of that status without any atom at fault: crashes happen by themselves too."""
_SUPERSET = {"refused": 0.1, "failed": 0.4}
"""Factor for a candidate that carries all the atoms of one that was refused."""
_NUM_EXPLANATIONS = 200
_SWEEPS = 60


class AcceptanceModel:
    """Explanations of what was refused so far: which atoms may be at fault, jointly.

    An atom is a patch, or a knob value other than the default. A candidate passes when none
    of its atoms is at fault. Explanations are drawn from the posterior by Gibbs sampling, so
    that "one of these two, but hardly both" stays known, and either alone is worth a trial
    where both together are not. A fault that only a *pair* has is caught by the rule that a
    candidate holding everything a refused one held is refused too.

    Attributes
    ----------
    at_fault
        Posterior probability of each atom, shape ``(num atoms,)``.
    """

    def __init__(self, lattice: Lattice, seen: Sequence[tuple[Point, Observation]]) -> None:
        self._sizes = [len(knob.values) for knob in lattice.knobs]
        self._reference = np.array(lattice.reference, dtype=np.int64)
        self._num_patches = lattice.num_patches
        judged = [(p, each.status) for p, each in seen if each.status != "oom"]
        num = len(self._reference)
        points = np.array([p for p, _ in judged], dtype=np.int64).reshape(len(judged), num)
        carried = self._atoms(points)
        passed = np.array([status == "ok" for _, status in judged], dtype=np.bool_)
        leaks = np.array([_LEAK.get(status, 0.0) for _, status in judged])
        self.at_fault = _unless_it_passed(self._prior(lattice), carried[passed])
        self._suspects = np.flatnonzero(carried[~passed].any(axis=0))
        self._explanations = _explain(
            self.at_fault[self._suspects], carried[~passed][:, self._suspects], leaks[~passed]
        )
        self._apart = self.at_fault.copy()
        self._apart[self._suspects] = 0.0
        if len(self._suspects):
            blamed = self._explanations.mean(axis=0)
            self.at_fault[self._suspects] = np.clip(blamed, 1e-6, 0.999)
        self._bad = [
            (row, _SUPERSET[status])
            for row, (_, status) in zip(carried, judged, strict=True)
            if status != "ok" and row.any()
        ]

    def p_accepted(self, points: Ints) -> Floats:
        """Give the probability that nothing is refused and nothing crashes, shape ``(m,)``."""
        carried = self._atoms(points)
        accused = carried[:, self._suspects].astype(np.float64) @ self._explanations.T
        chance = np.exp(carried @ np.log1p(-self._apart)) * (accused == 0).mean(axis=1)
        chance *= 1 - _LEAK["refused"]
        factor = np.ones(len(points))
        for row, times in self._bad:
            holds_all = ~(row & ~carried).any(axis=1)
            factor = np.where(holds_all, np.minimum(factor, times), factor)
        return np.asarray(chance * factor)

    def patches_at_fault(self) -> Floats:
        """Give the probability of each patch being at fault, shape ``(num patches,)``."""
        return self.at_fault[len(self.at_fault) - self._num_patches :]

    def _prior(self, lattice: Lattice) -> Floats:
        """Give each atom's probability of being at fault before any trial."""
        unreviewed = [patch.proposer == "language" for patch in lattice.patches]
        knobs = np.full(sum(self._sizes), _AT_FAULT)
        patches = np.where(unreviewed, _AT_FAULT_UNREVIEWED, _AT_FAULT)
        return np.concatenate([knobs, patches])

    def _atoms(self, points: Ints) -> Bools:
        """Give which atoms each point carries, shape ``(m, num atoms)``."""
        columns = []
        for i, size in enumerate(self._sizes):
            hot = points[:, i, None] == np.arange(size)
            hot[:, self._reference[i]] = False
            columns.append(hot)
        patches = points[:, points.shape[1] - self._num_patches :] > 0
        return np.hstack([*columns, patches])


def _unless_it_passed(prior: Floats, passed: Bools) -> Floats:
    """Give each atom's probability of being at fault by the accepted trials alone."""
    odds = np.log(prior / (1 - prior)) + passed.sum(axis=0) * np.log(_PASSES_AT_FAULT)
    return np.asarray(1 / (1 + np.exp(np.clip(-odds, -30, 30))))


def _explain(prior: Floats, refused: Bools, leaks: Floats) -> Floats:
    """Draw sets of atoms at fault that explain the refusals.

    Parameters
    ----------
    prior
        Probability of each suspect, shape ``(a,)``.
    refused
        Which suspects each refused trial carried, shape ``(r, a)``.
    leaks
        Probability that the trial ends so with none at fault, shape ``(r,)``.

    Returns
    -------
    Shape ``(200, a)``: 1 where at fault. The draws are the same for the same arguments.
    """
    rng = np.random.default_rng(0)
    num, size = _NUM_EXPLANATIONS, len(prior)
    held = refused.T.astype(np.int64)
    log_odds = np.log(prior / (1 - prior))
    surprise = -np.log(np.maximum(leaks, 1e-6))
    faults = (rng.random((num, size)) < 0.5).astype(np.int64)
    counts = faults @ held
    rows = np.arange(num)
    for _ in range(_SWEEPS if size else 0):
        # Each draw takes its atoms in an order of its own: one order would favour the last.
        for atoms in rng.permuted(np.tile(np.arange(size), (num, 1)), axis=1).T:
            here = held[atoms]
            counts -= here * faults[rows, atoms, None]
            unexplained = ((counts == 0) * here) @ surprise
            odds = np.clip(log_odds[atoms] + unexplained, -30, 30)
            faults[rows, atoms] = rng.random(num) < 1 / (1 + np.exp(-odds))
            counts += here * faults[rows, atoms, None]
    return faults.astype(np.float64)
