"""A search is a pure function of its ledger: what comes next, and what is put forward."""

import math

import pytest
from search_world import PATCHES, World, contract, fits, patch

from infrarsi.records.base import canonical_json
from infrarsi.records.trial import Outcome
from infrarsi.records.verdict import Finding, Ruling, Verdict
from infrarsi.stages.history import History
from infrarsi.stages.measured import REDUCED
from infrarsi.stages.searching.parts import UNMEASURED
from infrarsi.stages.searching.steps import Launch, next_step


@pytest.fixture(scope="module")
def searched():
    return World(contract(max_trials=25)).run()


def test_the_winner_carries_what_adds_and_drops_what_does_not(searched):
    assert searched.choice is not None
    assert set(searched.choice.candidate.patches) == {"sdpa", "fused"}
    assert searched.choice.candidate.knobs == {"log_every": 10, "recompute": False}


def test_an_oom_is_seen_and_its_partner_found(searched):
    outcomes = [each.trial.outcome for each in searched.screenings]
    assert Outcome.OOM in outcomes or all(
        fits(each.trial.candidate) for each in searched.screenings
    )


def test_what_the_judge_refused_is_never_put_forward(searched):
    refused = [s for s in searched.screenings if "cast" in s.trial.candidate.patches]
    assert refused, "the fastest looking patch must have been tried"
    assert all(s.verdict is None or s.verdict.ruling is Ruling.FAIL for s in refused)
    assert "cast" not in searched.choice.candidate.patches


def test_parts_are_attributed_their_gain(searched):
    parts = {part.name: part for part in searched.choice.parts}
    assert parts["+sdpa"].kept
    assert "oom" in parts["+sdpa"].note or parts["+sdpa"].gain.point > 1.2
    assert parts["+fused"].gain.point == pytest.approx(math.exp(0.15), rel=1e-6)


def test_the_budget_of_trials_is_kept():
    history = World(contract(max_trials=4)).run()
    screens = [each for each in history.screenings if each.reason != REDUCED]
    assert len(screens) <= 4
    assert history.choice is not None


def test_the_budget_of_wall_time_is_kept_within_the_launch_in_flight():
    world = World(contract(max_wall_s=42.0))
    history = world.run()
    spent = sum(t.wall_s for t in history.trials.values() if t.purpose in {"screen", "ablation"})
    assert spent <= 42.0 + 2 * 5.0


def test_a_winner_that_was_not_taken_apart_is_not_said_to_be_needed_whole():
    for seconds in (22.0, 32.0, 42.0):
        choice = World(contract(max_wall_s=seconds)).run().choice
        if choice and any(part.note == UNMEASURED for part in choice.parts):
            assert "the budget ended before" in choice.reason
            return
    pytest.fail("no budget was too small for the ablation")


def test_a_launch_that_would_outlast_the_search_is_not_begun():
    compiled = patch("compile", time=-0.6).model_copy(update={"cold_start_s": 120.0})

    def tried(max_wall_s):
        history = World(contract(max_wall_s=max_wall_s), patches=[*PATCHES, compiled]).run()
        return {name for each in history.screenings for name in each.trial.candidate.patches}

    assert "compile" in tried(2000.0)
    assert "compile" not in tried(60.0)
    assert tried(60.0)


def test_a_search_stopped_anywhere_goes_on_the_same():
    """Every prefix of the ledger gives the step that followed it: there is no other state."""
    world = World(contract(max_trials=6))
    steps, prefixes = [], []
    while (step := next_step(world.contract, History.of(world.events))) is not None:
        steps.append(step)
        prefixes.append(len(world.events))
        world.perform(step)
    for step, length in list(zip(steps, prefixes, strict=True))[::5]:
        again = next_step(world.contract, History.of(world.events[:length]))
        assert repr(again) == repr(step)


def test_a_trial_lost_with_its_harness_is_tried_again_and_counts_once():
    world = World(contract(max_trials=6))
    step = next_step(world.contract, History.of(world.events))
    world.perform(step)
    lost = {**world.events[-1].body, "outcome": "preempted"}
    world.events.pop()
    world.append("trial_ended", lost)
    history = History.of(world.events)
    again = next_step(world.contract, history)
    assert isinstance(again, Launch)
    assert again.request.candidate == step.request.candidate
    assert len(history.observations()) == 1


def test_a_new_lock_starts_a_new_search():
    world = World(contract(max_trials=3))
    world.run()
    world.append("locked", world.events[0].body)
    history = History.of(world.events)
    assert history.baseline is None
    assert history.screenings == []


def test_events_are_plain_json():
    world = World(contract(max_trials=3))
    world.run()
    assert all(canonical_json(event.body) for event in world.events)


def disturbed(history_world, ruling, layer, check="tail"):
    """Perform one screening whose verdict has this one reason."""
    world = history_world
    world.perform(next_step(world.contract, History.of(world.events)))
    trial = next_step(world.contract, History.of(world.events)).trial
    finding = Finding(layer=layer, check=check, reason="the window was disturbed", ruling=ruling)
    verdict = Verdict(subject="x", kind="screen", ruling=ruling, findings=(finding,), rules=1)
    world.append("screened", {
        "trial_id": trial.trial_id, "verdict": verdict.model_dump(mode="json"), "update_s": 0.1,
    })  # fmt: skip
    return trial


def test_a_disturbed_launch_is_repeated_once():
    world = World(contract(max_trials=6))
    trial = disturbed(world, Ruling.INCONCLUSIVE, "timing")
    again = next_step(world.contract, History.of(world.events))
    assert again.request.candidate == trial.candidate
    assert "disturbed" in again.request.remarks["reason"]
    second = disturbed(world, Ruling.INCONCLUSIVE, "timing")
    assert second.candidate == trial.candidate
    third = next_step(world.contract, History.of(world.events))
    assert third.request.candidate != trial.candidate


def test_only_the_second_launch_of_a_disturbed_candidate_is_learnt_from():
    world = World(contract(max_trials=6))
    disturbed(world, Ruling.FAIL, "timing")
    world.perform(next_step(world.contract, History.of(world.events)))
    world.perform(next_step(world.contract, History.of(world.events)))
    learnt = History.of(world.events).observations()
    assert len(learnt) == 2  # the reference, and the candidate once


@pytest.mark.parametrize(
    ("ruling", "layer", "check"),
    [(Ruling.FAIL, "timing", "flop_floor"), (Ruling.INCONCLUSIVE, "precision", "matmul"),
     (Ruling.FAIL, "workload", "tail")],
)  # fmt: skip
def test_what_another_launch_would_not_settle_is_not_repeated(ruling, layer, check):
    world = World(contract(max_trials=6))
    trial = disturbed(world, ruling, layer, check)
    after = next_step(world.contract, History.of(world.events))
    assert after.request.candidate != trial.candidate


def test_without_the_sweep_knobs_stay_at_their_defaults():
    plain = contract(max_trials=4)
    plan = plain.plan.model_copy(update={"proposers": ("patchbook",)})
    history = World(plain.model_copy(update={"plan": plan})).run()
    assert history.screenings
    for each in history.screenings:
        assert each.trial.candidate.knobs == plain.task.surface.default_knobs()
