"""A launch is asked to keep a state after its stop, and what it leaves is taken with care."""

import json
import os

import pytest

from infrarsi.execute.keeping import Keep, digests_of, lay_out, take_kept
from infrarsi.records.evidence import read_evidence
from infrarsi.records.trial import Outcome

LISTEN = """
import select
channel = connect()
options = json.loads(os.environ["INFRARSI_WITNESS"])
asked, since = None, 0
for k in range(1, LAST + 1):
    time.sleep(0.01)
    updates(channel, k, k)
    if asked is None and select.select([channel], [], [], 0)[0]:
        asked, since = json.loads(channel.recv(9999)), k
    if asked and k == asked["update"]:
        say(channel, kind="kept", update=k, bytes=since, why=None)
"""
DEAF = "channel = connect()\nupdates(channel, 1, 1000, pause=0.01)\n"


def launched(run_program, source, **keep):
    known = {"update": 12, "ahead": 4, "most_bytes": 1000}
    return run_program(source, keep=Keep(**(known | keep)))


def test_a_state_is_asked_for_after_the_stop_and_waited_for(run_program):
    done = launched(run_program, LISTEN.replace("LAST", "1000"))
    assert done.outcome is Outcome.OK
    (kept,) = read_evidence(done.events.splitlines()).kept
    assert (kept.update, kept.why) == (12, None)
    assert kept.num_bytes >= 8, "the request is not sent long before its update"
    assert 12 <= done.last_update < 100


def test_no_request_comes_before_the_stop(run_program):
    done = launched(run_program, LISTEN.replace("LAST", "1000"), update=9, ahead=9)
    (kept,) = read_evidence(done.events.splitlines()).kept
    assert kept.num_bytes >= 5


@pytest.mark.parametrize(
    "source",
    [LISTEN.replace("LAST", "8"), LISTEN.replace("LAST", "8") + "raise SystemExit(1)", DEAF],
    ids=["ends before", "fails before", "does not listen"],
)
def test_what_is_not_kept_is_no_fault_of_the_launch(run_program, source):
    done = launched(run_program, source)
    assert done.outcome is Outcome.OK
    assert done.last_update < 100
    assert read_evidence(done.events.splitlines()).kept == ()


def test_only_plain_files_of_the_expected_names_are_taken(tmp_path):
    scratch, place, secret = tmp_path / "scratch", tmp_path / "place", tmp_path / "secret"
    secret.write_text("of the user")
    folder = scratch / "kept"
    folder.mkdir(parents=True)
    (folder / "before.0").write_bytes(b"one")
    (folder / "before.1").symlink_to(secret)
    (folder / "after.1").mkdir()
    os.mkfifo(folder / "before.2")
    os.link(secret, folder / "after.2")
    (folder / "other").write_bytes(b"x")
    take_kept(scratch, place)
    assert [each.name for each in place.iterdir()] == ["before.0"]
    assert list(digests_of(place)) == ["before.0"]
    lay_out(place, tmp_path / "next", name="0")
    assert (tmp_path / "next" / "replay" / "0" / "before.0").read_bytes() == b"one"


def test_a_folder_that_leads_elsewhere_is_not_followed(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "before.0").write_bytes(b"one")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    (scratch / "kept").symlink_to(elsewhere)
    take_kept(scratch, tmp_path / "place")
    assert digests_of(tmp_path / "place") == {}
    take_kept(tmp_path / "nothing", tmp_path / "place")
    assert digests_of(tmp_path / "place") == {}


def test_events_of_a_replay_read_as_evidence():
    told = {"kind": "replayed", "rank": 1, "update": 7, "left": ["x"], "why": None,
            "tensors": [["w", "nan", 0.1, 0.2, 3.0]]}  # fmt: skip
    evidence = read_evidence([json.dumps({"t_ns": 1, "event": told})])
    assert evidence.malformed == 0
    (seen,) = evidence.replayed
    assert (seen.update, seen.rank, seen.left) == (7, 1, ("x",))
    (row,) = seen.tensors
    assert (row.name, row.apart, row.moved) == ("w", None, 0.1)
