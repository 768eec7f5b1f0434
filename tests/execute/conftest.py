"""Small programs that stand in for training: they speak on the channel as the witness does."""

import hashlib
import shutil
import sys
from pathlib import Path

import pytest

from infrarsi.execute.interpreter import look
from infrarsi.execute.launch import LaunchPlan, launch
from infrarsi.execute.sandbox import Room, Tier, probe_tier
from infrarsi.execute.scratch import prepare_scratch

SPEAK = """
import json, os, socket, sys, time
def connect():
    channel = socket.socket(socket.AF_UNIX)
    channel.connect(json.loads(os.environ["INFRARSI_WITNESS"])["channel"])
    return channel
def say(channel, **event):
    channel.sendall(json.dumps({"v": 1, "rank": 0, "pid": os.getpid(), **event}).encode() + b"\\n")
def updates(channel, first, last, pause=0.0):
    for k in range(first, last + 1):
        time.sleep(pause)
        say(channel, kind="update", update=k)
        say(channel, kind="values", update=k, loss=1.0 / k, forwards=1)
"""


@pytest.fixture(params=list(Tier), ids=["bubblewrap", "uncontained"])
def tier(request):
    if request.param is Tier.BUBBLEWRAP and probe_tier() is not Tier.BUBBLEWRAP:
        pytest.skip("bubblewrap does not work on this machine")
    return request.param


@pytest.fixture
def run_program(tmp_path, tier):
    """Launch a program under a tier; gives a function from source and options to a Launch."""
    root, tree, scratch = tmp_path / "größe mit raum", tmp_path / "tree", tmp_path / "scratch"
    for folder in (root, tree):
        folder.mkdir()
    witness = tmp_path / "no witness"
    witness.mkdir()
    mark = f"test-{hashlib.sha256(str(tmp_path).encode()).hexdigest()[:12]}/"
    program = f"program_{mark[5:-1]}.py"  # its own name: tests run side by side

    def run(source, **options):
        shutil.rmtree(scratch, ignore_errors=True)
        prepare_scratch(scratch, cache=None)
        (tree / program).write_text(SPEAK + source)
        (root / "outside.txt").write_text("of the user")
        plan = {
            "mark": mark, "argv": (sys.executable, program), "folder": ".", "tier": tier,
            "room": Room(tree=tree, root=root, scratch=scratch,
                         readable=(*look(Path(sys.executable)).readable(root), witness)),
            "witness": witness, "witness_options": {"schema": 1}, "stop_update": 5,
            "values_until": 5, "deadline_s": 30.0,
        }  # fmt: skip
        return launch(LaunchPlan(**{**plan, **options}))

    run.root, run.tree, run.scratch, run.mark, run.program = (
        root,
        tree,
        scratch,
        mark,
        program,
    )
    return run
