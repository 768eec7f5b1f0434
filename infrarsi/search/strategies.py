"""The next candidate to try, by the strategy of the contract or by one of its rivals."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from infrarsi.records.beliefs import Beliefs
from infrarsi.records.experience import Experience
from infrarsi.records.history import Observation, Space, Suggestion
from infrarsi.search.acquisition import Models, Scores
from infrarsi.search.guard import is_cold_pick
from infrarsi.search.lattice import Lattice
from infrarsi.search.mixture import Ints, Mixture
from infrarsi.search.partners import partner_point
from infrarsi.search.rivals import (
    Choice,
    choose_at_random,
    choose_best_of_k,
    choose_by_climbing,
    choose_by_gp,
    choose_by_tpe,
)
from infrarsi.search.starts import start_point
from infrarsi.search.trials import Trials

OURS = ("infrarsi", "configonly")
"""The strategies with models; ``configonly`` without patches."""

NEGLIGIBLE_GAIN = 0.002
"""Expected log improvement, weighted by its chance, that is not worth a trial."""
_TRIALS_AFTER_STARTS = 4
_SAFE = 0.75
"""Chance of being measured that is asked of a pool while nothing was: any time beats none."""
_PROBE_EVERY = 4
_PARTNER_SHARE = 0.3
"""A partner goes first when it promises this share of the best candidate's worth."""
_DOUBT = 4.0
"""Factor on the run-time model's spread where it sees nothing to gain too early."""

_RIVALS: dict[str, Callable[[Trials, np.random.Generator], Choice]] = {
    "random": choose_at_random,
    "hillclimb": choose_by_climbing,
    "bestofk": choose_best_of_k,
    "tpe": choose_by_tpe,
    "gp": choose_by_gp,
}
STRATEGIES = (*OURS, *_RIVALS)
"""All that can be asked for."""


