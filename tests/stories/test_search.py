"""From init to a branch and back, on real training, through the command line."""

import json
import random
import subprocess
import time

import pytest

from infrarsi.records.report import Report
from infrarsi.records.trial import Outcome
from infrarsi.stages.history import History
from infrarsi.store.ledger import read_ledger

pytestmark = pytest.mark.training


def history_of(user):
    return History.of(read_ledger(user.root / ".infrarsi").events)


def nothing_is_left(user):
    """No process, no worktree, no scratch folder of ours."""
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    here = [line for line in listed.stdout.splitlines() if str(user.root) in line]
    assert here == []
    assert len(user.git("worktree", "list").splitlines()) == 1
    for folder in ("trees", "scratch"):
        place = user.root / ".infrarsi" / folder
        assert not place.exists() or list(place.iterdir()) == []


def test_a_search_ends_on_a_branch_that_trains_the_same_faster(measured):
    before = measured.git("status", "--porcelain"), measured.git("rev-parse", "HEAD")
    measured.infrarsi("run")
    history = history_of(measured)
    assert history.choice.candidate.knobs["fused"] is True
    assert history.choice.candidate.knobs["dtype"] == "float32"
    cast = [s for s in history.screenings if s.trial.candidate.knobs["dtype"] == "bfloat16"]
    assert all(s.verdict.ruling == "fail" for s in cast)

    said = measured.infrarsi("apply").stdout
    branch = measured.git("branch", "--list", "infrarsi/*", "--format=%(refname:short)")
    assert branch in said
    launch = json.loads(measured.git("show", f"{branch}:infrarsi-launch.json"))
    assert "--fused" in launch["command"]
    trailers = measured.git("log", "--format=%(trailers)", f"main..{branch}")
    for name in ("InfraRSI-Contract", "InfraRSI-Verdict", "InfraRSI-Evidence"):
        assert name in trailers
    assert (measured.git("status", "--porcelain"), measured.git("rev-parse", "HEAD")) == before

    report = json.loads(measured.infrarsi("report", "--json").stdout)
    Report.model_validate(report)
    assert report["confirmed"]["speedup"]["low"] > 1.03
    assert report["winner"]["knobs"] == {"fused": True} | {
        k: v for k, v in report["winner"]["knobs"].items() if k != "fused"
    }
    launched = len(history.screenings) + len(history.trials_for("ablation"))
    assert sum(report["trials"]["outcomes"].values()) == launched
    assert report["cost"]["wall_s"] > 0
    folder = measured.root / ".infrarsi" / "report"
    point = f"{report['confirmed']['speedup']['point']:.2f}"
    for name in ("report.html", "report.md"):
        assert point in (folder / name).read_text()

    assert "promoted already" in measured.refused("apply", code=2)
    measured.infrarsi("apply", "--revert")
    assert measured.git("branch", "--list", "infrarsi/*") == ""
    nothing_is_left(measured)


def test_killed_at_random_moments_it_goes_on_and_counts_nothing_twice(measured):
    moments = random.Random(3)
    for _ in range(5):
        process = measured.start("run", "--max-trials", "3")
        try:
            process.wait(timeout=moments.uniform(0.5, 9.0))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    measured.infrarsi("run", "--max-trials", "3")
    history = history_of(measured)
    names = [event.body["trial_id"] for event in history.events if event.kind == "trial_started"]
    assert len(set(names)) == len(names)
    ended = [event.body["trial_id"] for event in history.events if event.kind == "trial_ended"]
    assert sorted(ended) == sorted(names)
    judged = [each.trial.trial_id for each in history.screenings]
    assert len(set(judged)) == len(judged)
    candidates = [
        each.trial.candidate.digest()
        for each in history.screenings
        if not each.reason.startswith("again")
    ]
    assert len(set(candidates)) == len(candidates)
    assert all(each.trial.outcome is not Outcome.PREEMPTED for each in history.screenings)
    nothing_is_left(measured)


def test_ctrl_c_ends_a_search_cleanly(measured):
    process = measured.start("run", "--max-trials", "3")
    time.sleep(5)
    process.send_signal(2)
    assert process.wait(timeout=30) in {130, 0}
    measured.infrarsi("status")
    nothing_is_left(measured)
