"""What each tier of containment claims, and what the lowest does not: see docs/threat-model.md."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from infrarsi.execute.git_seen import show_git
from infrarsi.execute.interpreter import look
from infrarsi.execute.repository import find_repository
from infrarsi.execute.sandbox import INSIDE, Room, Tier
from infrarsi.execute.scratch import prepare_scratch
from infrarsi.execute.worktree import make_worktree

contained = pytest.mark.parametrize("tier", [Tier.BUBBLEWRAP], indirect=True, ids=["contained"])
uncontained = pytest.mark.parametrize(
    "tier", [Tier.PROCESS_GROUP], indirect=True, ids=["uncontained"]
)

TRIES = """
def tried(*attempts):
    done = []
    for name, attempt in attempts:
        try:
            attempt()
            done.append(name)
        except OSError:
            pass
    return done
def tell(**seen):
    print(json.dumps(seen), flush=True)
    raise SystemExit(3)
"""


def told(run_program, source, **options):
    """Run a program that looks around, and give what it tells."""
    done = run_program(TRIES + source, **options)
    lines = [line for line in done.log.decode().splitlines() if line.startswith("{")]
    assert lines, done.log.decode()
    return json.loads(lines[-1])


def room_of(run_program, **changes):
    root = run_program.root
    known = {
        "tree": run_program.tree, "root": root, "scratch": run_program.scratch,
        "readable": look(Path(sys.executable)).readable(root),
    }  # fmt: skip
    return Room(**{**known, **changes})


@contained
def test_contained_nothing_can_be_written_but_its_tree_and_its_scratch(run_program, tmp_path):
    places = ["/", "/etc", "/usr/lib", "/var/tmp", "/dev/shm/..", str(Path.home())]
    seen = told(
        run_program,
        f"places = {places!r} + [sys.prefix, os.path.dirname(json.__file__)]\n"
        "write = lambda place: open(place + '/infrarsi-was-here', 'w').close()\n"
        "tell(wrote=tried(*((p, lambda p=p: write(p)) for p in places)),\n"
        "     own=tried(('tree', lambda: write('.')), ('scratch', lambda: write(os.environ['TMPDIR']))))\n",
    )
    assert set(seen["wrote"]) <= {"/dev/shm/.."}, "which is a /dev of its own"
    assert seen["own"] == ["tree", "scratch"]
    assert not any(Path(place, "infrarsi-was-here").exists() for place in places)


@contained
def test_contained_the_checkout_and_its_ledger_are_not_there(run_program):
    state = run_program.root / ".infrarsi"
    state.mkdir()
    (state / "ledger.jsonl").write_text("the record\n")
    seen = told(
        run_program,
        "here = [os.path.exists(each) for each in ('.infrarsi/ledger.jsonl', 'outside.txt')]\n"
        "os.makedirs('.infrarsi', exist_ok=True)\n"
        "open('.infrarsi/ledger.jsonl', 'w').write('forged')\n"
        "open('outside.txt', 'w').write('changed')\n"
        "tell(here=here)\n",
    )
    assert seen["here"] == [False, False]
    assert (state / "ledger.jsonl").read_text() == "the record\n"
    assert (run_program.root / "outside.txt").read_text() == "of the user"


@contained
def test_contained_it_has_a_tmp_of_its_own(run_program, tmp_path):
    note = tmp_path / "of another program.txt"
    note.write_text("results")
    seen = told(
        run_program,
        f"there = os.path.exists({str(note)!r})\n"
        "for place in ('/tmp/infrarsi-passes-this-on', '/dev/shm/infrarsi-passes-this-on'):\n"
        "    open(place, 'w').write('results')\n"
        "tell(there=there)\n",
    )
    assert seen == {"there": False}
    for folder in ("/tmp", "/dev/shm"):
        assert not Path(folder, "infrarsi-passes-this-on").exists()


@contained
def test_contained_there_is_no_network_but_its_own_loopback(run_program):
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        ours = server.getsockname()[1]
        seen = told(
            run_program,
            f"ours = socket.socket(); ours.settimeout(0.5)\n"
            f"reached = tried(('ours', lambda: ours.connect(('127.0.0.1', {ours}))),\n"
            "    ('world', lambda: socket.create_connection(('192.0.2.1', 80), timeout=0.3)))\n"
            "own = socket.socket(); own.bind(('127.0.0.1', 0)); own.listen()\n"
            "two = socket.create_connection(own.getsockname(), timeout=2)\n"
            "tell(reached=reached, cards=[name for _, name in socket.if_nameindex()])\n",
        )
    assert seen == {"reached": [], "cards": ["lo"]}


@contained
def test_contained_it_has_no_capability_and_cannot_get_one(run_program):
    seen = told(
        run_program,
        "import subprocess\n"
        "status = dict(l.split(':\\t', 1) for l in open('/proc/self/status').read().splitlines()\n"
        "              if l.startswith(('Cap', 'NoNewPrivs')))\n"
        "def runs(*argv):\n"
        "    try: return subprocess.run(argv, capture_output=True).returncode == 0\n"
        "    except OSError: return False\n"
        "tell(status=status, got=[argv for argv in (['unshare', '-Ur', 'true'],\n"
        "    ['mount', '-o', 'remount,bind,rw', '/'], ['mount', '-t', 'tmpfs', 'x', '/mnt'])\n"
        "    if runs(*argv)])\n",
    )
    caps = {name: int(value, 16) for name, value in seen["status"].items() if "Cap" in name}
    assert set(caps) >= {"CapEff", "CapPrm", "CapBnd", "CapAmb"}
    assert not any(caps.values())
    assert seen["status"]["NoNewPrivs"].strip() == "1"
    assert seen["got"] == []


@contained
def test_contained_it_sees_no_process_but_its_own(run_program):
    seen = told(
        run_program,
        "pids = [each for each in os.listdir('/proc') if each.isdigit()]\n"
        "lines = [open(f'/proc/{pid}/cmdline').read() for pid in pids]\n"
        "tell(others=[line for line in lines if 'program_' not in line])\n",
    )
    assert seen == {"others": []}


@contained
def test_contained_locked_inputs_can_be_read_and_not_written(run_program):
    (run_program.root / "tokens.bin").write_text("prepared")
    (run_program.tree / "tokens.bin").touch()  # where it is mounted
    seen = told(
        run_program,
        "tell(read=open('tokens.bin').read(), changed=tried(\n"
        "    ('written', lambda: open('tokens.bin', 'w')), ('gone', lambda: os.unlink('tokens.bin')),\n"
        "    ('moved', lambda: os.rename('tokens.bin', 'other.bin')),\n"
        "    ('replaced', lambda: os.rename(sys.argv[0], 'tokens.bin'))))\n",
        room=room_of(run_program, inputs=("tokens.bin",)),
    )
    assert seen == {"read": "prepared", "changed": []}


@contained
def test_contained_the_users_git_folder_is_masked(run_program):
    (run_program.tree / ".git").write_text(f"gitdir: {run_program.root}/.git/worktrees/x\n")
    seen = told(
        run_program,
        "def read():\n"
        "    if 'gitdir' not in open('.git').read(): raise OSError\n"
        "tell(done=tried(('read', read), ('gone', lambda: os.unlink('.git')),\n"
        "    ('moved', lambda: os.rename('.git', 'git'))))\n",
    )
    assert seen == {"done": []}
    assert "gitdir" in (run_program.tree / ".git").read_text()


@contained
def test_contained_it_can_ask_git_and_change_nothing_of_the_users(run_program, tmp_path):
    root, scratch = run_program.root, tmp_path / "laid out"
    for words in ("init -q -b main", "commit -q --allow-empty -m first"):
        subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *words.split()],
            cwd=root, check=True,
        )  # fmt: skip
    repository = find_repository(root)
    commit, hooks = repository.commit(), root / ".git" / "hooks"
    before = (
        repository.git("for-each-ref"),
        repository.git("config", "--list"),
        sorted(hooks.glob("*")),
    )
    prepare_scratch(scratch, cache=None)
    with make_worktree(repository, commit, place=run_program.tree):
        objects = show_git(repository, run_program.tree, commit, scratch=scratch)
        seen = told(
            run_program,
            "import subprocess\n"
            "def git(*words):\n"
            "    argv = ['git', '-c', 'user.name=a', '-c', 'user.email=a@b', *words]\n"
            "    return subprocess.run(argv, capture_output=True, text=True).stdout.strip()\n"
            "head, branches = git('rev-parse', 'HEAD'), git('branch', '--list', 'main')\n"
            "git('branch', 'mine'); git('config', 'core.hooksPath', '/tmp'); git('add', '-A')\n"
            "git('commit', '-m', 'mine'); git('gc', '--prune=now')\n"
            "tell(head=head, branches=branches, folder=git('rev-parse', '--absolute-git-dir'))\n",
            room=room_of(run_program, scratch=scratch, git_objects=objects),
        )
    assert seen["head"] == commit
    assert seen["branches"] == ""
    assert seen["folder"].startswith(str(INSIDE))
    after = (
        repository.git("for-each-ref"),
        repository.git("config", "--list"),
        sorted(hooks.glob("*")),
    )
    assert after == before
    assert repository.commit() == commit


@uncontained
def test_uncontained_only_the_label_says_what_it_is(run_program, tmp_path):
    """None of what the other tier stops is stopped, so that nobody may take it for a sandbox."""
    place = tmp_path / "written by a trial.txt"
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        seen = told(
            run_program,
            f"tell(did=tried(('wrote', lambda: open({str(place)!r}, 'w').close()),\n"
            f"    ('read', lambda: open({str(run_program.root / 'outside.txt')!r}).read()),\n"
            f"    ('reached', lambda: socket.create_connection({server.getsockname()!r}, timeout=2)),\n"
            f"    ('saw', lambda: open('/proc/{os.getpid()}/cmdline').read())))\n",
        )
    assert seen["did"] == ["wrote", "read", "reached", "saw"]
    assert "uncontained" in Tier.PROCESS_GROUP.value
