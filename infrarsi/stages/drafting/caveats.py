"""What trials see otherwise than the owner of a repository does: said at init, never guessed at."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from infrarsi.errors import ContractError, UsageError
from infrarsi.execute.repository import Repository
from infrarsi.frameworks.program import entry_script
from infrarsi.records.evidence import Evidence
from infrarsi.records.launcher import read_command
from infrarsi.records.plan import Lock
from infrarsi.records.task import Metric
from infrarsi.stages.calibrating.reference import metrics_seen

_LISTED = 3


def caveats(repository: Repository, lock: Lock, evidence: Evidence) -> tuple[str, ...]:
    """Give a sentence for each thing that trials lack, or that the witness cannot see."""
    notes = []
    if lock.dirty:
        notes.append(
            f"{len(lock.dirty)} changed file(s) are not in the commit, and trials run the commit: "
            f"{_some(lock.dirty)}"
        )
    pointers = repository.lfs_pointers(repository.tracked(lock.commit))
    if pointers:
        notes.append(
            f"only Git LFS pointers, without their content (`git lfs pull` fetches it): "
            f"{_some(pointers)}"
        )
    links = repository.gitlinks(lock.commit)
    empty = [path for path in links if not (repository.root / path / ".git").exists()]
    if empty:
        notes.append(
            "submodules that are not checked out here, and are empty in trials "
            f"(`git submodule update --init` fetches them): {_some(empty)}"
        )
    seen = metrics_seen(evidence)
    unseen = [str(metric) for metric in Metric if metric not in seen]
    if unseen:
        notes.append(
            f"the witness does not see the {', '.join(unseen)} of this program; candidates are "
            f"compared by {', '.join(seen)} alone"
        )
    return tuple(f"Note: {note}" for note in notes)


def refuse_notebooks(command: Sequence[str]) -> None:
    """Refuse a command that runs a notebook.

    Raises
    ------
    UsageError
        It does; the hint says how to make a script of it.
    """
    notebook = next((word for word in command if word.endswith(".ipynb")), None)
    if notebook is not None:
        raise UsageError(
            f"{notebook} is a notebook, and trials run scripts",
            hint=f"convert it (`jupyter nbconvert --to script {notebook}`), commit the script, and "
            "name that",
        )


def refuse_machines(command: Sequence[str]) -> None:
    """Refuse a command that launches over several machines.

    Raises
    ------
    UsageError
        It does: a trial has one machine, and no network but loopback.
    """
    machines = read_command(command).num_machines
    if machines > 1:
        raise UsageError(
            f"the command launches over {machines} machines, and a trial has one",
            hint="give the launch of one machine's ranks (`--standalone --nproc_per_node=...`)",
        )


def script_of(repository: Repository, command: Sequence[str], folder: str) -> str | None:
    """Give the committed script that a command runs, relative to the root.

    ``None`` where it names none, or a module that is installed elsewhere.

    Raises
    ------
    ContractError
        It names a script that is outside the repository or not committed, or it would start in a
        folder that is not.
    """
    tracked = repository.tracked(repository.commit())
    if folder != "." and not any(path.startswith(f"{folder}/") for path in tracked):
        raise ContractError(
            f"the folder {folder} has nothing in the last commit, and trials run the commit",
            hint="commit what it holds, or start from a folder that is committed",
        )
    script = entry_script(command, folder)
    if script is None:
        return None
    place = Path(os.path.normpath(repository.root / script))
    if "-m" in command and not any(word.endswith(".py") for word in command):
        return _module(place, repository.root, tracked)
    if not place.is_relative_to(repository.root):
        raise ContractError(
            f"the script {place} lies outside the repository {repository.root}",
            hint="name a script that is committed here, or run init in its own repository",
        )
    name = str(place.relative_to(repository.root))
    if name not in tracked:
        raise ContractError(
            f"{name} is not in the last commit",
            hint="commit the training script, or correct the command",
        )
    return name


def named_inputs(root: Path, start: Path, names: Sequence[str]) -> tuple[str, ...]:
    """Give inputs by their paths from the root, as typed where init was started or from the root.

    One outside the repository stays relative where it was typed so, and absolute where not.
    """
    found = []
    for name in names:
        beside = Path(os.path.normpath(start.resolve() / name))
        place = beside if beside.exists() else Path(os.path.normpath(root / name))
        if Path(name).is_absolute() and not place.is_relative_to(root):
            found.append(str(place))
        else:
            found.append(os.path.relpath(place, root))
    return tuple(found)


def _module(place: Path, root: Path, tracked: Sequence[str]) -> str | None:
    """Find the file of a module run with ``-m``: below the folder, or a source folder anywhere."""
    if not place.is_relative_to(root):
        return None
    name = str(place.relative_to(root))
    packaged = name.removesuffix(".py") + "/__main__.py"
    for wanted in (name, packaged):
        if wanted in tracked:
            return wanted
    ends = [path for path in tracked if path.endswith((f"/{name}", f"/{packaged}"))]
    return min(ends, key=len, default=None)


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more
