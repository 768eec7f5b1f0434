"""A search is a pure function of its ledger: what comes next, and what is put forward."""

import math

import pytest

from infrarsi.records.base import canonical_json
from infrarsi.records.baseline import Baseline
from infrarsi.records.candidate import Candidate, Edit, Effect, Patch
from infrarsi.records.estimate import Estimate
from infrarsi.records.event import Event
from infrarsi.records.machine import Machine
from infrarsi.records.plan import Budget, Contract, Lock, Plan
from infrarsi.records.task import Flag, Knob, Memory, Surface, Task
from infrarsi.records.trial import Outcome, Trial
from infrarsi.records.verdict import Finding, Ruling, Verdict
from infrarsi.stages.history import History
from infrarsi.stages.steps import Choose, Judge, Launch, next_step

CAPACITY = 1_000_000_000


def patch(name, time=-0.1, memory=0.0):
    return Patch(
        name=name, proposer="patchbook", summary=name,
        edits=(Edit(path="model.py", search=name, replace=name.upper()),),
        log_time=Effect(mean=time, sd=0.2), log_memory=Effect(mean=memory, sd=0.2),
    )  # fmt: skip


PATCHES = [
    patch("sdpa", memory=-0.3), patch("fused"), patch("idle", time=-0.02), patch("cast", time=-0.4),
]  # fmt: skip


def contract(**budget):
    knobs = (
        Knob(name="recompute", reach=Flag(flag="--recompute", style="negatable"),
             values=(False, True), default=True, raises_memory="down"),
        Knob(name="log_every", reach=Flag(flag="--log-every"), values=(10, 50), default=10),
    )  # fmt: skip
    task = Task(
        command=("python", "train.py"), surface=Surface(editable=("model.py",), knobs=knobs),
        memory=Memory(capacity_bytes=CAPACITY),
    )  # fmt: skip
    return Contract(name="world", task=task, plan=Plan(budget=Budget(**budget)))


def true_update_s(candidate):
    gains = {"sdpa": 0.3, "fused": 0.15, "idle": 0.0, "cast": 0.5}
    gain = sum(gains[name] for name in candidate.patches)
    return 0.1 * math.exp(-gain - (0 if candidate.knobs["recompute"] else 0.25))


def fits(candidate):
    """Turning recomputation off alone exhausts memory; with sdpa it fits."""
    return candidate.knobs["recompute"] or "sdpa" in candidate.patches


class World:
    """Performs steps as the hands would, on a truth table instead of a machine."""

    def __init__(self, contract):
        self.contract = contract
        self.events = []
        reference = Candidate.of(contract.task.surface.default_knobs())
        lock = Lock(name="world", task_digest="0" * 64, commit="0" * 40, protected={}, inputs={})
        self.append("locked", lock.model_dump(mode="json"))
        self.launch(reference, "baseline")
        machine = Machine(
            cpu="x", num_cpus=2, memory_bytes=1, kernel="6", python="3", torch="2", sandbox=""
        )
        self.append("baseline", {
            "baseline": baseline().model_dump(mode="json"),
            "machine": machine.model_dump(mode="json"),
        })  # fmt: skip
        self.append("proposed", {
            "patches": [p.model_dump(mode="json") for p in PATCHES], "declined": [],
            "incompatible": [],
        })  # fmt: skip

    def append(self, kind, body):
        previous = self.events[-1].digest() if self.events else "0" * 64
        self.events.append(
            Event(seq=len(self.events), at="2026-01-01T00:00:00", kind=kind, body=body,
                  previous=previous)
        )  # fmt: skip

    def launch(self, candidate, purpose, arm="", replicate=0, remarks=None):
        name = f"t{len(self.events):04d}"
        started = Trial(
            trial_id=name, candidate=candidate, purpose=purpose, arm=arm, replicate=replicate,
            outcome=Outcome.PREEMPTED, wall_s=0.0,
        )  # fmt: skip
        body = started.model_dump(mode="json")
        self.append("trial_started", {**body, "remarks": remarks or {}})
        outcome = Outcome.OK if fits(candidate) else Outcome.OOM
        peak = 500_000_000 if outcome is Outcome.OK else None
        ended = started.model_copy(update={"outcome": outcome, "wall_s": 5.0, "peak_bytes": peak})
        self.append("trial_ended", ended.model_dump(mode="json"))

    def perform(self, step):
        match step:
            case Launch(request=r):
                self.launch(r.candidate, r.purpose, r.arm, r.replicate, r.remarks)
            case Judge(trial=trial) if trial.purpose == "ablation":
                update_s = true_update_s(trial.candidate)
                self.append("measured", {"trial_id": trial.trial_id, "update_s": update_s})
            case Judge(trial=trial):
                ok = trial.outcome is Outcome.OK
                refused = "cast" in trial.candidate.patches
                finding = Finding(
                    layer="precision", check="matmul", reason="bfloat16",
                    ruling=Ruling.FAIL if refused else Ruling.PASS,
                )  # fmt: skip
                verdict = Verdict(
                    subject="x", kind="screen", ruling=finding.ruling, findings=(finding,), rules=1
                )
                self.append("screened", {
                    "trial_id": trial.trial_id,
                    "verdict": verdict.model_dump(mode="json") if ok else None,
                    "update_s": true_update_s(trial.candidate) if ok else None,
                })  # fmt: skip
            case Choose(candidate=candidate, parts=parts, reason=reason):
                self.append("chosen", {
                    "candidate": candidate.model_dump(mode="json"),
                    "parts": [part.model_dump(mode="json") for part in parts], "reason": reason,
                })  # fmt: skip

    def run(self, most=400):
        for _ in range(most):
            step = next_step(self.contract, History.of(self.events))
            if step is None:
                return History.of(self.events)
            self.perform(step)
        raise AssertionError("the search does not end")


def baseline():
    near = Estimate(low=0.099, point=0.1, high=0.101)
    return Baseline(
        task_digest="0" * 64, machine_digest="0" * 64, trials=("t0001",), null_trials=(),
        update_s=near, cold_start_s=3.0, launch_s=5.0, peak_bytes=600_000_000, phase_share={},
        noise_sd=0.01, bias=0.0, least_detectable=0.02, bands=(), nondeterministic=False,
        reference_trial="t0001", wall_s=50.0,
    )  # fmt: skip


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
    screens = [each for each in history.screenings if "without the parts" not in each.reason]
    assert len(screens) <= 4
    assert history.choice is not None


def test_the_budget_of_wall_time_is_kept_within_the_launch_in_flight():
    world = World(contract(max_wall_s=42.0))
    history = world.run()
    spent = sum(t.wall_s for t in history.trials.values() if t.purpose in {"screen", "ablation"})
    assert spent <= 42.0 + 2 * 5.0


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
