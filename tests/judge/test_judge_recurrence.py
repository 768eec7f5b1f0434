"""A speedup must recur: what sessions decide, how often falsely, and how often truly."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic_training import Clock, Recipe
from test_judge_decide import confirmation_of

from infrarsi.judge.decide import judge_confirmation
from infrarsi.judge.recurrence import Session, judge_sessions, recurring_interval, sessions_needed
from infrarsi.judge.speedup import alpha_for_attempt, interval_of_logs
from infrarsi.records.verdict import Ruling

SIMULATIONS = 20_000
ALPHA = alpha_for_attempt(1)
LEAST = math.log(1.03)
HOUR = 3600.0


def simulated(rng, effect, *, sessions, day_sd, noise_sd=0.01, blocks=6):
    """Log ratios of blocks as (simulations, sessions, blocks): days move the speedup itself."""
    days = rng.normal(effect, day_sd, (SIMULATIONS, sessions, 1))
    return days + rng.normal(0, noise_sd, (SIMULATIONS, sessions, blocks))


def accepted(logs):
    """How often the whole rule accepts: each session by itself, and all together."""
    each = (interval_of_logs(logs, alpha=ALPHA)[0] > LEAST).all(axis=-1)
    return float(np.mean(each & (recurring_interval(logs, alpha=ALPHA)[0] > LEAST)))


def each_by_itself(logs):
    return float(np.mean((interval_of_logs(logs, alpha=ALPHA)[0] > LEAST).all(axis=-1)))


def bound(rate):
    return rate + 3 * math.sqrt(rate * (1 - rate) / SIMULATIONS)


@pytest.mark.parametrize("sessions", [2, 3])
@pytest.mark.parametrize("day_sd", [0.0, 0.002, 0.02, 0.2])
def test_no_speedup_beyond_the_threshold_is_falsely_accepted_however_days_differ(sessions, day_sd):
    rng = np.random.default_rng(1)
    logs = simulated(rng, LEAST, sessions=sessions, day_sd=day_sd)
    assert accepted(logs) <= bound(ALPHA / 2)


def test_one_session_and_sessions_by_themselves_would_accept_what_a_day_lent_them():
    rng = np.random.default_rng(2)
    logs = simulated(rng, LEAST, sessions=2, day_sd=0.02)
    assert each_by_itself(logs[:, :1]) > 0.25
    assert each_by_itself(logs) > 5 * bound(ALPHA / 2)


@pytest.mark.parametrize(("effect", "day_sd", "sessions", "least"), [
    (1.10, 0.001, 2, 0.4), (1.10, 0.001, 3, 0.95), (1.30, 0.005, 2, 0.75), (1.30, 0.005, 3, 0.99),
    (1.30, 0.0, 2, 0.9),
])  # fmt: skip
def test_a_speedup_that_recurs_is_accepted_with_the_documented_power(
    effect, day_sd, sessions, least
):
    rng = np.random.default_rng(3)
    logs = simulated(rng, math.log(effect), sessions=sessions, day_sd=day_sd)
    assert accepted(logs) >= least


@pytest.mark.parametrize("day_sd", [0.0, 0.01])
def test_the_interval_over_sessions_covers_the_truth_at_least_at_its_level(day_sd):
    rng = np.random.default_rng(4)
    logs = simulated(rng, 0.1, sessions=3, day_sd=day_sd)
    low, _, high = recurring_interval(logs, alpha=ALPHA)
    covered = float(np.mean((low <= 0.1) & (high >= 0.1)))
    assert covered >= 1 - bound(ALPHA)


def test_going_on_to_more_sessions_spends_no_more_than_all_attempts_may():
    """Whoever looks after two sessions and adds a third is judged by the next attempt's share."""
    rng = np.random.default_rng(5)
    logs = simulated(rng, LEAST, sessions=5, day_sd=0.02)
    ever = np.zeros(SIMULATIONS, dtype=bool)
    for attempt, sessions in enumerate(range(2, 6), start=1):
        alpha = alpha_for_attempt(attempt)
        ever |= recurring_interval(logs[:, :sessions], alpha=alpha)[0] > LEAST
    assert float(ever.mean()) <= bound(0.025)


@settings(deadline=None)
@given(st.lists(st.lists(st.floats(-0.5, 0.5), min_size=3, max_size=3), min_size=2, max_size=4))
def test_the_interval_is_never_narrower_than_that_over_all_blocks(rows):
    logs = np.array(rows)
    low, mean, high = recurring_interval(logs, alpha=ALPHA)
    flat_low, flat_mean, flat_high = interval_of_logs(logs.ravel(), alpha=ALPHA)
    assert low <= flat_low <= flat_high <= high
    assert mean == pytest.approx(flat_mean)


