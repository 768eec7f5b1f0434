"""Every way that a trial goes wrong in the field: said in one sentence, and nothing is lost."""

import os
import signal
import socket
import subprocess
import sys

import pytest
from speaking_user import EDIT, candidate_of, lock, opened, patch_of, refused_by

from infrarsi.errors import LedgerError, ReferenceFailedError, SpaceError
from infrarsi.execute.process import MARKER
from infrarsi.records.task import Metric
from infrarsi.records.trial import Outcome
from infrarsi.stages.doctor import diagnose
from infrarsi.stages.history import History
from infrarsi.stages.launching.trial import perform_trial
from infrarsi.stages.status import read_status, status_in_words
from infrarsi.stages.workspace import mark_of, read_workspace
from infrarsi.store.ledger import read_ledger

pytestmark = pytest.mark.training

TRAINS = """\
import torch
torch.manual_seed(1)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Embedding(16, 8), torch.nn.Linear(8, 16))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(STEPS):
    ids = torch.randint(0, 16, (2, 9))
    logits = model(ids[:, :-1])
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
    BACKWARD
    optimizer.step()
    optimizer.zero_grad()
"""


def write_training(user, *, steps=200, backward="loss.backward()"):
    """Commit a real training of a few lines."""
    source = TRAINS.replace("STEPS", str(steps)).replace("BACKWARD", backward)
    (user.root / "real.py").write_text(source)
    user.git("add", "-A")
    user.git("commit", "-qm", "real")
    return {"command": ("python", "real.py")}


def test_a_command_that_ends_before_the_window_does_is_refused(speaking):
    command = write_training(speaking, steps=12)
    lock(speaking.root, **command)
    with opened(speaking.root) as workspace:
        said = refused_by(ReferenceFailedError, lambda: diagnose(workspace), code=8)
    assert "it ended by itself after update 12" in said
    assert "at least 50 updates" in said


def test_a_loss_that_is_not_finite_is_refused_at_init(speaking):
    command = write_training(
        speaking, backward="(loss if step < 2 else loss * float('nan')).backward()"
    )
    said = refused_by(ReferenceFailedError, lambda: lock(speaking.root, **command), code=8)
    assert "loss is not finite at update 3" in said
    assert not (speaking.root / "infrarsi.yaml").exists()


def test_a_metric_that_the_witness_cannot_see_is_said_and_never_compared(speaking):
    """Gradients of each output, fed by hand: there is no loss to be seen."""
    command = write_training(speaking, backward="logits.backward(torch.ones_like(logits))")
    locked = lock(speaking.root, **command)
    assert Metric.LOSS not in locked.contract.task.numerics.metrics
    assert Metric.GRAD_NORM in locked.contract.task.numerics.metrics
    assert any("the witness does not see the loss" in each for each in locked.in_words())

    def compare_all(contract):
        contract["task"]["numerics"]["metrics"] = ["loss", "grad_norm"]

    speaking.edit_contract(compare_all)
    said = refused_by(ReferenceFailedError, lambda: lock(speaking.root, command=(), relock=True))
    assert "does not see the loss of the reference" in said
    assert "task.numerics.metrics" in said


def test_data_that_the_witness_cannot_see_is_refused_at_init(speaking):
    source = TRAINS.replace("STEPS", "200").replace("BACKWARD", "loss.backward()")
    source = source.replace("torch.nn.Embedding(16, 8), ", "").replace(
        "torch.randint(0, 16, (2, 9))", "torch.randn(2, 9, 8)"
    )
    source = source.replace(
        "cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())",
        "mse_loss(logits, logits.detach() + 1)",
    )
    (speaking.root / "real.py").write_text(source)
    speaking.git("add", "-A")
    speaking.git("commit", "-qm", "real")
    said = refused_by(
        ReferenceFailedError, lambda: lock(speaking.root, command=("python", "real.py"))
    )
    assert "cannot see what data the reference trains on" in said


def test_no_bubblewrap_is_labelled_and_everything_works(speaking, uncontained):
    locked = lock(speaking.root)
    assert "Contained by: process group (uncontained)" in locked.in_words()
    assert locked.rehearsal.outcome is Outcome.OK
    assert speaking.git("status", "--porcelain") == "?? infrarsi.yaml"


def test_a_read_only_home_and_no_tmpdir_are_no_obstacle(speaking):
    env = {key: value for key, value in os.environ.items() if key != "TMPDIR"}
    done = speaking.infrarsi("init", "--", "python", "train.py", env={**env, "HOME": "/proc"})
    assert "Locked: commit" in done.stdout


