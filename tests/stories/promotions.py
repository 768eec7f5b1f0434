"""A signed promotion, and ways to tamper with the branch it is on.

Its launches are written down, not made: what the stamps say then depends on no machine. All else is
real: the judge, the branch, git, ssh-keygen. What is launched anew by a rerun is launched.
"""

import base64
import json
import random
import shutil
import struct
import subprocess
from contextlib import nullcontext, suppress
from pathlib import Path

import yaml
from speaking_user import SPEAKING, git, patch_of

from infrarsi.edits.apply import apply_edits
from infrarsi.errors import InconclusiveError
from infrarsi.execute.git_trees import entries_of, tree_of
from infrarsi.execute.repository import Repository
from infrarsi.execute.signature import sign
from infrarsi.judge.facts import SourceFacts
from infrarsi.records.candidate import Candidate
from infrarsi.records.machine import Machine
from infrarsi.records.plan import Contract, Gate, Lock, Plan
from infrarsi.records.replayed import ReplaySlot
from infrarsi.records.statement import (
    EVIDENCE,
    PROMOTION_NAMESPACE,
    REVIEW,
    REVIEW_NAMESPACE,
    SIGNATURE,
    STATEMENT,
    Statement,
)
from infrarsi.records.task import Flag, Knob, Memory, Surface, Task, Window
from infrarsi.records.trial import Outcome, Trial
from infrarsi.records.verdict import Ruling
from infrarsi.stages.apply import ARMS, evidence_of_all, judge_blocks, schedule_of
from infrarsi.stages.confirming.branch import make_branch
from infrarsi.stages.confirming.bundle import Place, promoted_files, statement_of
from infrarsi.stages.confirming.sessions import conclude, sitting_for
from infrarsi.stages.doctor import baseline_of
from infrarsi.stages.gate import gate
from infrarsi.stages.history import History
from infrarsi.stages.workspace import Workspace
from infrarsi.store.artifacts import Artifacts
from infrarsi.store.bundle import pack_evidence, unpack_evidence
from infrarsi.store.contract import write_contract
from infrarsi.store.ledger import open_ledger, read_ledger

SIGNERS = ".infrarsi-allowed-signers"
REFERENCE_S, WINNER_S = 0.024, 0.010
KEPT_UPDATE = 16
FASTER = patch_of(
    "faster", path="train.py", search="time.sleep(0.024)", replace="time.sleep(0.010)"
)
WORKERS = Knob(name="workers", reach=Flag(flag="--workers"), values=(0, 2), default=0)
CONTRACT = Contract(
    name="training",
    task=Task(
        command=("python", "train.py"), window=Window(warmup_updates=2, measured_updates=6),
        surface=Surface(editable=("train.py",), knobs=(WORKERS,)),
        memory=Memory(capacity_bytes=4_000_000_000),
    ),
    plan=Plan(confirmation_blocks=3, gate=Gate(aside=("*.md",))),
)  # fmt: skip
MACHINE = Machine(
    cpu="x", num_cpus=2, memory_bytes=2**34, kernel="6.8.0", python="3.11.9", torch="2.12.0",
    sandbox="bubblewrap",
)  # fmt: skip


def commit_all(root, subject):
    git(root, "add", "-A")
    git(root, "commit", "-qm", subject, "--allow-empty")


def make_key(folder, name):
    """Make an SSH key without a passphrase; give its file and the line that allows it."""
    place = folder / name
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(place)],
                   check=True)  # fmt: skip
    public = " ".join(place.with_suffix(".pub").read_text().split()[:2])
    return place, f"{name}@example.org {public}\n"


