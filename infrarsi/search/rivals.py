"""Other ways to choose the next candidate, for honest comparison at equal budget, and as options.

None of them knows costs, priors, memory or formulas.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from infrarsi.errors import UsageError
from infrarsi.records.history import Observation
from infrarsi.search.features import runtime_columns
from infrarsi.search.lattice import Lattice, Point
from infrarsi.search.mixture import Floats, Ints
from infrarsi.search.trials import Trials

Choice: TypeAlias = tuple[Point, str] | None

_TRIES = 50
_ATTEMPT = 4
"""Trials of one attempt of ``bestofk``."""
_RANDOM_FIRST = 3
"""Random trials before the plain Gaussian process chooses."""
_SAMPLED = 600


def choose_at_random(trials: Trials, rng: np.random.Generator) -> Choice:
    """Draw evenly among what was not tried."""
    listing = trials.lattice.listing()
    for _ in range(_TRIES):
        drawn = trials.lattice.sample(20, rng) if listing is None else listing
        fresh = trials.untried(drawn)
        if len(fresh):
            return _row(fresh, int(rng.integers(len(fresh)))), "random draw"
        if listing is not None:
            break
    return None


def choose_by_climbing(trials: Trials, rng: np.random.Generator) -> Choice:
    """Change one thing of the incumbent, keep it where it is faster, else discard it."""
    return _climb(trials, trials.seen, rng, what="the incumbent")


def choose_best_of_k(trials: Trials, rng: np.random.Generator) -> Choice:
    """Climb in short attempts of their own, each from the beginning; the best of all counts."""
    begun = len(trials.seen) - len(trials.seen) % _ATTEMPT
    attempt = begun // _ATTEMPT + 1
    return _climb(trials, trials.seen[begun:], rng, what=f"attempt {attempt}")


def _climb(
    trials: Trials,
    seen: Sequence[tuple[Point, Observation]],
    rng: np.random.Generator,
    *,
    what: str,
) -> Choice:
    lattice = trials.lattice
    measured = [(e.update_s, p) for p, e in seen if e.status == "ok" and e.update_s]
    if not measured and lattice.pool is not None:
        return choose_at_random(trials, rng)  # a table has no reference to start from
    incumbent = min(measured)[1] if measured else lattice.reference
    if lattice.pool is not None:
        near, fresh = lattice.pool, _with_fewest_changes(trials, incumbent)
    else:
        near = lattice.neighbours(incumbent)
        fresh = trials.untried(near)
    words = "one change"
    if not len(fresh) and len(near) and lattice.pool is None:
        fresh = trials.untried(np.vstack([lattice.neighbours(point) for point in near.tolist()]))
        words = "two changes, all single ones being tried"
    if not len(fresh):
        return None
    point = _row(fresh, int(rng.integers(len(fresh))))
    return point, f"{words} of {what} {lattice.words_of(incumbent)}"


def _with_fewest_changes(trials: Trials, incumbent: Point) -> Ints:
    """Give what is left of a pool and differs from the incumbent in the fewest places."""
    assert trials.lattice.pool is not None
    fresh = trials.untried(trials.lattice.pool)
    changes = (fresh != np.array(incumbent)).sum(axis=1)
    return fresh[changes == changes.min(initial=fresh.shape[1])] if len(fresh) else fresh


def choose_by_gp(trials: Trials, rng: np.random.Generator) -> Choice:
    """Maximise the expected improvement of scikit-learn's Gaussian process, fitted as it comes.

    What failed counts as slow as the slowest seen.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

    slow = _log_times(trials.seen)
    if len(slow) < _RANDOM_FIRST or np.ptp(slow) == 0:
        return choose_at_random(trials, rng)
    fresh = _candidates(trials, rng)
    if not len(fresh):
        return None
    columns = runtime_columns(trials.lattice)
    rows = columns.of(np.array([point for point, _ in trials.seen], dtype=np.int64))
    kernel = ConstantKernel() * Matern(np.ones(rows.shape[1]), nu=2.5) + WhiteKernel(1e-3)
    process = GaussianProcessRegressor(
        kernel, normalize_y=True, random_state=int(rng.integers(2**31))
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", message="Predicted variances smaller than 0")
        mean, sd = process.fit(rows, slow).predict(columns.of(fresh), return_std=True)
    gain = _expected_gain(float(slow.min()), mean, sd)
    return _row(fresh, int(np.argmax(gain))), "most expected improvement of a Gaussian process"


def _expected_gain(best: float, mean: Floats, sd: Floats) -> Floats:
    from scipy.special import ndtr

    sd = np.maximum(sd, 1e-9)
    z = (best - mean) / sd
    return np.asarray(sd * (z * ndtr(z) + np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)))


