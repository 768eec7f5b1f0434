"""Two machines in one ledger: what was measured on one never counts on the other."""

from types import SimpleNamespace

import pytest
from search_world import World, contract, machine

from infrarsi.errors import UsageError
from infrarsi.stages.doctor import require_baseline
from infrarsi.stages.history import History
from infrarsi.stages.reporting.cost import cost_of
from infrarsi.stages.searching.steps import Launch
from infrarsi.stages.spending import bill, spent_s

OLD, NEW = machine(), machine(torch="2.13.0")


@pytest.fixture
def moved():
    """A search that put something forward on one machine, and was measured anew on another."""
    world = World(contract(max_trials=8, strategy="random"), machine_=OLD)
    world.run()
    world.measure(NEW)
    return world


def test_nothing_measured_on_the_machine_before_counts_on_the_new_one(moved):
    history = moved.history
    assert history.machine == NEW
    assert history.screenings == []
    assert history.accepted() == []
    assert history.choice is None
    assert history.trials_for("ablation") == []
    (reference,) = history.observations()
    assert reference.candidate.patches == ()


def test_what_was_put_forward_before_is_tried_first_and_judged_anew(moved):
    before = moved.history.elsewhere[-1].choice.candidate
    step = moved.next()
    assert isinstance(step, Launch)
    assert step.request.candidate == before
    assert "machine before" in step.request.remarks["reason"]
    history = moved.run()
    assert history.choice is not None
    names = {each.trial.trial_id for each in history.screenings}
    assert names.isdisjoint(history.elsewhere[-1].launched)


def test_trials_of_the_machine_before_stay_in_the_cost(moved):
    agreed = contract(prices={"usd_per_machine_hour": 3600.0})
    history = moved.history
    launches_s = sum(trial.wall_s for trial in history.trials.values())
    assert cost_of(agreed.plan, history, None, arms=(None, None)).wall_s >= launches_s > 50
    assert bill(agreed.plan, history).usd >= launches_s - 1e-6


def test_the_search_on_the_new_machine_has_its_whole_budget():
    agreed = contract(
        max_trials=3, max_wall_s=40, max_usd=40.0, prices={"usd_per_machine_hour": 3600.0}
    )
    world = World(agreed, machine_=OLD)
    world.run()
    assert spent_s(world.history) > 14
    world.measure(NEW)
    assert spent_s(world.history) == 0
    assert bill(agreed.plan, world.history, command="run").usd == 0
    assert len(world.run().screenings) > 2


def test_back_on_the_machine_before_its_search_goes_on(moved):
    moved.measure(OLD)
    history = moved.history
    assert history.choice is not None
    assert len(history.screenings) > 3
    assert [search.machine for search in history.elsewhere] == [NEW]


def test_a_launch_that_ended_unjudged_is_not_judged_on_another_machine():
    world = World(contract(max_trials=10), machine_=OLD)
    world.begin()
    world.perform(world.next())
    assert world.history.unjudged() is not None
    world.measure(NEW)
    assert world.history.unjudged() is None


def test_a_kernel_with_another_patch_level_is_the_same_machine():
    world = World(contract(max_trials=4), machine_=OLD)
    screened = len(world.run().screenings)
    world.measure(machine(kernel="6.8.0-51-generic"))
    assert len(world.history.screenings) == screened


def test_another_machine_is_refused_in_words_that_name_what_changed():
    history = History.of(World(contract(), machine_=OLD).events)
    same = SimpleNamespace(machine=OLD)
    assert require_baseline(same, history) is history.baseline
    now = machine(torch="2.13.0", sandbox="process group (uncontained)")
    with pytest.raises(UsageError) as refused:
        require_baseline(SimpleNamespace(machine=now), history)
    assert "torch 2.12.0 -> 2.13.0" in str(refused.value)
    assert "containment bubblewrap -> process group (uncontained)" in str(refused.value)
    assert "infrarsi doctor" in refused.value.hint
