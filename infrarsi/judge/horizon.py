"""Long-run quality: what the winner has learnt after many updates is no worse than a seed's luck.

Both arms train equally long, in pairs that share seed and data. The states that they come to are
scored on batches after the horizon by the reference's own code. The difference within pairs is
held against how far the reference differs from itself under other seeds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from infrarsi.judge.case import Case
from infrarsi.judge.findings import fails, gravest, passes, unsure
from infrarsi.judge.series import Floats
from infrarsi.judge.speedup import alpha_for_attempt
from infrarsi.judge.workload import judge_batches
from infrarsi.records.estimate import Estimate
from infrarsi.records.verdict import Finding, Layer, Ruling

_LAYER: Layer = "numerics"
_CHECK = "horizon"
FEWEST_SEEDS = 3
_MOST_SEEDS = 200


@dataclass(frozen=True)
class Scores:
    """Mean losses on the batches after the horizon, one a seed; ``nan`` where not finite."""

    winner: tuple[float, ...]
    reference: tuple[float, ...]
    base: tuple[float, ...]
    """Of the first seed's reference, on each seed's own batches: what the batches differ by."""


@dataclass(frozen=True)
class NonInferiority:
    """What the scores say."""

    excess: Estimate
    """The winner's loss less the reference's, over the seeds."""
    spread: float
    """Standard deviation of the reference's loss between seeds."""
    margin: float
    """What the excess's upper bound must stay below: the spread, as little as it may be."""
    needed: int | None
    """Seeds that would tell, if they go on as these; ``None``: not even very many."""
    ruling: Ruling


def excess_bounds(
    excess: Floats, contrasts: Floats, *, alpha: float
) -> tuple[Floats, Floats, Floats, Floats]:
    """Give low, high, spread and margin, along the last axes.

    Parameters
    ----------
    excess : ndarray, shape (..., seeds)
        Winner's loss less the reference's, of each pair.
    contrasts : ndarray, shape (..., seeds - 1)
        Reference's loss less that of the first seed's reference on the same batches, of every
        other seed.
    alpha : float
        Half of it each may the upper bound of the excess and the margin err with.

    Returns
    -------
    low, high : ndarray
        ``mean ± t s / sqrt(seeds)`` of the excess, each bound one-sided at ``alpha / 2``.
    spread : ndarray
        Standard deviation of the contrasts. What the first seed has of its own is in all of them
        alike, and so not in it.
    margin : ndarray
        Lower bound of the spread, one-sided at ``alpha / 2``:
        ``spread sqrt(df / chi2(1 - alpha / 2, df))``.

    Notes
    -----
    Assumes that seeds are exchangeable and losses over them roughly normal. The first seed's
    batches are its own contrasts' zero, so that it gives none. When not to trust it: seeds that
    were left out, or added until it looked well but for the share of each attempt.
    """
    from scipy.special import stdtrit

    seeds, df = excess.shape[-1], contrasts.shape[-1] - 1
    mean = excess.mean(axis=-1)
    half = float(stdtrit(seeds - 1, 1 - alpha / 2)) * excess.std(axis=-1, ddof=1) / math.sqrt(seeds)
    spread = contrasts.std(axis=-1, ddof=1)
    return mean - half, mean + half, spread, spread * _shrink(df, alpha)


def _shrink(df: int, alpha: float) -> float:
    """Give what a standard deviation is multiplied by for its lower bound."""
    from scipy.special import chdtri

    return math.sqrt(df / float(chdtri(df, alpha / 2)))


def non_inferiority(scores: Scores, *, attempt: int) -> NonInferiority | None:
    """Test that the winner loses no more than the reference, by the margin of other seeds.

    Parameters
    ----------
    scores : Scores
        Finite, of as many seeds in each arm.
    attempt : int
        Counts the tests of this candidate at this horizon; it sets the share of the error rate.

    Returns
    -------
    NonInferiority or None
        ``None`` with fewer than three seeds, which give no spread.
    """
    seeds = len(scores.winner)
    if seeds < FEWEST_SEEDS:
        return None
    alpha = alpha_for_attempt(attempt)
    excess = np.array(scores.winner) - np.array(scores.reference)
    contrasts = (np.array(scores.reference) - np.array(scores.base))[1:]
    low, high, spread, margin = (float(e) for e in excess_bounds(excess, contrasts, alpha=alpha))
    ruling = Ruling.INCONCLUSIVE
    if spread > 0 and high < margin:
        ruling = Ruling.PASS
    elif low > spread > 0:
        ruling = Ruling.FAIL
    mean, sd = float(excess.mean()), float(excess.std(ddof=1))
    return NonInferiority(
        excess=Estimate(low=low, point=mean, high=high, level=1 - alpha), spread=spread,
        margin=margin, ruling=ruling,
        needed=seeds_needed(
            mean, sd, spread, more_than=seeds, alpha=alpha_for_attempt(attempt + 1)
        ),
    )  # fmt: skip


