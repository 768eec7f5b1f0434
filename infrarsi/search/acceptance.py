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


class AcceptanceModel:
    """A posterior probability, for each atom, of being at fault.

    An atom is a patch, or a knob value other than the default. A candidate passes when none
    of its atoms is at fault; a refusal is shared out among its atoms, those acquitted by an
    accepted trial taking almost none of the blame. Solved by mean-field iteration: adequate
    where few atoms are at fault; a fault that only a *pair* has is caught by the rule that
    a candidate holding everything a refused one held is refused too.
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
        prior = self._prior(lattice)
        self.at_fault = _share_blame(prior, carried[passed], carried[~passed], leaks[~passed])
        self._bad = [
            (row, _SUPERSET[status])
            for row, (_, status) in zip(carried, judged, strict=True)
            if status != "ok" and row.any()
        ]

    def p_accepted(self, points: Ints) -> Floats:
        """Give the probability that nothing is refused and nothing crashes, shape ``(m,)``."""
        carried = self._atoms(points)
        chance = np.exp(carried @ np.log1p(-self.at_fault)) * (1 - _LEAK["refused"])
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


def _share_blame(prior: Floats, passed: Bools, refused: Bools, leaks: Floats) -> Floats:
    """Iterate the posterior odds of each atom; damped, so that it settles."""
    base = np.log(prior / (1 - prior)) + passed.sum(axis=0) * np.log(_PASSES_AT_FAULT)
    fault = 1 / (1 + np.exp(-base))
    for _ in range(40):
        log_clean = np.log1p(-np.minimum(fault, 1 - 1e-9))
        others = (refused * log_clean).sum(axis=1, keepdims=True) - log_clean
        without = leaks[:, None] + (1 - leaks[:, None]) * (1 - np.exp(others))
        evidence = np.where(refused, -np.log(np.clip(without, 1e-6, 1.0)), 0.0).sum(axis=0)
        fault = 0.5 * fault + 0.5 / (1 + np.exp(-np.clip(base + evidence, -30, 30)))
    return np.asarray(np.clip(fault, 1e-6, 0.999))
