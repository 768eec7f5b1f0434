from dataclasses import replace

import pytest
from replay_samples import with_replay
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
    source_of,
)

from infrarsi.judge.case import Block, Confirmation
from infrarsi.judge.decide import (
    RULES,
    acceptance_threshold,
    judge_confirmation,
    judge_screen,
)
from infrarsi.judge.facts import ChangedFile
from infrarsi.judge.findings import fails, gather, join, passes, unsure
from infrarsi.judge.speedup import confirmation_schedule
from infrarsi.records.estimate import Estimate
from infrarsi.records.trial import Outcome
from infrarsi.records.verdict import Ruling, Verdict


def failing_layers(verdict):
    return {each.layer for each in verdict.reasons}


def test_an_honest_faster_launch_passes_its_screen(bench):
    verdict = judge_screen(bench.trained(Recipe(micro_batches=4, permute=True)))
    assert verdict.ruling is Ruling.PASS
    assert verdict.kind == "screen"
    assert verdict.speedup is None
    assert verdict.rules == RULES
    assert verdict.trials == ("t1",)


def test_only_integrity_sees_a_protected_file_changed(bench):
    source = source_of(protected_after={"data.py": "aa", "eval.py": "changed"})
    verdict = judge_screen(bench.case(launch_of(Recipe(), source=source)))
    assert failing_layers(verdict) == {"integrity"}
    assert verdict.ruling is Ruling.FAIL


def test_only_workload_sees_a_batch_that_trains_alike_and_is_another(bench):
    case = bench.trained(Recipe())
    evidence = edited(case.candidate.evidence, 9, batch="f" * 16)
    verdict = judge_screen(replace(case, candidate=changed_launch(case.candidate, evidence)))
    assert failing_layers(verdict) == {"workload"}
    assert verdict.ruling is Ruling.FAIL


def test_only_timing_sees_work_put_off_until_after_the_window(bench):
    verdict = judge_screen(bench.case(launch_of(Recipe(), Clock(update_s=0.08, tail_factor=2.0))))
    assert failing_layers(verdict) == {"timing"}
    assert verdict.ruling is Ruling.FAIL


def test_only_numerics_sees_a_layer_skipped_inside_the_model(bench):
    verdict = judge_screen(bench.trained(Recipe(skip_layer=True)))
    assert failing_layers(verdict) == {"numerics"}
    assert verdict.ruling is Ruling.FAIL


def test_only_precision_sees_state_kept_in_fewer_bits(bench):
    case = bench.trained(Recipe())
    marks = tuple(
        mark.model_copy(update={"census": {**mark.census, "optimizer_state": {"bfloat16": 4096}}})
        for mark in case.candidate.evidence.marks
    )
    evidence = case.candidate.evidence.model_copy(update={"marks": marks})
    verdict = judge_screen(replace(case, candidate=changed_launch(case.candidate, evidence)))
    assert failing_layers(verdict) == {"precision"}
    assert verdict.ruling is Ruling.FAIL


def test_only_the_audit_sees_source_that_could_reach_the_witness(bench):
    changed = (ChangedFile(path="model.py", before="", after="import ctypes\n"),)
    verdict = judge_screen(bench.trained(Recipe(), changed=changed))
    assert failing_layers(verdict) == {"audit"}
    assert verdict.ruling is Ruling.FAIL


@pytest.mark.parametrize("recipe", [
    Recipe(half_batch=True), Recipe(micro_batches=4, drop_micro_batch=True), Recipe(truncate=7),
    Recipe(step_every=2), Recipe(frozen=(0,)), Recipe(bf16_matmul=True), Recipe(bf16_state=True),
    Recipe(reuse_batch=True), Recipe(late_hack_from=10), Recipe(other_weights=True),
    Recipe(lr=0.0), Recipe(lr=float("nan")),
])  # fmt: skip
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_training_that_is_not_the_references_never_passes(bench, recipe):
    assert judge_screen(bench.trained(recipe)).ruling is Ruling.FAIL


