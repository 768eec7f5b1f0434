"""Whatever was judged is judged again from its raw evidence, and what comes out otherwise is told."""

import json
import shutil
import subprocess
import sys

import pytest
from judged_ledger import Recipe, Search, copied

from infrarsi.errors import InconclusiveError, LedgerError, RejectedError
from infrarsi.judge.rules import CHANGES, RULES
from infrarsi.records.baseline import Band
from infrarsi.records.recheck import Recheck
from infrarsi.records.verdict import Ruling
from infrarsi.render.rechecked import recheck_lines
from infrarsi.stages.recheck import recheck, refuse_unless_upheld
from infrarsi.store.contract import write_contract

HACK = Recipe(skip_layer=True)


def as_passed(verdict, *, rules=1):
    """The verdict of rules that saw nothing."""
    seen = tuple(each for each in verdict.findings if each.ruling is Ruling.PASS)
    return verdict.model_copy(update={"ruling": Ruling.PASS, "findings": seen, "rules": rules})


def as_refused(verdict):
    """The verdict of rules that were too strict about the first finding."""
    first = verdict.findings[0].model_copy(update={"ruling": Ruling.FAIL})
    return verdict.model_copy(
        update={"ruling": Ruling.FAIL, "findings": (first, *verdict.findings[1:]), "rules": 1}
    )


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    """A search with an accepted, a refused and a promoted candidate, to be copied."""
    search = Search(tmp_path_factory.mktemp("searched") / "training").measure()
    search.screen("fast")
    search.screen("skip", recipe=HACK)
    search.promote("fast", change=lambda verdict: as_passed(verdict, rules=RULES))
    return search


@pytest.fixture
def search(searched, tmp_path):
    return copied(searched, tmp_path / "training")


def test_what_today_s_rules_made_is_what_they_make_again_and_nothing_is_written(search):
    before = {place: place.read_bytes() for place in search.state.rglob("*") if place.is_file()}
    found = recheck(search.read())
    assert found.changed == ()
    assert found.lost == ()
    assert (found.num_verdicts, found.num_judged_again, found.num_calibrations) == (3, 12, 1)
    assert found.num_trials == 19
    assert "every verdict is what it was" in recheck_lines(found)
    refuse_unless_upheld(found)
    assert {p: p.read_bytes() for p in search.state.rglob("*") if p.is_file()} == before


def test_many_launches_are_judged_by_several_processes_to_the_same_end(search):
    search.screen("skip", recipe=HACK, change=as_passed)
    alone = recheck(search.read())
    assert len(alone.changed) == 1
    assert recheck(search.read(), least_share=1) == alone


def test_an_accepted_hack_is_found_and_the_rules_that_let_it_in_are_named(search):
    trial = search.screen("skip", recipe=HACK, change=as_passed)
    found = recheck(search.read())
    (changed,) = found.overturned
    assert (changed.trials, changed.then, changed.now) == ((trial.trial_id,), "pass", "fail")
    assert changed.rules == 1
    assert {each.layer for each in changed.checks} == {"numerics"}
    assert all(each.now == "fail" and each.reason for each in changed.checks)
    assert [group.rules for group in found.groups] == [RULES, 1]
    assert found.groups[1].what == CHANGES[1]
    text = "\n".join(recheck_lines(found))
    assert f"screening of {trial.trial_id}" in text
    assert "pass -> fail" in text
    assert "numerics, loss" in text
    with pytest.raises(RejectedError, match=f"{trial.trial_id} .*skip"):
        refuse_unless_upheld(found)


def test_what_was_refused_and_would_pass_is_told_and_refuses_nothing(search):
    trial = search.screen("fast", change=as_refused)
    found = recheck(search.read())
    (changed,) = found.changed
    assert (changed.trials, changed.then, changed.now) == ((trial.trial_id,), "fail", "pass")
    refuse_unless_upheld(found)


def test_a_promotion_that_no_longer_holds_is_said_first(search):
    search.screen("skip", recipe=HACK, change=as_passed)
    search.promote("skip", recipe=HACK, change=as_passed)
    found = recheck(search.read())
    promoted = [each for each in found.overturned if each.promoted]
    assert [each.kind for each in promoted] == ["confirm"]
    with pytest.raises(RejectedError, match="what was promoted would be refused") as error:
        refuse_unless_upheld(found)
    assert "apply --revert" in error.value.hint
    lines = recheck_lines(found)
    told = [line for line in lines if "-> fail" in line and line.startswith("  ")]
    assert "promoted" in told[0]


