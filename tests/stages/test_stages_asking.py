"""When a model is asked, and what a search does with its word: pure functions of the ledger."""

import math
from itertools import pairwise

import pytest
from search_world import World, contract, patch

from infrarsi.records.asked import Asked, DeclinedIdea, Setting
from infrarsi.records.candidate import Candidate, Effect
from infrarsi.records.plan import Language
from infrarsi.stages.history import History
from infrarsi.stages.reporting.credit import credits_of, idea_rows, language_calls
from infrarsi.stages.searching.asking import SETTING, TRIALS_BETWEEN_CALLS, Ask
from infrarsi.stages.searching.steps import Launch, next_step


def asked(outcome="ok", **fields):
    return Asked(provider="openai", model="stand-in", host="127.0.0.1", outcome=outcome,
                 wall_s=1.0, **fields)  # fmt: skip


class Asking(World):
    """A world in which a model may be asked; its replies are given by number."""

    def __init__(self, *replies, max_calls=4, proposers=("patchbook", "language", "sweep"),
                 **budget):  # fmt: skip
        plain = contract(**budget)
        plan = plain.plan.model_copy(update={
            "proposers": proposers, "language": Language(model="stand-in", max_calls=max_calls),
        })  # fmt: skip
        super().__init__(plain.model_copy(update={"plan": plan}))
        self.replies = list(replies)
        self.steps = []

    def perform(self, step):
        self.steps.append(step)
        if not isinstance(step, Ask):
            super().perform(step)
            return
        number = sum(isinstance(each, Ask) for each in self.steps) - 1
        reply = self.replies[min(number, len(self.replies) - 1)]
        taught = History.of(self.events).num_taught
        given = reply.model_copy(update={"after_trials": taught, "mending": step.mending})
        self.append("asked", given.model_dump(mode="json"))

    def next(self, **options):
        return next_step(self.contract, self.history, now=self.now, **options)

    def asks(self):
        return [each for each in self.steps if isinstance(each, Ask)]


def test_it_is_asked_first_of_all():
    assert Asking(asked()).next() == Ask()


def test_it_is_not_asked_where_nobody_wants_it_or_it_may_not_be():
    assert isinstance(Asking(asked(), proposers=("patchbook", "sweep")).next(), Launch)
    assert isinstance(Asking(asked()).next(may_ask=False), Launch)


def test_it_is_asked_again_only_when_trials_have_taught_something_and_so_often():
    world = Asking(asked(), max_calls=3, max_trials=30)
    world.run()
    assert 2 <= len(world.asks()) <= 3
    between = world.steps.index(Ask()) + 1
    second = next(i for i, each in enumerate(world.steps[between:]) if isinstance(each, Ask))
    launches = [
        each for each in world.steps[between : between + second] if isinstance(each, Launch)
    ]
    assert len(launches) >= TRIALS_BETWEEN_CALLS


def test_it_is_not_asked_once_the_winner_is_taken_apart():
    world = Asking(asked(), max_calls=50, max_trials=12)
    world.run()
    first = next(i for i, each in enumerate(world.steps)
                 if isinstance(each, Launch) and each.request.purpose == "ablation")  # fmt: skip
    assert not any(isinstance(each, Ask) for each in world.steps[first:])


def test_what_was_declined_is_sent_back_once():
    bad = asked(declined=(DeclinedIdea(name="a", because="stands twice"),))
    world = Asking(bad)
    for _ in range(2):
        world.perform(world.next())
    assert [each.mending for each in world.asks()] == [False, True]
    assert isinstance(world.next(), Launch)


@pytest.mark.parametrize("outcome", ["refused", "unreachable"])
def test_a_refusal_or_a_failure_has_nothing_to_mend(outcome):
    declined = (DeclinedIdea(name="a", because="no"),) if outcome == "refused" else ()
    world = Asking(asked(outcome, declined=declined))
    world.perform(world.next())
    after = world.next()
    assert after == Ask() if outcome == "unreachable" else isinstance(after, Launch)


def test_calls_that_fail_do_not_use_up_the_calls():
    world = Asking(asked("unreachable"), asked(), max_calls=1)
    for _ in range(2):
        world.perform(world.next())
    assert isinstance(world.next(), Launch)
    assert len(world.asks()) == 2


def test_a_search_whose_model_never_answers_ends_as_it_would_without():
    without = World(contract(max_trials=12)).run()
    silent = Asking(asked("unreachable"), max_trials=12)
    silent.perform(silent.next())
    while (step := silent.next(may_ask=False)) is not None:
        silent.perform(step)
    assert History.of(silent.events).choice.candidate == without.choice.candidate
    assert len(History.of(silent.events).screenings) == len(without.screenings)


def language_patch(name, time):
    made = patch(name, time=time)
    return made.model_copy(update={"proposer": "language", "log_time": Effect(mean=time, sd=0.4)})


