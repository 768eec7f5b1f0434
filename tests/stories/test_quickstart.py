"""From init to a branch and back: what docs/quickstart.md shows is what a newcomer sees."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from infrarsi.records.report import Report
from infrarsi.stages.history import History
from infrarsi.store.ledger import read_ledger

PAGE = Path(__file__).parents[2] / "docs" / "quickstart.md"
ANY = "..."

pytestmark = pytest.mark.training


def sessions(text):
    """Give each command of the console blocks with the lines that it is said to print."""
    found = []
    for block in re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            elif line:
                found[-1][1].append(line)
    return found


def masked(line):
    """Take out what differs from day to day: numbers, digests, boxes and white space."""
    line = re.sub(r"[│┃╭╮╰╯─━┏┓┗┛┡┩└┘┬┴┼├┤╇╈┳┻]+", " ", line)
    line = re.sub(r"\b(?=[0-9a-f]*\d)[0-9a-f]{7,40}\b", "@", line)
    line = re.sub(rf"[-+]?\d[\d.,:]*(?<!{re.escape(ANY)})(e[-+]?\d+)?", "#", line)
    return re.sub(r"\s+", " ", line).strip()


def is_shown(expected, line):
    """Tell whether a line, masked, is one that was expected, where ``...`` stands for any text."""
    parts = [re.escape(masked(part)) for part in expected.split(ANY)]
    return re.fullmatch(r"\s*.*\s*".join(parts), masked(line)) is not None


def missing(expected, shown):
    """Give the first expected line that does not come in its turn; ``...`` alone is any lines."""
    rows = [row for row in shown if masked(row)]
    at, free = 0, False
    for line in expected:
        if line.strip() == ANY:
            free = True
            continue
        while free and at < len(rows) and not is_shown(line, rows[at]):
            at += 1
        if at >= len(rows) or not is_shown(line, rows[at]):
            return line
        at, free = at + 1, False
    return None if free or at == len(rows) else f"(nothing more, but there was {rows[at]!r})"


@pytest.fixture(scope="module")
def typed(owner_of, tmp_path_factory):
    """A user who has typed the page's commands, and each command with its lines and what came."""
    user = owner_of(tmp_path_factory.mktemp("newcomer") / "my-training")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "COLUMNS": "110", "TERM": "dumb"}
    shown = []
    for command, expected in sessions(PAGE.read_text()):
        if command.endswith("--revert"):
            break
        done = subprocess.run(
            ["bash", "-c", command], cwd=user.root, env=environment, text=True, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=900,
        )  # fmt: skip
        shown.append((command, expected, done.stdout))
    return user, shown


def test_the_comparison_notices_a_line_that_is_not_printed():
    assert missing(["a 1", ANY, "c"], ["a 2", "b", "c"]) is None
    assert missing(["a 1", "c"], ["a 2", "b", "c"]) == "c"
    assert missing(["a 1"], ["a 2", "b"]) == "(nothing more, but there was 'b')"
    assert missing(["commit 1a2b3c4d, a...z"], ["commit 99ff00aa, a word 7z"]) is None
    assert missing(["a...z"], ["a y"]) == "a...z"
    assert missing(["a... 5 s"], ["a: 1 min 6.5 s"]) is None


@pytest.mark.timeout(1500)
def test_every_command_of_the_quickstart_prints_what_the_page_shows(typed):
    _, shown = typed
    stages = [command.split()[1] for command, _, _ in shown]
    assert {"init", "doctor", "run", "status", "apply", "report"} <= set(stages)
    for command, expected, printed in shown:
        wrong = missing(expected, printed.splitlines())
        assert wrong is None, f"$ {command}\n{printed}\nnot as shown: {wrong}"


@pytest.mark.timeout(1500)
def test_a_search_ends_on_a_branch_that_trains_the_same_faster(typed):
    user, _ = typed
    history = History.of(read_ledger(user.root / ".infrarsi").events)
    assert history.choice.candidate.knobs["fused"] is True
    assert history.choice.candidate.knobs["dtype"] == "float32"
    cast = [s for s in history.screenings if s.trial.candidate.knobs["dtype"] == "bfloat16"]
    assert all(s.verdict.ruling == "fail" for s in cast)

    branch = user.git("branch", "--list", "infrarsi/*", "--format=%(refname:short)")
    launch = json.loads(user.git("show", f"{branch}:infrarsi-launch.json"))
    assert "--fused" in launch["command"]
    trailers = user.git("log", "--format=%(trailers)", f"main..{branch}")
    for name in ("InfraRSI-Contract", "InfraRSI-Verdict", "InfraRSI-Evidence"):
        assert name in trailers
    assert user.git("log", "--format=%s") == "my training"

    folder = user.root / ".infrarsi" / "report"
    report = json.loads((folder / "report.json").read_text())
    Report.model_validate(report)
    assert report["winner"]["knobs"]["fused"] is True
    launched = len(history.screenings) + len(history.trials_for("ablation"))
    assert sum(report["trials"]["outcomes"].values()) == launched
    assert report["cost"]["wall_s"] > 0
    point = f"{report['confirmed']['speedup']['point']:.2f}"
    for name in ("report.html", "report.md"):
        assert point in (folder / name).read_text()

    user.infrarsi("apply", "--revert")
    assert user.git("branch", "--list", "infrarsi/*") == ""
    user.leaves_nothing()
