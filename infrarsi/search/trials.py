"""What was tried, placed on the lattice."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from infrarsi.records.history import Observation
from infrarsi.search.lattice import Lattice
from infrarsi.search.mixture import Ints


class Trials:
    """Every trial so far, in order, and what was not tried.

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

    def tried_points(self) -> Ints:
        """Give every tried point once, in a fixed order, shape ``(n, d)``."""
        num = self.lattice.num_knobs + self.lattice.num_patches
        return np.array(sorted(self.tried), dtype=np.int64).reshape(len(self.tried), num)

    def untried(self, points: Ints) -> Ints:
        """Drop repeated, tried and infeasible points."""
        if points is not self.lattice.pool:
            points = np.unique(points, axis=0)
        keep = [
            tuple(row) not in self.tried and self.lattice.is_feasible(row)
            for row in points.tolist()
        ]
        return points[np.array(keep, dtype=np.bool_)]
