from dataclasses import replace

import numpy as np
import pytest
from synthetic_training import (
    STOP,
    WINDOW,
    Clock,
    Recipe,
    baseline_of,
    changed_launch,
    edited,
    evidence_of,
    facts_of,
    launch_of,
    task_of,
)

from infrarsi.judge.slope import (
    judge_slope,
    judge_tails,
    launch_slope,
)
from infrarsi.judge.timing import Tail, cold_start_s, judge_timing, steady_update_s, tail_of
from infrarsi.records.evidence import Fault
from infrarsi.records.trial import Outcome

LAST = WINDOW.last_update


def rulings(case):
    return {each.check: each.ruling.value for each in judge_timing(case)}


def finding(case, check):
    return next(each for each in judge_timing(case) if each.check == check)


def clocked(bench, clock, **facts):
    return bench.case(launch_of(Recipe(), clock, facts=facts_of(**facts)))


def stamped(evidence, stamps_s):
    rows = tuple(
        row.model_copy(update={"t_ns": int(t * 1e9)})
        for row, t in zip(evidence.updates, stamps_s, strict=True)
    )
    return evidence.model_copy(update={"updates": rows, "ranks": {0: rows}})


def with_stamps(bench, stamps_s, **facts):
    evidence = stamped(evidence_of(Recipe()), stamps_s)
    evidence = evidence.model_copy(update={"marks": tuple(
        mark.model_copy(update={"t_ns": int(stamps_s[mark.update - 1] * 1e9) if mark.update else 0})
        for mark in evidence.marks
    )})  # fmt: skip
    return bench.case(launch_of(evidence=evidence, facts=facts_of(**facts)))


def even(update_s=0.08):
    return 3 + update_s * np.arange(STOP, dtype=float)


def test_the_steady_rate_is_over_the_window_alone():
    evidence = stamped(evidence_of(Recipe()), even(0.25))
    assert steady_update_s(evidence, WINDOW) == pytest.approx(0.25)
    assert cold_start_s(evidence) == pytest.approx(3.0)


def test_the_slowest_rank_counts():
    evidence = stamped(evidence_of(Recipe()), even(0.1))
    slow = stamped(evidence, even(0.2)).updates
    both = evidence.model_copy(update={"ranks": {0: evidence.updates, 1: slow}})
    assert steady_update_s(both, WINDOW) == pytest.approx(0.2)


def test_a_launch_that_did_not_reach_the_window_has_no_rate():
    evidence = evidence_of(Recipe())
    short = evidence.model_copy(update={"updates": evidence.updates[:9], "ranks": {}})
    with pytest.raises(ValueError, match="9 updates seen"):
        steady_update_s(short, WINDOW)
    with pytest.raises(ValueError, match="no update"):
        cold_start_s(evidence.model_copy(update={"updates": (), "ranks": {}}))
    with pytest.raises(ValueError, match="window ends at"):
        steady_update_s(stamped(evidence, np.full(STOP, 3.0)), WINDOW)


def test_an_even_launch_passes_every_check(bench):
    assert set(rulings(clocked(bench, Clock(update_s=0.08))).values()) == {"pass"}


def test_honest_launches_seldom_fail_by_chance(bench):
    base = clocked(bench, Clock())
    troubled = 0
    for seed in range(300):
        stamps = Clock(spread=0.03, seed=seed).stamps_ns(STOP) * 1e-9
        evidence = stamped(base.candidate.evidence, stamps)
        marks = tuple(
            m.model_copy(update={"t_ns": int(stamps[m.update - 1] * 1e9) if m.update else 0})
            for m in evidence.marks
        )
        launch = changed_launch(base.candidate, evidence.model_copy(update={"marks": marks}))
        troubled += any(
            each.ruling != "pass" for each in judge_timing(replace(base, candidate=launch))
        )
    assert troubled <= 3


def test_a_tail_slower_than_the_window_fails(bench):
    result = finding(clocked(bench, Clock(update_s=0.08, tail_factor=1.5)), "tail")
    assert result.ruling == "fail"
    assert "put off" in result.reason


def test_one_slow_update_after_the_window_is_inconclusive(bench):
    assert (
        finding(clocked(bench, Clock(update_s=0.08, lump_s=0.5)), "tail").ruling == "inconclusive"
    )


