from dataclasses import replace

import numpy as np
import pytest
from synthetic_training import (
    SEQUENCES,
    WINDOW,
    Recipe,
    changed_launch,
    data_of_update,
    digest_of,
    edited,
)

from infrarsi.judge.workload import judge_workload


def rulings(case):
    return {each.check: each.ruling.value for each in judge_workload(case)}


def finding(case, check):
    return next(each for each in judge_workload(case) if each.check == check)


def with_evidence(case, **changes):
    evidence = case.candidate.evidence.model_copy(update=changes)
    return replace(case, candidate=changed_launch(case.candidate, evidence))


def with_update(case, update, **changes):
    evidence = edited(case.candidate.evidence, update, **changes)
    return replace(case, candidate=changed_launch(case.candidate, evidence))


@pytest.mark.parametrize("recipe", [
    Recipe(), Recipe(micro_batches=8), Recipe(permute=True), Recipe(bf16_matmul=True),
])  # fmt: skip
def test_the_same_sequences_in_any_grouping_and_order_pass(bench, recipe):
    assert set(rulings(bench.trained(recipe)).values()) == {"pass"}


def test_half_of_every_batch_fails(bench):
    found = rulings(bench.trained(Recipe(half_batch=True)))
    assert found["batch_digest"] == found["sequences"] == found["target_tokens"] == "fail"


def test_a_batch_seen_again_fails_and_the_reason_says_whose_it_was(bench):
    result = finding(bench.trained(Recipe(reuse_batch=True)), "batch_digest")
    assert result.ruling == "fail"
    assert "update 2" in result.reason
    assert "update 1 again" in result.reason


def test_reordered_batches_fail_and_the_reason_says_where_they_belong(bench):
    case = bench.trained(Recipe())
    rows = case.candidate.evidence.updates
    case = with_update(case, 3, batch=rows[5].batch)
    case = with_update(case, 6, batch=rows[2].batch)
    assert "the reference's batch of update 6" in finding(case, "batch_digest").reason


def test_another_batch_after_the_window_fails_too(bench):
    case = with_update(bench.trained(Recipe()), WINDOW.last_update + 2, batch="0" * 16)
    assert finding(case, "batch_digest").ruling == "fail"


@pytest.mark.parametrize("arm", ["candidate", "reference"])
def test_a_batch_that_was_not_seen_is_inconclusive_in_either_arm(bench, arm):
    case = bench.trained(Recipe())
    launch = getattr(case, arm)
    case = replace(case, **{arm: changed_launch(launch, edited(launch.evidence, 5, batch=None))})
    result = finding(case, "batch_digest")
    assert result.ruling == "inconclusive"
    assert result.hint


def test_a_witness_that_never_spoke_is_inconclusive(bench):
    case = with_evidence(bench.trained(Recipe()), hello=None)
    (only,) = judge_workload(case)
    assert only.ruling == "inconclusive"
    assert "never spoke" in only.reason


def test_fewer_updates_than_the_window_has_are_inconclusive(bench):
    rows = bench.reference.evidence.updates[: WINDOW.last_update - 1]
    case = with_evidence(bench.trained(Recipe()), updates=rows, ranks={0: rows})
    (only,) = judge_workload(case)
    assert only.ruling == "inconclusive"
    assert f"counted {WINDOW.last_update - 1} updates" in only.reason


def test_counted_updates_without_a_change_of_the_parameters_fail(bench):
    case = bench.trained(Recipe())
    first = case.candidate.evidence.marks[0]
    marks = tuple(
        mark.model_copy(update={"sketch": first.sketch}) for mark in case.candidate.evidence.marks
    )
    result = finding(with_evidence(case, marks=marks), "movement")
    assert result.ruling == "fail"
    assert "no sampled parameter changed" in result.reason


def test_one_frozen_parameter_fails(bench):
    result = finding(bench.trained(Recipe(frozen=(2,))), "movement")
    assert result.ruling == "fail"
    assert "number 2" in result.reason


def test_parameters_that_stand_still_in_both_arms_pass(bench):
    still = bench.trained(Recipe(lr=0.0))
    still = replace(still, reference=still.candidate)
    assert finding(still, "movement").ruling == "pass"


def test_without_marks_the_movement_is_inconclusive(bench):
    found = rulings(with_evidence(bench.trained(Recipe()), marks=()))
    assert found["movement"] == found["model_size"] == "inconclusive"


def test_a_smaller_model_fails(bench):
    case = bench.trained(Recipe())
    marks = tuple(
        mark.model_copy(update={"shapes": mark.shapes[:-1], "sketch": mark.sketch[:-1]})
        for mark in case.candidate.evidence.marks
    )
    assert finding(with_evidence(case, marks=marks), "model_size").ruling == "fail"


