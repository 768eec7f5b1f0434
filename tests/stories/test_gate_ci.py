"""The examples for CI are run as they stand, line by line, without a network and without torch."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from speaking_user import git

pytestmark = pytest.mark.training

CI = Path(__file__).parents[2] / "examples" / "ci"

BARE = """\
import socket, sys

class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError("there is no torch here", name=name)

def refused(*arguments, **named):
    raise OSError("there is no network here")

sys.meta_path.insert(0, NoTorch())
socket.socket.connect = socket.create_connection = refused
"""


@pytest.fixture
def runner(pull, tmp_path):
    """A runner's clone, where each change of the forge has a name; nothing but git and InfraRSI."""
    pull.commit()
    forge = tmp_path / "forge.git"
    git(pull.root, "clone", "-q", "--bare", str(pull.root), str(forge))
    git(forge, "update-ref", "refs/pull/7/head", git(forge, "rev-parse", "refs/heads/pull"))
    clone = tmp_path / "runner"
    git(tmp_path, "clone", "-q", "--branch", "main", f"file://{forge}", str(clone))
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "sitecustomize.py").write_text(BARE)
    (tools / "infrarsi").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m infrarsi "$@"\n')
    (tools / "infrarsi").chmod(0o755)
    return Runner(clone, tools, pull)


class Runner:
    def __init__(self, clone, tools, pull):
        self.clone = clone
        self.tools = tools
        self.pull = pull
        self.summary = tools / "summary.md"

    def run(self, line, **variables):
        environment = {
            **os.environ, **variables, "PATH": f"{self.tools}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(self.tools), "GITHUB_STEP_SUMMARY": str(self.summary),
        }  # fmt: skip
        return subprocess.run(
            ["bash", "-euo", "pipefail", "-c", line], cwd=self.clone, env=environment,
            capture_output=True, text=True, check=False, timeout=200,
        )  # fmt: skip

    def github(self):
        """Run the gate's job as GitHub would; give what its last line said."""
        job = yaml.safe_load((CI / "github.yml").read_text())["jobs"]["gate"]
        known = {"github.event.pull_request.number": "7"}
        variables = {
            name: re.sub(r"\$\{\{ ([\w.]+) \}\}", lambda found: known[found[1]], text)
            for name, text in job["env"].items()
        }
        variables["GITHUB_BASE_REF"] = "main"  # GitHub sets it
        steps = [step for step in job["steps"] if "run" in step and step["name"] != "install"]
        return self.last_of([self.run(step["run"], **variables) for step in steps])

    def gitlab(self):
        job = yaml.safe_load((CI / "gitlab.yml").read_text())["infrarsi-gate"]
        git(self.clone, "fetch", "-q", "origin", "pull")
        commit = git(self.clone, "rev-parse", "FETCH_HEAD")
        variables = {"CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main", "CI_COMMIT_SHA": commit}
        return self.last_of([self.run(line, **variables) for line in job["script"]])

    def last_of(self, done):
        *before, last = done
        assert [each.stderr for each in before if each.returncode != 0] == []
        return last


def test_a_true_promotion_passes_in_ci(runner):
    done = runner.github()
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("# ✅ ")
    assert "signed by author@" in done.stdout.replace("<!-- -->", "")
    assert runner.summary.read_text() == done.stdout


def test_a_tampered_one_is_refused_in_ci_with_its_reason_and_code(runner):
    forge = runner.clone.parent / "forge.git"
    runner.pull.write("notes.py", "print('not judged')\n")
    runner.pull.commit()
    git(runner.pull.root, "push", "-q", str(forge), "pull:pull")
    done = runner.gitlab()
    assert done.returncode == 4
    assert "also touches notes.py" in done.stderr
    assert done.stdout.startswith("# ❌ ")
    assert "notes.py" in runner.summary.read_text()


def test_the_jobs_that_judge_take_nothing_from_the_change():
    github = yaml.safe_load((CI / "github.yml").read_text())
    assert "pull_request_target" in github[True]  # YAML reads the word `on` so
    assert github["permissions"] == {"contents": "read"}
    for job in github["jobs"].values():
        checkout = next(step for step in job["steps"] if "checkout" in step.get("uses", ""))
        assert checkout["with"] == {"fetch-depth": 0, "persist-credentials": False}
        assert "ref" not in checkout["with"]
