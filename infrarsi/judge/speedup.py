"""The statistics of whether a candidate is faster: blocks of launches, never single updates.

The unit is the process launch. All intervals are Student's t on logarithms of ratios.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from infrarsi.judge.series import Floats
from infrarsi.records.estimate import Estimate

LEAST_SD = 5e-4
"""Log ratios are never taken to vary less than this: equal figures are no certainty."""
_MOST_BLOCKS = 10_000


def confirmation_schedule(blocks: int, *, seed: int) -> tuple[str, ...]:
    """Draw the order of launches in each block: ``ABBA`` or ``BAAB``, A the reference.

    Parameters
    ----------
    blocks : int
        Number of blocks, fixed in advance.
    seed : int
        Decides the draw; equal seeds give equal schedules.

    Returns
    -------
    tuple of str
        One order a block. Half of them (the odd one at random) are ``BAAB``, shuffled.

    Notes
    -----
    Either order cancels a drift that is linear within the block; drawing the order keeps a
    periodic disturbance, and a program that counts launches, from lining up with one arm.
    """
    if blocks < 1:
        raise ValueError(f"blocks must be positive, not {blocks}")
    rng = np.random.default_rng(seed)
    flipped = np.arange(blocks) < blocks // 2 + (int(rng.integers(2)) if blocks % 2 else 0)
    return tuple("BAAB" if flip else "ABBA" for flip in rng.permutation(flipped))


def alpha_for_attempt(attempt: int, *, total: float = 0.05) -> float:
    """Give the error rate that the k-th confirmation may spend: ``total / (k (k + 1))``.

    Over any number of attempts the rates sum to less than ``total``.
    """
    if attempt < 1:
        raise ValueError(f"attempts count from 1, not {attempt}")
    return total / (attempt * (attempt + 1))


def block_log_ratios(reference: ArrayLike, candidate: ArrayLike) -> Floats:
    """Give mean log reference minus mean log candidate of each block.

    Parameters
    ----------
    reference, candidate : array_like, shape (..., blocks, launches)
        Steady seconds an update; positive.

    Returns
    -------
    ndarray, shape (..., blocks)
        Above 0 where the candidate is faster.

    Raises
    ------
    ValueError
        A time is not finite and positive.
    """
    times = _checked(reference), _checked(candidate)
    return np.asarray(np.log(times[0]).mean(axis=-1) - np.log(times[1]).mean(axis=-1))


def _checked(times: ArrayLike) -> Floats:
    found = np.asarray(times, dtype=np.float64)
    if not np.all(np.isfinite(found) & (found > 0)):
        raise ValueError("every time must be finite and positive")
    return found


def interval_of_logs(logs: Floats, *, alpha: float) -> tuple[Floats, Floats, Floats]:
    """Give low, mean and high of ``mean ± t s / sqrt(n)`` along the last axis.

    The two-sided level is ``1 - alpha``; each bound errs with ``alpha / 2``. ``s`` is at
    least :data:`LEAST_SD`.
    """
    from scipy.special import stdtrit

    if not 0 < alpha < 1:
        raise ValueError(f"alpha must lie between 0 and 1, not {alpha}")
    n = logs.shape[-1]
    if n < 2:
        raise ValueError(f"an interval needs two blocks or more, not {n}")
    mean = logs.mean(axis=-1)
    spread = np.maximum(logs.std(axis=-1, ddof=1), LEAST_SD)
    half = float(stdtrit(n - 1, 1 - alpha / 2)) * spread / np.sqrt(n)
    return mean - half, mean, mean + half


def confirm_speedup(
    blocks: Sequence[tuple[Sequence[float], Sequence[float]]], *, alpha: float
) -> Estimate:
    """Estimate reference time over candidate time from randomised blocks.

    Parameters
    ----------
    blocks : sequence of (sequence of float, sequence of float)
        For each block the steady seconds an update of the reference's launches, and of the
        candidate's.
    alpha : float
        The two-sided level is ``1 - alpha``. The lower bound, which decides, is therefore
        one-sided at ``alpha / 2``.

    Returns
    -------
    Estimate
        ``exp(mean ± t s / sqrt(blocks))`` over the blocks' mean log ratios.

    Raises
    ------
    ValueError
        Fewer than two blocks, an empty arm, or a time that is not finite and positive.

    Notes
    -----
    Assumes that blocks are exchangeable and their number was fixed before the first one. A
    drift within a block cancels in ABBA, one between blocks does not matter. When not to
    trust it: with blocks added until it looked well, or chosen as the best of many.
    Source: Student (1908); ABBA is the two-treatment counterbalanced design.
    """
    if any(not len(ref) or not len(cand) for ref, cand in blocks):
        raise ValueError("every block needs launches of both arms")
    ratios = [block_log_ratios(ref, cand) for ref, cand in blocks]
    return _estimate(np.array(ratios, dtype=np.float64), alpha=alpha)


def ratio_by_round(
    numerator: Sequence[float], denominator: Sequence[float], *, level: float = 0.95
) -> Estimate:
    """Estimate a ratio of times from interleaved rounds, paired by round.

    For an ablation the numerator is the time without the part, the denominator the time with
    it: the ratio is what the part gains, and 1 is nothing.

    Parameters
    ----------
    numerator, denominator : sequence of float, same length
        Steady seconds an update, one a round, in the order of the rounds.
    level : float
        Coverage of the two-sided interval.
    """
    if len(numerator) != len(denominator):
        raise ValueError(f"{len(numerator)} rounds against {len(denominator)}")
    pairs = [np.asarray(each, dtype=np.float64)[:, None] for each in (numerator, denominator)]
    return _estimate(block_log_ratios(pairs[0], pairs[1]), alpha=1 - level)


def _estimate(logs: Floats, *, alpha: float) -> Estimate:
    low, point, high = (float(np.exp(each)) for each in interval_of_logs(logs, alpha=alpha))
    return Estimate(low=low, point=point, high=high, level=1 - alpha)


def interval_of_times(times: Sequence[float], *, level: float = 0.95) -> Estimate:
    """Estimate the typical time of one arm from several launches: geometric mean, t interval.

    Parameters
    ----------
    times : sequence of float
        Steady seconds an update, one a launch; two or more, finite and positive.
    level : float
        Coverage of the two-sided interval.
    """
    return _estimate(np.log(_checked(times)), alpha=1 - level)


def noise_and_bias(interleaved: Sequence[float]) -> tuple[float, float]:
    """Give the spread between launches, and the bias, from launches of one and the same thing.

    Parameters
    ----------
    interleaved : sequence of float
        Steady seconds an update of A/A launches, in the order in which they ran; labelled
        A, A', A', A, A, A', ... in turn.

    Returns
    -------
    sd : float
        Standard deviation of log time between launches, from successive differences
        (von Neumann), so that a slow drift does not enter.
    bias : float
        Mean log ratio of A over A': the speedup that a comparison would show for nothing.

    Raises
    ------
    ValueError
        Fewer than two launches, or a time that is not finite and positive.
    """
    logs = np.log(_checked(interleaved))
    if len(logs) < 2:
        raise ValueError(f"noise needs two launches or more, not {len(logs)}")
    sd = float(np.sqrt(np.mean(np.diff(logs) ** 2) / 2))
    pairs = len(logs) // 2
    signs = np.where(np.arange(pairs) % 2 == 0, 1.0, -1.0)
    bias = float(np.mean(signs * (logs[0 : 2 * pairs : 2] - logs[1 : 2 * pairs : 2])))
    return sd, bias


def least_detectable(
    noise_sd: float, blocks: int, *, alpha: float = 0.05, power: float = 0.8
) -> float:
    """Give the relative speedup that a confirmation can tell from none.

    Parameters
    ----------
    noise_sd : float
        Standard deviation of log update time between launches.
    blocks : int
        Blocks of two launches an arm.
    alpha, power : float
        The lower bound errs with ``alpha / 2``; the effect is found with this probability.

    Returns
    -------
    float
        ``0.03`` is three per cent. A candidate faster than the acceptance threshold by this
        factor is accepted with probability ``power``.

    Notes
    -----
    A block's mean log ratio of two launches against two varies with sd ``noise_sd``, so the
    test statistic is noncentral t with ``effect sqrt(blocks) / noise_sd``.
    """
    from scipy.optimize import brentq
    from scipy.special import nctdtr, stdtrit

    if blocks < 2:
        raise ValueError(f"a confirmation needs two blocks or more, not {blocks}")
    sd = max(noise_sd, LEAST_SD)
    critical = float(stdtrit(blocks - 1, 1 - alpha / 2))
    centre = critical + float(stdtrit(blocks - 1, power))

    def shortfall(noncentrality: float) -> float:
        return power - (1 - float(nctdtr(blocks - 1, noncentrality, critical)))

    found = float(brentq(shortfall, 0.0, 3 * centre + 5))
    return float(np.expm1(found * sd / np.sqrt(blocks)))


def blocks_needed(
    effect: float, noise_sd: float, *, alpha: float = 0.05, power: float = 0.8
) -> int:
    """Give the fewest blocks with which a relative speedup can be told from none.

    Parameters
    ----------
    effect : float
        Relative speedup beyond the acceptance threshold: 0.03 is three per cent.
    noise_sd, alpha, power
        As :func:`least_detectable` takes them.

    Raises
    ------
    ValueError
        The effect is not positive, or more than ten thousand blocks would be needed.
    """
    if effect <= 0:
        raise ValueError(f"the effect must be positive, not {effect}")

    def suffices(blocks: int) -> bool:
        return least_detectable(noise_sd, blocks, alpha=alpha, power=power) <= effect

    low, high = 1, 2
    while not suffices(high):
        low, high = high, 2 * high
        if high > _MOST_BLOCKS:
            raise ValueError(f"an effect of {effect:.2%} is lost in noise of {noise_sd:.2%}")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return high
