"""Partners: memory-saving changes that make a promising OOM fit."""

from __future__ import annotations

import math
from itertools import combinations
from typing import TypeAlias

import numpy as np

from infrarsi.search.acquisition import Models
from infrarsi.search.lattice import Point
from infrarsi.search.mixture import Ints

Move: TypeAlias = tuple[tuple[int, int], ...]
"""Positions of a point, each with its new value."""

_MOST_PARTNERS_AT_ONCE = 3
_MOST_SAVERS = 8
_MOST_ATTEMPTS = 3
_LATEST_OOMS = 3
_LEAST_P_FITS = 0.4
_LEAST_P_ACCEPTED = 0.3
_LEAST_SAVING = 0.01


def partner_point(
    models: Models, *, least_gain: float, least_value: float, affordable_s: float = math.inf
) -> tuple[Point, str] | None:
    """Give the best way to make one of the latest promising OOMs fit, and why.

    An OOM is promising while its expected log improvement, had it fitted, is at least
    ``least_gain``; its partner must be worth ``least_value`` a second, and be
    affordable. Each OOM gets a few
    attempts, and none once an extension of it has fitted.
    """
    ooms = [point for point, each in models.seen if each.status == "oom"]
    found = []
    for oom in list(dict.fromkeys(reversed(ooms)))[:_LATEST_OOMS]:
        if _is_settled(models, oom):
            continue
        gain = float(models.score(np.array([oom], dtype=np.int64)).gain[0])
        best = _best_extension(models, oom, affordable_s) if gain >= least_gain else None
        if best is not None and best[1] >= least_value:
            found.append((best[1], oom, best[0]))
    if not found:
        return None
    _, oom, point = max(found, key=lambda each: each[0])
    added = _added_words(models, oom, point)
    return point, f"partner for the OOM of {models.lattice.words_of(oom)}: {added}"


def _is_settled(models: Models, oom: Point) -> bool:
    """Tell whether an OOM was extended into something that fits, or often enough."""
    changed = [i for i, index in enumerate(oom) if index != models.lattice.reference[i]]
    extensions = [
        each.status
        for point, each in models.seen
        if point != oom and all(point[i] == oom[i] for i in changed)
    ]
    return not changed or "ok" in extensions or len(extensions) >= _MOST_ATTEMPTS


def _best_extension(models: Models, oom: Point, affordable_s: float) -> tuple[Point, float] | None:
    points = []
    moves = _saving_moves(models, oom)
    for num in range(1, _MOST_PARTNERS_AT_ONCE + 1):
        for together in combinations(moves, num):
            point = list(oom)
            for move in together:
                for position, value in move:
                    point[position] = value
            points.append(point)
    if not points:
        return None
    scores = models.score(models.untried(np.array(points, dtype=np.int64)))
    likely = scores.p_fits >= max(_LEAST_P_FITS, models.floor())
    likely &= scores.at_most_s <= affordable_s
    scores = scores.where(likely & (scores.p_accepted >= _LEAST_P_ACCEPTED))
    if not len(scores.points):
        return None
    best = int(np.argmax(scores.value))
    return scores.point(best), float(scores.value[best])


def _saving_moves(models: Models, oom: Point) -> list[Move]:
    """List single changes that lower the predicted memory, those that save most first.

    Knobs that the OOM itself had turned stay: taking them back would be a retreat.
    """
    lattice = models.lattice
    here = np.array(oom, dtype=np.int64)
    turned = {i for i in range(lattice.num_knobs) if oom[i] != lattice.reference[i]}
    moves: list[Move] = []
    for block in lattice.blocks:
        for option in block.options.tolist():
            pairs = zip(block.members, option, strict=True)
            move = tuple((i, value) for i, value in pairs if value != oom[i])
            if move and not turned & {i for i, _ in move}:
                moves.append(move)
    for i in range(lattice.num_patches):
        position = lattice.num_knobs + i
        clashes = bool((lattice.excluded[i] & (here[lattice.num_knobs :] > 0)).any())
        if not oom[position] and not clashes:
            moves.append(((position, 1),))
    if not moves:
        return []
    saved = _savings(models, here, moves)
    order = [i for i in np.argsort(-saved) if saved[i] > _LEAST_SAVING]
    return [moves[i] for i in order[:_MOST_SAVERS]]


def _savings(models: Models, here: Ints, moves: list[Move]) -> Ints:
    moved = np.repeat(here[None, :], len(moves) + 1, axis=0)
    for row, move in zip(moved[1:], moves, strict=True):
        for position, value in move:
            row[position] = value
    memory = models.memory.predict(moved).mean()
    return np.asarray(memory[0] - memory[1:])


def _added_words(models: Models, oom: Point, point: Point) -> str:
    lattice = models.lattice
    names = [
        f"+{p.name}"
        for i, p in enumerate(lattice.patches, start=lattice.num_knobs)
        if point[i] > oom[i]
    ]
    names += [
        f"{knob.name}={knob.values[point[i]]}"
        for i, knob in enumerate(lattice.knobs)
        if point[i] != oom[i]
    ]
    chances = models.memory.p_fits(np.array([oom, point], dtype=np.int64))
    return f"{', '.join(names)} should make it fit (P(fits) {chances[1]:.2f})"
