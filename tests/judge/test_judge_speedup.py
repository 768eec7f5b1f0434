import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infrarsi.judge.speedup import (
    alpha_for_attempt,
    block_log_ratios,
    blocks_needed,
    confirm_speedup,
    confirmation_schedule,
    interval_of_logs,
    interval_of_times,
    least_detectable,
    noise_and_bias,
    ratio_by_round,
)

SIMULATIONS = 20_000
ALPHA = 0.05


def null_times(rng, orders, *, drift=0.0, outliers=0.0, sd=0.01):
    """Log times of launches that do not differ, as (simulations, blocks, 4), with disturbances."""
    launches = rng.normal(0, sd, (SIMULATIONS, len(orders), 4))
    launches += drift * np.arange(4 * len(orders)).reshape(len(orders), 4)
    launches += (rng.random(launches.shape) < outliers) * rng.exponential(0.1, launches.shape)
    return launches


def false_confirmations(launches, orders, *, alpha=ALPHA):
    is_reference = np.array([[letter == "A" for letter in order] for order in orders])
    times = np.exp(launches)
    shape = (SIMULATIONS, len(orders), 2)
    reference = times[:, is_reference].reshape(shape)
    candidate = times[:, ~is_reference].reshape(shape)
    low, _, _ = interval_of_logs(block_log_ratios(reference, candidate), alpha=alpha)
    return float(np.mean(low > 0))


def binomial_bound(rate):
    return rate + 3 * math.sqrt(rate * (1 - rate) / SIMULATIONS)


@pytest.mark.parametrize("disturbance", [{}, {"drift": 0.01}, {"drift": -0.02}, {"outliers": 0.05}])
def test_identical_arms_are_confirmed_no_more_often_than_alpha_allows(disturbance):
    rng = np.random.default_rng(1)
    orders = confirmation_schedule(6, seed=2)
    rate = false_confirmations(null_times(rng, orders, **disturbance), orders)
    assert rate <= binomial_bound(ALPHA / 2)


def test_noise_alone_is_confirmed_at_the_nominal_rate():
    rng = np.random.default_rng(3)
    orders = confirmation_schedule(6, seed=4)
    rate = false_confirmations(null_times(rng, orders), orders)
    assert abs(rate - ALPHA / 2) < binomial_bound(ALPHA / 2) - ALPHA / 2


def test_the_order_aabb_would_confirm_a_mere_drift():
    rng = np.random.default_rng(5)
    orders = ("BBAA",) * 6
    rate = false_confirmations(null_times(rng, orders, drift=0.01), orders)
    assert rate > 0.5


def test_adding_blocks_until_it_looks_well_would_confirm_too_often():
    rng = np.random.default_rng(6)
    logs = rng.normal(0, 0.01, (SIMULATIONS, 20))
    ever = np.zeros(SIMULATIONS, dtype=bool)
    for blocks in range(3, 21):
        ever |= interval_of_logs(logs[:, :blocks], alpha=ALPHA)[0] > 0
    assert ever.mean() > 3 * ALPHA / 2


@pytest.mark.parametrize("blocks", [2, 3, 4])
@pytest.mark.parametrize("disturbance", [{}, {"drift": 0.02}, {"outliers": 0.1}])
def test_few_blocks_confirm_nothing_falsely_either_they_only_see_less(blocks, disturbance):
    rng = np.random.default_rng(12)
    orders = confirmation_schedule(blocks, seed=3)
    rate = false_confirmations(null_times(rng, orders, **disturbance), orders)
    assert rate <= binomial_bound(ALPHA / 2)