def test_what_the_reference_does_after_the_window_too_is_no_work_put_off(bench):
    checkpoint = Clock(update_s=0.1, lump_s=0.5, seed=5)
    reference = launch_of(Recipe(), checkpoint)
    case = bench.case(launch_of(Recipe(), replace(checkpoint, update_s=0.08)), reference=reference)
    assert finding(case, "tail").ruling == "pass"


def test_a_launch_stopped_at_the_windows_end_is_inconclusive(bench):
    case = clocked(bench, Clock(update_s=0.08), stop_update=LAST)
    assert finding(case, "tail").ruling == "inconclusive"
    assert tail_of(case) is None


def test_work_still_queued_at_the_windows_end_fails(bench):
    case = clocked(bench, Clock(update_s=0.08))
    evidence = case.candidate.evidence
    end = evidence.mark_at(LAST)
    for late_ns, ruling in (
        (50_000_000, "pass"),
        (200_000_000, "inconclusive"),
        (500_000_000, "fail"),
    ):
        marks = (*evidence.marks[:-1], end.model_copy(update={"t_ns": end.t_ns + late_ns}))
        launch = changed_launch(case.candidate, evidence.model_copy(update={"marks": marks}))
        assert finding(replace(case, candidate=launch), "unfinished").ruling == ruling


def test_without_a_mark_at_the_windows_ends_queued_work_is_inconclusive(bench):
    case = clocked(bench, Clock())
    evidence = case.candidate.evidence.model_copy(update={"marks": ()})
    case = replace(case, candidate=changed_launch(case.candidate, evidence))
    assert finding(case, "unfinished").ruling == "inconclusive"


def test_stamps_that_go_backwards_fail(bench):
    stamps = even()
    stamps[9] = stamps[8] - 0.01
    result = finding(with_stamps(bench, stamps), "stamps")
    assert result.ruling == "fail"
    assert "update 10" in result.reason


def test_updates_announced_at_once_fail(bench):
    stamps = even()
    stamps[6:16] = stamps[5] + 1e-6 * np.arange(10)
    stamps[16:] = stamps[15] + 0.08 * np.arange(1, 7)
    assert finding(with_stamps(bench, stamps), "stamps").ruling == "fail"


def test_a_window_of_one_single_instant_fails(bench):
    stamps = even()
    stamps[3:16] = stamps[3]
    assert finding(with_stamps(bench, stamps), "stamps").ruling == "fail"


def test_one_pair_of_updates_read_at_once_is_inconclusive(bench):
    stamps = even()
    stamps[8] = stamps[9]
    assert finding(with_stamps(bench, stamps), "stamps").ruling == "inconclusive"


@pytest.mark.parametrize("factor", [1e-3, 1e3])
def test_stamps_in_another_unit_than_the_wall_time_are_inconclusive(bench, factor):
    case = with_stamps(bench, even() * factor, wall_s=100.0)
    assert finding(case, "stamps").ruling == "inconclusive"


def test_a_rank_that_did_not_reach_the_stop_is_inconclusive(bench):
    case = clocked(bench, Clock())
    rows = case.candidate.evidence.updates
    evidence = case.candidate.evidence.model_copy(update={"ranks": {0: rows, 1: rows[:-3]}})
    case = replace(case, candidate=changed_launch(case.candidate, evidence))
    assert finding(case, "stamps").ruling == "inconclusive"


def test_a_second_half_much_slower_than_the_first_is_inconclusive(bench):
    stamps = 3 + np.cumsum(np.where(np.arange(STOP) < 10, 0.08, 0.14))
    assert finding(with_stamps(bench, stamps), "halves").ruling == "inconclusive"


@pytest.mark.parametrize(("share", "ruling"), [(0.5, "pass"), (1.3, "inconclusive"), (3.0, "fail")])
def test_the_flop_floor_refuses_what_no_machine_can_do(bench, share, ruling):
    known = baseline_of(bench.bands, flops_per_update=share * 0.1 * 1e9, peak_flops=1e9)
    case = replace(clocked(bench, Clock(update_s=0.1, spread=0.0)), baseline=known)
    assert finding(case, "flop_floor").ruling == ruling


def test_the_flop_floor_of_float32_is_not_held_against_lower_precision(bench):
    known = baseline_of(bench.bands, flops_per_update=1e9, peak_flops=1e9)
    case = replace(
        clocked(bench, Clock()), baseline=known, task=task_of(matmul=("float32", "bfloat16"))
    )
    assert finding(case, "flop_floor").ruling == "pass"