def test_a_silent_witness_is_inconclusive_and_every_layer_says_so(bench):
    case = bench.trained(Recipe())
    evidence = case.candidate.evidence.model_copy(
        update={"hello": None, "updates": (), "marks": (), "ranks": {}}
    )
    verdict = judge_screen(replace(case, candidate=changed_launch(case.candidate, evidence)))
    assert verdict.ruling is Ruling.INCONCLUSIVE
    assert failing_layers(verdict) >= {"workload", "numerics", "precision", "timing"}
    assert all(each.hint for each in verdict.reasons)


@pytest.mark.parametrize("outcome", [Outcome.OOM, Outcome.CRASHED, Outcome.HUNG])
def test_a_launch_that_failed_never_passes(bench, outcome):
    case = bench.case(launch_of(Recipe(), facts=facts_of(outcome=outcome, reason="x")))
    assert judge_screen(case).ruling is Ruling.INCONCLUSIVE


def test_a_verdict_can_be_stored_and_read_back(bench):
    verdict = judge_screen(bench.trained(Recipe(skip_layer=True)))
    assert Verdict.from_bytes(verdict.to_bytes()) == verdict


def test_judging_twice_gives_the_same_verdict(bench):
    case = bench.trained(Recipe(truncate=7))
    assert judge_screen(case).digest() == judge_screen(case).digest()


def test_the_conjunction_takes_the_gravest_ruling():
    good, bad = passes("timing", "a", "r"), fails("audit", "b", "r")
    doubt = unsure("numerics", "c", "r", hint="h")
    assert join([good, good]) is Ruling.PASS
    assert join([good, doubt]) is Ruling.INCONCLUSIVE
    assert join([doubt, bad, good]) is Ruling.FAIL
    assert join([]) is Ruling.INCONCLUSIVE


def test_a_hiccup_in_few_launches_is_let_be_and_any_other_failure_is_not():
    def arm(check, struck):
        launches = [[fails("timing", check, "r") if i < struck else passes("timing", check, "r")]
                    for i in range(8)]  # fmt: skip
        (folded,) = gather(launches, arm="winner")
        return folded.ruling

    assert [arm("tail", n) for n in (2, 4, 5)] == ["pass", "inconclusive", "fail"]
    assert arm("stamps", 1) == "fail"


STAMPED: dict[Recipe, object] = {}


def timed_launch(recipe, clock, trial_id, **facts):
    """A launch whose training was done before, with stamps of its own."""
    if recipe not in STAMPED:
        STAMPED[recipe] = evidence_of(recipe)
    evidence = STAMPED[recipe]
    stamps = clock.stamps_ns(STOP)
    rows = tuple(
        row.model_copy(update={"t_ns": int(t)})
        for row, t in zip(evidence.updates, stamps, strict=True)
    )
    marks = tuple(
        mark.model_copy(update={"t_ns": int(stamps[mark.update - 1]) + 10**6 if mark.update else 0})
        for mark in evidence.marks
    )
    evidence = evidence.model_copy(update={"updates": rows, "marks": marks, "ranks": {0: rows}})
    known = {"wall_s": float(stamps[-1]) * 1e-9 + 0.5, **facts}
    return launch_of(evidence=evidence, facts=facts_of(trial_id=trial_id, **known))


def confirmation_of(
    bench, *, winner_s=0.08, winner=None, clock=None, ref_clock=None, blocks=6, **changes
):
    winner, made = winner or Recipe(permute=True), []
    for number, order in enumerate(confirmation_schedule(blocks, seed=1)):
        launches = []
        for place, letter in enumerate(order):
            base = (ref_clock or Clock()) if letter == "A" else (clock or Clock(update_s=winner_s))
            seed = 100 * number + place
            each = replace(base, spread=0.02, seed=seed)
            recipe = Recipe() if letter == "A" else winner
            launches.append(timed_launch(recipe, each, f"{number}{place}"))
        made.append(Block(order, tuple(launches)))
    known = {
        "subject": "cand", "task": bench.task, "baseline": bench.baseline,
        "reference": bench.reference, "blocks": tuple(made), "planned_blocks": blocks,
    }  # fmt: skip
    return with_replay(Confirmation(**(known | changes)))