def test_the_best_of_many_screenings_looks_faster_than_it_is_and_fresh_launches_do_not():
    """Fifty candidates that are all the reference: picked by one launch each, then confirmed."""
    rng = np.random.default_rng(13)
    screened = rng.normal(0, 0.003, (SIMULATIONS, 50))
    assert 0.006 < -screened.min(axis=1).mean() < 0.008, "the best looks .7 % faster"
    orders = confirmation_schedule(6, seed=5)
    fresh = false_confirmations(null_times(rng, orders, sd=0.003), orders)
    assert fresh <= binomial_bound(ALPHA / 2)
    # Were the screening launch one of the confirmation's, its luck would be counted as speed.
    logs = rng.normal(0, 0.003, (SIMULATIONS, 50, 2))
    picked = logs.mean(axis=-1).argmax(axis=1)
    again = logs[np.arange(SIMULATIONS), picked]
    assert float(np.mean(interval_of_logs(again, alpha=ALPHA)[0] > 0)) > 2 * ALPHA / 2


def test_twenty_confirmations_together_spend_no_more_than_the_whole_alpha():
    rng = np.random.default_rng(7)
    ever = np.zeros(SIMULATIONS, dtype=bool)
    for attempt in range(1, 21):
        logs = rng.normal(0, 0.01, (SIMULATIONS, 6))
        ever |= interval_of_logs(logs, alpha=alpha_for_attempt(attempt))[0] > 0
    assert ever.mean() <= binomial_bound(ALPHA / 2)


def test_the_shares_of_alpha_sum_to_less_than_the_whole():
    shares = [alpha_for_attempt(k) for k in range(1, 2000)]
    assert shares[0] == 0.025
    assert sum(shares) < 0.05
    with pytest.raises(ValueError, match="count from 1"):
        alpha_for_attempt(0)


@pytest.mark.parametrize(("effect", "blocks"), [(0.02, 6), (0.03, 4), (0.01, 12)])
def test_the_interval_covers_the_truth_at_its_level(effect, blocks):
    rng = np.random.default_rng(8)
    logs = rng.normal(effect, 0.015, (SIMULATIONS, blocks))
    low, _, high = interval_of_logs(logs, alpha=ALPHA)
    covered = np.mean((low <= effect) & (effect <= high))
    assert abs(covered - 0.95) < 0.006


@pytest.mark.parametrize("blocks", [3, 6, 12])
def test_the_least_detectable_effect_is_found_with_the_stated_power(blocks):
    rng = np.random.default_rng(9)
    effect = math.log1p(least_detectable(0.02, blocks, power=0.8))
    logs = rng.normal(effect, 0.02, (SIMULATIONS, blocks))
    found = np.mean(interval_of_logs(logs, alpha=ALPHA)[0] > 0)
    assert abs(found - 0.8) < 0.012


def test_blocks_needed_is_the_fewest_that_suffice():
    needed = blocks_needed(0.03, 0.02)
    assert least_detectable(0.02, needed) <= 0.03 < least_detectable(0.02, needed - 1)
    with pytest.raises(ValueError, match="lost in noise"):
        blocks_needed(1e-6, 0.05)
    with pytest.raises(ValueError, match="positive"):
        blocks_needed(0.0, 0.02)


def test_equal_figures_give_no_certainty():
    interval = confirm_speedup([([2.0, 2.0], [1.0, 1.0])] * 3, alpha=ALPHA)
    assert interval.low < interval.point < interval.high
    assert interval.point == pytest.approx(2.0)


def test_a_true_speedup_is_measured_as_what_it_is():
    rng = np.random.default_rng(10)
    blocks = [
        (np.exp(rng.normal(0, 0.005, 2)), np.exp(rng.normal(-math.log(1.2), 0.005, 2)))
        for _ in range(6)
    ]
    interval = confirm_speedup(blocks, alpha=ALPHA)
    assert interval.low < 1.2 < interval.high
    assert interval.high - interval.low < 0.05
    assert interval.level == pytest.approx(0.95)


@given(st.floats(0.01, 100), st.floats(0.5, 2))
@settings(max_examples=50, deadline=None)
def test_the_speedup_does_not_depend_on_the_unit_of_time(unit, ratio):
    blocks = [([1.0, 1.1], [ratio, ratio * 1.05]), ([0.9, 1.0], [ratio * 0.97, ratio])]
    scaled = [([unit * t for t in ref], [unit * t for t in cand]) for ref, cand in blocks]
    first, second = (confirm_speedup(each, alpha=ALPHA) for each in (blocks, scaled))
    assert first.point == pytest.approx(second.point)
    assert first.low == pytest.approx(second.low)


