"""Sessions of a confirmation, by what the ledger has of them: which is due, and what they spend."""

import pytest
from judged_ledger import Search, copied, task_of
from synthetic_training import Recipe

from infrarsi.errors import InconclusiveError, UsageError
from infrarsi.records.plan import Contract, Plan
from infrarsi.records.verdict import Ruling
from infrarsi.stages.confirming.sessions import conclude, judge_all, set_caches_aside, sitting_for
from infrarsi.stages.history import History
from infrarsi.stages.recheck import recheck
from infrarsi.stages.reporting.recurring import session_rows, sessions_in_words

PLAN = Plan(confirmation_blocks=2, session_gap_s=0.0)


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    root = tmp_path_factory.mktemp("sessions") / "world"
    return Search(root, contract=Contract(name="world", task=task_of(), plan=PLAN)).measure()


@pytest.fixture
def search(template, tmp_path):
    return copied(template, tmp_path / "world")


def due(search, *, sessions=2, gap_s=0.0):
    with search._writing() as workspace:
        plan = PLAN.model_copy(update={"session_gap_s": gap_s})
        workspace.contract = workspace.contract.model_copy(update={"plan": plan})
        history = History.of(workspace.ledger.events)
        return sitting_for(workspace, history, search.candidate("fast"), sessions=sessions)


def hold(search, *, sessions=2, recipe=None, killed=False):
    """Hold the session that is due, as apply does, with launches that take no time."""
    sitting = due(search, sessions=sessions)
    candidate = search.candidate("fast")
    rows = search.blocks(candidate, sitting.remarks, recipe=recipe, seed=1000 * sitting.number)
    if killed:
        return None
    with search._writing() as workspace:
        return conclude(workspace, candidate, rows, sitting=sitting)


def lock_again(search, **changed):
    with search._writing() as workspace:
        body = workspace.ledger.of_kind("locked")[-1].body
        workspace.ledger.append("locked", {**body, **changed})


def test_locking_the_same_task_again_starts_no_new_count_of_attempts(search):
    first = due(search, sessions=1)
    hold(search, sessions=1, killed=True)
    assert (first.attempt, due(search, sessions=1).attempt) == (1, 2)
    lock_again(search)
    assert due(search, sessions=1).attempt == 2
    lock_again(search, task_digest="0" * 64)
    assert due(search, sessions=1).attempt == 1
    lock_again(search, task_digest=search.contract.task.digest())
    assert due(search, sessions=1).attempt == 2


def passes_alone(search, **options):
    with pytest.raises(InconclusiveError, match="passed") as error:
        hold(search, **options)
    return error.value


def history_of(search):
    return History.of(search.read().ledger.events)


def choose(search):
    candidate = search.candidate("fast").model_dump(mode="json")
    with search._writing() as workspace:
        workspace.ledger.append("chosen", {"candidate": candidate, "parts": [], "reason": "a test"})


def test_the_first_session_promotes_nothing_and_says_when_the_next_may_be_held(search):
    said = passes_alone(search)
    assert "session 1 of 2 passed (1.2" in str(said)
    assert "UTC on: `infrarsi apply --sessions 2`" in said.hint
    assert said.exit_code == 5
    assert history_of(search).confirmations == []


def test_two_sessions_are_judged_together_and_spend_one_share_of_the_error_rate(search):
    passes_alone(search)
    verdict = hold(search)
    assert verdict.ruling is Ruling.PASS, verdict.reasons
    (confirmation,) = history_of(search).confirmations
    assert confirmation.verdict == verdict
    body = confirmation.body
    assert (body["attempt"], body["alpha"], body["sessions"]) == (1, 0.025, 2)
    assert [row["session"] for row in body["blocks"]] == [1, 1, 2, 2]
    assert history_of(search).sessions_of(search.candidate("fast")) == [], "they are settled"
    assert due(search, sessions=1).attempt == 2


def test_a_session_before_its_time_is_refused_and_says_when(search):
    passes_alone(search)
    with pytest.raises(UsageError, match="too early for session 2 of 2") as error:
        due(search, gap_s=3600.0)
    assert "plan.session_gap_s" in error.value.hint
    assert error.value.exit_code == 2


def test_a_session_that_was_killed_spends_the_attempt_and_the_one_before_it_stays(search):
    passes_alone(search)
    hold(search, killed=True)
    sitting = due(search)
    assert (sitting.attempt, sitting.number, len(sitting.former)) == (2, 2, 1)
    verdict = hold(search)
    (confirmation,) = history_of(search).confirmations
    assert confirmation.body["attempt"] == 2
    assert confirmation.body["alpha"] < 0.01
    assert verdict.speedup.level == pytest.approx(1 - 0.05 / 6)


def test_a_kill_before_the_common_verdict_is_made_good_without_a_launch(search):
    passes_alone(search)
    sitting, candidate = due(search), search.candidate("fast")
    hold(search)
    cut_off_after(search, "session")
    again = due(search)
    assert again.is_held
    assert again.attempt == sitting.attempt
    with search._writing() as workspace:
        verdict = judge_all(workspace, candidate, [e.body for e in again.former], again)
    assert verdict.ruling is Ruling.PASS
    assert len(history_of(search).confirmations) == 1


def cut_off_after(search, kind):
    """Take the last event away, as a kill before it would have."""
    place = search.state / "ledger.jsonl"
    lines = place.read_bytes().splitlines(keepends=True)
    assert f'"kind":"{kind}"'.encode() in lines[-2]
    place.write_bytes(b"".join(lines[:-1]))


def test_to_ask_for_another_number_after_a_look_is_another_attempt(search):
    passes_alone(search)
    assert due(search, sessions=2).attempt == 1
    assert due(search, sessions=3).attempt == 2
    assert due(search, sessions=1).attempt == 2
    assert due(search, sessions=1).former == ()


def test_sessions_that_were_all_held_are_not_held_again(search):
    passes_alone(search, sessions=3)
    passes_alone(search, sessions=3)
    with pytest.raises(UsageError, match="2 sessions of this candidate were held") as error:
        due(search, sessions=2)
    assert "--sessions 3" in error.value.hint


def test_a_refused_session_ends_it_for_all(search):
    passes_alone(search)
    verdict = hold(search, recipe=Recipe(skip_layer=True))
    assert verdict.ruling is Ruling.FAIL
    assert due(search).former == ()
    assert due(search).attempt == 2


def test_a_session_begins_without_what_compilers_kept(search):
    kept = search.state / "caches" / "abc"
    kept.mkdir(parents=True)
    with search._writing() as workspace:
        set_caches_aside(workspace)
    assert not kept.exists()


def test_status_and_report_tell_the_sessions_that_passed_and_when_the_next_may_be_held(search):
    choose(search)
    assert sessions_in_words(PLAN, history_of(search)) == []
    passes_alone(search)
    (words,) = sessions_in_words(PLAN, history_of(search))
    assert words.startswith("1 session of 2 passed (1.2")
    assert "`infrarsi apply --sessions 2`" in words
    hold(search)
    assert sessions_in_words(PLAN, history_of(search)) == []
    history = history_of(search)
    rows = session_rows(history, history.confirmation)
    assert [(each.session, each.num_blocks) for each in rows] == [(1, 2), (2, 2)]
    assert all(each.speedup.low < 1.25 < each.speedup.high for each in rows)
    assert rows[0].ended_at <= rows[1].began_at


def test_recheck_judges_each_session_again_and_all_of_them_together(search):
    passes_alone(search)
    hold(search)
    found = recheck(search.read())
    assert found.num_verdicts == 3
    assert found.changed == ()
    assert found.lost == ()