def suggest_next(
    space: Space,
    observations: Sequence[Observation],
    *,
    strategy: str,
    starts: int,
    seed: int,
    affordable_s: float = math.inf,
    pool: Ints | None = None,
    beliefs: Beliefs | None = None,
    learnt: Beliefs | None = None,
    formulas: bool = True,
    predict: bool = True,
    experience: Experience | None = None,
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
        ``infrarsi`` or ``configonly``; or a rival: ``random``, ``hillclimb``, ``bestofk``, ``tpe``
        (Optuna) or ``gp`` (scikit-learn).
    starts
        Number of starting configurations before the search narrows.
    seed
        The same seed and observations give the same suggestion.
    affordable_s
        Wall seconds that a trial may take. The strategies with models suggest nothing that is
        likely to take longer; the rivals know no cost.
    pool
        Where only some points can be measured, as rows of a table: those, as places among the
        knobs' values, then 0 or 1 for each patch, shape ``(n, d)``. There is then no reference
        to begin with.
    beliefs
        Of the formulas' coefficients, where they are not the usual ones.
    learnt
        What other searches taught of the coefficients.
    formulas
        Whether formulas are used, where the space's context gives the model's shape.
    predict
        Whether a rival's suggestion carries our models' prediction too.
    experience
        What other searches taught of patches and knobs. Every third pick is made without this
        and without ``learnt``; the rivals never use them.

    Raises
    ------
    ValueError
        The strategy is unknown, or a constraint cannot be read.
    UsageError
        The strategy needs a package that is not installed.
    """
    if strategy not in OURS and strategy not in _RIVALS:
        known = ", ".join(STRATEGIES)
        raise ValueError(f"unknown strategy {strategy!r}; known are {known}")
    if strategy == "configonly":
        pool = None if pool is None else _without_patches(pool, len(space.knobs))
        space = space.model_copy(update={"patches": (), "incompatible": ()})
    lattice = Lattice(space, pool=pool)
    trials = Trials(lattice, observations)
    is_warm = strategy in OURS and not _is_cold(trials)
    models = None
    if predict or strategy in OURS:
        models = Models(
            lattice, observations, beliefs=beliefs, learnt=learnt if is_warm else None,
            formulas=formulas, experience=experience if is_warm else None,
        )  # fmt: skip
    rng = np.random.default_rng([seed % 2**32, len(observations)])
    choice: Choice
    has_reference = pool is None and lattice.is_feasible(lattice.reference)
    if has_reference and lattice.reference not in trials.tried:
        choice = lattice.reference, "the reference, which was not measured yet"
    elif models is None or strategy in _RIVALS:
        choice = _RIVALS[strategy](trials, rng)
    else:
        choice = _choose_by_models(models, starts, rng, affordable_s=affordable_s)
    if choice is None:
        return None
    point, reason = choice
    if strategy in OURS and experience is not None:
        reason = f"{reason}; {_weighed(models)}"
    return Suggestion(
        candidate=lattice.candidate_of(point),
        reason=reason,
        prediction=models.predict(point) if models and predict else None,
    )


def _is_cold(trials: Trials) -> bool:
    """Tell whether this pick is the cold expert's own: the reference counts in pools alone."""
    given = set() if trials.lattice.pool is not None else {trials.lattice.reference}
    return is_cold_pick(len(trials.tried - given))


def _weighed(models: Models | None) -> str:
    """Say how much experience weighs in a pick."""
    if models is None or models.trust is None:
        return "without experience"
    time, memory = models.trust
    return f"experience weighs {time:.2f} in time, {memory:.2f} in memory"


def _without_patches(pool: Ints, num_knobs: int) -> Ints:
    return pool[~pool[:, num_knobs:].any(axis=1), :num_knobs]


def _choose_by_models(
    models: Models, starts: int, rng: np.random.Generator, *, affordable_s: float
) -> Choice:
    """Choose starts first, then partners, probes and the most expected gain a second."""
    if models.lattice.pool is not None:
        return _choose_from_pool(models, starts, rng)
    num_tried = len(models.tried - {models.lattice.reference})
    if num_tried < starts and not models.is_guided:
        start = start_point(models, num_tried + 1, rng=rng, affordable_s=affordable_s)
        if start is not None:
            return start[0], f"start {num_tried + 1} of {starts}: {start[1]}"
    pool = models.pool(rng)
    scores, most = _worth_trying(models, pool.where(pool.at_most_s <= affordable_s))
    partner = partner_point(
        models,
        least_gain=max(_PARTNER_SHARE * most, 2 * NEGLIGIBLE_GAIN),
        least_value=_PARTNER_SHARE * float(scores.value.max(initial=0.0)),
        affordable_s=affordable_s,
    )
    if partner is not None:
        return partner
    if not len(scores.points):
        return None
    if most < NEGLIGIBLE_GAIN:
        return _thinner(models, scores) or (
            None if _has_explored(models, starts) else _in_doubt(models, scores)
        )
    is_due = num_tried == starts or (models.is_guided and not num_tried)
    if is_due and scores.optimum.max() > 0:
        best = int(np.argmax(scores.optimum * scores.chance))
        return scores.point(best), _words("the models' own optimum", scores, best)
    if (num_tried - starts) % _PROBE_EVERY == _PROBE_EVERY - 1:
        probe = _probe(models, scores)
        if probe is not None:
            return probe
    best = int(np.argmax(scores.value))
    return scores.point(best), _words("most expected gain a second", scores, best)


def _choose_from_pool(models: Models, starts: int, rng: np.random.Generator) -> Choice:
    """Choose the models' own optimum first, then the most expected gain times its chance."""
    pool = models.pool(rng)
    if not len(pool.points):
        return None
    scores, most = _worth_trying(models, pool)
    if not len(scores.points):
        best = int(np.argmax(pool.chance))
        return pool.point(best), _words("the likeliest to fit", pool, best)
    if models.runtime.best is None:
        safe = scores.where(scores.chance >= min(_SAFE, float(scores.chance.max())))
        # Nothing was measured, so that there is no gain yet: most expected speed instead.
        best = int(np.argmax(safe.optimum + np.log(safe.chance)))
        return safe.point(best), _words("the models' own optimum", safe, best)
    if most < NEGLIGIBLE_GAIN:
        return _in_doubt(models, scores.where(scores.chance >= min(_SAFE, scores.chance.max())))
    best = int(np.argmax(scores.value * scores.chance))
    return scores.point(best), _words("most expected gain", scores, best)


def _worth_trying(models: Models, pool: Scores) -> tuple[Scores, float]:
    """Keep what is likely enough to fit, and give the most that a trial of it may gain.

    Where the floor of a spent OOM budget leaves nothing to gain, a lower one must do: else
    an optimum near the edge of memory would end the search.
    """
    for least in (models.floor(), models.lowered_floor()):
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


def _thinner(models: Models, scores: Scores) -> Choice:
    """Give the best so far without one of its patches, where nothing better is expected.

    A patch that helped alone may hurt beside another one: the models learn that from the pair
    apart, which a climb from bundle to bundle never shows them.
    """
    num = models.lattice.num_knobs
    measured = [(e.update_s, p) for p, e in models.seen if e.status == "ok" and e.update_s]
    if not measured:
        return None
    best = np.array(min(measured)[1])
    same = (scores.points[:, :num] == best[:num]).all(axis=1)
    less = (scores.points[:, num:] <= best[num:]).all(axis=1)
    one = (scores.points[:, num:] != best[num:]).sum(axis=1) == 1
    near = np.flatnonzero(same & less & one)
    if not len(near):
        return None
    index = int(near[np.argmax(scores.optimum[near])])
    left = int(np.flatnonzero(scores.points[index, num:] != best[num:])[0])
    name = models.lattice.patches[left].name
    return scores.point(index), _words(f"the best without +{name}", scores, index)


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
