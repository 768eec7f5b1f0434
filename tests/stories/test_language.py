"""A language model's ideas on real training: tried, credited, paid for; and done without."""

import json
import os

import pytest

from infrarsi.records.report import Report
from infrarsi.stages.history import History
from infrarsi.store.ledger import read_ledger
from infrarsi.testing import LanguageServer, Scripted

pytestmark = pytest.mark.training

SLOW = "    if not args.fused:\n        time.sleep(0.03)\n"
FASTER = {
    "name": "wait less", "summary": "Waits for 1 ms instead of 30.", "time_ratio": 0.3,
    "confidence": "high", "edits": [{"path": "train.py", "search": SLOW,
                                     "replace": SLOW.replace("0.03", "0.001")}],
}  # fmt: skip
CLUMSY = {**FASTER, "name": "clumsy", "edits": [
    {"path": "train.py", "search": "parser.add_argument(", "replace": ""}]}  # fmt: skip
MENDED = {**CLUMSY, "name": "mended", "edits": [
    {"path": "train.py", "search": "if step % 50 == 0:", "replace": "if step % 100 == 0:"}]}  # fmt: skip


def history_of(user):
    return History.of(read_ledger(user.root / ".infrarsi").events)


def test_an_idea_of_a_model_is_mended_tried_credited_and_paid_for(measured):
    def priced(contract):
        contract["plan"]["language"] = {
            "usd_per_million_input_tokens": 1.0, "usd_per_million_output_tokens": 10.0,
        }  # fmt: skip

    measured.edit_contract(priced)
    script = [Scripted(json.dumps({"ideas": each})) for each in ([FASTER, CLUMSY], [MENDED], [])]
    with LanguageServer(script) as server:
        said = measured.infrarsi(
            "run", "--proposer", "language", "--model", "stand-in", "--base-url", server.url,
            "--max-trials", "3",
        ).stderr  # fmt: skip
    assert "asking the language model stand-in for ideas" in said
    assert "clumsy" in said
    assert "stands more than once" in server.requests[1].prompt
    history = history_of(measured)
    assert set(history.patches) == {"wait_less", "mended"}
    assert history.choice.candidate.patches[-1] == "wait_less"
    assert history.choice.candidate.knobs["fused"] is False  # the sweep was not asked

    report = Report.model_validate_json(measured.infrarsi("report", "--json").stdout)
    credit = {each.proposer: each for each in report.credits}["language"]
    assert "+wait_less" in credit.parts
    assert credit.accepted >= 1
    rows = {each.name: each for each in report.ideas}
    assert rows["+wait_less"].predicted == pytest.approx(0.3)
    assert rows["+wait_less"].fate == "kept"
    assert report.language_calls[0].usd == pytest.approx(1000e-6 + 200e-5)
    for name in ("report.html", "report.md"):
        text = (measured.root / ".infrarsi" / "report" / name).read_text()
        assert "Where the ideas came from" in text
        assert "wait_less" in text


def test_a_server_that_is_down_costs_no_trial_and_the_patchbook_goes_on(measured):
    with LanguageServer([Scripted()]) as server:
        url = server.root_url
    said = measured.infrarsi(
        "run", "--model", "stand-in", "--provider", "anthropic", "--base-url", url,
        "--max-trials", "2",
    ).stderr  # fmt: skip
    history = history_of(measured)
    assert [each.outcome for each in history.asked] == ["unreachable"] * 2
    assert said.count("goes on without the language proposer") == 1
    assert [each.after_trials for each in history.asked] == [0, 1]
    assert len({each.trial.trial_id for each in history.screenings}) >= 2


def test_without_a_key_or_consent_nothing_begins(measured, monkeypatch):
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    before = len(history_of(measured).events)
    assert "--allow-upload" in measured.refused("run", "--model", "m", code=2)
    said = measured.refused("run", "--model", "m", "--allow-upload", code=2)
    assert "OPENAI_API_KEY is not set" in said
    assert "no model is named" in measured.refused("run", "--proposer", "language", code=2)
    assert len(history_of(measured).events) == before
    assert "OPENAI_API_KEY" not in os.environ