def choose_by_tpe(trials: Trials, rng: np.random.Generator) -> Choice:
    """Ask Optuna's TPE sampler, with its own defaults, until it names what can be tried.

    What failed is told as twice as slow as the slowest seen.

    Raises
    ------
    UsageError
        Optuna is not installed.
    """
    optuna = _optuna()
    lattice = trials.lattice
    if not len(_candidates(trials, rng)):
        return None
    sampler = optuna.samplers.TPESampler(seed=int(rng.integers(2**31)))
    study = optuna.create_study(sampler=sampler)
    distributions = _distributions(optuna, lattice)
    told = zip(trials.seen, _log_times(trials.seen, worse=np.log(2.0)), strict=True)
    for (seen, _), slow in told:
        parameters = dict(zip(distributions, seen, strict=True))
        study.add_trial(
            optuna.trial.create_trial(
                params=parameters, distributions=distributions, value=float(slow)
            )
        )
    point: Point = ()
    for _ in range(_TRIES):
        asked = study.ask(distributions)
        point = tuple(int(asked.params[name]) for name in distributions)
        if point not in trials.tried and lattice.is_feasible(point):
            return point, "Optuna's TPE"
    fresh = _candidates(trials, rng)
    distance = (fresh != np.array(point)).sum(axis=1)
    return _row(fresh, int(np.argmin(distance))), "nearest to what Optuna's TPE asked for"


def _optuna() -> Any:
    try:
        import optuna
    except ImportError as error:
        raise UsageError(
            "the strategy tpe needs Optuna, which is not installed",
            hint="install it with `pip install 'infrarsi[rivals]'`",
        ) from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def _distributions(optuna: Any, lattice: Lattice) -> dict[str, Any]:
    """Give a distribution for each knob and patch: of places in an order, or of categories."""
    found: dict[str, Any] = {}
    for i, (knob, table) in enumerate(
        zip(lattice.knobs, runtime_columns(lattice).tables, strict=True)
    ):
        places = len(knob.values)
        if table.shape[1] == 1:
            found[f"{i} {knob.name}"] = optuna.distributions.IntDistribution(0, places - 1)
        else:
            choices = tuple(range(places))
            found[f"{i} {knob.name}"] = optuna.distributions.CategoricalDistribution(choices)
    for patch in lattice.patches:
        found[f"+{patch.name}"] = optuna.distributions.CategoricalDistribution((0, 1))
    return found


def _log_times(seen: Sequence[tuple[Point, Observation]], *, worse: float = 0.0) -> Floats:
    """Give the log time of every trial; of one that failed, the slowest so far and some more."""
    times = [
        np.log(each.update_s) if each.status == "ok" and each.update_s else np.nan
        for _, each in seen
    ]
    known = [each for each in times if not np.isnan(each)]
    slowest = (max(known) if known else 0.0) + worse
    return np.nan_to_num(np.array(times, dtype=np.float64), nan=slowest)


def _candidates(trials: Trials, rng: np.random.Generator) -> Ints:
    listing = trials.lattice.listing()
    if listing is None:
        near = [trials.lattice.neighbours(point) for point, _ in trials.seen[-3:]]
        listing = np.vstack([trials.lattice.sample(_SAMPLED, rng), *near])
    return trials.untried(listing)


def _row(points: Ints, index: int) -> Point:
    return tuple(int(each) for each in points[index])
