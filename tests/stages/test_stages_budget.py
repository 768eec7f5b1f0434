"""Limits of trials, time and dollars are kept, whatever happens; a larger one goes on."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from search_world import World, contract, gpus, machine

from infrarsi.records.plan import Budget
from infrarsi.stages.measured import REDUCED
from infrarsi.stages.searching.steps import Choose, Judge, Launch, next_step
from infrarsi.stages.spending import bill, num_screened, spent_s


def launches(history):
    return [t for purpose in ("screen", "ablation") for t in history.trials_for(purpose)]


@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    max_trials=st.integers(1, 12),
    max_wall_s=st.floats(5, 400),
    max_usd=st.none() | st.floats(0.01, 2.0),
    judge_s=st.floats(0, 3),
    kill_share=st.sampled_from([0.0, 0.3]),
)
def test_no_limit_is_exceeded_by_more_than_the_trial_in_flight(
    *, seed, max_trials, max_wall_s, max_usd, judge_s, kill_share
):
    draw = random.Random(seed)
    limits = {"max_trials": max_trials, "max_wall_s": max_wall_s, "max_usd": max_usd}
    agreed = contract(strategy="random", prices={"usd_per_gpu_hour": 9.0}, **limits)
    world = World(agreed, machine_=machine(accelerators=gpus(2)), judge_s=judge_s, choose_s=0.2)
    longest_s = 12.0
    world.launch_s = lambda: draw.uniform(1, longest_s)
    world.begin("run", 2)
    for _ in range(300):
        step = world.next()
        if step is None:
            break
        if isinstance(step, Launch) and draw.random() < kill_share:
            world.kill_during(step, lived_s=draw.uniform(0, 5), pause_s=draw.uniform(0, 10**5))
            world.begin("run", 2)
        else:
            world.perform(step)
    else:
        pytest.fail("the search does not end")
    history = world.history
    in_flight_s = longest_s + judge_s + 3 * 0.2
    assert num_screened(history) <= max_trials
    assert spent_s(history) <= max_wall_s + in_flight_s
    if max_usd is not None:
        paid = bill(world.contract.plan, history, command="run").usd
        assert paid <= max_usd + in_flight_s * 2 * 9.0 / 3600
    tried = [each.trial.candidate for each in history.screenings]
    assert len(set(map(str, tried))) == len(tried)


def test_judging_and_choosing_count_as_time():
    world = World(contract(max_wall_s=100.0), judge_s=20.0, choose_s=5.0)
    history = world.run()
    assert len(history.screenings) <= 4
    assert 100 <= spent_s(history) <= 100 + 5 + 20 + 3 * 5


def test_pauses_between_commands_do_not_count():
    world = World(contract(max_trials=3))
    for _ in range(3):
        world.begin()
        world.perform(world.next())
        world.perform(world.next())
        world.clock_s += 86400
    assert spent_s(world.history) == pytest.approx(15, abs=0.1)


def test_time_goes_on_while_a_command_is_at_work():
    world = World(contract(max_wall_s=60.0))
    world.begin()
    assert isinstance(world.next(), Launch)
    world.clock_s += 61
    assert world.next() is None
    assert isinstance(next_step(world.contract, world.history), Launch), "without it, it stands"


def test_a_clock_that_was_set_back_makes_no_time():
    world = World(contract(max_wall_s=60.0))
    world.begin()
    for _ in range(4):
        world.perform(world.next())
    world.clock_s -= 10**6
    world.perform(world.next())
    assert spent_s(world.history) >= 15


def test_a_repeat_of_a_disturbed_launch_is_a_trial_too():
    from infrarsi.records.verdict import Finding, Ruling, Verdict

    world = World(contract(max_trials=1))
    world.begin()
    world.perform(world.next())
    waiting = world.next()
    assert isinstance(waiting, Judge)
    finding = Finding(layer="timing", check="tail", reason="x", ruling=Ruling.INCONCLUSIVE)
    verdict = Verdict(
        subject="x", kind="screen", ruling=finding.ruling, findings=(finding,), rules=1
    )
    body = {"verdict": verdict.model_dump(mode="json"), "update_s": 0.1}
    world.append("screened", {"trial_id": waiting.trial.trial_id, **body})
    assert not isinstance(world.next(), Launch)
    assert isinstance(world.with_budget(max_trials=2).next(), Launch)


def test_the_same_budget_again_does_nothing_and_records_nothing():
    world = World(contract(max_trials=6))
    first = world.run()
    length = len(world.events)
    again = world.run()
    assert len(world.events) == length
    assert again.choice == first.choice


def test_a_larger_budget_goes_on_where_the_search_was_and_counts_nothing_twice():
    world = World(contract(max_trials=3))
    early = world.run()
    late = world.with_budget(max_trials=20).run()
    assert num_screened(early) <= 3 < num_screened(late) <= 20
    assert late.choice.budget == world.contract.plan.budget
    assert set(late.choice.candidate.patches) == {"sdpa", "fused"}
    tried = [str(each.trial.candidate) for each in late.screenings]
    assert len(set(tried)) == len(tried)
    arms = [(str(late.remarks[t.trial_id]["winner"]), t.arm, t.replicate)
            for t in late.trials_for("ablation")]  # fmt: skip
    assert len(set(arms)) == len(arms)
    assert world.run().choice == late.choice


def test_a_smaller_budget_than_the_one_that_chose_does_nothing():
    world = World(contract(max_trials=8))
    world.run()
    length = len(world.events)
    world.with_budget(max_trials=4).run()
    assert len(world.events) == length


def test_what_was_put_forward_stays_until_something_faster_was_screened():
    world = World(contract(max_trials=25))
    first = world.run()
    ablated = len(first.trials_for("ablation"))
    later = world.with_budget(max_trials=40).run()
    assert later.choice.candidate == first.choice.candidate
    assert len(later.trials_for("ablation")) == ablated, "it is not taken apart a second time"
    assert later.choice.budget.max_trials == 40


def test_an_ablation_that_went_on_under_a_larger_budget_does_not_end_the_search():
    world = World(contract(max_trials=4))
    world.begin()
    while not (isinstance(step := world.next(), Launch) and step.request.purpose == "ablation"):
        world.perform(step)
    world.perform(step)
    history = world.with_budget(max_trials=15).run()
    assert num_screened(history) > 4


def _reason(step):
    return (step.request.remarks or {}).get("reason")


def test_out_of_time_the_winner_is_put_forward_whole():
    world = World(contract(max_trials=25, strategy="random"))
    world.begin()
    while not (isinstance(step := world.next(), Launch) and _reason(step) == REDUCED):
        assert not isinstance(step, Choose), "this winner carries a part that adds nothing"
        world.perform(step)
    world.with_budget(max_wall_s=spent_s(world.history))
    step = world.next()
    assert isinstance(step, Choose)
    assert step.candidate == step.winner
    assert "budget" in step.reason


def test_a_choice_without_a_budget_on_record_is_open_to_a_larger_one_alone():
    world = World(contract(max_trials=4))
    world.run()
    event = world.events[-1]
    old = {key: event.body[key] for key in ("candidate", "parts", "reason")}
    world.append("chosen", old)
    screened = num_screened(world.history)
    tight = {"max_trials": screened, "max_wall_s": spent_s(world.history)}
    assert world.with_budget(**tight).next() is None
    assert world.with_budget(max_trials=20, max_wall_s=3600.0).next() is not None


@pytest.mark.parametrize(
    ("one", "other", "more"),
    [
        ({}, {}, False),
        ({"max_trials": 41}, {}, True),
        ({"max_wall_s": 3601}, {}, True),
        ({"max_usd": 5}, {}, False),
        ({}, {"max_usd": 5}, True),
        ({"max_usd": 6}, {"max_usd": 5}, True),
        ({"max_trials": 39, "max_usd": 5}, {"max_usd": 5}, False),
    ],
)
def test_a_budget_allows_more_where_any_limit_is_larger(one, other, more):
    assert Budget(**one).allows_more_than(Budget(**other)) is more
