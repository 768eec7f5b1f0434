"""What trials taught of the formulas' coefficients: where another search may start from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from infrarsi.records.beliefs import Beliefs
from infrarsi.records.candidate import Effect
from infrarsi.records.history import Observation, Space
from infrarsi.search.lattice import Lattice
from infrarsi.search.linearise import most_likely, spread_of
from infrarsi.search.memory import MemoryModel
from infrarsi.search.mixture import Ints
from infrarsi.search.physics import default_beliefs, formulas_of
from infrarsi.search.runtime import DEFAULT_SD, MISFIT_SD

_LEAST_TOLD = 0.05
"""Of a prior's precision: what is less is rounding, or a tilt of the other coefficients."""
_LEAST_SD = 0.08
"""However sure trials are, another task is not quite the same."""


def learned(
    space: Space, observations: Sequence[Observation], *, pool: Ints | None = None
) -> Beliefs | None:
    """Give the posterior of the coefficients after a task's trials.

    Parameters
    ----------
    space
        Of that task, with its context.
    observations
        Its trials; those that were measured teach of time, and those that ran out of memory
        of memory too.
    pool
        As for a search.

    Returns
    -------
    Beliefs or None
        ``None`` where the context does not give the model's shape.
    """
    lattice = Lattice(space, pool=pool)
    time, memory = formulas_of(lattice, Beliefs())
    if time is None:
        return None
    placed = [(lattice.point_of(each.candidate), each) for each in observations]
    seen = [(point, each) for point, each in placed if point is not None]
    measured = [(p, e) for p, e in seen if e.status == "ok" and e.update_s]
    num = lattice.num_knobs + lattice.num_patches
    points = np.array([p for p, _ in measured], dtype=np.int64).reshape(len(measured), num)
    logs = np.array([np.log(e.update_s or 1.0) for _, e in measured])
    noise = np.array([(e.update_sd or DEFAULT_SD) ** 2 + MISFIT_SD**2 for _, e in measured])
    theta = most_likely(time, points, logs=logs, noise=noise)
    spread = spread_of(time, points, theta=theta, noise=noise)
    told = {}
    if memory is not None:
        moments = MemoryModel(lattice, seen, formula=memory).coefficient_moments()
        told = _effects(memory.names, *(each.tolist() for each in moments))
    return Beliefs(
        time=_effects(time.names, theta.tolist(), spread.tolist()),
        memory=told,
    )


def pooled(several: Sequence[Beliefs]) -> Beliefs:
    """Combine what several tasks taught: means weighed by certainty, spread by how they differ.

    A coefficient's spread for a new task is how far the tasks lie apart, and how unsure the
    mean of them is; where one task is all there is, it is that task's own, twice. Each task's
    posterior holds the prior: it is taken off, and counts once. Of what no task told anything,
    nothing is said.
    """
    prior = default_beliefs()
    return Beliefs(
        time=_pooled([each.time for each in several], prior.time),
        memory=_pooled([each.memory for each in several], prior.memory),
    )


def _pooled(several: Sequence[dict[str, Effect]], prior: dict[str, Effect]) -> dict[str, Effect]:
    found = {}
    for name, before in prior.items():
        own = [told for each in several if name in each and (told := _told(each[name], before))]
        if not own:
            continue
        means = np.array([each.mean for each in own])
        variances = np.array([each.sd**2 for each in own])
        # Between tasks, by moments (DerSimonian and Laird, 1986).
        weights = 1 / variances
        centre = float(weights @ means / weights.sum())
        excess = float(weights @ (means - centre) ** 2) - (len(own) - 1)
        scale = float(weights.sum() - (weights**2).sum() / weights.sum())
        between = max(0.0, excess / scale) if scale > 0 else float(variances[0])
        weights = 1 / (variances + between)
        mean = float(weights @ means / weights.sum())
        variance = between + 1 / float(weights.sum())
        precision = 1 / variance + 1 / before.sd**2
        mean = (mean / variance + before.mean / before.sd**2) / precision
        found[name] = Effect(mean=mean, sd=max(_LEAST_SD, precision**-0.5))
    return found


def _told(posterior: Effect, prior: Effect) -> Effect | None:
    """Give what trials told of a coefficient beyond its prior; ``None``: next to nothing."""
    precision = posterior.sd**-2 - prior.sd**-2
    if precision < _LEAST_TOLD * prior.sd**-2:
        return None
    mean = (posterior.mean * posterior.sd**-2 - prior.mean * prior.sd**-2) / precision
    return Effect(mean=mean, sd=precision**-0.5)


def _effects(
    names: Sequence[str], means: Sequence[float], sds: Sequence[float]
) -> dict[str, Effect]:
    return {
        name: Effect(mean=mean, sd=max(sd, 1e-3))
        for name, mean, sd in zip(names, means, sds, strict=True)
    }
