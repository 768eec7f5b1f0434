"""Starting configurations: several, so that the search does not hang on one incumbent."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product

import numpy as np

from infrarsi.search.acquisition import Models
from infrarsi.search.features import hunger_signs
from infrarsi.search.lattice import Block, Point
from infrarsi.search.mixture import Ints

_LEAST_P_FITS = 0.4
"""A start is there to learn from: one that probably fits teaches more."""
_MOST_MOVED = 5
_MOST_BUNDLES = 4
_LEAST_P_ACCEPTED = 0.3
_MOST_SUSPECTED = 0.4
"""Probability of being at fault above which a patch is in no bundle."""


def start_point(
    models: Models, number: int, *, rng: np.random.Generator, affordable_s: float = math.inf
) -> tuple[Point, str] | None:
    """Give the start of a number (from 1) and what it is, or ``None`` if none is left.

    The kinds take turns: all patches that promise to help; knobs turned the way that
    usually buys time with memory; both; then points far from all that was tried. None is
    likely to take longer than ``affordable_s`` wall seconds.
    """
    kinds: list[tuple[str, Callable[[], Ints]]] = [
        ("every patch that promises to help", lambda: _promising_patches(models)),
        ("knobs turned towards more memory", lambda: _hungry_knobs(models, patches=False)),
        (
            "promising patches and hungry knobs together",
            lambda: _hungry_knobs(models, patches=True),
        ),
    ]
    turn = number - 1
    ordered = kinds[turn:] if turn < len(kinds) else []
    for words, make in [*ordered, ("far from all that was tried", lambda: _far(models, rng))]:
        chosen = _first_allowed(models, make(), affordable_s=affordable_s)
        if chosen is not None:
            return chosen, words
    return None


def _first_allowed(models: Models, points: Ints, *, affordable_s: float) -> Point | None:
    """Give the first point, in order, that is untried, affordable and likely to be measured."""
    rows = [
        tuple(row)
        for row in points.tolist()
        if tuple(row) not in models.tried and models.lattice.is_feasible(row)
    ]
    if not rows:
        return None
    scores = models.score(np.array(rows, dtype=np.int64))
    good = (scores.p_fits >= max(_LEAST_P_FITS, models.floor())) & (
        scores.p_accepted >= _LEAST_P_ACCEPTED
    )
    good &= scores.at_most_s <= affordable_s
    return rows[int(np.argmax(good))] if good.any() else None


def _promising_patches(models: Models) -> Ints:
    """Give the favourable patches together, then fewer and fewer of them.

    One whose launch is thought to cost more than twice the reference's is left to a probe: a
    start should teach about many patches for the price of one launch.
    """
    lattice = models.lattice
    order = sorted(range(lattice.num_patches), key=lambda i: lattice.patches[i].log_time.mean)
    affordable = lattice.space.default_cost_s
    favourable = [
        i
        for i in order
        if lattice.patches[i].log_time.mean < 0 and lattice.patches[i].cold_start_s <= affordable
    ]
    suspects = models.acceptance.patches_at_fault()
    chosen: list[int] = []
    for i in favourable:
        if suspects[i] < _MOST_SUSPECTED and not any(lattice.excluded[i, j] for j in chosen):
            chosen.append(i)
    points = []
    for size in range(len(chosen), 0, -1):
        point = np.array(lattice.reference, dtype=np.int64)
        point[[lattice.num_knobs + i for i in chosen[:size]]] = 1
        points.append(point)
    return np.array(points, dtype=np.int64).reshape(len(points), len(lattice.reference))


def _hungry_knobs(models: Models, *, patches: bool) -> Ints:
    """Give points with the knobs of known direction moved up, boldest first.

    Whatever subset of them, by one step and by two: the first of these that fits is taken.
    """
    lattice = models.lattice
    signs = hunger_signs(lattice)
    reference = np.array([lattice.reference], dtype=np.int64)
    found: list[tuple[int, Ints]] = []
    bases = _promising_patches(models)[:_MOST_BUNDLES] if patches else reference
    for base, steps in product(bases, (1, 2)):
        moves = [_hungrier_option(block, base, signs, steps=steps) for block in lattice.blocks]
        usable = [(b, m) for b, m in zip(lattice.blocks, moves, strict=True) if m is not None]
        for used in product((True, False), repeat=min(len(usable), _MOST_MOVED)):
            point = base.copy()
            for (block, option), is_used in zip(usable, used, strict=False):
                if is_used:
                    point[list(block.members)] = option
            hunger = int((signs * (point - base)[: lattice.num_knobs]).sum())
            if hunger > 0:
                found.append((hunger, point))
    found.sort(key=lambda each: -each[0])
    return np.array([point for _, point in found], dtype=np.int64).reshape(
        len(found), reference.size
    )


def _hungrier_option(block: Block, base: Ints, signs: Ints, *, steps: int) -> Ints | None:
    """Give the nearest option of a block that is hungrier, by at most so many steps."""
    members = list(block.members)
    change = block.options - base[members]
    hunger = change @ signs[members]
    near = np.flatnonzero((hunger > 0) & (hunger <= steps))
    if not len(near):
        return None
    moved = (change[near] != 0).sum(axis=1)
    choice = near[np.lexsort((np.abs(change[near]).sum(axis=1), moved, -hunger[near]))[0]]
    return np.asarray(block.options[choice])


def _far(models: Models, rng: np.random.Generator) -> Ints:
    """Give points in the order of their distance from everything tried, farthest first."""
    listing = models.lattice.listing()
    points = models.untried(models.lattice.sample(300, rng) if listing is None else listing)
    if not len(points) or not models.tried:
        return points
    tried = models.tried_points()
    distance = (points[:, None, :] != tried[None, :, :]).sum(axis=2).min(axis=1)
    shuffled = rng.permutation(len(points))
    return np.asarray(points[shuffled[np.argsort(-distance[shuffled], kind="stable")]])