def make_promotion(place):
    """Promote, signed, on a branch `pull`; `main` has the contract and the allowed signers."""
    root = place / "training"
    shutil.copytree(SPEAKING, root, ignore=shutil.ignore_patterns("__pycache__"))
    train = root / "train.py"
    train.write_text(train.read_text().replace("time.sleep(0.005)", "time.sleep(0.024)"))
    (root / "README.md").write_text("How to train.\n")
    git(root, "init", "-q", "-b", "main")
    git(root, "config", "user.name", "a")
    git(root, "config", "user.email", "a@example.org")
    commit_all(root, "my training")
    repository = Repository(root)
    start = repository.commit()
    keys = {name: make_key(place, name) for name in ("author", "reviewer", "stranger")}
    repository.ignore_locally("/.infrarsi/")
    write_contract(root / "infrarsi.yaml", CONTRACT)
    (root / SIGNERS).write_text(keys["author"][1] + keys["reviewer"][1])
    commit_all(root, "the contract, and who may sign")
    branch = promote_at(repository, start, FASTER, key=str(keys["author"][0]))
    git(root, "branch", "-m", branch, "pull")
    return root


def promote_at(repository, commit, patch, *, key):
    """Lock a commit anew, and promote a patch of it; give the branch."""
    lock = Lock(
        name=CONTRACT.name, task_digest=CONTRACT.task.digest(), commit=commit,
        protected={"README.md": "0" * 64}, inputs={},
    )  # fmt: skip
    with open_ledger(repository.root / ".infrarsi", command="test") as ledger:
        ledger.append("locked", lock.model_dump(mode="json"))
        return promote(Workspace(repository, CONTRACT, lock, ledger), patch, key=key)


def promote(workspace, patch, *, key, sessions=1):
    """Write the launches of a calibration and of a confirmation down, and promote the winner."""
    reference = Candidate.of(CONTRACT.task.surface.default_knobs())
    winner = Candidate.of({"workers": 2}, [patch.name])
    aa = [written(workspace, reference, "baseline", arm, i) for i, arm in enumerate("ABBA")]
    nulls = [
        written(workspace, reference, "null", f"{ulps} ulp", i) for i, ulps in enumerate("149")
    ]
    baseline = baseline_of(workspace, MACHINE, aa, nulls, peak_flops=1e15)
    ledger, dump = workspace.ledger, {"mode": "json"}
    told = {"baseline": baseline.model_dump(**dump), "machine": MACHINE.model_dump(**dump)}
    ledger.append("baseline", told)
    patches = {"patches": [patch.model_dump(**dump)], "declined": [], "incompatible": []}
    ledger.append("proposed", patches)
    if sessions == 1:
        done = write_blocks(workspace, patch, {"attempt": 1})
        history = History.of(ledger.events)
        verdict = judge_blocks(workspace, history, winner, done, planned=3, attempt=1)
    else:
        verdict = hold_sessions(workspace, patch, winner, sessions)
    assert verdict.ruling is Ruling.PASS, verdict.reasons
    history = History.of(ledger.events)
    evidence = evidence_of_all(history, verdict)
    made = make_branch(workspace, history, winner, verdict, evidence_digest=evidence, key=key)
    return made.branch


def hold_sessions(workspace, patch, winner, sessions):
    """Write so many sessions down, and give the verdict on all of them."""
    for number in range(1, sessions + 1):
        history = History.of(workspace.ledger.events)
        sitting = sitting_for(workspace, history, winner, sessions=sessions)
        done = write_blocks(workspace, patch, sitting.remarks, first=sitting.first_launch)
        with nullcontext() if number == sessions else suppress(InconclusiveError):
            return conclude(workspace, winner, done, sitting=sitting)
    raise AssertionError("the last session gives the verdict")


def write_blocks(workspace, patch, remarks, *, first=0):
    """Write three blocks down, and the replays of what two of their launches kept."""
    reference = Candidate.of(CONTRACT.task.surface.default_knobs())
    winner = Candidate.of({"workers": 2}, [patch.name])
    done, number = [], first
    orders = schedule_of(
        workspace.lock, attempt=remarks["attempt"], blocks=3, session=remarks.get("session", 1)
    )
    for order in orders:
        trials = []
        for letter in order:
            keep = KEPT_UPDATE if number < first + 4 and number % 2 == 0 else None
            trials.append(written(
                workspace, winner if letter == "B" else reference, "confirm", ARMS[letter], number,
                keep=keep, patch=patch if letter == "B" else None, remarks=remarks,
            ))  # fmt: skip
            number += 1
        done.append((order, trials))
    kept = dict(zip(done[0][0][::2], done[0][1][::2], strict=True))
    write_replays(workspace, reference, kept, remarks)
    return done