@pytest.mark.parametrize("name", ["sequences", "tokens", "target_tokens"])
def test_other_counts_fail(bench, name):
    row = bench.reference.evidence.updates[6]
    case = with_update(bench.trained(Recipe()), 7, **{name: getattr(row, name) - 1})
    if name == "tokens":  # without known targets, other token counts are not explained by padding
        case = with_update(case, 7, target_tokens=None)
    assert finding(case, name).ruling == "fail"


def test_padding_taken_away_passes_while_sequences_and_targets_are_equal(bench):
    row = bench.reference.evidence.updates[6]
    case = with_update(bench.trained(Recipe()), 7, tokens=row.tokens - 10)
    result = finding(case, "tokens")
    assert result.ruling == "pass"
    assert "padding" in result.reason


def test_a_count_that_the_change_hides_is_inconclusive(bench):
    case = with_update(bench.trained(Recipe()), 7, target_tokens=None)
    assert finding(case, "target_tokens").ruling == "inconclusive"


def ranked(case, arm, shards):
    """The arm's launch on two ranks, with the sequences dealt out as given."""
    launch = getattr(case, arm)
    ranks = {
        rank: tuple(
            row.model_copy(update={
                "batch": digest_of(data_of_update(row.update)[shard]), "sequences": len(shard),
                "tokens": 9 * len(shard), "target_tokens": 8 * len(shard),
            })
            for row in launch.evidence.updates
        )
        for rank, shard in enumerate(shards)
    }  # fmt: skip
    evidence = launch.evidence.model_copy(update={"ranks": ranks, "updates": ranks[0]})
    return replace(case, **{arm: changed_launch(launch, evidence)})


def test_sequences_may_move_between_ranks_and_rank_counts_may_differ(bench):
    every = np.arange(SEQUENCES)
    halves, stripes = [every[:8], every[8:]], [every[::2], every[1::2]]
    swapped = ranked(
        ranked(bench.trained(Recipe()), "candidate", halves), "reference", halves[::-1]
    )
    dealt = ranked(ranked(bench.trained(Recipe()), "candidate", halves), "reference", stripes)
    alone = ranked(bench.trained(Recipe()), "candidate", stripes)
    for case in (swapped, dealt, alone):
        assert set(rulings(case).values()) == {"pass"}


def test_two_ranks_on_the_same_half_of_the_batch_fail(bench):
    half = np.arange(8)
    case = ranked(bench.trained(Recipe()), "candidate", [half, half])
    assert finding(case, "batch_digest").ruling == "fail"


def loss_inside_one_arm(case, inputs):
    """The candidate's model takes no targets; the reference's does."""
    mine, theirs = case.candidate.evidence, case.reference.evidence
    for i in range(len(mine.updates)):
        fake = {"batch": f"{i:016x}", "target_tokens": None, "inputs": inputs(i)}
        mine = edited(mine, i + 1, **fake)
        theirs = edited(theirs, i + 1, inputs=f"{7 * i:016x}")
    return replace(
        case,
        candidate=changed_launch(case.candidate, mine),
        reference=changed_launch(case.reference, theirs),
    )


def test_where_targets_enter_in_one_arm_only_the_ids_are_compared(bench):
    case = loss_inside_one_arm(bench.trained(Recipe()), lambda i: f"{7 * i:016x}")
    result = finding(case, "batch_digest")
    assert result.ruling == "pass"
    assert "judged by the loss" in result.reason
    case = loss_inside_one_arm(bench.trained(Recipe()), lambda i: f"{7 * i + (i == 4):016x}")
    assert finding(case, "batch_digest").ruling == "fail"
    case = loss_inside_one_arm(bench.trained(Recipe()), lambda i: None)
    assert finding(case, "batch_digest").ruling == "inconclusive"


def test_a_rank_that_never_spoke_is_inconclusive_in_either_arm(bench):
    every = np.arange(SEQUENCES)
    halves = [every[:8], every[8:]]
    for arm in ("candidate", "reference"):
        case = ranked(bench.trained(Recipe()), arm, halves)
        launch = getattr(case, arm)
        silent = launch.evidence.model_copy(update={"world_size": 3, "greeted": (0, 1)})
        case = replace(case, **{arm: changed_launch(launch, silent)})
        (result,) = judge_workload(case)
        assert (result.check, result.ruling) == ("ranks", "inconclusive")
        assert "rank 2" in result.reason


def test_a_rank_that_made_fewer_updates_is_caught(bench):
    case = ranked(bench.trained(Recipe()), "candidate", [np.arange(8), np.arange(8, SEQUENCES)])
    ranks = case.candidate.evidence.ranks
    short = case.candidate.evidence.model_copy(update={"ranks": {0: ranks[0], 1: ranks[1][:5]}})
    (result,) = judge_workload(replace(case, candidate=changed_launch(case.candidate, short)))
    assert (result.check, result.ruling) == ("updates", "inconclusive")
