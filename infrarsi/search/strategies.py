"""The next candidate to try, by the strategy of the contract or by one of its rivals."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np

from infrarsi.records.history import Observation, Space, Suggestion
from infrarsi.search.acquisition import LEAST_P_FITS, Models, Scores
from infrarsi.search.lattice import Lattice, Point
from infrarsi.search.mixture import Mixture
from infrarsi.search.partners import partner_point
from infrarsi.search.starts import start_point

Choice: TypeAlias = tuple[Point, str] | None
Strategy: TypeAlias = Callable[[Models, int, np.random.Generator], Choice]

NEGLIGIBLE_GAIN = 0.002
"""Expected log improvement, weighted by its chance, that is not worth a trial."""
_TRIALS_AFTER_STARTS = 4
_PROBE_EVERY = 4
_PARTNER_SHARE = 0.3
"""A partner goes first when it promises this share of the best candidate's worth."""
_DOUBT = 4.0
"""Factor on the run-time model's spread where it sees nothing to gain too early."""
_TRIES_OF_RANDOM = 50


def suggest_next(
    space: Space,
    observations: Sequence[Observation],
    *,
    strategy: str,
    starts: int,
    seed: int,
    affordable_s: float = math.inf,
) -> Suggestion | None:
    """Suggest the next candidate, or ``None`` when nothing worth trying is left.

    Parameters
    ----------
    space
        Knobs, constraints and patches; ``strategy="configonly"`` leaves the patches out.
    observations
        Every trial so far in order, the reference (defaults, no patches) among them. Where
        the reference was not observed, it is suggested first.
    strategy
        ``infrarsi``, ``random``, ``hillclimb`` or ``configonly``.
    starts
        Number of starting configurations before the search narrows.
    seed
        The same seed and observations give the same suggestion.
    affordable_s
        Wall seconds that a trial may take. The strategies with models suggest nothing after
        the starts that is likely to take longer; the rivals know no cost.

    Raises
    ------
    ValueError
        The strategy is unknown, or a constraint cannot be read.
    """
    strategies: dict[str, Strategy] = {
        "infrarsi": partial(_choose_by_models, affordable_s=affordable_s),
        "configonly": partial(_choose_by_models, affordable_s=affordable_s),
        "hillclimb": _choose_by_climbing,
        "random": _choose_at_random,
    }
    if strategy not in strategies:
        known = ", ".join(sorted(strategies))
        raise ValueError(f"unknown strategy {strategy!r}; known are {known}")
    if strategy == "configonly":
        space = space.model_copy(update={"patches": (), "incompatible": ()})
    lattice = Lattice(space)
    models = Models(lattice, observations)
    rng = np.random.default_rng([seed % 2**32, len(observations)])
    choice: Choice
    if lattice.reference not in models.tried and lattice.is_feasible(lattice.reference):
        choice = lattice.reference, "the reference, which was not measured yet"
    else:
        choice = strategies[strategy](models, starts, rng)
    if choice is None:
        return None
    point, reason = choice
    return Suggestion(
        candidate=lattice.candidate_of(point), reason=reason, prediction=models.predict(point)
    )


def _choose_by_models(
    models: Models, starts: int, rng: np.random.Generator, *, affordable_s: float
) -> Choice:
    """Choose starts first, then partners, probes and the most expected gain a second."""
    num_tried = len(models.tried - {models.lattice.reference})
    if num_tried < starts:
        start = start_point(models, num_tried + 1, rng=rng)
        if start is not None:
            return start[0], f"start {num_tried + 1} of {starts}: {start[1]}"
    pool = models.pool(rng)
    scores, most = _worth_trying(models, pool.where(pool.at_most_s <= affordable_s))
    partner = partner_point(
        models,
        least_gain=max(_PARTNER_SHARE * most, 2 * NEGLIGIBLE_GAIN),
        least_value=_PARTNER_SHARE * float(scores.value.max(initial=0.0)),
    )
    if partner is not None:
        return partner
    if not len(scores.points):
        return None
    if most < NEGLIGIBLE_GAIN:
        return None if _has_explored(models, starts) else _in_doubt(models, scores)
    if num_tried == starts:
        best = int(np.argmax(np.maximum(scores.optimum, 1e-6) * scores.chance))
        return scores.point(best), _words("the models' own optimum", scores, best)
    if (num_tried - starts) % _PROBE_EVERY == _PROBE_EVERY - 1:
        probe = _probe(models, scores)
        if probe is not None:
            return probe
    best = int(np.argmax(scores.value))
    return scores.point(best), _words("most expected gain a second", scores, best)


