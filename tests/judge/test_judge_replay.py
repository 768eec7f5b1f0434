"""Layer 6: what single updates and states say once the reference's own code has run them."""

from dataclasses import replace

import pytest
from replay_samples import (
    NAMES,
    UPDATES,
    first_of,
    replay_seen,
    tensor,
    with_launch,
    with_replay,
)
from synthetic_training import edited
from test_judge_decide import confirmation_of

from infrarsi.judge.decide import judge_confirmation
from infrarsi.judge.replay import judge_replay
from infrarsi.records.verdict import Ruling


@pytest.fixture(scope="module")
def confirmed(bench):
    return with_replay(confirmation_of(bench))


def finding(confirmation, check):
    return next(each for each in judge_replay(confirmation) if each.check == check)


def moved_otherwise(confirmation, shares, *, left=(), said=None):
    """Have the first parameter of each update differ by a share of the reference's movement."""
    told = {
        update: replay_seen(
            update, left=left,
            tensors=[tensor(NAMES[0], apart=share, said=said), *map(tensor, NAMES[1:])],
        )
        for update, share in zip(UPDATES, shares, strict=True)
    }  # fmt: skip
    return with_replay(replace(confirmation, replay=None), of_winner=told)


def test_a_winner_whose_updates_the_reference_repeats_passes(confirmed):
    findings = judge_replay(confirmed)
    assert {each.ruling for each in findings} == {Ruling.PASS}, findings
    assert {each.check for each in findings} == {
        "replayed", "batches", "loss", "grad_norm", "one_update", "unseen",
    }  # fmt: skip
    assert "update 17, 20" in findings[0].reason


def test_only_replay_sees_an_update_that_is_skipped_after_the_window(confirmed):
    verdict = judge_confirmation(moved_otherwise(confirmed, (1.0, 1.0), said=0.0))
    assert verdict.ruling is Ruling.FAIL
    assert {each.layer for each in verdict.reasons} == {"replay"}
    (reason,) = [each.reason for each in verdict.reasons]
    for words in ("update 17", NAMES[0], "moves embed by 0.1", "moved it by 0,", "by 1 of it",
                  "allowed 0.00049", "nulls", "2 of 2 updates"):  # fmt: skip
        assert words in reason, (words, reason)


def test_one_update_in_many_that_is_another_is_enough(confirmed):
    assert finding(moved_otherwise(confirmed, (0.0, 0.6)), "one_update").ruling is Ruling.FAIL


def test_a_small_difference_is_a_doubt_in_one_update_and_a_failure_in_most(confirmed):
    once = finding(moved_otherwise(confirmed, (0.01, 0.0)), "one_update")
    assert once.ruling is Ruling.INCONCLUSIVE
    assert once.hint
    assert finding(moved_otherwise(confirmed, (0.01, 0.01)), "one_update").ruling is Ruling.FAIL


def test_what_was_left_in_place_makes_small_differences_a_doubt_and_no_large_one(confirmed):
    left = ("exp_avg of 4 parameters",)
    small = moved_otherwise(confirmed, (0.01, 0.01), left=left)
    assert finding(small, "one_update").ruling is Ruling.INCONCLUSIVE
    assert left[0] in finding(small, "replayed").reason
    skipped = moved_otherwise(confirmed, (1.0, 1.0), left=left)
    assert finding(skipped, "one_update").ruling is Ruling.FAIL


def test_the_nulls_widen_the_limit_of_the_parameter_that_they_move(confirmed):
    """A bias of attention's keys: its gradient is rounding alone."""
    noisy = {
        update: replay_seen(update, tensors=[tensor(NAMES[0], apart=0.1), *map(tensor, NAMES[1:])])
        for update in UPDATES
    }
    plain = replace(confirmed, replay=None)
    assert finding(with_replay(plain, of_winner=noisy), "one_update").ruling is Ruling.FAIL
    both = with_replay(plain, of_winner=noisy, of_reference=noisy)
    assert finding(both, "one_update").ruling is Ruling.PASS


def test_a_reference_that_does_not_repeat_itself_leaves_it_open(confirmed):
    noisy = {
        update: replay_seen(update, tensors=[tensor(name, apart=0.4) for name in NAMES])
        for update in UPDATES
    }
    blind = with_replay(replace(confirmed, replay=None), of_winner=noisy, of_reference=noisy)
    assert finding(blind, "one_update").ruling is Ruling.INCONCLUSIVE


def test_a_movement_that_is_not_finite_fails(confirmed):
    broken = tensor(NAMES[0]).model_copy(update={"apart": None, "said": None})
    told = {17: replay_seen(17, tensors=[broken, *map(tensor, NAMES[1:])])}
    case = with_replay(replace(confirmed, replay=None), of_winner=told)
    assert finding(case, "one_update").ruling is Ruling.FAIL


def test_a_parameter_that_the_reference_leaves_alone_must_stay(confirmed):
    def moving(apart):
        still = tensor(NAMES[0]).model_copy(update={"apart": apart, "moved": 0.0, "said": apart})
        told = {17: replay_seen(17, tensors=[still, *map(tensor, NAMES[1:])])}
        case = with_replay(replace(confirmed, replay=None), of_winner=told)
        return finding(case, "one_update").ruling

    assert moving(0.0) is Ruling.PASS
    assert moving(1e-8) is Ruling.PASS, "within the rounding of its size"
    assert moving(0.01) is Ruling.FAIL


