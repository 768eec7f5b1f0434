"""Long-run quality: how often what is worse passes, and what is as good is refused."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic_training import Recipe

from infrarsi.judge.horizon import (
    Scores,
    excess_bounds,
    judge_horizon,
    non_inferiority,
    seeds_needed,
)
from infrarsi.judge.speedup import alpha_for_attempt
from infrarsi.records.verdict import Ruling

SIMULATIONS = 20_000
ALPHA = alpha_for_attempt(1)
SPREAD = 0.01


def simulated(rng, *, seeds, worse_by, apart):
    """Excess and contrasts of many tests: seeds move both arms alike, and arms part by ``apart``."""
    of_seed = rng.normal(0, SPREAD, (SIMULATIONS, seeds))
    excess = worse_by + rng.normal(0, apart, (SIMULATIONS, seeds))
    return excess, (of_seed - of_seed[:, :1])[:, 1:]


def rates(rng, *, alpha=ALPHA, **options):
    excess, contrasts = simulated(rng, **options)
    low, high, spread, margin = excess_bounds(excess, contrasts, alpha=alpha)
    return float(np.mean(high < margin)), float(np.mean(low > spread))


def bound(rate):
    return rate + 3 * math.sqrt(rate * (1 - rate) / SIMULATIONS)


@pytest.mark.parametrize("seeds", [3, 5, 12])
@pytest.mark.parametrize("apart", [1e-5, 0.003, 0.014])
def test_what_is_worse_by_the_whole_spread_hardly_ever_passes(seeds, apart):
    rng = np.random.default_rng(1)
    passed, _ = rates(rng, seeds=seeds, worse_by=SPREAD, apart=apart)
    assert passed <= bound(ALPHA)


@pytest.mark.parametrize("seeds", [3, 5, 12])
@pytest.mark.parametrize("apart", [0.003, 0.014])
def test_what_is_as_good_is_hardly_ever_refused(seeds, apart):
    rng = np.random.default_rng(2)
    _, refused = rates(rng, seeds=seeds, worse_by=0.0, apart=apart)
    assert refused <= bound(ALPHA)


@pytest.mark.parametrize(("seeds", "apart", "least"), [
    (3, 0.0003, 0.7), (5, 0.002, 0.75), (8, 0.003, 0.9), (20, 0.01, 0.6),
])  # fmt: skip
def test_what_is_as_good_passes_with_the_power_that_its_pairing_gives(seeds, apart, least):
    rng = np.random.default_rng(3)
    passed, _ = rates(rng, seeds=seeds, worse_by=0.0, apart=apart)
    assert passed >= least


def test_what_is_worse_by_far_is_refused():
    rng = np.random.default_rng(4)
    passed, refused = rates(rng, seeds=6, worse_by=4 * SPREAD, apart=0.003)
    assert passed == 0
    assert refused > 0.8


def test_adding_seeds_until_it_passes_spends_no_more_than_all_attempts_may():
    rng = np.random.default_rng(5)
    excess, contrasts = simulated(rng, seeds=12, worse_by=SPREAD, apart=0.005)
    ever = np.zeros(SIMULATIONS, dtype=bool)
    for attempt, seeds in enumerate(range(3, 13), start=1):
        _, high, _, margin = excess_bounds(
            excess[:, :seeds], contrasts[:, : seeds - 1], alpha=alpha_for_attempt(attempt)
        )
        ever |= high < margin
    assert float(ever.mean()) <= bound(0.05)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.floats(-1, 1), st.floats(-1, 1)), min_size=3, max_size=8),
    st.floats(0.5, 10),
)
def test_the_test_does_not_depend_on_the_unit_of_the_loss(rows, unit):
    excess, reference = (np.array(each) for each in zip(*rows, strict=True))
    contrasts = (reference - reference[0])[1:]
    once = excess_bounds(excess, contrasts, alpha=ALPHA)
    scaled = excess_bounds(unit * excess, unit * contrasts, alpha=ALPHA)
    assert np.allclose(unit * np.array(once), scaled)
    assert once[0] <= excess.mean() <= once[1]
    assert 0 <= once[3] <= once[2]


def scores_of(excess, reference, base=None):
    reference = np.array(reference)
    base = np.full(len(reference), reference[0]) if base is None else np.array(base)
    return Scores(tuple(reference + np.array(excess)), tuple(reference), tuple(base))


SEEDS = [2.00, 2.01, 1.99, 2.015, 1.985]


def test_pairs_that_agree_pass_and_the_seeds_needed_would_do():
    found = non_inferiority(scores_of([1e-5, -1e-5, 0, 2e-5, -2e-5], SEEDS), attempt=1)
    assert found.ruling is Ruling.PASS
    assert found.excess.high < found.margin < found.spread
    doubtful = non_inferiority(scores_of([0.01, -0.01, 0.008, -0.009, 0.002], SEEDS), attempt=1)
    assert doubtful.ruling is Ruling.INCONCLUSIVE
    assert 5 < doubtful.needed < 60
    alpha = alpha_for_attempt(2)
    assert seeds_needed(0.02, 0.01, SPREAD, more_than=5, alpha=alpha) is None


def test_what_batches_differ_by_is_no_spread_of_the_seeds():
    """Each seed is scored on batches of its own: easy and hard ones must not widen the margin."""
    batches = np.array([0.0, 0.3, -0.2, 0.25, -0.3])
    same = non_inferiority(scores_of([0.0] * 5, SEEDS), attempt=1)
    other = non_inferiority(
        scores_of([0.0] * 5, np.array(SEEDS) + batches, SEEDS[0] + batches), attempt=1
    )
    assert other.spread == pytest.approx(same.spread)
    assert other.margin == pytest.approx(same.margin)


def judged(bench, scores, *, recipe=None):
    pairs = [bench.trained(recipe or Recipe(permute=True))]
    findings, _ = judge_horizon(pairs, scores, updates=500, attempt=1, varied="the seed varied")
    return findings


def test_a_pass_says_how_far_and_by_which_margin(bench):
    batches, loss = judged(bench, scores_of([0.0] * 5, SEEDS))
    assert (batches.check, batches.ruling) == ("horizon_batches", Ruling.PASS)
    assert loss.ruling is Ruling.PASS
    assert "after 500 updates, over 5 seeds (the seed varied)" in loss.reason
    assert "spread between seeds" in loss.reason


def test_two_seeds_settle_nothing_and_say_how_many_do(bench):
    _, loss = judged(bench, scores_of([0.0] * 2, SEEDS[:2]))
    assert loss.ruling is Ruling.INCONCLUSIVE
    assert "--seeds 3" in loss.hint


def test_seeds_that_change_nothing_settle_nothing(bench):
    _, loss = judged(bench, scores_of([0.0] * 5, [2.0] * 5))
    assert loss.ruling is Ruling.INCONCLUSIVE
    assert "other seeds change nothing" in loss.reason


def test_a_winner_without_a_finite_loss_is_refused_and_a_reference_settles_nothing(bench):
    broken = scores_of([0.0, math.nan, 0.0], SEEDS[:3])
    assert judged(bench, broken)[1].ruling is Ruling.FAIL
    lost = scores_of([0.0] * 3, [2.0, math.nan, 2.0])
    assert judged(bench, lost)[1].ruling is Ruling.INCONCLUSIVE


def test_a_winner_that_learns_worse_is_refused(bench):
    _, loss = judged(bench, scores_of([0.1, 0.11, 0.09, 0.1, 0.105], SEEDS))
    assert loss.ruling is Ruling.FAIL
    assert "worse by more than another seed is" in loss.reason


def test_other_batches_within_a_pair_are_refused_whatever_the_loss(bench):
    batches, loss = judged(bench, scores_of([0.0] * 5, SEEDS), recipe=Recipe(reuse_batch=True))
    assert batches.ruling is Ruling.FAIL
    assert loss.ruling is Ruling.PASS
