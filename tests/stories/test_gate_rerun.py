"""A promotion is confirmed again where the gate runs; one that no longer holds is taken back."""

import pytest

from infrarsi.records.statement import LAUNCH_FILE, SIGNATURE
from infrarsi.records.verdict import Ruling
from infrarsi.stages.gate import gate

pytestmark = pytest.mark.training

TURNED = "real = time.sleep\ntime.sleep = lambda seconds: real(0.034 - seconds)\n"
"""Later work by which what slept less sleeps more."""


def until_it_can_tell(ask):
    """A busy machine may leave a confirmation inconclusive; what it says then is not asked."""
    for _ in range(4):
        report = ask()
        if report.ruling is not Ruling.INCONCLUSIVE:
            return report
    raise AssertionError(f"this machine is too busy to confirm anything: {report.refusals}")


def rerun_of(report):
    return next(each for each in report.checks if each.check == "rerun")


def with_two_blocks(base):
    contract = base.read("infrarsi.yaml").decode()
    base.write("infrarsi.yaml", contract.replace("_blocks: 3", "_blocks: 2"))


def land(pull):
    pull.on_main(with_two_blocks)
    pull.git("checkout", "-q", "main")
    pull.git("merge", "-q", "--no-edit", "pull")


def test_an_unsigned_promotion_passes_by_being_confirmed_again(pull):
    (pull.root / SIGNATURE).unlink()
    pull.on_main(with_two_blocks)
    report = until_it_can_tell(lambda: pull.gate(rerun=True))
    assert report.ruling is Ruling.PASS, report.refusals
    assert report.rerun.speedup.low > 1.03
    assert any("rests on the rerun alone" in each.reason for each in report.checks)
    assert pull.git("status", "--porcelain") == ""
    assert len(pull.git("worktree", "list").splitlines()) == 1


def test_a_promotion_that_no_longer_holds_is_taken_back_on_a_branch(pull):
    land(pull)
    pull.write("first.py", TURNED)
    pull.commit("later work")
    before = pull.git("rev-parse", "HEAD")
    report = until_it_can_tell(lambda: gate(pull.root, rerun=True))
    assert report.ruling is Ruling.FAIL
    assert "the speedup is 0." in rerun_of(report).reason
    branch = report.revert_branch
    assert pull.git("rev-parse", f"{branch}^") == before == pull.git("rev-parse", "HEAD")
    assert "time.sleep(0.024)" in pull.git("show", f"{branch}:train.py")
    there = pull.paths(branch)
    assert "first.py" in there
    assert LAUNCH_FILE not in there
    assert not any(path.startswith("infrarsi-promotion/") for path in there)
    assert "InfraRSI-Reverts: " in pull.git("log", "-1", "--format=%B", branch)


def test_what_later_work_has_changed_is_not_taken_back_by_force(pull):
    land(pull)
    pull.write("train.py", pull.read("train.py").replace(b"time.sleep(0.010)", b"time.sleep(0.0)"))
    pull.commit("later work on the same line")
    report = gate(pull.root, rerun=True)
    assert report.ruling is Ruling.INCONCLUSIVE
    assert "later changes of train.py stand on the promoted lines" in rerun_of(report).reason
    assert report.revert_branch is None


def test_a_rerun_is_not_begun_where_anything_else_speaks_against_the_change(pull):
    pull.write("notes.py", "")
    report = pull.gate(rerun=True)
    assert report.ruling is Ruling.FAIL
    assert not any(each.check == "rerun" for each in report.checks)
