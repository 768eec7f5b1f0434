"""The joint space as a lattice of integers: which candidates exist, and which are near."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TypeAlias

import numpy as np

from infrarsi.records.base import Scalar
from infrarsi.records.candidate import Candidate
from infrarsi.records.constraint import constraint_holds
from infrarsi.records.history import Space
from infrarsi.records.task import same_scalar
from infrarsi.search.mixture import Bools, Ints

Point: TypeAlias = tuple[int, ...]
"""Index of each knob's value, then 0 or 1 for each patch."""

_LARGEST_BLOCK = 4000
_LARGEST_LISTING = 2000
_MOST_MOVES_OF_A_BLOCK = 24


@dataclass(frozen=True)
class Block:
    """Knobs that constraints tie together, with the joint values that they may take."""

    members: tuple[int, ...]
    options: Ints
    """Value indices, shape ``(num options, num members)``."""


class Lattice:
    """The feasible candidates of a space.

    Knobs that share a constraint form a block whose feasible joint values are listed once,
    so that a move of one knob takes along those that it is tied to. Where a block has more
    than 4,000 combinations, those reachable from the defaults by changes of at most two
    knobs at a time are listed, up to that number.

    Parameters
    ----------
    space
        Knobs, constraints and patches.
    pool
        Where only some points can be measured, as in a table: those, shape ``(n, d)``. They are
        then the whole space, and constraints need not be asked.

    Raises
    ------
    ValueError
        A constraint cannot be read, or names something that is no knob.
    """

    def __init__(self, space: Space, *, pool: Ints | None = None) -> None:
        self.space = space
        self.pool = None if pool is None else np.unique(pool, axis=0)
        self._pooled = set(map(tuple, self.pool.tolist())) if self.pool is not None else None
        self.knobs = space.knobs
        self.patches = tuple({patch.name: patch for patch in space.patches}.values())
        self.num_knobs = len(self.knobs)
        self.num_patches = len(self.patches)
        self.excluded = _exclusions(self, space)
        self._patch_index = {patch.name: i for i, patch in enumerate(self.patches)}
        self._memo: dict[tuple[object, ...], bool] = {}
        self._scopes = self._read_scopes()
        defaults = tuple(index_of(knob.values, knob.default) or 0 for knob in self.knobs)
        self.reference: Point = (*defaults, *(0,) * self.num_patches)
        self.blocks: tuple[Block, ...]
        if self.pool is not None:
            options = np.unique(self.pool[:, : self.num_knobs], axis=0)
            self.blocks = (Block(tuple(range(self.num_knobs)), options),)
        else:
            self.blocks = tuple(self._block(members) for members in self._components())

    def point_of(self, candidate: Candidate) -> Point | None:
        """Give the point of a candidate, or ``None`` where it lies outside this space.

        A knob that the candidate does not name stands at its default.
        """
        if any(name not in self._patch_index for name in candidate.patches):
            return None
        indices = [
            index_of(knob.values, candidate.knobs.get(knob.name, knob.default))
            for knob in self.knobs
        ]
        bits = [int(patch.name in candidate.patches) for patch in self.patches]
        values = [index for index in indices if index is not None]
        return (*values, *bits) if len(values) == len(indices) else None

    def candidate_of(self, point: Sequence[int]) -> Candidate:
        """Give the candidate at a point."""
        knobs = {knob.name: knob.values[point[i]] for i, knob in enumerate(self.knobs)}
        bits = point[self.num_knobs :]
        return Candidate.of(
            knobs, (p.name for p, bit in zip(self.patches, bits, strict=True) if bit)
        )

    def words_of(self, point: Sequence[int]) -> str:
        """Say what differs from the reference: ``+sdpa, recompute=False``."""
        words = [f"+{p.name}" for i, p in enumerate(self.patches) if point[self.num_knobs + i]]
        words += [
            f"{knob.name}={knob.values[point[i]]}"
            for i, knob in enumerate(self.knobs)
            if point[i] != self.reference[i]
        ]
        return ", ".join(words) or "the reference"

    def is_feasible(self, point: Sequence[int]) -> bool:
        """Tell whether every constraint holds and all patches go together."""
        if self._pooled is not None:
            return tuple(point) in self._pooled
        bits = np.asarray(point[self.num_knobs :], dtype=np.int64)
        if self.num_patches and (bits @ self.excluded @ bits):
            return False
        return all(self._holds(number, point) for number in range(len(self.space.constraints)))

    def size(self) -> float:
        """Give the number of feasible candidates, or a bound above it for many patches."""
        if self.pool is not None:
            return float(len(self.pool))
        knobs = float(np.prod([float(len(block.options)) for block in self.blocks]))
        return knobs * (
            len(self._patch_sets()) if self.num_patches <= 11 else 2.0**self.num_patches
        )

    def listing(self) -> Ints | None:
        """List a pool or every candidate; give ``None`` for a space of more than 2,000."""
        if self.pool is not None:
            return self.pool
        if self.size() > _LARGEST_LISTING or self.num_patches > 11:
            return None
        rows = []
        for choice in product(*(block.options for block in self.blocks)):
            knobs = np.zeros(self.num_knobs, dtype=np.int64)
            for block, option in zip(self.blocks, choice, strict=True):
                knobs[list(block.members)] = option
            rows.append(knobs)
        patch_sets = self._patch_sets()
        left = np.repeat(np.array(rows).reshape(len(rows), -1), len(patch_sets), axis=0)
        return np.hstack([left, np.tile(patch_sets, (len(rows), 1))]).astype(np.int64)

    def sample(self, num: int, rng: np.random.Generator) -> Ints:
        """Draw feasible points: few patches in some, many in others; may repeat."""
        if self.pool is not None:
            return self.pool[rng.integers(len(self.pool), size=num)]
        points = np.zeros((num, self.num_knobs + self.num_patches), dtype=np.int64)
        for block in self.blocks:
            if len(block.options):
                drawn = rng.integers(len(block.options), size=num)
                points[:, list(block.members)] = block.options[drawn]
        density = rng.random((num, 1))
        bits = (rng.random((num, self.num_patches)) < density).astype(np.int64)
        for i, j in zip(*np.nonzero(np.triu(self.excluded)), strict=True):
            both = (bits[:, i] & bits[:, j]).astype(bool)
            first = rng.random(num) < 0.5
            bits[both & first, i] = 0
            bits[both & ~first, j] = 0
        points[:, self.num_knobs :] = bits
        return points

    def neighbours(self, point: Sequence[int]) -> Ints:
        """Give the points one move away: a block at other values, or a patch in or out.

        A patch that goes in pushes out those that it does not go with. In a pool, where one move
        may lead nowhere, the nearest points: those with the fewest changes, then the smallest.
        """
        here = np.asarray(point, dtype=np.int64)
        if self.pool is not None:
            return self._nearest(here)
        found = []
        for block in self.blocks:
            members = list(block.members)
            distance = np.abs(block.options - here[members])
            order = np.lexsort((distance.sum(axis=1), (distance > 0).sum(axis=1)))
            near = [i for i in order if distance[i].any()][:_MOST_MOVES_OF_A_BLOCK]
            for option in block.options[near]:
                moved = here.copy()
                moved[members] = option
                found.append(moved)
        found += [self.toggled(here, i) for i in range(self.num_patches)]
        return np.array(found, dtype=np.int64).reshape(len(found), here.size)

    def _nearest(self, here: Ints) -> Ints:
        assert self.pool is not None
        distance = np.abs(self.pool - here)
        order = np.lexsort((distance.sum(axis=1), (distance > 0).sum(axis=1)))
        others = order[distance[order].any(axis=1)]
        return np.asarray(self.pool[others[:_MOST_MOVES_OF_A_BLOCK]])

    def toggled(self, point: Ints, patch: int) -> Ints:
        """Give a point with a patch in or out, and what it excludes out."""
        moved = point.copy()
        position = self.num_knobs + patch
        moved[position] = 1 - moved[position]
        if moved[position]:
            moved[self.num_knobs :][self.excluded[patch]] = 0
        return moved

    def _patch_sets(self) -> Ints:
        sets = np.array(list(product((0, 1), repeat=self.num_patches)), dtype=np.int64)
        clashes = np.einsum("ni,ij,nj->n", sets, self.excluded.astype(np.int64), sets)
        return np.asarray(sets[clashes == 0])

    def _read_scopes(self) -> list[tuple[int, ...]]:
        scopes = []
        for constraint in self.space.constraints:
            constraint_holds(constraint, {knob.name: knob.default for knob in self.knobs})
            tree = ast.parse(constraint, mode="eval")
            names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
            scopes.append(tuple(i for i, knob in enumerate(self.knobs) if knob.name in names))
        return scopes

    def _components(self) -> list[tuple[int, ...]]:
        groups = [{i} for i in range(self.num_knobs)]
        for scope in self._scopes:
            touched = [group for group in groups if group & set(scope)]
            groups = [group for group in groups if not group & set(scope)]
            groups += [set().union(*touched)] if touched else []
        return sorted(tuple(sorted(group)) for group in groups)

    def _holds(self, number: int, point: Sequence[int]) -> bool:
        scope = self._scopes[number]
        key = (number, *(int(point[i]) for i in scope))
        if key not in self._memo:
            values = {self.knobs[i].name: self.knobs[i].values[point[i]] for i in scope}
            try:
                self._memo[key] = constraint_holds(self.space.constraints[number], values)
            except ValueError:
                # It can be read (the defaults were), but not for these values: None * 2.
                self._memo[key] = False
        return self._memo[key]

    def _block(self, members: tuple[int, ...]) -> Block:
        ranges = [range(len(self.knobs[i].values)) for i in members]
        numbers = [
            n for n, scope in enumerate(self._scopes) if set(scope) <= set(members) and scope
        ]
        if float(np.prod([float(len(each)) for each in ranges])) <= _LARGEST_BLOCK:
            options = [each for each in product(*ranges) if self._allows(members, each, numbers)]
        else:
            options = self._reachable(members, numbers)
        return Block(members, np.array(options, dtype=np.int64).reshape(-1, len(members)))

    def _allows(
        self, members: tuple[int, ...], option: tuple[int, ...], numbers: Iterable[int]
    ) -> bool:
        point = list(self.reference)
        for position, index in zip(members, option, strict=True):
            point[position] = index
        return all(self._holds(number, point) for number in numbers)

    def _reachable(self, members: tuple[int, ...], numbers: list[int]) -> list[tuple[int, ...]]:
        start = tuple(self.reference[i] for i in members)
        found = {start: None} if self._allows(members, start, numbers) else {}
        queue = [start]
        tested = {start}
        while queue and len(found) < _LARGEST_BLOCK and len(tested) < 5 * _LARGEST_BLOCK:
            here = queue.pop(0)
            for option in _within_two(here, [len(self.knobs[i].values) for i in members]):
                if option not in tested:
                    tested.add(option)
                    if self._allows(members, option, numbers):
                        found[option] = None
                        queue.append(option)
        return list(found)[:_LARGEST_BLOCK]


def index_of(values: Sequence[Scalar], value: Scalar) -> int | None:
    """Give the place of a value among a knob's values, telling ``True`` from ``1``."""
    return next((i for i, each in enumerate(values) if same_scalar(each, value)), None)


def _within_two(here: tuple[int, ...], sizes: list[int]) -> Iterable[tuple[int, ...]]:
    for i in range(len(here)):
        for first in range(sizes[i]):
            one = (*here[:i], first, *here[i + 1 :])
            yield one
            for j in range(i + 1, len(here)):
                for second in range(sizes[j]):
                    yield (*one[:j], second, *one[j + 1 :])


def _exclusions(lattice: Lattice, space: Space) -> Bools:
    names = {patch.name: i for i, patch in enumerate(lattice.patches)}
    pairs = [(p.name, other) for p in lattice.patches for other in p.conflicts]
    excluded = np.zeros((len(names), len(names)), dtype=np.bool_)
    for left, right in (*pairs, *space.incompatible):
        if left in names and right in names and left != right:
            excluded[names[left], names[right]] = excluded[names[right], names[left]] = True
    return excluded