def write_replays(workspace, reference, kept, attempted):
    """Write down that the reference's code replayed an update of each arm, and came to the same."""
    slot = ReplaySlot(
        update=KEPT_UPDATE, winner=kept["B"].trial_id, reference=kept["A"].trial_id, ulps=1.0,
        scores=2,
    )  # fmt: skip
    remarks = {**attempted, "slots": [slot.model_dump(mode="json")]}
    for arm in ("winner", "reference"):
        written(workspace, reference, "replay", arm, 0, remarks=remarks)


def written(workspace, candidate, purpose, arm, replicate, *, patch=None, keep=None, remarks=None):
    """Write one launch into the ledger, as if it had been made."""
    repository, commit = workspace.repository, workspace.lock.commit
    tree = tree_of(repository, commit)
    if patch is not None:
        files = apply_edits(repository.read(commit, ["train.py"]), patch.edits)
        tree = repository.expected_tree(commit, files, objects=workspace.folder / "objects")
    number = len(workspace.ledger.of_kind("trial_started")) + 1
    stop = workspace.stop_update(replicate, arm=f"{purpose}/{arm}")
    if purpose == "replay":
        stop = KEPT_UPDATE + 2
    update_s = WINNER_S if candidate.patches else REFERENCE_S
    marks = {0, 2, workspace.hidden_mark, 8}
    told = {"kept": keep} if keep else {"replayed": KEPT_UPDATE} if purpose == "replay" else {}
    last = keep + 1 if keep else stop
    events = events_of(number, stop=last, update_s=update_s, marks=marks, **told)
    source = SourceFacts(
        protected_before={"README.md": "0" * 64}, protected_after={"README.md": "0" * 64},
        tree_expected=tree, tree_ran=tree, changed_paths=("train.py",) if candidate.patches else (),
    )  # fmt: skip
    extra = () if candidate.knobs["workers"] == 0 else ("--workers", "2")
    trial = Trial(
        trial_id=f"t{number:04d}", candidate=candidate, purpose=purpose, arm=arm,
        replicate=replicate, outcome=Outcome.OK, tree_digest=tree,
        argv=("/opt/venv/bin/python", "train.py", *extra), stop_update=stop,
        evidence_digest=workspace.artifacts.put(events),
        source_digest=workspace.artifacts.put(source.to_bytes()), wall_s=1.0, peak_bytes=10**8,
        sandbox="bubblewrap",
    )  # fmt: skip
    body = trial.model_dump(mode="json")
    workspace.ledger.append("trial_started", {**body, "remarks": remarks or {}})
    workspace.ledger.append("trial_ended", body)
    return trial


def events_of(number, *, stop, update_s, marks, kept=None, replayed=None):
    """Give the stamped events of a launch: what the training that speaks for itself says."""
    noise, lines = random.Random(number), []
    t_ns = 300_000_000

    def say(kind, after_us=0, **fields):
        event = {"v": 1, "kind": kind, "rank": 0, "pid": 7, **fields}
        lines.append(json.dumps({"t_ns": t_ns + after_us * 1000, "event": event}).encode())

    def mark(update):
        values = struct.pack("<4f", *(update + each for each in range(4)))
        census = {name: {"float32": 4} for name in ("parameters", "gradients", "optimizer_state")}
        say("mark", 40, update=update, sketch=base64.b64encode(values).decode(), counts=[4],
            shapes=[[4]], census={**census, "matmul": {"float32": 1}},
            flags={"deterministic_algorithms": False})  # fmt: skip

    say("hello", torch="none", devices=[])
    mark(0)
    for update in range(1, stop + 1):
        t_ns += int(update_s * 1e9 * (1 + noise.uniform(-0.003, 0.003)))
        digest = f"{update:016x}"
        say("update", update=update)
        say("values", 20, update=update, loss=2.0 + 1 / update, grad_norm=1.0, update_norm=0.1,
            batch=digest, inputs=digest, sequences=1, tokens=16, forwards=1)  # fmt: skip
        if update in marks:
            mark(update)
        if update == max(marks):
            say("modules", 60, files=[])
        if update == replayed:
            say("replayed", 80, update=update, why=None, left=[],
                tensors=[["w", 0.0, 0.1, 0.1, 2.0]])  # fmt: skip
    if kept is not None:
        say("kept", 80, update=kept, bytes=18, why=None)
    return b"\n".join(lines) + b"\n"


