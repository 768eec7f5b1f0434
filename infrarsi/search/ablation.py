"""The winner with each of its parts taken out."""

from __future__ import annotations

from itertools import combinations

from infrarsi.records.candidate import Candidate
from infrarsi.records.history import Space
from infrarsi.search.lattice import Lattice, Point


def ablation_arms(space: Space, winner: Candidate) -> tuple[tuple[str, Candidate], ...]:
    """Give the winner without each part, each with a label: ``+sdpa``, ``recompute=False``.

    A knob goes back to its default. Where a constraint forbids that alone, the fewest other
    changed knobs go back with it, and the label names them all:
    ``micro_batch=8, grad_accum=4``.

    Raises
    ------
    ValueError
        The winner carries a patch or a knob value that the space does not hold.
    """
    lattice = Lattice(space)
    point = lattice.point_of(winner)
    if point is None:
        raise ValueError("the winner lies outside the space")
    arms: dict[str, Point] = {}
    for i, patch in enumerate(lattice.patches, start=lattice.num_knobs):
        if point[i]:
            arms[f"+{patch.name}"] = (*point[:i], 0, *point[i + 1 :])
    changed = [i for i in range(lattice.num_knobs) if point[i] != lattice.reference[i]]
    for knob in changed:
        together = _reverted_together(lattice, point, knob, changed)
        label = ", ".join(
            f"{lattice.knobs[i].name}={lattice.knobs[i].values[point[i]]}" for i in together
        )
        arms[label] = _reverted(lattice, point, together)
    return tuple((label, lattice.candidate_of(arm)) for label, arm in arms.items())


def _reverted_together(
    lattice: Lattice, point: Point, knob: int, changed: list[int]
) -> tuple[int, ...]:
    """Give the fewest changed knobs, this one among them, that can go back together."""
    block = next(block for block in lattice.blocks if knob in block.members)
    others = [i for i in changed if i != knob and i in block.members]
    for num in range(len(others) + 1):
        for companions in combinations(others, num):
            together = tuple(sorted((knob, *companions)))
            if lattice.is_feasible(_reverted(lattice, point, together)):
                return together
    # The defaults always hold for the knobs of a block; only a broken winner gets here.
    return tuple(sorted((knob, *others)))


def _reverted(lattice: Lattice, point: Point, knobs: tuple[int, ...]) -> Point:
    return tuple(lattice.reference[i] if i in knobs else index for i, index in enumerate(point))