def test_its_patches_join_the_search_and_its_conflicts_are_kept():
    good = language_patch("mine", -0.3)
    world = Asking(asked(patches=(good,), incompatible=(("mine", "sdpa"),)), max_trials=12)
    world.run()
    history = History.of(world.events)
    carried = [each.trial.candidate.patches for each in history.screenings]
    assert any("mine" in patches for patches in carried)
    assert not any({"mine", "sdpa"} <= set(patches) for patches in carried)


def settings(*knobs):
    return tuple(
        Setting(candidate=Candidate.of({"recompute": True, "log_every": 10, **each}), reason="why")
        for each in knobs
    )


def test_its_settings_are_tried_first_but_never_two_in_a_row():
    wanted = settings({"log_every": 50}, {"log_every": 50, "recompute": False})
    world = Asking(asked(settings=wanted), max_trials=9)
    world.run()
    screenings = world.history.screenings
    mine = [each.reason.startswith(SETTING) for each in screenings]
    assert mine[0]
    assert not any(one and two for one, two in pairwise(mine))
    tried = [each.trial.candidate for each in screenings]
    assert {each.candidate.digest() for each in wanted} <= {each.digest() for each in tried}


def test_without_the_sweep_only_the_values_that_it_asked_for_are_tried():
    world = Asking(asked(settings=settings({"log_every": 50})), max_trials=9,
                   proposers=("language",))  # fmt: skip
    world.append("proposed", {"patches": [], "declined": [], "incompatible": []})
    world.run()
    values = [each.trial.candidate.knobs for each in History.of(world.events).screenings]
    assert values
    assert all(each["recompute"] is True for each in values)
    assert any(each["log_every"] == 50 for each in values)


def test_a_new_lock_forgets_what_was_asked():
    world = Asking(asked(patches=(language_patch("mine", -0.1),)))
    world.perform(world.next())
    world.append("locked", world.events[0].body)
    history = History.of(world.events)
    assert (history.asked, history.patches) == ([], {})


@pytest.fixture(scope="module")
def credited():
    """A search with a model that proposes one thing that helps, and others that do not."""
    reply = asked(
        patches=(language_patch("mine", -0.5), language_patch("idler", -0.6)),
        declined=(DeclinedIdea(name="broken", because="stands twice"),),
        settings=settings({"recompute": False}), input_tokens=10, output_tokens=5,
    )  # fmt: skip
    world = Asking(reply, asked(), max_trials=20, max_calls=2)
    world.run()
    return World.run(world)


def test_each_proposer_is_credited_for_what_it_brought(credited):
    defaults = {"recompute": True, "log_every": 10}
    rows = idea_rows(credited, defaults)
    given = {each.proposer: each for each in credits_of(credited, rows)}
    assert list(given) == ["patchbook", "language", "sweep"]
    assert given["patchbook"].proposed == 4
    assert {"+sdpa", "+fused"} <= set(given["patchbook"].parts)
    assert given["language"].proposed == 4
    assert given["language"].declined == 1
    assert given["sweep"].proposed is None
    assert given["sweep"].num_scored == 0
    parts = [part for each in given.values() for part in each.parts]
    assert len(parts) == len(set(parts))  # no part is credited twice
    winner = credited.choice.candidate
    wanted = {f"+{name}" for name in winner.patches}
    wanted |= {f"{k}={v}" for k, v in winner.knobs.items() if v != defaults[k]}
    assert set(parts) == wanted


def test_an_idea_tells_what_it_promised_and_what_was_measured(credited):
    rows = {each.name: each for each in idea_rows(credited, {"recompute": True, "log_every": 10})}
    assert rows["+sdpa"].predicted == pytest.approx(math.exp(-0.1))
    assert rows["+fused"].fate == "kept"
    assert rows["+fused"].measured == pytest.approx(math.exp(-0.15), rel=1e-6)
    assert rows["broken"].fate == "declined"
    assert rows["broken"].because == "stands twice"
    assert rows["+cast"].fate == "tried"
    assert "bfloat16" in rows["+cast"].because


def test_every_call_is_listed(credited):
    calls = language_calls(credited)
    assert [each.index for each in calls] == list(range(1, len(calls) + 1))
    assert (calls[0].num_ideas, calls[0].num_declined, calls[0].input_tokens) == (3, 1, 10)


def test_predictions_are_scored_where_three_were_measured():
    world = Asking(asked(), max_trials=1)
    names = {"sdpa": 0.3, "fused": 0.15, "idle": 0.0}
    for name in names:
        candidate = Candidate.of({"recompute": True, "log_every": 10}, [name])
        world.launch(candidate, "screen", remarks={"reason": "alone"})
        world.perform(world.next(may_ask=False))
    history = History.of(world.events)
    credit = credits_of(history, idea_rows(history, {"recompute": True, "log_every": 10}))[0]
    assert credit.num_scored == 3
    # promised -.1, -.1, -.02; measured -.3, -.15, 0
    assert credit.mean_log_error == pytest.approx((0.2 + 0.05 + 0.02) / 3, rel=1e-6)
    assert credit.rank_correlation == pytest.approx(1.5 / math.sqrt(1.5 * 2))
    assert credit.note == ""
