"""What was spent: time by the ledger's clock, dollars for every attempt, and the estimate."""

import pytest
from search_world import PATCHES, World, contract, gpus, machine

from infrarsi.errors import UsageError
from infrarsi.records.asked import Asked
from infrarsi.records.plan import Prices
from infrarsi.records.trial import Outcome
from infrarsi.stages.history import History
from infrarsi.stages.reporting.cost import cost_of
from infrarsi.stages.searching.forecast import forecast_lines, forecast_of
from infrarsi.stages.spending import bill, refuse_unknown_price, spent_s, trial_usd

NOTHING = (None, None)


def asked(usd):
    return Asked(
        provider="openai", model="small", host="localhost", outcome="ok", wall_s=2.0,
        input_tokens=1000, output_tokens=10, usd=usd,
    ).model_dump(mode="json")  # fmt: skip


@pytest.mark.parametrize(
    ("prices", "num_gpus", "usd_per_hour"),
    [
        ({}, 0, None),
        ({"usd_per_gpu_hour": 2.0}, 0, None),
        ({"usd_per_machine_hour": 0.5}, 0, 0.5),
        ({"usd_per_gpu_hour": 2.0}, 8, 16.0),
        ({"usd_per_gpu_hour": 2.0, "usd_per_machine_hour": 20.0}, 8, 16.0),
        ({"usd_per_machine_hour": 20.0}, 8, 20.0),
        ({"usd_per_gpu_hour": 0.0}, 8, 0.0),
    ],
)
def test_an_hour_costs_what_its_accelerators_or_else_its_machine_costs(
    prices, num_gpus, usd_per_hour
):
    usd_per_s = Prices(**prices).usd_per_s(num_gpus)
    assert usd_per_s == (None if usd_per_hour is None else pytest.approx(usd_per_hour / 3600))


def test_every_attempt_is_paid_for_failed_and_killed_ones_too():
    agreed = contract(prices={"usd_per_gpu_hour": 3600.0}, max_trials=8)
    world = World(agreed, machine_=machine(accelerators=gpus(2)))
    world.begin("run", 2)
    world.kill_during(world.next(), lived_s=4.0, pause_s=10**6)
    world.begin("run", 2)
    while (step := world.next()) is not None:
        world.perform(step)
    history = world.history
    outcomes = {trial.outcome for trial in history.trials.values()}
    assert outcomes == {Outcome.OK, Outcome.OOM, Outcome.PREEMPTED}
    for trial in history.trials.values():
        assert trial_usd(agreed.plan, history, trial) == pytest.approx(2 * trial.wall_s)
    cost = cost_of(agreed.plan, history, None, arms=NOTHING)
    assert cost.dollars == pytest.approx(2 * cost.wall_s)
    assert cost.dollars >= sum(2 * trial.wall_s for trial in history.trials.values()) - 1e-6
    assert cost.wall_s < 10**4, "the pause after the kill costs nothing"
    assert cost.dollars_note == ""


def test_without_a_price_dollars_are_missing_and_the_note_says_what_to_set():
    world = World(contract(max_trials=2))
    history = world.run()
    paid = bill(world.contract.plan, history)
    assert paid.usd is None
    assert "plan.prices.usd_per_machine_hour" in paid.note
    assert cost_of(world.contract.plan, history, None, arms=NOTHING).dollars is None
    assert all(trial_usd(world.contract.plan, history, t) is None for t in history.trials.values())


def test_a_price_that_is_set_later_prices_what_was_done_before():
    world = World(contract(max_trials=2))
    history = world.run()
    priced = contract(prices={"usd_per_machine_hour": 3600.0}).plan
    assert bill(priced, history).usd == pytest.approx(spent_s(history) + 5.0)


def test_calls_of_a_language_model_are_paid_for_and_an_unknown_price_says_at_least():
    world = World(contract(prices={"usd_per_machine_hour": 0.0}, max_trials=2))
    world.begin()
    world.append("asked", asked(0.25))
    plan = world.contract.plan
    assert bill(plan, world.history).usd == pytest.approx(0.25)
    assert bill(plan, world.history).note == ""
    world.append("asked", asked(None))
    paid = bill(plan, world.history)
    assert paid.usd == pytest.approx(0.25)
    assert "at least" in paid.note
    assert "small" in paid.note
    cost = cost_of(plan, world.history, None, arms=NOTHING)
    assert cost.llm_dollars is None
    assert cost.llm_tokens == 2020


