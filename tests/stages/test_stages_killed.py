"""A launch that was killed with its command is charged what it lived, and only that."""

import os
import subprocess
from datetime import datetime

import pytest
from search_world import contract

from infrarsi.records.candidate import Candidate
from infrarsi.records.plan import Lock
from infrarsi.records.trial import Outcome, Trial
from infrarsi.stages.history import History
from infrarsi.stages.spending import spent_s
from infrarsi.stages.workspace import open_workspace
from infrarsi.store.contract import write_contract
from infrarsi.store.ledger import open_ledger


@pytest.fixture
def killed(tmp_path):
    """A repository in which a command was killed while a launch was in flight."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "train.py").write_text("")
    for command in (["add", "-A"], ["commit", "-qm", "x"]):
        identity = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
        subprocess.run(["git", *identity, *command], cwd=tmp_path, check=True)
    agreed = contract()
    write_contract(tmp_path / "infrarsi.yaml", agreed)
    lock = Lock(
        name="world", task_digest=agreed.task.digest(), commit="0" * 40, protected={}, inputs={}
    )
    trial = Trial(
        trial_id="t0001", candidate=Candidate.of(agreed.task.surface.default_knobs()),
        purpose="screen", outcome=Outcome.PREEMPTED, wall_s=0.0,
    )  # fmt: skip
    with open_ledger(tmp_path / ".infrarsi", command="test") as ledger:
        ledger.append("locked", lock.model_dump(mode="json"))
        ledger.append("began", {"command": "run", "num_accelerators": 0})
        started = ledger.append("trial_started", {**trial.model_dump(mode="json"), "remarks": {}})
    return tmp_path, datetime.fromisoformat(started.at).timestamp()


def the_trial(root):
    with open_workspace(root, command="test") as workspace:
        history = History.of(workspace.ledger.events)
    return history.trials["t0001"], history


def test_it_is_charged_from_its_start_to_the_last_sign_of_it(killed):
    root, started = killed
    pulse = root / ".infrarsi" / "pulse"
    pulse.touch()
    os.utime(pulse, (started + 42.5, started + 42.5))
    trial, history = the_trial(root)
    assert trial.outcome is Outcome.PREEMPTED
    assert trial.wall_s == pytest.approx(42.5, abs=0.01)
    assert "charged 42.5 s" in trial.reason
    assert spent_s(history) == pytest.approx(42.5, abs=0.1)
    assert history.screenings == []


def test_without_a_sign_of_it_nothing_is_charged_and_that_is_said(killed):
    root, _ = killed
    assert "not known" in the_trial(root)[0].reason


def test_a_sign_of_an_earlier_launch_is_none_of_this_one(killed):
    root, started = killed
    pulse = root / ".infrarsi" / "pulse"
    pulse.touch()
    os.utime(pulse, (started - 60, started - 60))
    assert the_trial(root)[0].wall_s == 0