class Pull:
    """A pull request, checked out: what a stranger can do to it."""

    def __init__(self, root, keys):
        self.root = root
        self.keys = keys
        git(root, "checkout", "-qf", "pull")

    def git(self, *arguments):
        return git(self.root, *arguments)

    def read(self, path):
        return (self.root / path).read_bytes()

    def write(self, path, content):
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content if isinstance(content, bytes) else content.encode())

    def flip(self, path, place, bit=1):
        """Change one byte of a file."""
        content = bytearray(self.read(path))
        content[place] ^= bit
        self.write(path, bytes(content))

    def commit(self, subject="more"):
        commit_all(self.root, subject)

    def on_main(self, change):
        """Change the base branch, and come back."""
        self.commit()
        self.git("checkout", "-qf", "main")
        change(self)
        self.commit("on main")
        self.git("checkout", "-qf", "pull")

    def key(self, name):
        return str(self.keys / name)

    def signer(self, name, options=""):
        """Give the line of the allowed signers that allows a key."""
        public = " ".join((self.keys / f"{name}.pub").read_text().split()[:2])
        return f"{name}@example.org {options}{' ' if options else ''}{public}\n"

    def sign(self, name="author", *, namespace=PROMOTION_NAMESPACE):
        """Sign the statement as it stands."""
        self.write(SIGNATURE, sign(self.read(STATEMENT), self.key(name), namespace=namespace))

    def review(self, name, *, namespace=REVIEW_NAMESPACE):
        self.write(REVIEW, sign(self.read(STATEMENT), self.key(name), namespace=namespace))

    @property
    def statement(self):
        return Statement.model_validate_json(self.read(STATEMENT))

    def restate(self, change):
        """Change the statement, in the form in which statements are written."""
        loaded = json.loads(self.read(STATEMENT))
        change(loaded)
        self.write(STATEMENT, Statement.model_validate(loaded).to_bytes())

    def evidence(self):
        """Give the events and the artifacts of the bundle."""
        folder = self.keys / "unpacked"
        shutil.rmtree(folder, ignore_errors=True)
        unpack_evidence(self.read(EVIDENCE), folder)
        events = list(read_ledger(folder).events)
        kept = folder / "artifacts"
        names = [each.parent.name + each.stem for each in kept.rglob("*.gz")]
        return events, {name: Artifacts(kept).get(name) for name in names}

    def forge(self, change):
        """Change events and artifacts, chain them anew, and state what they then give."""
        events, artifacts = self.evidence()
        change(events, artifacts)
        archive, said = pack_evidence(events, artifacts), self.statement.predicate
        repository, history = Repository(self.root), History.of(events)
        task = Contract.model_validate(yaml.safe_load(self.git("show", "main:infrarsi.yaml"))).task
        sources = repository.read(said.base_tree, repository.tracked(said.base_tree))
        patches = list(history.patches.values())
        files = promoted_files(task, said.candidate, patches, sources=sources)
        tree = self.statement.subject[0].digests["gitTree"]
        statement = statement_of(
            history, files, Place(said.base_tree, tree), contract=said.contract, archive=archive,
            version=said.infrarsi, ledger_head=said.ledger_head,
        )  # fmt: skip
        self.write(EVIDENCE, archive)
        self.write(STATEMENT, statement.to_bytes())

    def gate(self, **options):
        self.commit()
        return gate(self.root, **{"base": "main", "head": "pull", **options})

    def paths(self, ref):
        return entries_of(Repository(self.root), ref)


def copied(template, place):
    """Give a pull request of one's own; the state folder stays behind."""
    shutil.copytree(template, place / "training", ignore=shutil.ignore_patterns(".infrarsi"))
    keys = Path(place / "keys")
    keys.mkdir()
    for each in template.parent.iterdir():
        if each.is_file():
            shutil.copy(each, keys / each.name)
    return Pull(place / "training", keys)
