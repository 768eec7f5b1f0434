"""How predictions stood up to measurement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from infrarsi.search.mixture import Floats

FEWEST_SCORED = 3
"""Fewer pairs say nothing: two always correlate fully, one way or the other."""


@dataclass(frozen=True)
class Score:
    """How well a proposer predicts.

    Attributes
    ----------
    num
        Pairs that it rests on.
    rank_correlation
        Spearman's, from -1 to 1; ``None`` for too few pairs, or where one side is constant.
    mean_log_error
        Mean of ``|log(predicted / measured)|``; ``None`` for too few pairs.
    """

    num: int
    rank_correlation: float | None
    mean_log_error: float | None


def score_predictions(predicted: Sequence[float], measured: Sequence[float]) -> Score:
    """Score predicted ratios of time against measured ones.

    Parameters
    ----------
    predicted, measured
        Ratios above 0, pair by pair.

    Returns
    -------
    Score
        Ties share the mean of their ranks.

    Raises
    ------
    ValueError
        The two differ in length, or a ratio is not above 0.

    Notes
    -----
    When not to trust it: what was measured is what the search chose to measure, which is what
    was predicted to help; and with few pairs the correlation is very noisy.
    """
    if len(predicted) != len(measured):
        raise ValueError(f"{len(predicted)} predictions for {len(measured)} measurements")
    if any(not each > 0 for each in (*predicted, *measured)):
        raise ValueError("a ratio of times is above 0")
    num = len(predicted)
    if num < FEWEST_SCORED:
        return Score(num, None, None)
    logs = np.log(np.array([predicted, measured], dtype=np.float64))
    error = float(np.abs(logs[0] - logs[1]).mean())
    ranks = np.array([_ranks(row) for row in logs])
    if (np.ptp(ranks, axis=1) == 0).any():
        return Score(num, None, error)
    return Score(num, float(np.corrcoef(ranks)[0, 1]), error)


def _ranks(values: Floats) -> Floats:
    """Rank values from the smallest; equal ones share the mean of their ranks."""
    _, index, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return np.asarray(ends - (counts - 1) / 2.0)[index.reshape(-1)]