@given(st.lists(st.tuples(st.floats(0.5, 2), st.floats(0.5, 2)), min_size=2, max_size=8))
@settings(max_examples=50, deadline=None)
def test_swapping_the_arms_inverts_the_interval(pairs):
    forward = confirm_speedup([([a], [b]) for a, b in pairs], alpha=ALPHA)
    backward = confirm_speedup([([b], [a]) for a, b in pairs], alpha=ALPHA)
    assert forward.low == pytest.approx(1 / backward.high)
    assert forward.point == pytest.approx(1 / backward.point)


@pytest.mark.parametrize("wrong", [0.0, -1.0, float("nan"), float("inf")])
def test_a_time_that_is_no_time_is_refused(wrong):
    with pytest.raises(ValueError, match="finite and positive"):
        confirm_speedup([([1.0, 1.0], [1.0, wrong]), ([1.0, 1.0], [1.0, 1.0])], alpha=ALPHA)
    with pytest.raises(ValueError, match="finite and positive"):
        noise_and_bias([1.0, wrong])


def test_one_block_or_an_empty_arm_gives_no_interval():
    with pytest.raises(ValueError, match="two blocks"):
        confirm_speedup([([1.0], [1.0])], alpha=ALPHA)
    with pytest.raises(ValueError, match="both arms"):
        confirm_speedup([([1.0], []), ([1.0], [1.0])], alpha=ALPHA)


@given(st.integers(1, 40), st.integers(0, 2**32 - 1))
@settings(max_examples=100, deadline=None)
def test_a_schedule_is_balanced_and_repeats_with_its_seed(blocks, seed):
    schedule = confirmation_schedule(blocks, seed=seed)
    assert schedule == confirmation_schedule(blocks, seed=seed)
    assert set(schedule) <= {"ABBA", "BAAB"}
    assert abs(schedule.count("ABBA") - schedule.count("BAAB")) <= 1


def test_schedules_differ_between_seeds():
    assert len({confirmation_schedule(6, seed=seed) for seed in range(50)}) > 10


def test_a_drift_enters_neither_the_noise_nor_the_bias():
    rng = np.random.default_rng(11)
    noise = rng.normal(0, 0.01, 400)
    still = noise_and_bias(np.exp(noise))
    drifting = noise_and_bias(np.exp(noise + 0.001 * np.arange(400)))
    assert still[0] == pytest.approx(0.01, rel=0.1)
    assert drifting[0] == pytest.approx(still[0], rel=0.02)
    assert drifting[1] == pytest.approx(still[1], abs=1e-6)


def test_a_bias_between_the_arms_is_found_in_its_size_and_sign():
    labels = [0.0, 1, 1, 0] * 10
    times = [math.exp(-0.03 * label) for label in labels]
    assert noise_and_bias(times)[1] == pytest.approx(0.03)


def test_an_ablation_pairs_its_rounds():
    level = [1.0, 1.3, 0.8, 1.1]
    gain = ratio_by_round([1.05 * t for t in level], level)
    assert gain.point == pytest.approx(1.05)
    assert gain.low > 1.04
    with pytest.raises(ValueError, match="rounds"):
        ratio_by_round([1.0, 1.0], [1.0])


def test_the_time_of_one_arm_is_a_geometric_mean_within_its_interval():
    interval = interval_of_times([0.1, 0.1 * 1.02, 0.1 / 1.02])
    assert interval.point == pytest.approx(0.1)
    assert interval.low < 0.098
    assert interval.high > 0.102
    with pytest.raises(ValueError, match="two blocks"):
        interval_of_times([0.1])
    with pytest.raises(ValueError, match="finite and positive"):
        interval_of_times([0.1, 0.0])