def test_a_true_speedup_is_confirmed(bench):
    verdict = judge_confirmation(confirmation_of(bench))
    assert verdict.ruling is Ruling.PASS, verdict.reasons
    assert verdict.speedup.low < 1.25 < verdict.speedup.high
    assert len(verdict.trials) == 26, "and two replays"
    assert verdict.kind == "confirm"


def test_no_speedup_is_refused_and_a_small_one_is_not_confirmed(bench):
    assert judge_confirmation(confirmation_of(bench, winner_s=0.1)).ruling is Ruling.FAIL
    small = judge_confirmation(confirmation_of(bench, winner_s=0.1 / 1.03))
    assert small.ruling is Ruling.INCONCLUSIVE
    assert failing_layers(small) == {"timing"}


def test_the_threshold_is_the_least_effect_or_the_bias_whichever_is_larger(bench):
    case = confirmation_of(bench)
    assert acceptance_threshold(case) == pytest.approx(1.03)
    biased = replace(case, baseline=baseline_of(bench.bands, bias=-0.3))
    assert acceptance_threshold(biased) == pytest.approx(1.3)
    assert judge_confirmation(biased).ruling is Ruling.FAIL


def test_later_attempts_need_a_wider_margin(bench):
    first, fifth = (judge_confirmation(confirmation_of(bench, attempt=k)) for k in (1, 5))
    assert fifth.speedup.low < first.speedup.low
    assert first.speedup.level == pytest.approx(0.975)


def test_a_winner_that_trains_otherwise_in_any_launch_is_refused(bench):
    case = confirmation_of(bench)
    block = case.blocks[3]
    place = block.order.index("B")
    hacked = timed_launch(Recipe(skip_layer=True), Clock(update_s=0.08), "x")
    launches = (*block.launches[:place], hacked, *block.launches[place + 1 :])
    blocks = (*case.blocks[:3], replace(block, launches=launches), *case.blocks[4:])
    verdict = judge_confirmation(replace(case, blocks=blocks))
    assert verdict.ruling is Ruling.FAIL
    assert any("1 of 12 winner launches" in each.reason for each in verdict.reasons)


def test_work_put_off_in_a_lump_is_refused_once_many_launches_show_it(bench):
    verdict = judge_confirmation(
        confirmation_of(bench, clock=Clock(update_s=0.08, lump_s=0.4))
    )  # fmt: skip
    assert verdict.ruling is Ruling.FAIL
    assert "tails" in {each.check for each in verdict.reasons}


def test_a_reference_that_does_not_repeat_itself_settles_nothing(bench):
    case = confirmation_of(bench)
    block = case.blocks[0]
    place = block.order.index("A")
    other = timed_launch(Recipe(other_weights=True), Clock(), "x")
    launches = (*block.launches[:place], other, *block.launches[place + 1 :])
    verdict = judge_confirmation(
        replace(case, blocks=(replace(block, launches=launches), *case.blocks[1:]))
    )
    assert verdict.ruling is Ruling.INCONCLUSIVE
    assert any("reference launches" in each.reason for each in verdict.reasons)


def test_a_reference_held_back_settles_nothing(bench):
    slow = confirmation_of(bench, ref_clock=Clock(update_s=0.3))
    verdict = judge_confirmation(slow)
    assert verdict.ruling is Ruling.INCONCLUSIVE
    assert {each.check for each in verdict.reasons} == {"reference_rate"}


@pytest.mark.parametrize("planned", [5, 7])
def test_more_or_fewer_blocks_than_were_planned_settle_nothing(bench, planned):
    verdict = judge_confirmation(confirmation_of(bench, planned_blocks=planned))
    assert {each.check for each in verdict.reasons} == {"design"}
    assert verdict.ruling is Ruling.INCONCLUSIVE


def test_an_order_that_is_not_balanced_settles_nothing(bench):
    case = confirmation_of(bench)
    odd = replace(case.blocks[0], order="AABB")
    verdict = judge_confirmation(replace(case, blocks=(odd, *case.blocks[1:])))
    assert "design" in {each.check for each in verdict.reasons}