@pytest.mark.parametrize("outcome", [each for each in Outcome if each is not Outcome.OK])
def test_a_launch_that_did_not_end_well_is_inconclusive(bench, outcome):
    case = clocked(bench, Clock(), outcome=outcome, reason="because")
    (only,) = judge_timing(case)
    assert only.ruling == "inconclusive"
    assert "because" in only.reason


def test_an_exception_is_inconclusive(bench):
    case = clocked(bench, Clock())
    fault = Fault(type="RuntimeError", message="shape", phase="forward")
    evidence = case.candidate.evidence.model_copy(update={"fault": fault})
    (only,) = judge_timing(replace(case, candidate=changed_launch(case.candidate, evidence)))
    assert only.ruling == "inconclusive"


def launches(rng, *, update_s=0.1, cold_s=3.0, noise=0.02, put_off_s=0.0, count=12):
    stops = rng.integers(17, 60, count)
    totals = cold_s + (update_s + put_off_s) * stops + rng.normal(0, noise, count)
    return [(int(stop), float(total)) for stop, total in zip(stops, totals, strict=True)]


def test_the_slope_of_whole_launches_covers_the_rate_at_its_level():
    rng = np.random.default_rng(1)
    inside = 0
    for _ in range(1000):
        slope = launch_slope(launches(rng))
        inside += slope.low <= 0.1 <= slope.high
    assert abs(inside / 1000 - 0.95) < 0.025


def test_work_put_off_at_every_stop_shows_in_the_slope():
    rng = np.random.default_rng(2)
    honest, hacked = launches(rng), launches(rng, put_off_s=0.03)
    assert judge_slope(honest, 0.1, least_effect=0.03).ruling == "pass"
    result = judge_slope(hacked, 0.1, least_effect=0.03)
    assert result.ruling == "fail"
    assert "put off" in result.reason


def test_a_slope_needs_launches_that_stop_at_different_updates():
    with pytest.raises(ValueError, match="two different"):
        launch_slope([(20, 1.0), (20, 1.1), (20, 1.2)])
    assert judge_slope([(20, 1.0)], 0.1, least_effect=0.03).ruling == "pass"


def tails_of(bench, clocks):
    return [tail_of(clocked(bench, clock)) for clock in clocks]


def test_lumps_in_most_launches_are_work_put_off_and_one_is_a_hiccup(bench):
    lumps = tails_of(bench, [Clock(update_s=0.08, lump_s=0.5, seed=s) for s in range(6)])
    hiccup = tails_of(bench, [Clock(lump_s=0.5 * (s == 0), seed=s) for s in range(6)])
    assert judge_tails(lumps, least_effect=0.03).ruling == "fail"
    assert judge_tails(hiccup, least_effect=0.03).ruling == "pass"
    assert judge_tails(hiccup[:2], least_effect=0.03) is None


def test_a_tail_no_slower_than_launches_differ_from_each_other_is_let_be_in_a_screen(bench):
    noisy = baseline_of(bench.bands, noise_sd=0.2)
    case = replace(clocked(bench, Clock(update_s=0.08, tail_factor=1.3)), baseline=noisy)
    assert finding(case, "tail").ruling == "pass"
    tails = [
        tail_of(replace(clocked(bench, Clock(tail_factor=1.3, seed=s)), baseline=noisy))
        for s in range(6)
    ]  # fmt: skip
    assert judge_tails(tails, least_effect=0.03).ruling == "fail"


def test_noisy_launches_are_seldom_taken_together_for_work_put_off():
    rng = np.random.default_rng(4)
    refused = 0
    for _ in range(1000):
        shares = rng.normal(0, 0.05, 12) + (rng.random(12) < 0.1) * rng.exponential(0.3, 12)
        tails = [
            Tail(excess_s=float(s), largest_s=float(s), error_s=0.1, num_updates=4, window_s=1.0)
            for s in shares
        ]
        refused += judge_tails(tails, least_effect=0.03).ruling == "fail"
    assert refused <= 20


def test_an_update_seen_twice_changes_no_stamp(bench):
    case = clocked(bench, Clock())
    evidence = edited(case.candidate.evidence, 5, loss=1.0)
    assert steady_update_s(evidence, WINDOW) == steady_update_s(case.candidate.evidence, WINDOW)
