"""A search that is stopped goes on, on real training, through the command line."""

import random
import subprocess
import time

import pytest

from infrarsi.records.trial import Outcome
from infrarsi.stages.history import History
from infrarsi.store.ledger import read_ledger

pytestmark = pytest.mark.training


def history_of(user):
    return History.of(read_ledger(user.root / ".infrarsi").events)


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
    measured.leaves_nothing()


def test_ctrl_c_ends_a_search_cleanly(measured):
    process = measured.start("run", "--max-trials", "3")
    time.sleep(5)
    process.send_signal(2)
    assert process.wait(timeout=30) in {130, 0}
    measured.infrarsi("status")
    measured.leaves_nothing()