def test_dollars_without_a_price_are_refused_and_the_missing_price_is_named():
    plan = contract().plan
    refuse_unknown_price(plan, num_accelerators=0, max_usd=None)
    for number, name in ((0, "usd_per_machine_hour"), (4, "usd_per_gpu_hour")):
        with pytest.raises(UsageError, match=f"plan.prices.{name} is not known"):
            refuse_unknown_price(plan, num_accelerators=number, max_usd=5.0)
    priced = contract(prices={"usd_per_gpu_hour": 2.0}).plan
    refuse_unknown_price(priced, num_accelerators=4, max_usd=5.0)
    asking = priced.model_copy(update={"proposers": ("language",)})
    with pytest.raises(UsageError, match="the price of the language model"):
        refuse_unknown_price(asking, num_accelerators=4, max_usd=5.0)


def test_a_ledger_from_before_periods_is_counted_by_its_launches():
    world = World(contract(max_trials=3))
    world.run()
    old = [event for event in world.events if event.kind != "began"]
    history = History.of(old)
    launched = [t.wall_s for p in ("screen", "ablation") for t in history.trials_for(p)]
    assert spent_s(history) == pytest.approx(sum(launched))


def test_an_estimate_holds_what_the_search_then_takes():
    world = World(contract(max_trials=12, prices={"usd_per_machine_hour": 3600.0}), judge_s=0.5)
    forecast = forecast_of(world.contract, world.history, num_accelerators=0)
    took = spent_s(world.run())
    assert forecast.search_wall_s.low <= took <= forecast.search_wall_s.high
    assert forecast.search_wall_s.low < forecast.search_wall_s.point < forecast.search_wall_s.high
    assert forecast.search_usd.point == pytest.approx(forecast.search_wall_s.point)
    assert forecast.num_trials.high == 12
    again = forecast_of(world.contract, world.history, num_accelerators=0)
    assert again.search_wall_s.point == pytest.approx(spent_s(world.history))
    assert again.num_trials.point == again.num_trials.low


def test_an_estimate_does_not_promise_more_than_the_budget_allows():
    short = World(contract(max_trials=1000, max_wall_s=60.0))
    forecast = forecast_of(short.contract, short.history, num_accelerators=0)
    assert forecast.search_wall_s.point <= 60
    assert forecast.search_wall_s.high <= 60 + 10
    long = World(contract(max_trials=1000, max_wall_s=10**6))
    forecast = forecast_of(long.contract, long.history, num_accelerators=0)
    assert forecast.num_trials.high <= 2 * 2 * 2 ** len(PATCHES), "there are no more candidates"


def test_an_estimate_says_what_it_rests_on_and_what_it_does_not_know():
    world = World(contract(max_trials=7))
    forecast = forecast_of(world.contract, world.history, num_accelerators=0)
    words = "\n".join(forecast_lines(forecast))
    assert "a launch takes 5.00 s" in words
    assert "7 trials" in words
    assert "24 launches, and 2 that replay" in words
    assert "plan.prices" in words
    assert forecast.search_usd is None
    assert forecast.confirm_wall_s.point == pytest.approx(26 * 5, rel=0.3)


def test_compiling_and_a_slow_machine_are_in_the_high_case():
    world = World(contract(max_trials=5))
    plain = forecast_of(world.contract, world.history, num_accelerators=0)
    slow = PATCHES[0].model_copy(update={"cold_start_s": 60.0})
    body = {"patches": [slow.model_dump(mode="json")], "declined": [], "incompatible": []}
    world.append("proposed", body)
    compiled = forecast_of(world.contract, world.history, num_accelerators=0)
    assert compiled.search_wall_s.high > plain.search_wall_s.high + 60
    assert any("compile" in each for each in compiled.assumptions)


def test_where_the_time_is_spent_no_further_launch_is_expected():
    world = World(contract(max_trials=7, max_wall_s=20.0))
    done = len(world.run().screenings)
    world.with_budget(max_trials=50, max_wall_s=20.0)
    forecast = forecast_of(world.contract, world.history, num_accelerators=0)
    assert forecast.num_trials.point == done, "the search begins none that may outlast the limit"
    assert forecast.search_wall_s.point == pytest.approx(spent_s(world.history))
    world.with_budget(max_trials=50, max_wall_s=spent_s(world.history))
    forecast = forecast_of(world.contract, world.history, num_accelerators=0)
    assert forecast.num_trials.high == done
    assert forecast.search_wall_s.point == pytest.approx(spent_s(world.history))


def test_before_the_reference_is_measured_nothing_is_expected():
    world = World(contract())
    assert forecast_of(world.contract, History.of(world.events[:1]), num_accelerators=0) is None