def test_a_training_that_writes_where_it_may_not_is_told_where_it_may(speaking):
    """Contained, a home is read-only: a cache there is the usual case."""
    speaking.first("import os\nos.makedirs('/usr/lib/infrarsi cache')\n")
    said = refused_by(ReferenceFailedError, lambda: lock(speaking.root))
    assert "Read-only file system: '/usr/lib/infrarsi cache'" in said
    assert "may write below its own folder and TMPDIR alone" in said
    assert "env XDG_CACHE_HOME=cache" in said


def on_small_disk(user, size, *arguments):
    """Type a command where the state folder is a file system of its own, of a few megabytes."""
    (user.root / ".infrarsi").mkdir(exist_ok=True)
    return subprocess.run(
        ["bwrap", "--dev-bind", "/", "/", "--size", str(size), "--tmpfs",
         str(user.root / ".infrarsi"), "--", *arguments],
        cwd=user.root, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def test_a_disk_too_full_to_begin_is_refused_before_anything_is_launched(speaking):
    done = on_small_disk(
        speaking, 4_000_000, sys.executable, "-m", "infrarsi", "init", "--", "python", "train.py"
    )
    assert done.returncode == 6, done.stderr
    assert "MiB are left at" in done.stderr
    assert "free space there" in done.stderr.splitlines()[-1]
    assert not (speaking.root / "infrarsi.yaml").exists()
    assert len(speaking.git("worktree", "list").splitlines()) == 1


FILLS = """
import os, sys
from pathlib import Path
from infrarsi.errors import SpaceError
from infrarsi.store.artifacts import Artifacts
from infrarsi.store.ledger import open_ledger, read_ledger
folder = Path(".infrarsi")
store = Artifacts(folder / "artifacts")
with open_ledger(folder, command="run") as ledger:
    ledger.append("measured", {"trial_id": "before", "update_s": 1.0})
    kept = store.put(b"kept")
    with open(folder / "checkpoint.pt", "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError as error:
            print(error.strerror)
    for write in (lambda: ledger.append("measured", {"trial_id": "x" * 9000, "update_s": 1.0}),
                  lambda: store.put(os.urandom(9000))):
        try:
            write()
        except SpaceError as error:
            print(error.exit_code, error)
    (folder / "checkpoint.pt").unlink()
    ledger.append("measured", {"trial_id": "after", "update_s": 1.0})
    print(store.get(kept) == b"kept", len(list((folder / "artifacts").rglob("*.*"))))
print([event.body["trial_id"] for event in read_ledger(folder).events])
"""


def test_a_full_disk_in_the_ledger_and_in_an_artifact_loses_nothing(speaking):
    done = on_small_disk(speaking, 300_000, sys.executable, "-c", FILLS)
    assert done.stdout.splitlines() == [
        "No space left on device",
        "6 the ledger cannot be written: No space left on device",
        "6 evidence cannot be written: No space left on device",
        "True 1",
        "['before', 'after']",
    ], done.stderr


def inserting(name, line):
    """Give a patch that has the training do something in its third update."""
    return patch_of(
        name, path="train.py", search="    digest =", replace=f"    if update == 3:\n        {line}\n    digest ="
    )  # fmt: skip


def test_a_full_disk_in_the_trial_is_said_and_counts_against_nobody(speaking):
    lock(speaking.root)
    fills = inserting("fills", "open('/dev/full', 'w', buffering=1).write('a checkpoint\\n')")
    with opened(speaking.root) as workspace:
        said = refused_by(
            SpaceError,
            lambda: perform_trial(workspace, candidate_of(fills), patches={"fills": fills}),
            code=6,
        )
        assert "a disk was full after update 3" in said
        history = History.of(workspace.ledger.events)
        assert [t.outcome for t in history.trials.values()] == [Outcome.HARNESS_ERROR]
        assert history.trials_for("screen") == []
        assert history.unjudged() is None
        after = perform_trial(workspace, candidate_of(EDIT), patches={EDIT.name: EDIT})
        assert after.outcome is Outcome.OK
    assert len(speaking.git("worktree", "list").splitlines()) == 1


def test_checkpoints_and_traces_of_a_trial_are_collected_and_what_is_kept_is_counted(speaking):
    writes = (
        "import os\n"
        "for place in ('checkpoints', os.environ['TMPDIR']):\n"
        "    os.makedirs(place, exist_ok=True)\n"
        "    with open(os.path.join(place, 'step.pt'), 'wb') as file:\n"
        "        file.write(bytes(20_000_000))\n"
    )
    speaking.first(writes)
    locked = lock(speaking.root)
    assert locked.rehearsal.outcome is Outcome.OK
    status = read_status(read_workspace(speaking.root))
    assert sum(status.kept_bytes.values()) < 1_000_000
    assert {"artifacts", "ledger.jsonl"} <= set(status.kept_bytes)
    assert any(line.startswith("kept in .infrarsi: ") for line in status_in_words(status))


def test_compile_caches_of_an_earlier_lock_are_collected(speaking):
    lock(speaking.root)
    stale = speaking.root / ".infrarsi" / "caches" / "0123456789ab"
    stale.mkdir(parents=True)
    (stale / "kernel.so").write_bytes(bytes(100))
    lock(speaking.root, command=(), relock=True)
    assert not stale.exists()


def test_one_failing_configuration_does_not_end_the_search(speaking):
    lock(speaking.root)
    fails = inserting("fails", "raise ValueError('not divisible by 7')")
    patches = {fails.name: fails, EDIT.name: EDIT}
    with opened(speaking.root) as workspace:
        first = perform_trial(workspace, candidate_of(fails), patches=patches)
        second = perform_trial(workspace, candidate_of(EDIT), patches=patches)
    assert (first.outcome, second.outcome) == (Outcome.CRASHED, Outcome.OK)
    assert "ValueError: not divisible by 7" in first.reason


def test_what_ran_is_recorded_by_its_hash(speaking):
    """The reference and the candidate are told apart by the tree that was there when they ran."""
    lock(speaking.root)
    with opened(speaking.root) as workspace:
        plain = perform_trial(workspace, candidate_of(), patches={})
        edited = perform_trial(workspace, candidate_of(EDIT), patches={EDIT.name: EDIT})
    assert plain.tree_digest == speaking.git("rev-parse", "HEAD^{tree}")
    assert edited.tree_digest not in {None, plain.tree_digest}


def test_an_orphan_of_the_last_trial_is_stopped_and_said(speaking):
    lock(speaking.root)
    mark = mark_of(speaking.root) + "t0009/"
    orphan = subprocess.Popen(
        ["sleep", "600"], env={**os.environ, MARKER: mark}, start_new_session=True
    )
    with opened(speaking.root) as workspace:
        assert any("1 process(es) that a killed command left behind" in n for n in workspace.notes)
    assert orphan.wait(timeout=10) == -signal.SIGKILL


def test_a_corrupted_last_ledger_line_is_repaired_and_said(speaking):
    lock(speaking.root)
    ledger = speaking.root / ".infrarsi" / "ledger.jsonl"
    whole = ledger.read_bytes()
    ledger.write_bytes(whole + b'{"event":{"at":"2026-')
    done = speaking.infrarsi("run", code=2)
    assert "note: the ledger's last line was torn (21 bytes, kept in" in done.stderr
    assert "measure it with `infrarsi doctor`" in done.stderr
    assert ledger.read_bytes().startswith(whole)
    kinds = [event.kind for event in read_ledger(ledger.parent).events]
    assert kinds == ["locked", "repaired"]
    assert "torn" not in speaking.infrarsi("run", code=2).stderr


def test_an_altered_middle_line_is_refused_and_left_as_it_is(speaking):
    lock(speaking.root)
    with opened(speaking.root) as workspace:
        perform_trial(workspace, candidate_of(), patches={})
    ledger = speaking.root / ".infrarsi" / "ledger.jsonl"
    altered = ledger.read_bytes().replace(b'"stop_update":', b'"stop_updaxe":', 1)
    ledger.write_bytes(altered)
    said = refused_by(LedgerError, lambda: opened(speaking.root).__enter__(), code=6)
    assert "line 2 of" in said
    assert "restore the ledger from a copy" in said
    assert ledger.read_bytes() == altered


def test_two_trials_cannot_meet_on_a_rendezvous_port(speaking):
    """A contained trial has a network of its own: whatever port it asks for is free there."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        speaking.first(f"import socket\nsocket.create_server(('127.0.0.1', {port}))\n")
        locked = lock(speaking.root)
    assert locked.rehearsal.sandbox == "bubblewrap"