def test_so_many_sessions_as_are_said_to_be_needed_would_do_and_one_less_would_not():
    logs = np.array([[0.09] * 4, [0.11] * 4])
    needed = sessions_needed(logs, LEAST, attempt=2)
    alike = np.array([[0.1 + (0.01 if i % 2 else -0.01) * math.sqrt(1 - 1 / needed)] * 4
                      for i in range(needed)])  # fmt: skip
    assert 2 < needed < 10
    assert recurring_interval(alike, alpha=alpha_for_attempt(2))[0] > LEAST - 0.01
    assert sessions_needed(logs - 0.2, LEAST, attempt=2) is None


def held(bench, *winner_s, gap_s=9 * HOUR, **changes):
    """Sessions of one attempt, hours apart, each with its own figure."""
    return [
        Session(confirmation_of(bench, winner_s=each, **changes), number * gap_s, number * gap_s + 60)
        for number, each in enumerate(winner_s)
    ]  # fmt: skip


def findings_of(verdict, check):
    return [each for each in verdict.findings if each.check == check]


def test_a_speedup_that_recurs_is_confirmed_and_its_interval_holds_the_days(bench):
    verdict = judge_sessions(held(bench, 0.08, 0.0801), planned=2, gap_s=8 * HOUR)
    assert verdict.ruling is Ruling.PASS, verdict.reasons
    one = judge_confirmation(confirmation_of(bench))
    assert verdict.speedup.low < one.speedup.low < 1.25 < verdict.speedup.high
    assert len(verdict.trials) == 2 * len(one.trials)
    assert verdict.kind == "confirm"
    assert [each.reason[:16] for each in findings_of(verdict, "speedup")] == [
        "session 1 of 2: ", "session 2 of 2: "
    ]  # fmt: skip
    (recurrence,) = findings_of(verdict, "recurrence")
    assert "1 degree(s) of freedom" in recurrence.reason
    assert "9.0 h apart" in findings_of(verdict, "apart")[0].reason


def test_sessions_that_differ_too_much_settle_nothing_and_say_how_many_would(bench):
    verdict = judge_sessions(held(bench, 0.08, 0.084), planned=2, gap_s=8 * HOUR)
    assert verdict.ruling is Ruling.INCONCLUSIVE
    assert [each.check for each in verdict.reasons] == ["recurrence"]
    assert "sessions would tell" in verdict.reasons[0].hint
    assert "--sessions" in verdict.reasons[0].hint


def test_a_session_without_a_speedup_refuses_whatever_the_other_showed(bench):
    verdict = judge_sessions(held(bench, 0.05, 0.1), planned=2, gap_s=8 * HOUR)
    assert verdict.ruling is Ruling.FAIL
    assert any(each.reason.startswith("session 2 of 2") for each in verdict.reasons)


def test_a_session_that_trains_otherwise_refuses_whatever_the_other_showed(bench):
    sessions = [*held(bench, 0.08), *held(bench, 0.08, winner=Recipe(skip_layer=True))]
    apart = [replace(sessions[1], began_s=9 * HOUR, ended_s=10 * HOUR)]
    verdict = judge_sessions([sessions[0], *apart], planned=2, gap_s=8 * HOUR)
    assert verdict.ruling is Ruling.FAIL
    assert "numerics" in {each.layer for each in verdict.reasons}


def test_sessions_too_close_together_or_too_few_settle_nothing(bench):
    close = judge_sessions(held(bench, 0.08, 0.08, gap_s=HOUR), planned=2, gap_s=8 * HOUR)
    few = judge_sessions(held(bench, 0.08), planned=2, gap_s=8 * HOUR)
    for verdict in (close, few):
        assert verdict.ruling is Ruling.INCONCLUSIVE
        assert [each.check for each in verdict.reasons] == ["apart"]


def test_a_session_without_a_rate_leaves_the_whole_open(bench):
    sessions = held(bench, 0.08, 0.08)
    second = sessions[1].confirmation
    silent = replace(second, blocks=second.blocks[:4])
    verdict = judge_sessions([sessions[0], replace(sessions[1], confirmation=silent)], planned=2,
                             gap_s=8 * HOUR)  # fmt: skip
    assert verdict.ruling is Ruling.INCONCLUSIVE
    assert verdict.speedup is None
    assert {"recurrence", "design"} <= {each.check for each in verdict.reasons}


def test_a_steady_clock_within_sessions_does_not_hide_what_differs_between_them(bench):
    steady = [
        replace(each, confirmation=confirmation_of(bench, clock=Clock(update_s=winner_s)))
        for each, winner_s in zip(held(bench, 0.08, 0.08), (0.078, 0.084), strict=True)
    ]
    verdict = judge_sessions(steady, planned=2, gap_s=8 * HOUR)
    assert verdict.speedup.high - verdict.speedup.low > 0.5
    assert verdict.ruling is Ruling.INCONCLUSIVE