def _worth_trying(models: Models, pool: Scores) -> tuple[Scores, float]:
    """Keep what is likely enough to fit, and give the most that a trial of it may gain.

    Where the floor of a spent OOM budget leaves nothing to gain, half of it must do: else
    an optimum near the edge of memory would end the search.
    """
    floor = models.floor()
    for least in (floor, max(floor / 2, LEAST_P_FITS)):
        scores = pool.where(pool.p_fits >= least)
        most = float((scores.gain * scores.chance).max(initial=0.0))
        if most >= NEGLIGIBLE_GAIN:
            break
    return scores, most


def _has_explored(models: Models, starts: int) -> bool:
    """Tell whether enough was tried to believe the models that nothing is left."""
    lattice = models.lattice
    num_tried = len(models.tried - {lattice.reference})
    least = starts + _TRIALS_AFTER_STARTS + lattice.num_knobs + lattice.num_patches
    patches = models.tried_points()[:, lattice.num_knobs :]
    return num_tried >= least and bool((patches.max(axis=0) > 0).all())


def _in_doubt(models: Models, scores: Scores) -> Choice:
    """Give the point worth most if the run-time model were far less sure than it claims."""
    times = models.runtime.predict(scores.points)
    doubted = Mixture(times.weights, times.means, _DOUBT * times.sds)
    value = doubted.expected_below(models.best) * scores.chance / scores.cost_s
    best = int(np.argmax(value))
    return scores.point(best), _words("little gain is expected; the models in doubt", scores, best)


def _probe(models: Models, scores: Scores) -> Choice:
    """Give the most valuable point that carries exactly one atom never tried before."""
    tried = models.tried_points()
    new = np.stack(
        [~np.isin(scores.points[:, i], tried[:, i]) for i in range(tried.shape[1])], axis=1
    )
    one = np.flatnonzero(new.sum(axis=1) == 1)
    if not len(one):
        return None
    best = int(one[np.argmax(scores.value[one])])
    if scores.gain[best] * scores.chance[best] < NEGLIGIBLE_GAIN:
        return None
    position = int(np.flatnonzero(new[best])[0])
    lattice = models.lattice
    if position >= lattice.num_knobs:
        atom = lattice.patches[position - lattice.num_knobs].name
    else:
        knob = lattice.knobs[position]
        atom = f"{knob.name}={knob.values[scores.points[best, position]]}"
    return scores.point(best), _words(f"probe of {atom}, never tried before", scores, best)


def _words(what: str, scores: Scores, index: int) -> str:
    gain = 100 * float(np.expm1(min(scores.gain[index], 50.0)))
    return f"{what} (expected gain {gain:.1f} %, P(fits) {scores.p_fits[index]:.2f})"


def _choose_by_climbing(models: Models, starts: int, rng: np.random.Generator) -> Choice:
    """Change one thing of the incumbent, keep it where it is faster, else discard it."""
    lattice = models.lattice
    measured = [(e.update_s, p) for p, e in models.seen if e.status == "ok" and e.update_s]
    incumbent = min(measured)[1] if measured else lattice.reference
    near = lattice.neighbours(incumbent)
    fresh = models.untried(near)
    words = "one change"
    if not len(fresh) and len(near):
        fresh = models.untried(np.vstack([lattice.neighbours(point) for point in near.tolist()]))
        words = "two changes, all single ones being tried"
    if not len(fresh):
        return None
    point = tuple(int(each) for each in fresh[rng.integers(len(fresh))])
    return point, f"{words} of the incumbent {lattice.words_of(incumbent)}"


def _choose_at_random(models: Models, starts: int, rng: np.random.Generator) -> Choice:
    """Draw evenly among what was not tried."""
    listing = models.lattice.listing()
    for _ in range(_TRIES_OF_RANDOM):
        drawn = models.lattice.sample(20, rng) if listing is None else listing
        fresh = models.untried(drawn)
        if len(fresh):
            point = tuple(int(each) for each in fresh[rng.integers(len(fresh))])
            return point, "random draw"
        if listing is not None:
            break
    return None