def said_otherwise(confirmation, updates, **changes):
    """Have winners say something else of updates than they did."""
    for block, update in enumerate(UPDATES):
        if update not in updates:
            continue
        place = first_of(confirmation, block, "B")
        launch = confirmation.blocks[block].launches[place]
        evidence = edited(launch.evidence, update, **changes)
        forged = replace(launch, evidence=evidence)
        confirmation = with_launch(confirmation, block, place, forged)
    return confirmation


def test_a_loss_that_was_said_and_not_computed_is_refused(confirmed):
    forged = said_otherwise(confirmed, {20}, loss=1.234)
    found = finding(forged, "loss")
    assert found.ruling is Ruling.FAIL
    for words in ("1.234", "update 20", "own state", "allowed", "floor"):
        assert words in found.reason
    assert finding(forged, "one_update").ruling is Ruling.PASS


def test_a_gradient_norm_that_is_not_of_this_batch_is_refused(confirmed):
    found = finding(said_otherwise(confirmed, {17}, grad_norm=7.0), "grad_norm")
    assert found.ruling is Ruling.FAIL


def test_a_loss_scaled_by_a_constant_is_the_same_objective(confirmed):
    twice = replace(confirmed, replay=None)
    for update in UPDATES:
        block = UPDATES.index(update)
        launch = twice.blocks[block].launches[first_of(twice, block, "B")]
        row = next(each for each in launch.evidence.updates if each.update == update)
        twice = said_otherwise(twice, {update}, loss=2 * row.loss)
    assert finding(with_replay(twice), "loss").ruling is Ruling.PASS


def test_what_the_winner_does_not_say_is_a_doubt_and_what_is_not_finite_a_failure(confirmed):
    assert finding(said_otherwise(confirmed, {17}, loss=None), "loss").ruling is (
        Ruling.INCONCLUSIVE
    )
    broken = said_otherwise(confirmed, {17}, loss=None, non_finite=("loss",))
    assert finding(broken, "loss").ruling is Ruling.FAIL


def test_a_kept_update_on_another_batch_is_refused(confirmed):
    found = finding(said_otherwise(confirmed, {20}, batch="f" * 16), "batches")
    assert found.ruling is Ruling.FAIL
    assert "update 20" in found.reason


def scored(confirmation, factor):
    """Have the winner's states lose more on every batch after the replayed updates."""
    replay = confirmation.replay
    evidence = replay.of_winner.evidence
    for update in (18, 19, 21, 22):
        row = next(each for each in evidence.updates if each.update == update)
        evidence = edited(evidence, update, loss=row.loss * factor)
    return replace(
        confirmation, replay=replace(replay, of_winner=replace(replay.of_winner, evidence=evidence))
    )


def test_states_that_lose_more_on_unseen_batches_are_refused_and_better_ones_pass(confirmed):
    worse = finding(scored(confirmed, 1.01), "unseen")
    assert worse.ruling is Ruling.FAIL
    for words in ("4 batches", "+0.01", "allowed", "loss band"):
        assert words in worse.reason
    assert finding(scored(confirmed, 0.99), "unseen").ruling is Ruling.PASS
    assert finding(scored(confirmed, 1 + 1e-7), "unseen").ruling is Ruling.PASS


def test_renamed_parameters_are_a_doubt_that_a_mapping_settles(confirmed):
    why = "its parameters have other names than the reference's: without head; with top"
    told = {update: replay_seen(update, tensors=[], why=why) for update in UPDATES}
    case = with_replay(replace(confirmed, replay=None), of_winner=told)
    (found,) = judge_replay(case)
    assert found.ruling is Ruling.INCONCLUSIVE
    assert why in found.reason
    assert "state_mapping" in found.hint


def test_a_state_that_was_not_kept_is_a_doubt_with_its_reason(confirmed):
    case = with_replay(replace(confirmed, replay=None), why="it takes more than 9 bytes")
    (found,) = judge_replay(case)
    assert found.ruling is Ruling.INCONCLUSIVE
    assert "9 bytes" in found.reason


def test_a_winner_that_ends_before_an_update_that_the_reference_reaches_is_a_doubt(confirmed):
    place = first_of(confirmed, 1, "B")
    launch = confirmed.blocks[1].launches[place]
    silent = replace(launch, evidence=launch.evidence.model_copy(update={"kept": ()}))
    found = finding(with_launch(confirmed, 1, place, silent), "replayed")
    assert found.ruling is Ruling.INCONCLUSIVE
    assert "update 20" in found.reason


def test_an_update_that_neither_arm_reaches_is_only_told(confirmed):
    case = confirmed
    for letter in "AB":
        place = first_of(case, 1, letter)
        launch = case.blocks[1].launches[place]
        silent = replace(launch, evidence=launch.evidence.model_copy(update={"kept": ()}))
        case = with_launch(case, 1, place, silent)
    found = finding(case, "replayed")
    assert found.ruling is Ruling.PASS
    assert "update 20 could not be" in found.reason


def test_without_any_replay_nothing_is_confirmed(bench):
    verdict = judge_confirmation(replace(confirmation_of(bench), replay=None))
    assert verdict.ruling is Ruling.INCONCLUSIVE
    assert {each.layer for each in verdict.reasons} == {"replay"}
    assert all(each.hint for each in verdict.reasons)


def test_a_rank_that_did_not_replay_is_a_doubt(confirmed):
    replay = confirmed.replay
    two = replay.of_winner.evidence.model_copy(update={"world_size": 2})
    launch = replace(replay.of_winner, evidence=two)
    case = replace(confirmed, replay=replace(replay, of_winner=launch))
    (found,) = judge_replay(case)
    assert found.ruling is Ruling.INCONCLUSIVE
    assert "rank" in found.reason
