"""What cannot be done is refused: one sentence of what is wrong, one of what to do, nothing lost."""

import shutil
import time

import pytest

pytestmark = pytest.mark.training


def test_not_a_git_repository(user):
    shutil.rmtree(user.root / ".git")
    said = user.refused("init", "--", "python", "train.py", code=2)
    assert "not in a git repository" in said
    assert "git init" in said


def test_no_commit_yet(user):
    shutil.rmtree(user.root / ".git")
    user.git("init", "-q")
    said = user.refused("init", "--", "python", "train.py", code=2)
    assert "no commit yet" in said


def test_no_contract_and_no_lock(user):
    assert "no contract" in user.refused("doctor", code=3)
    assert "no contract" in user.refused("status", code=3)


def test_a_script_that_is_not_committed(user):
    said = user.refused("init", "--", "python", "other.py", code=3)
    assert "other.py is not in the last commit" in said


def test_a_command_that_exits_1_locks_nothing(user):
    said = user.refused("init", "--", "python", "train.py", "--fail", "exit", code=8)
    assert "exit code 1" in said
    assert "the data is gone" in said
    assert not (user.root / "infrarsi.yaml").exists()
    assert user.git("worktree", "list").count("\n") == 0


def test_a_command_that_ends_without_an_update(user):
    said = user.refused("init", "--", "python", "train.py", "--fail", "silent", code=8)
    assert "ended by itself after update 0" in said
    assert "at least" in said


def test_a_command_that_hangs(user):
    user.infrarsi("init", "--", "python", "train.py")

    def hang(contract):
        contract["task"]["command"] += ["--fail", "hang"]
        contract["plan"]["budget"]["trial_deadline_s"] = 8.0

    user.edit_contract(hang)
    said = user.refused("init", "--relock", code=8)
    assert "had not reached its stop after 8 s" in said
    assert "no optimizer update" in said


def test_a_memory_capacity_below_the_need(user):
    said = user.refused("init", "--memory", "60MB", "--", "python", "train.py", code=8)
    assert "60,000,000 bytes is below what the reference needs" in said


def test_a_size_that_is_none(user):
    said = user.refused("init", "--memory", "much", "--", "python", "train.py", code=2)
    assert "'much' is not a size" in said


def test_a_protected_file_changed_after_the_lock(measured):
    lines = (measured.root / ".infrarsi" / "ledger.jsonl").read_bytes()
    (measured.root / "README.md").write_text("not there at the lock")
    measured.infrarsi("status")

    def protect(contract):
        contract["task"]["surface"]["editable"] = ["train.py"]

    measured.edit_contract(protect)
    measured.infrarsi("init", "--relock")
    (measured.root / "loss.py").write_text(
        "def loss_of(logits, targets): return logits.sum() * 0\n"
    )
    said = measured.refused("run", code=3)
    assert "protected file loss.py was changed after the lock" in said
    assert (measured.root / ".infrarsi" / "ledger.jsonl").read_bytes().startswith(lines)


def test_the_task_changed_after_the_lock(measured):
    def widen(contract):
        contract["task"]["numerics"]["matmul"].append("bfloat16")

    measured.edit_contract(widen)
    said = measured.refused("run", code=3)
    assert "the task in infrarsi.yaml was changed after the lock" in said
    assert "--relock" in said


def test_a_changed_plan_is_no_change_of_the_task(measured):
    measured.edit_contract(lambda contract: contract["plan"].update(seed=5))
    assert "measured before" in measured.infrarsi("doctor").stderr


def test_an_altered_ledger_line(measured):
    ledger = measured.root / ".infrarsi" / "ledger.jsonl"
    altered = ledger.read_bytes().replace(b'"outcome":"ok"', b'"outcome":"oom"', 1)
    ledger.write_bytes(altered)
    for command in ("run", "status", "report", "apply"):
        said = measured.refused(command, code=6)
        assert "was altered: its content does not match its digest" in said
    assert ledger.read_bytes() == altered


def test_two_at_once(measured):
    first = measured.start("run", "--max-trials", "3")
    try:
        lock = measured.root / ".infrarsi" / "ledger.lock"
        for _ in range(400):
            if str(first.pid) in lock.read_text():
                break
            time.sleep(0.05)
        said = measured.refused("run", code=7)
        assert f"infrarsi run (process {first.pid}) is at work" in said
        measured.infrarsi("status")
    finally:
        first.kill()
        first.wait()


def test_stages_called_too_early(measured):
    assert "no candidate was put forward yet" in measured.refused("apply", code=2)
    assert "nothing is promoted" in measured.refused("apply", "--revert", code=2)


def test_a_dirty_tree_works_on_the_commit_and_says_so(measured):
    (measured.root / "train.py").write_text("this is not even Python\n")
    done = measured.infrarsi("run", "--max-trials", "1")
    assert "without the changes to train.py" in done.stderr
    assert (measured.root / "train.py").read_text() == "this is not even Python\n"