def seeds_needed(
    mean: float, sd: float, spread: float, *, more_than: int, alpha: float
) -> int | None:
    """Give the fewest seeds with which the test would pass, if they go on as so far.

    Parameters
    ----------
    mean, sd : float
        Of the excess.
    spread : float
        Of the reference between seeds.
    more_than : int
        The seeds that were trained.
    alpha : float
        The share of the error rate that would be spent.
    """
    from scipy.special import stdtrit

    for seeds in range(more_than + 1, _MOST_SEEDS + 1):
        half = float(stdtrit(seeds - 1, 1 - alpha / 2)) * sd / math.sqrt(seeds)
        if mean + half < spread * _shrink(seeds - 2, alpha):
            return seeds
    return None


def judge_horizon(
    pairs: Sequence[Case], scores: Scores, *, updates: int, attempt: int, varied: str
) -> tuple[list[Finding], NonInferiority | None]:
    """Judge what both arms have learnt after many updates.

    Parameters
    ----------
    pairs : sequence of Case
        The winner's launch against the reference's of the same seed.
    scores : Scores
        What their states lose after the horizon, by the reference's code.
    updates : int
        How far they trained.
    attempt : int
        As :func:`non_inferiority` takes it.
    varied : str
        What a seed varies, in words.
    """
    batches = gravest([judge_batches(case) for case in pairs])
    batches = batches.model_copy(update={"layer": _LAYER, "check": "horizon_batches"})
    finding, found = _judge_loss(scores, updates=updates, attempt=attempt, varied=varied)
    return [batches, finding], found


def _judge_loss(
    scores: Scores, *, updates: int, attempt: int, varied: str
) -> tuple[Finding, NonInferiority | None]:
    broken = [i for i, loss in enumerate(scores.winner, start=1) if not math.isfinite(loss)]
    if not _all_finite((*scores.reference, *scores.base)):
        return unsure(
            _LAYER, _CHECK, f"the reference has no finite loss after {updates} updates",
            hint="take a horizon that the reference itself trains through",
        ), None  # fmt: skip
    if broken:
        return fails(
            _LAYER, _CHECK,
            f"after {updates} updates the winner's state has no finite loss with seed {broken[0]}",
        ), None  # fmt: skip
    found = non_inferiority(scores, attempt=attempt)
    if found is None:
        return unsure(
            _LAYER, _CHECK,
            f"{len(scores.winner)} seed(s) give no spread of the reference; {FEWEST_SEEDS} do",
            hint=f"train more: `infrarsi apply --horizon {updates} --seeds {FEWEST_SEEDS}`",
        ), None  # fmt: skip
    return _finding(found, seeds=len(scores.winner), updates=updates, varied=varied), found


def _all_finite(values: ArrayLike) -> bool:
    return bool(np.isfinite(np.asarray(values, dtype=np.float64)).all())


def _finding(found: NonInferiority, *, seeds: int, updates: int, varied: str) -> Finding:
    excess = found.excess
    words = (
        f"after {updates} updates, over {seeds} seeds ({varied}), the winner's states lose "
        f"{excess.point:+.3g} more than the reference's on batches after them ({excess.low:+.3g} "
        f"to {excess.high:+.3g} at {excess.level:.2%}); the upper bound must stay below "
        f"{found.margin:.3g}, the least that the reference's own spread between seeds, "
        f"{found.spread:.3g}, may be"
    )
    if found.ruling is Ruling.PASS:
        return passes(_LAYER, _CHECK, words)
    if found.ruling is Ruling.FAIL:
        return fails(_LAYER, _CHECK, f"{words}; it is worse by more than another seed is")
    if not found.spread > 0:
        return unsure(
            _LAYER, _CHECK, f"{words}: other seeds change nothing",
            hint="see to it that the program's seed reaches its weights or its data",
        )  # fmt: skip
    if found.needed is None:
        hint = f"not even {_MOST_SEEDS} seeds would tell, if they go on as these: train longer"
    else:
        hint = (
            f"{found.needed} seeds would tell, if they go on as these: "
            f"`infrarsi apply --horizon {updates} --seeds {found.needed}`"
        )
    return unsure(_LAYER, _CHECK, words, hint=hint)
