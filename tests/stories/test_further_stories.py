"""What apply does beyond one session: a speedup that must recur, and a training that goes on."""

import json
from contextlib import contextmanager

import pytest
from further import FASTER, copied, learning, make_put_forward, put_forward
from promotions import hold_sessions
from speaking_user import patch_of

from infrarsi.errors import InconclusiveError, RejectedError, UsageError
from infrarsi.execute.repository import Repository
from infrarsi.records.candidate import Candidate
from infrarsi.records.plan import Lock
from infrarsi.records.verdict import Ruling
from infrarsi.stages.apply import confirm_and_promote
from infrarsi.stages.confirming.course import plan_course
from infrarsi.stages.confirming.horizon import refuse_unless_no_worse, run_course
from infrarsi.stages.confirming.limits import Limits
from infrarsi.stages.history import History
from infrarsi.stages.report import build_report
from infrarsi.stages.workspace import Workspace, open_workspace
from infrarsi.store.contract import read_contract
from infrarsi.store.ledger import open_ledger, read_ledger

pytestmark = pytest.mark.training

FAR = 36
WORSE = patch_of("worse", path="train.py", search="WORSE = 0.0", replace="WORSE = 0.9")


@pytest.fixture(scope="module")
def learner(tmp_path_factory):
    root = tmp_path_factory.mktemp("learner") / "training"
    return make_put_forward(root, program=learning, slow_s=0.012)


def ledger_of(user):
    return read_ledger(user.root / ".infrarsi")


def hold_both(root):
    """Write two sessions down, and a kill before their common verdict."""
    winner = Candidate.of({"workers": 2}, [FASTER.name])
    with open_ledger(root / ".infrarsi", command="test") as ledger:
        lock = Lock.model_validate(ledger.of_kind("locked")[-1].body)
        contract = read_contract(root / "infrarsi.yaml")
        hold_sessions(Workspace(Repository(root), contract, lock, ledger), FASTER, winner, 2)
    place = root / ".infrarsi" / "ledger.jsonl"
    *lines, last = place.read_bytes().splitlines(keepends=True)
    assert b'"kind":"confirmed"' in last
    place.write_bytes(b"".join(lines))


def test_two_sessions_lead_to_a_branch_though_a_kill_came_before_their_verdict(user_at, tmp_path):
    root = make_put_forward(tmp_path / "training", blocks=3)
    user = user_at(root)
    hold_both(root)
    assert "2 sessions of 2 passed" in user.infrarsi("status").stdout
    before = len(ledger_of(user).of_kind("trial_started"))
    user.infrarsi("apply", "--sessions", "2", "--unsigned")
    assert len(ledger_of(user).of_kind("trial_started")) == before, "nothing was launched again"
    (promoted,) = ledger_of(user).of_kind("promoted")
    confirmed = ledger_of(user).of_kind("confirmed")[-1].body
    assert [row["session"] for row in confirmed["blocks"]] == [1, 1, 1, 2, 2, 2]
    assert promoted.body["branch"] in user.git("branch", "--list", "infrarsi/*")
    user.infrarsi("report")
    report = user.root / ".infrarsi" / "report"
    told = json.loads((report / "report.json").read_text())["confirmed"]["sessions"]
    assert [each["session"] for each in told] == [1, 2]
    assert "Sessions of the confirmation" in (report / "report.md").read_text()


@contextmanager
def at_work(user):
    with open_workspace(user.root, command="apply") as workspace:
        yield workspace, History.of(workspace.ledger.events)


def trained(workspace, history, seeds):
    candidate = history.choice.candidate
    return run_course(
        workspace, plan_course(workspace, candidate, updates=FAR, seeds=seeds, limits=Limits())
    )


def num_launches(workspace):
    return len(workspace.ledger.of_kind("trial_started"))


def test_what_learns_as_well_passes_once_there_are_seeds_enough(learner, user_at, tmp_path):
    user = user_at(copied(learner, tmp_path / "training"))
    with at_work(user) as (workspace, history):
        found = trained(workspace, history, 2)
        assert found.ruling is Ruling.INCONCLUSIVE
        with pytest.raises(InconclusiveError) as error:
            refuse_unless_no_worse(found, promoted=None)
        assert "--seeds 3" in error.value.hint
        before, now = num_launches(workspace), History.of(workspace.ledger.events)
        found = trained(workspace, now, 3)
        assert num_launches(workspace) - before == 5, "of the new seed two, and three that score"
        assert (found.ruling, found.attempt) == (Ruling.PASS, 2), found.findings
        assert (found.varied, found.seeds[0].seed) == ("seed", "7")
        assert all(each.winner_loss == each.reference_loss for each in found.seeds)
        assert found.spread > 0
        quality = build_report(workspace, History.of(workspace.ledger.events)).quality
    assert f"After {FAR} updates, over 3 seeds (the program's own seed varied)" in quality
    assert f"Training beyond {FAR} updates was not tested" in quality
    assert f"quality after {FAR} updates, 3 seeds: pass" in user.infrarsi("status").stdout
    user.leaves_nothing()
    assert not (user.root / ".infrarsi" / "horizon").exists()


def test_what_learns_worse_is_refused_by_the_references_own_code(learner, user_at, tmp_path):
    user = user_at(copied(learner, tmp_path / "training"))
    put_forward(user.root, FASTER, WORSE)
    with at_work(user) as (workspace, history):
        found = trained(workspace, history, 3)
    assert found.ruling is Ruling.FAIL, found.findings
    assert found.excess.point == pytest.approx(0.9)
    with pytest.raises(RejectedError, match="does not learn as well") as error:
        refuse_unless_no_worse(found, promoted="infrarsi/x")
    assert "--revert" in error.value.hint


def test_a_near_horizon_or_too_little_room_is_refused_before_the_first_launch(
    learner, user_at, tmp_path
):
    with at_work(user_at(copied(learner, tmp_path / "training"))) as (workspace, history):
        with pytest.raises(UsageError, match="lies within what every launch trains"):
            confirm_and_promote(workspace, horizon=9)
        with pytest.raises(UsageError, match="more than is allowed"):
            confirm_and_promote(workspace, horizon=100_000, limits=Limits(max_wall_s=60.0))
        assert History.of(workspace.ledger.events).events == history.events