def test_the_bands_are_derived_anew_and_not_taken_from_the_ledger(tmp_path):
    wide = tuple(
        Band(metric=name, limit=1e9, source="x")
        for name in ("loss", "grad_norm", "update_norm", "sketch")
    )
    search = Search(tmp_path / "training").measure(bands=wide)
    trial = search.screen("skip", recipe=HACK)
    assert search.read().ledger.of_kind("screened")[-1].body["verdict"]["ruling"] != "fail"
    found = recheck(search.read())
    assert found.changed[0].now is Ruling.FAIL
    assert found.changed[0].trials == (trial.trial_id,)


def test_a_verdict_that_differs_under_one_version_is_remarked_on(search):
    search.screen("skip", recipe=HACK, change=lambda verdict: as_passed(verdict, rules=RULES))
    (note,) = recheck(search.read()).notes
    assert "changed without a new version" in note


def test_an_accepted_verdict_that_is_open_today_is_inconclusive(search):
    short = Recipe(updates=16)  # it did not get to its hidden stop
    search.screen("fast", recipe=short, change=as_passed)
    found = recheck(search.read())
    assert [each.now for each in found.overturned] == ["inconclusive"]
    with pytest.raises(InconclusiveError):
        refuse_unless_upheld(found)


@pytest.mark.parametrize("damage", ["missing", "altered"])
def test_evidence_that_is_gone_is_named_and_the_rest_is_judged(search, damage):
    trial = search.screen("fast", recipe=Recipe(micro_batches=2))
    place = search.place_of(trial.evidence_digest)
    if damage == "missing":
        place.unlink()
    else:
        other = search.screen("skip", recipe=HACK)
        shutil.copy(search.place_of(other.evidence_digest), place)
    found = recheck(search.read())
    (lost,) = found.lost
    assert lost.trials == (trial.trial_id,)
    assert lost.accepted
    assert f"the evidence of {trial.trial_id}" in lost.why
    assert damage in lost.why
    assert found.changed == ()
    assert found.num_verdicts >= 3
    with pytest.raises(LedgerError, match="could not be judged again") as error:
        refuse_unless_upheld(found)
    assert error.value.exit_code == 6


def test_without_a_launch_of_its_calibration_nothing_of_a_baseline_can_be_judged(search):
    null = next(
        t for t in search.read().ledger.of_kind("trial_ended") if t.body["purpose"] == "null"
    )
    search.place_of(null.body["evidence_digest"]).unlink()
    (lost,) = recheck(search.read()).lost
    assert lost.num_verdicts == 3
    assert null.body["trial_id"] in lost.why


def relocked(search):
    """Lock another task in the same ledger, as `infrarsi init --relock` does."""
    task = search.contract.task
    other = task.model_copy(
        update={"objective": task.objective.model_copy(update={"least_effect": 0.05})}
    )
    contract = search.contract.model_copy(update={"task": other})
    write_contract(search.root / "infrarsi.yaml", contract)
    return Search(search.root, contract=contract)


def test_trials_of_an_earlier_lock_are_judged_by_the_task_of_then(search):
    again = relocked(search)
    found = recheck(again.read())
    assert (found.num_verdicts, found.changed, found.lost) == (3, (), ())


def test_without_the_task_of_then_they_are_not_judged_by_another(search):
    search.place_of(search.contract.task.digest()).unlink()
    (lost,) = recheck(relocked(search).read()).lost
    assert "the task that was locked" in lost.why
    assert lost.num_verdicts == 3


def test_the_command_needs_no_torch_no_network_and_ends_with_the_documented_code(search):
    search.screen("skip", recipe=HACK, change=as_passed)
    script = (
        "import socket, sys\n"
        "for name in ('torch', 'sklearn', 'openai', 'anthropic'): sys.modules[name] = None\n"
        "socket.socket = None\n"
        f"sys.argv = ['infrarsi', 'recheck', '--json', '-C', {str(search.root)!r}]\n"
        "from infrarsi.cli import main\nmain()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 4, done.stderr
    assert "accepted" in done.stderr
    found = Recheck.model_validate(json.loads(done.stdout))
    assert len(found.overturned) == 1
