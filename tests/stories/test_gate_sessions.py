"""The gate asks of a promotion the sessions that the base asks for, and judges all of them again."""

import shutil

import pytest
import yaml
from promotions import CONTRACT, FASTER, Pull, copied, promote

from infrarsi.execute.repository import Repository
from infrarsi.records.plan import Lock
from infrarsi.records.verdict import Ruling
from infrarsi.stages.workspace import Workspace
from infrarsi.store.ledger import open_ledger

pytestmark = pytest.mark.training


def ask_for(pull, sessions, gap_s):
    """Have the base's plan ask for so many sessions, so far apart."""

    def change(base):
        contract = yaml.safe_load(base.read("infrarsi.yaml"))
        contract["plan"].update(confirmation_sessions=sessions, session_gap_s=gap_s)
        base.write("infrarsi.yaml", yaml.safe_dump(contract, sort_keys=False))

    pull.on_main(change)


@pytest.fixture(scope="module")
def template(promotion_template, tmp_path_factory):
    """A promotion in two sessions, on a branch, with the keys beside it."""
    place = tmp_path_factory.mktemp("recurring")
    pull = copied(promotion_template, place)
    start = pull.git("rev-list", "--max-parents=0", "main")
    pull.git("checkout", "-qf", "main")
    lock = Lock(
        name=CONTRACT.name, task_digest=CONTRACT.task.digest(), commit=start,
        protected={"README.md": "0" * 64}, inputs={},
    )  # fmt: skip
    plan = CONTRACT.plan.model_copy(update={"session_gap_s": 0.0})
    contract = CONTRACT.model_copy(update={"plan": plan})
    with open_ledger(pull.root / ".infrarsi", command="test") as ledger:
        ledger.append("locked", lock.model_dump(mode="json"))
        workspace = Workspace(Repository(pull.root), contract, lock, ledger)
        branch = promote(workspace, FASTER, key=pull.key("author"), sessions=2)
    pull.git("branch", "-qM", branch, "pull")
    return place


@pytest.fixture
def recurring(template, tmp_path):
    place = tmp_path / "copy"
    shutil.copytree(template, place, ignore=shutil.ignore_patterns(".infrarsi"))
    return Pull(place / "training", place / "keys")


def reasons(report):
    return {each.check: each.reason for each in report.checks}


def test_a_promotion_in_two_sessions_passes_where_the_base_asks_for_two(recurring):
    ask_for(recurring, 2, 0.0)
    report = recurring.gate()
    assert report.ruling is Ruling.PASS, report.refusals
    assert "6 blocks in 2 sessions ran as drawn for attempt 1" in reasons(report)["schedule"]
    assert report.speedup.low < report.speedup.point < report.speedup.high


@pytest.mark.parametrize(("sessions", "gap_s"), [(3, 0.0), (2, 3600.0)])
def test_fewer_or_closer_sessions_than_the_base_asks_for_are_refused(recurring, sessions, gap_s):
    ask_for(recurring, sessions, gap_s)
    report = recurring.gate()
    assert report.ruling is Ruling.FAIL
    assert f"asks for {sessions}, {gap_s:g} s apart" in reasons(report)["schedule"]


def test_a_promotion_in_one_session_is_refused_where_the_base_asks_for_two(pull):
    ask_for(pull, 2, 0.0)
    report = pull.gate()
    assert report.ruling is Ruling.FAIL
    assert "it was confirmed in 1 session(s)" in reasons(report)["schedule"]


def of_the_first_session(events, _artifacts):
    """Say of the second session's launches that they were the first's."""
    for number, event in enumerate(events):
        remarks = event.body.get("remarks") or {}
        if event.kind == "trial_started" and remarks.get("session") == 2:
            body = {**event.body, "remarks": {**remarks, "session": 1}}
            events[number] = event.model_copy(update={"body": body})


def one_session_of_all(events, _artifacts):
    """Say of all blocks that they were one session's."""
    for number, event in enumerate(events):
        if event.kind == "confirmed":
            rows = [{**row, "session": 1} for row in event.body["blocks"]]
            body = {**event.body, "blocks": rows}
            events[number] = event.model_copy(update={"body": body})


@pytest.mark.parametrize("change", [of_the_first_session, one_session_of_all])
def test_sessions_that_were_tampered_with_are_refused(recurring, change):
    ask_for(recurring, 2, 0.0)
    recurring.forge(change)
    recurring.sign()
    assert recurring.gate().ruling is Ruling.FAIL
