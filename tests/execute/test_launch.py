"""A launch ends as it must, whatever the program does, under every tier of containment."""

import json
import subprocess
from pathlib import PurePath

from infrarsi.execute.process import kill_marked
from infrarsi.execute.sandbox import Tier
from infrarsi.records.evidence import read_evidence
from infrarsi.records.trial import Outcome


def alive(words):
    """Tell whether a process whose command line holds these words is alive."""
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    return any(words in line for line in listed.stdout.splitlines() if "ps -eo" not in line)


def test_it_is_stopped_at_the_hidden_update_with_its_values(run_program):
    done = run_program("channel = connect()\nupdates(channel, 1, 1000, pause=0.01)\n")
    assert done.outcome is Outcome.OK
    assert 5 <= done.last_update < 1000
    evidence = read_evidence(done.events.splitlines())
    assert [u.update for u in evidence.updates[:5]] == [1, 2, 3, 4, 5]
    assert evidence.updates[4].loss == 0.2
    stamps = [u.t_ns for u in evidence.updates]
    assert stamps == sorted(stamps)
    assert stamps[0] > 0


def test_a_crash_is_told_with_its_last_line(run_program):
    done = run_program("print('loading\\r50%\\rdone')\nraise SystemExit('no such file: x.bin')\n")
    assert done.outcome is Outcome.CRASHED
    assert "exit code 1" in done.reason
    assert "no such file: x.bin" in done.reason


def test_an_end_before_the_stop_is_a_crash_though_the_exit_code_is_0(run_program):
    done = run_program("channel = connect()\nupdates(channel, 1, 3)\n")
    assert done.outcome is Outcome.CRASHED
    assert "ended by itself after update 3" in done.reason


def test_a_program_that_hangs_is_killed_at_the_deadline(run_program):
    done = run_program(
        "channel = connect()\nupdates(channel, 1, 2)\ntime.sleep(600)\n", deadline_s=1.5
    )
    assert done.outcome is Outcome.HUNG
    assert "last update seen was 2" in done.reason
    assert not alive(run_program.program)


def test_a_program_that_ignores_every_signal_is_killed_too(run_program):
    source = (
        "import signal\n"
        "for s in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP): signal.signal(s, signal.SIG_IGN)\n"
        "time.sleep(600)\n"
    )
    assert run_program(source, deadline_s=1.5).outcome is Outcome.HUNG
    assert not alive(run_program.program)


def test_a_daemon_that_left_its_session_is_found_and_killed(run_program):
    source = (
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        "        time.sleep(600)\n"
        "    os._exit(0)\n"
        "channel = connect()\nupdates(channel, 1, 50, pause=0.01)\n"
    )
    assert run_program(source).outcome is Outcome.OK
    assert not alive(run_program.program)
    assert kill_marked(run_program.mark) == []


def test_memory_above_the_cap_is_an_out_of_memory(run_program):
    source = "channel = connect()\nupdates(channel, 1, 2)\nx = bytearray(900_000_000)\n"
    done = run_program(source, cap_bytes=400_000_000)
    assert done.outcome is Outcome.OOM
    assert "after update 2" in done.reason
    assert "MemoryError" in done.reason


def test_the_peak_is_in_the_unit_of_the_cap(run_program):
    source = (
        "x = bytearray(300_000_000)\ntime.sleep(0.3)\ndel x\n"
        "channel = connect()\nupdates(channel, 1, 50, pause=0.01)\n"
    )
    done = run_program(source, cap_bytes=500_000_000)
    assert done.outcome is Outcome.OK
    assert 300_000_000 < done.peak_data_bytes < 500_000_000


def test_killed_from_outside_is_perhaps_an_out_of_memory(run_program):
    done = run_program("import signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    assert done.outcome is Outcome.AMBIGUOUS_MEMORY


def test_garbage_on_the_channel_is_kept_as_malformed(run_program):
    source = (
        "channel = connect()\nchannel.sendall(b'not json\\n[1]\\n{\"kind\": NaN}\\n')\n"
        "updates(channel, 1, 50, pause=0.01)\n"
    )
    done = run_program(source)
    assert done.outcome is Outcome.OK
    evidence = read_evidence(done.events.splitlines())
    assert evidence.malformed == 3
    assert len(evidence.updates) >= 5


def test_a_program_that_never_spoke_is_seen_as_such(run_program):
    done = run_program("print('training')\n")
    assert not done.spoke
    assert read_evidence(done.events.splitlines()).hello is None


def test_only_allowed_variables_pass(run_program, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("HF_HOME", "/models")
    source = "print(json.dumps(dict(os.environ)))\nraise SystemExit(1)\n"
    done = run_program(source, env={"OMP_NUM_THREADS": "1"})
    seen = json.loads(done.log.decode().splitlines()[0])
    assert "AWS_SECRET_ACCESS_KEY" not in seen
    assert seen["HF_HOME"] == "/models"
    assert seen["OMP_NUM_THREADS"] == "1"
    assert PurePath(seen["TMPDIR"]).name == "tmp"


def test_a_contained_program_sees_its_tree_at_the_original_path(run_program, tier):
    if tier is not Tier.BUBBLEWRAP:
        return
    source = (
        "print(os.getcwd(), os.path.exists('outside.txt'))\n"
        "open('made.txt', 'w').write('x')\n"
        "import tempfile; tempfile.NamedTemporaryFile(delete=False)\n"
        "for place in ('/etc/infrarsi-was-here', os.path.expanduser('~/infrarsi-was-here')):\n"
        "    try: open(place, 'w'); print('wrote', place)\n"
        "    except OSError: pass\n"
        "import socket as s\n"
        "try: s.create_connection(('192.0.2.1', 80), timeout=0.5); print('connected')\n"
        "except OSError: pass\n"
        "raise SystemExit(3)\n"
    )
    done = run_program(source)
    assert f"{run_program.root} False" in done.log.decode()
    assert "wrote" not in done.log.decode()
    assert "connected" not in done.log.decode()
    assert not (run_program.root / "made.txt").exists()
    assert (run_program.tree / "made.txt").read_text() == "x"
    assert (run_program.root / "outside.txt").read_text() == "of the user"


def test_a_loud_program_does_not_block(run_program):
    source = (
        "channel = connect()\n"
        "for k in range(1, 40):\n"
        "    print('x' * 200_000)\n"
        "    updates(channel, k, k)\n"
    )
    done = run_program(source, deadline_s=60)
    assert done.outcome is Outcome.OK
    assert len(done.log) <= 1 << 20


def test_a_contained_program_cannot_put_its_own_socket_in_the_channels_place(run_program, tier):
    if tier is not Tier.BUBBLEWRAP:
        return  # nothing stops it there, as its name says
    done = run_program(
        "place = json.loads(os.environ['INFRARSI_WITNESS'])['channel']\n"
        "door = os.path.dirname(place)\n"
        "for change in (lambda: os.rename(place, place + '2'), lambda: os.unlink(place),\n"
        "               lambda: os.rename(door, door + '2'), lambda: open(door + '/x', 'w')):\n"
        "    try:\n"
        "        change()\n"
        "        print('CHANGED')\n"
        "    except OSError as error:\n"
        "        print('refused', error.errno)\n"
        "channel = connect()\nupdates(channel, 1, 1000, pause=0.01)\n"
    )
    assert done.outcome is Outcome.OK
    assert done.log.count(b"refused") == 4
    assert b"CHANGED" not in done.log
