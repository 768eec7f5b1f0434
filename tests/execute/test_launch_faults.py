"""Ways that a launch goes wrong, or looks as if it did, under every tier of containment."""

import os
import subprocess

import pytest

from infrarsi.execute.sandbox import Tier
from infrarsi.records.evidence import read_evidence
from infrarsi.records.trial import Outcome

GOES_ON = "channel = connect()\nupdates(channel, 1, 400, pause=0.005)\n"


def test_a_hang_after_the_window_is_ended_by_the_parent_and_the_launch_is_ok(run_program):
    done = run_program("channel = connect()\nupdates(channel, 1, 5)\ntime.sleep(600)\n")
    assert done.outcome is Outcome.OK
    assert done.last_update == 5
    assert done.wall_s < 20


def test_errors_ignored_and_words_of_memory_on_stderr_are_no_failure(run_program):
    loud = (
        "sys.stderr.write(\"UserWarning: decoding with errors='ignore'\\n\")\n"
        "sys.stderr.write('CUDA out of memory (caught; retrying with a smaller batch)\\n')\n"
        "sys.stderr.flush()\n"
        "sys.stderr.buffer.write(b'\\xff\\xfe not UTF-8 \\x00\\n'); sys.stderr.flush()\n"
    )
    done = run_program(loud + GOES_ON)
    assert done.outcome is Outcome.OK
    assert done.reason == ""


def test_bytes_that_are_no_text_do_not_hide_why_it_failed(run_program):
    source = (
        "sys.stderr.buffer.write(b'\\xff\\xfe\\x00 loading\\r'); sys.stderr.flush()\n"
        "raise ValueError('größe')\n"
    )
    done = run_program(source)
    assert done.outcome is Outcome.CRASHED
    assert "ValueError: größe" in done.reason


def test_a_disk_that_is_full_for_the_program_speaks_against_nobody(run_program):
    source = (
        "channel = connect()\nupdates(channel, 1, 2)\n"
        "with open('/dev/full', 'w') as file:\n    file.write('a checkpoint')\n"
    )
    done = run_program(source)
    assert done.outcome is Outcome.HARNESS_ERROR
    assert "a disk was full after update 2" in done.reason


def test_an_orphan_without_its_mark_and_session_is_killed_too(run_program, tier):
    """It clears its environment and leaves its session: only the kernel knows whose it is."""
    source = (
        "import subprocess\n"
        "subprocess.run(['sh', '-c', 'setsid env -i sleep 617.3 & '], stdout=subprocess.DEVNULL)\n"
        + GOES_ON
    )
    done = run_program(source)
    assert done.outcome is Outcome.OK
    # Contained, it ends with its process namespace before anyone has to look for it.
    assert len(done.stray_pids) == (1 if tier is Tier.PROCESS_GROUP else 0)
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    assert "sleep 617.3" not in listed.stdout


@pytest.mark.parametrize("kind", ["unset", "gone", "long"])
def test_no_usable_tmpdir_is_no_obstacle(run_program, monkeypatch, tmp_path, kind):
    if kind == "unset":
        monkeypatch.delenv("TMPDIR", raising=False)
    else:
        place = tmp_path / ("x" * 90)
        if kind == "long":
            place.mkdir()
        monkeypatch.setenv("TMPDIR", str(place))
    source = "import tempfile\ntempfile.TemporaryFile().write(b'x')\nprint(tempfile.gettempdir())\n"
    done = run_program(source + GOES_ON)
    assert done.outcome is Outcome.OK
    assert done.log.decode().strip().endswith("/tmp")


def test_a_home_that_cannot_be_written_is_no_obstacle(run_program, monkeypatch):
    monkeypatch.setenv("HOME", "/proc")
    source = (
        "try: os.makedirs(os.path.expanduser('~/.cache/mine'))\n"
        "except OSError as error: print('cannot cache:', error)\n"
    )
    done = run_program(source + GOES_ON)
    assert done.outcome is Outcome.OK
    assert b"cannot cache" in done.log


def test_an_argument_that_names_the_checkout_means_the_trials_own_tree(run_program, tier):
    (run_program.root / "settings.txt").write_text("the user's\n")
    (run_program.tree / "settings.txt").write_text("the trial's\n")
    source = "print(open(sys.argv[1].split('=')[-1]).read(), sys.argv[2])\n" + GOES_ON
    ours, absent = run_program.root / "settings.txt", run_program.root / "not in the commit.bin"
    import sys

    argv = (sys.executable, run_program.program, f"--settings={ours}", str(absent))
    done = run_program(source, argv=argv)
    assert done.outcome is Outcome.OK
    assert done.log.decode().split("\n")[0] == "the trial's"
    assert str(absent) in done.log.decode()


def test_the_first_update_is_not_taken_for_the_last(run_program):
    """A second process that counts from 1 again takes nothing back."""
    source = (
        "channel = connect()\nupdates(channel, 1, 3)\nupdates(channel, 1, 1)\n"
        "time.sleep(0.2)\nraise SystemExit(0)\n"
    )
    done = run_program(source)
    assert done.outcome is Outcome.CRASHED
    assert "after update 3" in done.reason
    assert read_evidence(done.events.splitlines()).malformed == 2
    assert os.getpid() not in done.stray_pids
