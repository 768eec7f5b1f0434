"""A repository whose ledger holds a whole search: a real small training in numpy, judged.

The evidence is what a witness would have sent of it, line by line, so that everything is read and
judged the way it is for a user; only the launches themselves take no time.
"""

import base64
import json
import shutil
import struct
import subprocess
import sys
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "judge"))

import synthetic_training as training
from synthetic_training import STOP, WINDOW, Clock, Recipe

from infrarsi.execute.repository import Repository
from infrarsi.judge.decide import judge_confirmation
from infrarsi.judge.facts import SourceFacts
from infrarsi.judge.speedup import alpha_for_attempt
from infrarsi.records.candidate import Candidate, Edit, Patch
from infrarsi.records.machine import Machine
from infrarsi.records.plan import Contract, Lock
from infrarsi.records.promotion import Promotion
from infrarsi.records.replayed import ReplaySlot
from infrarsi.records.task import Flag, Knob, Memory, Surface, Task
from infrarsi.records.trial import Outcome, Trial
from infrarsi.stages.calibrating.calibration import calibrate
from infrarsi.stages.history import History
from infrarsi.stages.judging import (
    confirmation_of,
    launch_of,
    measured_update_s,
    screen,
)
from infrarsi.stages.workspace import Workspace
from infrarsi.store.contract import write_contract
from infrarsi.store.ledger import open_ledger, read_ledger

SOURCE = "def attend(q, k):\n    return q @ k\n"
PATCHES = [
    Patch(
        name="fast", proposer="patchbook", summary="attends faster",
        edits=(Edit(path="model.py", search="return q @ k", replace="return (q @ k)"),),
    ),
    Patch(
        name="skip", proposer="language", summary="skips a layer",
        edits=(Edit(path="model.py", search="return q @ k", replace="return q"),),
    ),
]  # fmt: skip
NULLS = {"weights disturbed by 1 ulp": Recipe(ulps=1), "weights disturbed by 4 ulp": Recipe(ulps=4),
         "1 thread(s)": Recipe(micro_batches=2)}  # fmt: skip
FAST = Clock(update_s=0.08)
KEPT = {"kind": "kept", "update": 17, "bytes": 9, "why": None}
REPLAYED = {"kind": "replayed", "update": 17, "why": None, "left": [],
            "tensors": [["head", 0.0, 0.1, 0.1, 2.0]]}  # fmt: skip


_trained = lru_cache(maxsize=None)(training.evidence_of)


def task_of():
    knob = Knob(name="log_every", reach=Flag(flag="--log-every"), values=(10, 50), default=10)
    return Task(
        command=("python", "train.py"), window=WINDOW, memory=Memory(capacity_bytes=1 << 30),
        surface=Surface(editable=("model.py",), knobs=(knob,)),
    )  # fmt: skip


def channel_of(evidence, told=()):
    """The stamped events that this evidence would have been read from; ``told`` come last."""
    hello = {"kind": "hello", "python": "3.11.7", "torch": "2.13.0", "argv": ["train.py"],
             "world_size": 1, "num_threads": 4}  # fmt: skip
    said = [(0, hello)]
    for mark in evidence.marks:
        flat = [value for part in mark.sketch for value in part]
        said.append((mark.t_ns, {
            "kind": "mark", "update": mark.update, "shapes": mark.shapes, "census": mark.census,
            "sketch": base64.b64encode(struct.pack(f"<{len(flat)}f", *flat)).decode(),
            "counts": [len(part) for part in mark.sketch], "flags": mark.flags,
            "num_threads": mark.num_threads, "num_children": mark.num_children,
        }))  # fmt: skip
    for row in evidence.updates:
        said.append((row.t_ns, {"kind": "update", "update": row.update}))
        values = {name: getattr(row, name) for name in (
            "update", "loss", "grad_norm", "update_norm", "batch", "sequences", "tokens",
            "target_tokens", "forwards",
        )}  # fmt: skip
        said.append((row.t_ns + 1, {"kind": "values", **values}))
    said += [(evidence.updates[-1].t_ns + 2, event) for event in told]
    lines = [
        json.dumps({"t_ns": t_ns, "event": {"rank": 0, **event}})
        for t_ns, event in sorted(said, key=lambda each: each[0])
    ]
    return "\n".join(lines).encode()


class Search:
    """Writes a search into a ledger as the stages do, launch by launch."""

    def __init__(self, root, *, contract=None):
        self.root, self.state = root, root / ".infrarsi"
        self.contract = contract or Contract(name="world", task=task_of())
        if not (root / ".git").exists():
            self._commit()
        self.commit = _git(root, "rev-parse", "HEAD")
        with self._writing() as workspace:
            workspace.artifacts.put(self.contract.task.to_bytes())
            lock = self._lock()
            workspace.ledger.append("locked", lock.model_dump(mode="json"))

    def _commit(self):
        self.root.mkdir(exist_ok=True)
        (self.root / "model.py").write_text(SOURCE)
        (self.root / "train.py").write_text("import model\n")
        write_contract(self.root / "infrarsi.yaml", self.contract)
        _git(self.root, "init", "-q")
        _git(self.root, "add", "-A")
        _git(self.root, "-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "x")

    def _lock(self):
        digest = self.contract.task.digest()
        return Lock(name="world", task_digest=digest, commit=self.commit, protected={}, inputs={})

    @contextmanager
    def _writing(self):
        with open_ledger(self.state, command="test") as ledger:
            yield Workspace(Repository(self.root), self.contract, self._lock(), ledger)

    def candidate(self, *patches, **knobs):
        return Candidate.of({**self.contract.task.surface.default_knobs(), **knobs}, patches)

    def measure(self, *, bands=None):
        """Do what doctor does; with ``bands``, record others than the launches give."""
        reference = self.candidate()
        equal = [
            self.launch(reference, "baseline", arm="A", clock=Clock(seed=seed)) for seed in range(4)
        ]
        nulls = [
            self.launch(reference, "null", arm=arm, recipe=recipe) for arm, recipe in NULLS.items()
        ]
        with self._writing() as workspace:
            seen = {t.trial_id: launch_of(workspace, t).evidence for t in (*equal, *nulls)}
            found = calibrate(
                self.contract.task, [seen[t.trial_id] for t in equal],
                [(t.arm, seen[t.trial_id]) for t in nulls],
            )  # fmt: skip
            baseline = training.baseline_of(
                bands or found.bands, trials=tuple(t.trial_id for t in equal),
                null_trials=tuple(t.trial_id for t in nulls), update_s=found.update_s,
                noise_sd=found.noise_sd, bias=found.bias, reference_trial=equal[0].trial_id,
                task_digest=self.contract.task.digest(),
            )  # fmt: skip
            machine = Machine(cpu="x", num_cpus=2, memory_bytes=2**34, kernel="6.8", python="3.11",
                              torch="2.13.0", sandbox="bubblewrap")  # fmt: skip
            workspace.ledger.append("baseline", {
                "baseline": baseline.model_dump(mode="json"),
                "machine": machine.model_dump(mode="json"),
            })  # fmt: skip
            workspace.ledger.append("proposed", {
                "patches": [patch.model_dump(mode="json") for patch in PATCHES], "declined": [],
                "incompatible": [],
            })  # fmt: skip
        return self

    def launch(self, candidate, purpose, *, arm="", recipe=None, clock=None, remarks=None, told=()):
        """Record a launch that trained by this recipe, at this pace."""
        recipe, clock = recipe or Recipe(), clock or Clock()
        with self._writing() as workspace:
            number = len(workspace.ledger.of_kind("trial_started")) + 1
            started = Trial(
                trial_id=f"t{number:04d}", candidate=candidate, purpose=purpose, arm=arm,
                outcome=Outcome.PREEMPTED, stop_update=STOP, wall_s=0.0, sandbox="bubblewrap",
            )  # fmt: skip
            body = {**started.model_dump(mode="json"), "remarks": remarks or {}}
            workspace.ledger.append("trial_started", body)
            evidence = _trained(recipe, clock)
            wall_s = evidence.updates[-1].t_ns * 1e-9 + 0.5
            source = training.source_of(protected_before={"train.py": "aa"},
                                        protected_after={"train.py": "aa"})  # fmt: skip
            ended = started.model_copy(update={
                "outcome": Outcome.OK, "wall_s": wall_s, "cpu_s": wall_s, "peak_bytes": 500_000_000,
                "argv": ("python", "train.py"),
                "evidence_digest": workspace.artifacts.put(channel_of(evidence, told)),
                "source_digest": workspace.artifacts.put(SourceFacts.to_bytes(source)),
                "log_digest": workspace.artifacts.put(f"log of {number}".encode()),
            })  # fmt: skip
            workspace.ledger.append("trial_ended", ended.model_dump(mode="json"))
        return ended

    def screen(self, *patches, recipe=None, change=None, reason="a probe"):
        """Screen a candidate; ``change`` makes of its verdict what other rules had made of it."""
        candidate = self.candidate(*patches)
        trial = self.launch(
            candidate, "screen", recipe=recipe or Recipe(permute=True), clock=FAST,
            remarks={"reason": reason, "prediction": None},
        )  # fmt: skip
        with self._writing() as workspace:
            verdict = screen(workspace, History.of(workspace.ledger.events), trial)
            workspace.ledger.append("screened", {
                "trial_id": trial.trial_id,
                "verdict": _changed(verdict, change).model_dump(mode="json"),
                "update_s": measured_update_s(workspace, trial),
            })  # fmt: skip
        return trial

    def blocks(self, candidate, remarks, *, recipe=None, seed=0):
        """Launch two blocks of a candidate and the reference, and replay an update of each."""
        reference, rows = self.candidate(), []
        for number, order in enumerate(("ABBA", "BAAB")):
            clocks = {"A": Clock(), "B": FAST}
            trials = []
            for place, letter in enumerate(order):
                clock = Clock(update_s=clocks[letter].update_s, seed=seed + 10 * number + place)
                arm = "reference" if letter == "A" else "winner"
                trials.append(self.launch(
                    reference if letter == "A" else candidate, "confirm", arm=arm, clock=clock,
                    recipe=None if letter == "A" else recipe or Recipe(permute=True),
                    remarks=remarks, told=[KEPT] if number == 0 and place < 2 else (),
                ))  # fmt: skip
            rows.append((order, trials))
        self.replay(reference, rows[0][1], remarks)
        return rows

    def confirm(self, *patches, recipe=None, change=None):
        """Confirm a candidate in two blocks."""
        candidate = self.candidate(*patches)
        attempt = 1 + len(read_ledger(self.state).of_kind("confirmed"))
        rows = self.blocks(candidate, {"attempt": attempt}, recipe=recipe)
        with self._writing() as workspace:
            history = History.of(workspace.ledger.events)
            case = confirmation_of(workspace, history, candidate, rows, planned=2, attempt=attempt)
            verdict = _changed(judge_confirmation(case), change)
            workspace.ledger.append("confirmed", {
                "verdict": verdict.model_dump(mode="json"), "attempt": attempt, "planned_blocks": 2,
                "blocks": [{
                    "order": order, "trials": [trial.trial_id for trial in trials],
                    "update_s": [measured_update_s(workspace, trial) for trial in trials],
                } for order, trials in rows],
                "alpha": alpha_for_attempt(attempt), "threshold": 1.03,
                "candidate": candidate.model_dump(mode="json"),
            })  # fmt: skip
        return candidate, verdict

    def replay(self, reference, kept_by, remarks):
        """Replay an update of each arm, as the reference's code that repeats it would."""
        slot = ReplaySlot(update=KEPT["update"], reference=kept_by[0].trial_id,
                          winner=kept_by[1].trial_id, ulps=1.0, scores=2)  # fmt: skip
        remarks = {**remarks, "slots": [slot.model_dump(mode="json")]}
        for arm in ("winner", "reference"):
            self.launch(reference, "replay", arm=arm, remarks=remarks, told=[REPLAYED])

    def promote(self, *patches, **options):
        """Confirm a candidate, and record that it was put on a branch."""
        candidate, verdict = self.confirm(*patches, **options)
        promotion = Promotion(
            candidate=candidate, branch="infrarsi/world", commit=self.commit,
            base_commit=self.commit, verdict_digest=verdict.digest(), evidence_digest="0" * 64,
        )  # fmt: skip
        with self._writing() as workspace:
            workspace.ledger.append("promoted", promotion.model_dump(mode="json"))
        return verdict

    def read(self):
        """Give the workspace as a stage that only looks has it."""
        ledger = read_ledger(self.state)
        lock = Lock.model_validate(ledger.of_kind("locked")[-1].body)
        return Workspace(Repository(self.root), self.contract, lock, ledger)

    def place_of(self, digest):
        """Give the file that an artifact lies in."""
        return self.state / "artifacts" / digest[:2] / f"{digest[2:]}.gz"


def _changed(verdict, change):
    return change(verdict) if change else verdict


def _git(root, *arguments):
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def copied(search, place):
    """Give a copy of a search, to go on with by itself."""
    shutil.copytree(search.root, place)
    other = object.__new__(Search)
    other.__dict__ = {**search.__dict__, "root": place, "state": place / ".infrarsi"}
    return other
