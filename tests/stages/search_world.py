"""A truth table that stands in for machines, hands and judges: searches of it take no time."""

import math
from datetime import UTC, datetime, timedelta

from infrarsi.records.baseline import Baseline
from infrarsi.records.candidate import Candidate, Edit, Effect, Patch
from infrarsi.records.estimate import Estimate
from infrarsi.records.event import Event
from infrarsi.records.machine import Accelerator, Machine
from infrarsi.records.plan import Budget, Contract, Lock, Plan, Prices
from infrarsi.records.task import Flag, Knob, Memory, Surface, Task
from infrarsi.records.trial import Outcome, Trial
from infrarsi.records.verdict import Finding, Ruling, Verdict
from infrarsi.stages.history import History
from infrarsi.stages.searching.steps import Choose, Judge, Launch, next_step

CAPACITY = 1_000_000_000
BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)


def patch(name, time=-0.1, memory=0.0):
    return Patch(
        name=name, proposer="patchbook", summary=name,
        edits=(Edit(path="model.py", search=name, replace=name.upper()),),
        log_time=Effect(mean=time, sd=0.2), log_memory=Effect(mean=memory, sd=0.2),
    )  # fmt: skip


PATCHES = [
    patch("sdpa", memory=-0.3), patch("fused"), patch("idle", time=-0.02), patch("cast", time=-0.4),
]  # fmt: skip


def contract(*, prices=None, strategy="infrarsi", **budget):
    knobs = (
        Knob(name="recompute", reach=Flag(flag="--recompute", style="negatable"),
             values=(False, True), default=True, raises_memory="down"),
        Knob(name="log_every", reach=Flag(flag="--log-every"), values=(10, 50), default=10),
    )  # fmt: skip
    task = Task(
        command=("python", "train.py"), surface=Surface(editable=("model.py",), knobs=knobs),
        memory=Memory(capacity_bytes=CAPACITY),
    )  # fmt: skip
    plan = Plan(budget=Budget(**budget), prices=Prices(**(prices or {})), strategy=strategy)
    return Contract(name="world", task=task, plan=plan)


def machine(**changed):
    facts = {
        "cpu": "x", "num_cpus": 2, "memory_bytes": 2**34, "kernel": "6.8.0-45-generic",
        "python": "3.11.9", "torch": "2.12.0", "sandbox": "bubblewrap",
    }  # fmt: skip
    return Machine.model_validate({**facts, **changed})


def gpus(number):
    return (Accelerator(name="H100", memory_bytes=80 * 2**30, capability="9.0"),) * number


def baseline(trial="t0001", machine_digest="0" * 64):
    near = Estimate(low=0.099, point=0.1, high=0.101)
    return Baseline(
        task_digest="0" * 64, machine_digest=machine_digest, trials=(trial,), null_trials=(),
        update_s=near, cold_start_s=3.0, launch_s=5.0, peak_bytes=600_000_000, phase_share={},
        noise_sd=0.01, bias=0.0, least_detectable=0.02, bands=(), nondeterministic=False,
        reference_trial=trial, wall_s=50.0,
    )  # fmt: skip


def true_update_s(candidate):
    gains = {"sdpa": 0.3, "fused": 0.15, "idle": 0.0, "cast": 0.5, "mine": 0.2}
    gain = sum(gains.get(name, 0.0) for name in candidate.patches)
    return 0.1 * math.exp(-gain - (0 if candidate.knobs["recompute"] else 0.25))


def fits(candidate):
    """Turning recomputation off alone exhausts memory; with sdpa it fits."""
    return candidate.knobs["recompute"] or "sdpa" in candidate.patches


