"""A user trains in an environment of its own, which knows nothing of InfraRSI."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from infrarsi.records.plan import Contract
from infrarsi.records.task import Memory, Surface, Task
from infrarsi.store.contract import write_contract

pytestmark = pytest.mark.training

SEEN = """
import importlib.util, os, shutil, sys
inside = {
    "infrarsi": getattr(importlib.util.find_spec("infrarsi"), "origin", None) is not None,
    "executable": sys.executable, "prefix": sys.prefix, "python": shutil.which("python"),
    "active": os.environ.get("VIRTUAL_ENV"),
}
expected = {"infrarsi": False, "executable": VENV + "/bin/python", "prefix": VENV,
            "python": VENV + "/bin/python", "active": VENV}
if inside != expected:
    raise SystemExit("seen inside: %r" % inside)
"""


def make_environment(place):
    """Make an environment that finds torch by a `.pth`, and whose Python is the same as ours."""
    command = [sys.executable, "-m", "venv", "--without-pip", "--system-site-packages", str(place)]
    subprocess.run(command, check=True)
    site = next((place / "lib").glob("python3*/site-packages"))
    packages = Path(importlib.util.find_spec("torch").origin).parents[1]
    (site / "torch_lies_elsewhere.pth").write_text(f"{packages}\n")


def commit_look(user, place):
    """Have the training say what it sees of its interpreter, and fail if that is wrong."""
    train = user.root / "train.py"
    source = train.read_text().replace(
        "import argparse\n", f"VENV = {str(place)!r}{SEEN}import argparse\n", 1
    )
    train.write_text(source)
    user.git("commit", "-qam", "look at the interpreter")


def test_an_ignored_environment_in_the_repository_trains_and_is_named_in_the_contract(user):
    place = user.root / ".venv"
    make_environment(place)
    (user.root / ".gitignore").write_text(".venv/\n")
    user.git("add", ".gitignore")
    commit_look(user, place)
    said = user.infrarsi("init", "--python", ".venv", "--", "python", "train.py").stdout
    assert "Training interpreter:" in said
    assert "named by --python" in " ".join(said.split())
    task = yaml.safe_load((user.root / "infrarsi.yaml").read_text())["task"]
    assert task["python"] == ".venv/bin/python"
    assert user.git("status", "--porcelain", "--untracked-files=no") == ""
    assert '"kind":"locked"' in (user.root / ".infrarsi" / "ledger.jsonl").read_text()


def write_task(user, python):
    """Write a contract by hand, as a user may."""
    task = Task(command=("python", "train.py"), python=python,
                surface=Surface(editable=("**/*.py",)), memory=Memory(capacity_bytes=2**30))  # fmt: skip
    write_contract(user.root / "infrarsi.yaml", Contract(name="training", task=task))


def test_an_interpreter_that_is_gone_is_told(user):
    write_task(user, "envs/removed")
    said = user.refused("init", code=8)
    assert "no interpreter at envs/removed" in said
    assert "task.python" in said


def test_an_interpreter_is_named_where_a_contract_is_drafted(user):
    write_task(user, None)
    said = user.refused("init", "--python", ".venv", code=2)
    assert "--python counts where a contract is drafted" in said
    assert "task.python" in said