def test_a_launch_that_failed_leaves_the_confirmation_open(bench):
    case = confirmation_of(bench)
    block = case.blocks[0]
    place = block.order.index("B")
    evidence = block.launches[place].evidence
    short = evidence.updates[: WINDOW.warmup_updates]
    dead = replace(
        block.launches[place],
        evidence=evidence.model_copy(update={"updates": short, "ranks": {0: short}}),
        facts=facts_of(outcome=Outcome.CRASHED, reason="x"),
    )
    launches = (*block.launches[:place], dead, *block.launches[place + 1 :])
    verdict = judge_confirmation(
        replace(case, blocks=(replace(block, launches=launches), *case.blocks[1:]))
    )
    assert verdict.ruling is Ruling.INCONCLUSIVE
    assert verdict.speedup is None


@pytest.mark.parametrize(
    ("cold_s", "ruling"),
    [(3.3, Ruling.PASS), (4.5, Ruling.INCONCLUSIVE), (9.0, Ruling.INCONCLUSIVE)],
)
def test_a_start_that_could_hold_what_the_updates_seem_to_save_is_inconclusive(
    bench, cold_s, ruling
):
    case = confirmation_of(bench)
    blocks = [
        replace(block, launches=tuple(
            launch if letter == "A"
            else timed_launch(Recipe(), Clock(update_s=0.08, cold_s=cold_s, seed=number), "x")
            for letter, launch in zip(block.order, block.launches, strict=True)
        ))
        for number, block in enumerate(case.blocks)
    ]  # fmt: skip
    verdict = judge_confirmation(with_replay(replace(case, blocks=tuple(blocks))))
    assert verdict.ruling is ruling
    assert {each.check for each in verdict.reasons} == ({"ahead"} if cold_s > 4 else set())


def test_the_speedup_is_of_the_baselines_own_reference(bench):
    quick = baseline_of(bench.bands, update_s=Estimate(low=0.01, point=0.02, high=0.03))
    verdict = judge_confirmation(confirmation_of(bench, baseline=quick))
    assert "reference_rate" in {each.check for each in verdict.reasons}


def stopped_at(launch, stop, *, late_s=0.0):
    """The same launch, stopped at an update, its start-up longer by some seconds."""
    late = int(late_s * 1e9)
    rows = tuple(
        row.model_copy(update={"t_ns": row.t_ns + late}) for row in launch.evidence.updates[:stop]
    )
    marks = tuple(
        mark.model_copy(update={"t_ns": mark.t_ns + late})
        for mark in launch.evidence.marks
        if mark.update <= stop
    )
    evidence = launch.evidence.model_copy(
        update={"updates": rows, "marks": marks, "ranks": {0: rows}}
    )
    wall_s = rows[-1].t_ns * 1e-9 + 0.5
    facts = launch.facts.model_copy(update={"stop_update": stop, "wall_s": wall_s})
    return replace(launch, evidence=evidence, facts=facts)


def with_two_stops(case, *, late_s):
    """Stop every other launch four updates earlier; the later ones start up more slowly."""
    blocks = tuple(
        Block(
            block.order,
            tuple(
                stopped_at(each, STOP, late_s=late_s) if i % 2 else stopped_at(each, STOP - 4)
                for i, each in enumerate(block.launches)
            ),
        )
        for block in case.blocks
    )
    return replace(case, blocks=blocks)


def slope_of(case):
    return next(each for each in judge_confirmation(case).findings if each.check == "slope")


def test_start_up_that_happens_to_grow_with_the_hidden_stops_is_no_work_put_off(bench):
    """By chance, on a loaded machine: no launch knows its hidden stop while it starts up."""
    slope = slope_of(with_two_stops(confirmation_of(bench), late_s=0.5))
    assert slope.ruling is Ruling.PASS
    assert "an update more" in slope.reason


def test_work_put_off_after_the_window_fails_a_confirmation_by_its_slope(bench):
    clock = Clock(update_s=0.08, tail_factor=1.5)
    assert slope_of(with_two_stops(confirmation_of(bench, clock=clock), late_s=0.0)).ruling is (
        Ruling.FAIL
    )