class World:
    """Performs steps as the hands would, on a truth table, by a clock of its own."""

    def __init__(self, contract, *, patches=PATCHES, machine_=None, judge_s=0.0, choose_s=0.0):
        self.contract = contract
        self.events = []
        self._folded = History()
        self.clock_s = 0.0
        self.launch_s = lambda: 5.0
        self.judge_s, self.choose_s = judge_s, choose_s
        lock = Lock(name="world", task_digest="0" * 64, commit="0" * 40, protected={}, inputs={})
        self.append("locked", lock.model_dump(mode="json"))
        self.measure(machine_ or machine())
        self.append("proposed", {
            "patches": [p.model_dump(mode="json") for p in patches], "declined": [],
            "incompatible": [],
        })  # fmt: skip

    @property
    def history(self):
        return History.of(self.events)

    @property
    def now(self):
        return BEGINNING + timedelta(seconds=self.clock_s)

    def append(self, kind, body):
        previous = self.events[-1].digest() if self.events else "0" * 64
        at = self.now.isoformat(timespec="milliseconds")
        self.events.append(
            Event(seq=len(self.events), at=at, kind=kind, body=body, previous=previous)
        )

    def begin(self, command="run", num_accelerators=0):
        self.append("began", {"command": command, "num_accelerators": num_accelerators})

    def measure(self, machine_):
        """Calibrate on a machine."""
        self.begin("doctor", len(machine_.accelerators))
        name = self.launch(Candidate.of(self.contract.task.surface.default_knobs()), "baseline")
        self.append("baseline", {
            "baseline": baseline(name, machine_.digest()).model_dump(mode="json"),
            "machine": machine_.model_dump(mode="json"),
        })  # fmt: skip

    def start(self, candidate, purpose, arm="", replicate=0, remarks=None):
        name = f"t{len(self.events):04d}"
        started = Trial(
            trial_id=name, candidate=candidate, purpose=purpose, arm=arm, replicate=replicate,
            outcome=Outcome.PREEMPTED, wall_s=0.0,
        )  # fmt: skip
        self.append("trial_started", {**started.model_dump(mode="json"), "remarks": remarks or {}})
        return started

    def launch(self, candidate, purpose, arm="", replicate=0, remarks=None):
        started = self.start(candidate, purpose, arm, replicate, remarks)
        wall_s = self.launch_s()
        self.clock_s += wall_s
        outcome = Outcome.OK if fits(candidate) else Outcome.OOM
        peak = 500_000_000 if outcome is Outcome.OK else None
        ended = started.model_copy(
            update={"outcome": outcome, "wall_s": wall_s, "peak_bytes": peak}
        )
        self.append("trial_ended", ended.model_dump(mode="json"))
        return started.trial_id

    def kill_during(self, step, *, lived_s, pause_s):
        """Launch, kill the command while it runs, and clear up at the next command."""
        r = step.request
        started = self.start(r.candidate, r.purpose, r.arm, r.replicate, r.remarks)
        self.clock_s += lived_s + pause_s
        ended = started.model_copy(update={"wall_s": lived_s, "reason": "killed"})
        self.append("trial_ended", ended.model_dump(mode="json"))

    def next(self):
        """Give the next step, by a history that is folded event by event."""
        for event in self.events[len(self._folded.events) :]:
            self._folded.fold(event)
        return next_step(self.contract, self._folded, now=self.now)

    def perform(self, step):
        self.clock_s += self.choose_s
        match step:
            case Launch(request=r):
                self.launch(r.candidate, r.purpose, r.arm, r.replicate, r.remarks)
            case Judge(trial=trial) if trial.purpose == "ablation":
                self.clock_s += self.judge_s
                update_s = true_update_s(trial.candidate)
                self.append("measured", {"trial_id": trial.trial_id, "update_s": update_s})
            case Judge(trial=trial):
                self.clock_s += self.judge_s
                self.judge(trial)
            case Choose():
                self.append("chosen", {
                    "candidate": step.candidate.model_dump(mode="json"),
                    "parts": [part.model_dump(mode="json") for part in step.parts],
                    "reason": step.reason,
                    "winner": step.winner.model_dump(mode="json"),
                    "budget": step.budget.model_dump(mode="json"),
                })  # fmt: skip

    def judge(self, trial):
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

    def run(self, most=400):
        """Search as the command does: nothing is recorded where there is nothing to do."""
        if next_step(self.contract, self.history) is None:
            return self.history
        self.begin()
        for _ in range(most):
            step = self.next()
            if step is None:
                return self.history
            self.perform(step)
        raise AssertionError("the search does not end")

    def with_budget(self, **budget):
        """Change limits, as another command line would."""
        limits = {**self.contract.plan.budget.model_dump(), **budget}
        plan = self.contract.plan.model_copy(update={"budget": Budget.model_validate(limits)})
        self.contract = self.contract.model_copy(update={"plan": plan})
        return self
