"""A user whose training speaks for itself, and the stages as functions: a launch takes a moment."""

import subprocess
from pathlib import Path

import pytest

from infrarsi.records.candidate import Candidate, Edit, Patch
from infrarsi.stages.init import Draft, lock_task
from infrarsi.stages.launching.trial import Request
from infrarsi.stages.workspace import open_workspace

SPEAKING = Path(__file__).parent / "speaking"


def git(root, *arguments):
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def lock(root, *, command=("python", "train.py"), relock=False, **draft):
    """Do what `infrarsi init` does."""
    return lock_task(root, Draft(command=command, relock=relock, **draft))


def opened(root):
    """Open a locked workspace, as every stage that writes does."""
    return open_workspace(root, command="run")


def patch_of(name, *, path, search, replace):
    edit = Edit(path=path, search=search, replace=replace)
    return Patch(name=name, proposer="test", edits=(edit,), summary=name)


EDIT = patch_of("edit", path="train.py", search='"""A stand-in', replace='"""Another stand-in')


def candidate_of(*patches, **options):
    """Request one screening launch of these patches."""
    names = [patch.name for patch in patches]
    return Request(Candidate.of({}, names), "screen", **options)


def refused_by(kind, action, *, code=None):
    """Do what must be refused; give its two sentences."""
    with pytest.raises(kind) as error:
        action()
    assert error.value.exit_code == (code or kind.exit_code)
    assert "\n" not in str(error.value)
    assert error.value.hint
    return f"{error.value} -> {error.value.hint}"
