"""Everything that is known of a trial is told on request, on a terminal and as JSON alike."""

import json
import subprocess
import sys

import pytest
from judged_ledger import Recipe, Search, copied

from infrarsi.errors import UsageError
from infrarsi.records.shown import Shown
from infrarsi.render.shown import shown_lines
from infrarsi.stages.rejudging.docket import Docket
from infrarsi.stages.show import find_trial, show

HACK = Recipe(skip_layer=True)


@pytest.fixture(scope="module")
def search(tmp_path_factory):
    search = Search(tmp_path_factory.mktemp("shown") / "training").measure()
    search.screen("fast", reason="probe of fast")
    search.screen("skip", recipe=HACK, reason="probe of skip")
    search.confirm("fast")
    return search


def named(search, name, **options):
    return show(search.read(), name, **options)


def test_a_refused_trial_is_told_from_why_it_was_tried_to_what_spoke_against_it(search):
    shown = named(search, "t0009")
    text = "\n".join(shown_lines(shown))
    assert text.startswith("t0009: screen of +skip: ok, fail")
    for said in (
        "why it was tried: probe of skip", "patch skip (language, in model.py): skips a layer",
        "launched: python train.py", "time per update: ", "the reference: ", "peak memory: 477",
        "containment: bubblewrap", "after update 16: parameters", "optimizer state", "float32",
        "screening: fail by rules version", "numerics, loss: the loss deviates by",
        "allowed", "null launches", "stamped events: verified", "dollars not known",
    ):  # fmt: skip
        assert said in text, said
    findings = [line for line in text.splitlines() if ": the loss deviates" in line]
    assert "after update" in findings[0]
    against = text.index("numerics, loss")
    assert against < text.index("integrity, tree"), "what spoke against it comes first"


def test_json_says_the_same(search):
    done = subprocess.run(
        [sys.executable, "-m", "infrarsi", "show", "9", "--json", "--diff", "-C", str(search.root)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    shown = Shown.model_validate(json.loads(done.stdout))
    assert shown == named(search, "t0009", diff=True)
    assert [each.state for each in shown.artifacts] == ["verified"] * 3
    assert shown.verdicts[0].ruling == "fail"


def test_a_diff_is_of_the_commit_that_the_trial_started_from(search):
    diff = named(search, "t0008", diff=True).diff
    assert "--- a/model.py\n+++ b/model.py\n" in diff
    assert "-    return q @ k\n+    return (q @ k)\n" in diff
    assert named(search, "t0008").diff is None


def test_a_launch_of_a_confirmation_is_judged_alone_too(search):
    shown = named(search, "t0011")
    assert shown.trial.purpose == "confirm"
    assert shown.why == "confirmation 1, launch 1: the winner"
    assert [each.kind for each in shown.verdicts] == ["confirm"]
    assert {each.layer for each in shown.own_findings} >= {"workload", "timing", "numerics"}
    assert all("launches; launch" not in each.reason for each in shown.own_findings)


def test_a_trial_is_found_by_id_number_beginning_and_candidate(search):
    docket = Docket.of(search.read().ledger.events)
    skip = search.candidate("skip").short_id()
    for name in ("t0009", "9", "t9", skip, skip[:6]):
        assert find_trial(docket, name).trial.trial_id == "t0009"
    fast = find_trial(docket, search.candidate("fast").short_id()).trial
    assert (fast.trial_id, fast.purpose) == ("t0008", "screen")
    assert find_trial(docket, "t0017").trial.trial_id == "t0017"


@pytest.mark.parametrize(("name", "said"), [
    ("t001", "could be t0010, t0011"), ("t0099", "no trial or candidate is called 't0099'"),
    ("", "no trial or candidate"), ("zzzz", "name one of t0001 to t0019"),
])  # fmt: skip
def test_what_is_unknown_or_could_be_several_is_refused_in_two_sentences(search, name, said):
    with pytest.raises(UsageError) as error:
        named(search, name)
    assert said in f"{error.value} -> {error.value.hint}"
    assert error.value.hint


def test_a_launch_that_was_never_judged_is_told_as_far_as_it_goes(search):
    shown = named(search, "t0005")
    assert shown.verdicts == ()
    assert shown.own_findings == ()
    assert shown.why == "learning which differences mean nothing: weights disturbed by 1 ulp"
    assert "not judged" in shown_lines(shown)[0]


def test_evidence_that_does_not_verify_is_said_to(search, tmp_path):
    search = copied(search, tmp_path / "training")
    trial = find_trial(Docket.of(search.read().ledger.events), "t0003").trial
    search.place_of(trial.log_digest).unlink()
    search.place_of(trial.evidence_digest).write_bytes(b"no longer what it was")
    shown = named(search, "t0003")
    states = {each.what: each.state for each in shown.artifacts}
    assert states == {
        "stamped events": "altered", "source before and after": "verified",
        "the program's output": "missing",
    }  # fmt: skip
    assert shown.seen is None
    assert "cannot be read" in "\n".join(shown_lines(shown))


def test_on_a_terminal_no_line_is_wider_than_it_and_the_source_is_as_typed(search):
    shown = named(search, "t0009", diff=True)
    lines = shown_lines(shown, width=80)
    before = lines[: lines.index("the change")]
    long_words = [line for line in before if len(line) > 80 and " " in line.strip()]
    assert long_words == []
    assert " ".join(" ".join(before).split()) == " ".join(
        " ".join(shown_lines(shown)[: shown_lines(shown).index("the change")]).split()
    )
    assert "-    return q @ k" in lines
