"""The ledger survives crashes, notices alterations, and lets one writer in."""

import json
import os
import resource
import subprocess
import sys

import pytest

from infrarsi.errors import BusyError, LedgerError
from infrarsi.store.ledger import open_ledger, read_ledger


def write_three(folder):
    with open_ledger(folder, command="run") as ledger:
        for number in range(3):
            ledger.append("measured", {"trial_id": f"t{number}", "update_s": 0.1})


def test_events_come_back_in_order_and_chained(tmp_path):
    write_three(tmp_path)
    ledger = read_ledger(tmp_path)
    assert [event.body["trial_id"] for event in ledger.events] == ["t0", "t1", "t2"]
    assert [event.seq for event in ledger.events] == [0, 1, 2]
    assert ledger.events[2].previous == ledger.events[1].digest()
    assert ledger.head == ledger.events[2].digest()


@pytest.mark.parametrize("kept", [1, 17, -2, -1])
def test_a_torn_last_line_is_cut_off_and_said(tmp_path, kept):
    write_three(tmp_path)
    file = tmp_path / "ledger.jsonl"
    *whole, last = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(whole) + last[:kept])
    assert len(read_ledger(tmp_path).events) == 2
    with open_ledger(tmp_path, command="run") as ledger:
        assert [event.kind for event in ledger.events] == ["measured", "measured", "repaired"]
        body = ledger.events[2].body
        assert body["cut_bytes"] == len(last[:kept])
        assert (tmp_path / body["kept_as"]).read_bytes() == last[:kept]
        assert "was cut off" in ledger.repaired
    assert len(read_ledger(tmp_path).events) == 3


@pytest.mark.parametrize("last", [b"\0" * 300 + b"\n", b'{"event": {"seq\n'])
def test_a_last_line_that_is_no_json_was_torn_too(tmp_path, last):
    """A machine that lost its power can leave zeros, or half of a line and a newline."""
    write_three(tmp_path)
    with (tmp_path / "ledger.jsonl").open("ab") as file:
        file.write(last)
    assert len(read_ledger(tmp_path).events) == 3
    with open_ledger(tmp_path, command="run") as ledger:
        assert ledger.events[3].body == {"cut_bytes": len(last), "kept_as": "ledger.torn.3"}
    with open_ledger(tmp_path, command="run") as ledger:
        assert ledger.repaired is None
        assert len(ledger.events) == 4


def test_a_middle_line_that_is_no_json_is_an_alteration(tmp_path):
    write_three(tmp_path)
    file = tmp_path / "ledger.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(lines[0] + b"\0" * len(lines[1][1:]) + b"\n" + lines[2])
    with pytest.raises(LedgerError, match=r"line 2 .* was altered"):
        read_ledger(tmp_path)


def test_a_place_that_cannot_be_written_is_refused_in_words():
    from pathlib import Path

    with (
        pytest.raises(LedgerError, match="the ledger cannot be written") as error,
        open_ledger(Path("/proc/infrarsi"), command="run"),
    ):
        pass
    assert error.value.exit_code == 6
    assert "permissions" in error.value.hint


@pytest.mark.parametrize("line", [0, 1, 2])
def test_an_altered_line_is_reported_with_its_number(tmp_path, line):
    write_three(tmp_path)
    file = tmp_path / "ledger.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    lines[line] = lines[line].replace(b'"update_s":0.1', b'"update_s":0.2')
    file.write_bytes(b"".join(lines))
    with pytest.raises(LedgerError, match=f"line {line + 1} .* was altered"):
        read_ledger(tmp_path)


def test_an_altered_line_with_a_new_digest_breaks_the_chain(tmp_path):
    write_three(tmp_path)
    file = tmp_path / "ledger.jsonl"
    lines = file.read_bytes().splitlines()
    from infrarsi.records.event import Event

    event = Event.model_validate(json.loads(lines[1])["event"])
    forged = event.model_copy(update={"body": {"trial_id": "t1", "update_s": 0.01}})
    lines[1] = json.dumps({"event": forged.model_dump(), "sha256": forged.digest()}).encode()
    file.write_bytes(b"\n".join(lines) + b"\n")
    with pytest.raises(LedgerError, match=r"line 3 .* does not follow"):
        read_ledger(tmp_path)


def test_a_removed_line_is_reported(tmp_path):
    write_three(tmp_path)
    file = tmp_path / "ledger.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(lines[0] + lines[2])
    with pytest.raises(LedgerError, match="line 2"):
        read_ledger(tmp_path)


def test_a_second_writer_is_told_who_is_at_work(tmp_path):
    with (
        open_ledger(tmp_path, command="run"),
        pytest.raises(BusyError, match=rf"infrarsi run \(process {os.getpid()}\)"),
        open_ledger(tmp_path, command="apply"),
    ):
        pass


def test_a_killed_writer_leaves_the_ledger_free(tmp_path):
    script = (
        "import sys, os, signal; from pathlib import Path\n"
        "from infrarsi.store.ledger import open_ledger\n"
        "with open_ledger(Path(sys.argv[1]), command='run') as ledger:\n"
        "    ledger.append('measured', {'trial_id': 't', 'update_s': 1.0})\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    assert done.returncode == -9
    with open_ledger(tmp_path, command="run") as ledger:
        assert len(ledger.events) == 1


def test_a_full_disk_loses_nothing_that_was_recorded(tmp_path):
    """A limit on the file's size stands in for a full disk: both fail the write midway."""
    script = (
        "import sys, resource, signal; from pathlib import Path\n"
        "from infrarsi.errors import LedgerError\n"
        "from infrarsi.store.ledger import open_ledger\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "with open_ledger(Path(sys.argv[1]), command='run') as ledger:\n"
        "    ledger.append('measured', {'trial_id': 'kept', 'update_s': 1.0})\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (500, resource.RLIM_INFINITY))\n"
        "    try:\n"
        "        ledger.append('measured', {'trial_id': 'x' * 4000, 'update_s': 1.0})\n"
        "    except LedgerError as error:\n"
        "        print(error.hint)\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)\n"
        "    ledger.append('measured', {'trial_id': 'after', 'update_s': 1.0})\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert "nothing that was recorded is lost" in done.stdout
    assert [e.body["trial_id"] for e in read_ledger(tmp_path).events] == ["kept", "after"]
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY
