"""Launches of the reference itself: whether they can be used, and what to do where they cannot."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from infrarsi.errors import ReferenceFailedError
from infrarsi.execute.absent import modules_named, paths_named
from infrarsi.execute.sandbox import Tier
from infrarsi.records.evidence import Evidence
from infrarsi.records.task import Metric
from infrarsi.records.trial import Outcome, Trial
from infrarsi.stages.launching.trial import evidence_of
from infrarsi.stages.workspace import Workspace

_READ_ONLY = re.compile(r"Read-only file system: '([^']+)'")
_LAST_LINES = 40


def refuse_failed_reference(workspace: Workspace, trial: Trial) -> None:
    """Refuse to go on where a launch of the reference itself did not end well.

    Raises
    ------
    ReferenceFailedError
        It failed, its loss is not finite, or its batches cannot be seen; with what to do.
    """
    if trial.outcome is not Outcome.OK:
        raise ReferenceFailedError(
            f"the reference command did not do its work: {trial.reason}",
            hint=_what_to_do(workspace, trial),
        )
    evidence = evidence_of(workspace, trial)
    broken = next((row for row in evidence.updates if "loss" in row.non_finite), None)
    if broken is not None:
        raise ReferenceFailedError(
            f"the reference's own loss is not finite at update {broken.update}",
            hint="mend the training (learning rate, precision, data) until its loss is finite",
        )
    told = [row for row in evidence.updates if row.forwards is not None]
    if told and all(row.batch is None for row in told):
        raise ReferenceFailedError(
            "the witness cannot see what data the reference trains on",
            hint="call the model with the token ids (an integer tensor) as an argument; without "
            "them no candidate could be shown to train on the same data",
        )
    _refuse_foreign_code(workspace, evidence)


def metrics_seen(evidence: Evidence) -> tuple[Metric, ...]:
    """Give the metrics that a launch showed, in their usual order."""
    shown = {
        metric
        for metric in (Metric.LOSS, Metric.GRAD_NORM, Metric.UPDATE_NORM)
        for row in evidence.updates
        if getattr(row, metric) is not None or metric in row.non_finite
    }
    if any(mark.sketch for mark in evidence.marks):
        shown.add(Metric.SKETCH)
    return tuple(metric for metric in Metric if metric in shown)


def refuse_unseen_metrics(workspace: Workspace, evidence: Evidence) -> None:
    """Refuse a contract that compares what the witness cannot see in the reference.

    Raises
    ------
    ReferenceFailedError
        It names the metrics.
    """
    seen = metrics_seen(evidence)
    unseen = [each for each in workspace.contract.task.numerics.metrics if each not in seen]
    if unseen:
        raise ReferenceFailedError(
            f"the witness does not see the {', '.join(unseen)} of the reference",
            hint="take that out of task.numerics.metrics and lock anew, or have the program call "
            "`loss.backward()` on its loss",
        )


def _refuse_foreign_code(workspace: Workspace, evidence: Evidence) -> None:
    """Refuse where the reference ran files of the user's checkout instead of its own tree's."""
    if workspace.tier is Tier.BUBBLEWRAP:
        return  # the trial's tree stands where the checkout is
    ours = str(workspace.folder) + os.sep
    here = str(workspace.root) + os.sep
    inputs = tuple(str(workspace.root / each) for each in workspace.contract.task.workload.inputs)
    foreign = [
        file
        for file in evidence.loaded_files
        if file.startswith(here) and not file.startswith((ours, *inputs))
    ]
    if foreign:
        raise ReferenceFailedError(
            f"the training imports {foreign[0]} from your checkout, not from the trial's tree",
            hint="import it by a path relative to the script, or install bubblewrap: trials then "
            "see their own tree at the checkout's place",
        )


def _what_to_do(workspace: Workspace, trial: Trial) -> str:
    memory, updates = workspace.contract.task.memory, len(evidence_of(workspace, trial).updates)
    match trial.outcome:
        case Outcome.OOM | Outcome.AMBIGUOUS_MEMORY:
            return (
                f"the capacity of {memory.capacity_bytes:,} bytes is below what the reference "
                "needs: raise it with `--memory` (or task.memory.capacity_bytes)"
            )
        case Outcome.HUNG if updates == 0:
            return (
                "no optimizer update of torch was seen: see that the command trains, and raise "
                "plan.budget.trial_deadline_s if it only starts slowly"
            )
        case Outcome.HUNG:
            return "raise plan.budget.trial_deadline_s, or make the window shorter"
        case Outcome.CRASHED if "ended by itself" in trial.reason:
            window = workspace.contract.task.window.last_update
            return (
                f"let the command train for at least {window + 20} updates with a torch "
                "optimizer, in this process or its children"
            )
        case _:
            log = _log_of(workspace, trial)
            return (
                _read_only_in_words(workspace, log)
                or _missing_in_words(workspace, log)
                or "run the command by hand in a fresh clone, mend it, commit, then repeat"
            )


def _log_of(workspace: Workspace, trial: Trial) -> str:
    assert trial.log_digest is not None, "a launch that failed has its log"
    return workspace.artifacts.get(trial.log_digest).decode("utf-8", "replace")


def _read_only_in_words(workspace: Workspace, log: str) -> str | None:
    """Say which place the program may not write to, where that ended it."""
    found = _READ_ONLY.search("\n".join(log.splitlines()[-_LAST_LINES:]))
    if found is None or workspace.tier is not Tier.BUBBLEWRAP:
        return None
    return (
        f"a contained trial may write below its own folder and TMPDIR alone, not at {found[1]}: "
        "have the training write there, for a cache by a variable in the command "
        "(`env XDG_CACHE_HOME=cache python ...`)"
    )


@dataclass(frozen=True)
class _Missing:
    """Something that the user has and a trial lacks."""

    path: str
    why: Literal["ignored", "untracked", "outside", "pointer", "folder"]


def _missing_in_words(workspace: Workspace, log: str) -> str | None:
    """Say which file of the user's the program lacked, and how to give it to the trials."""
    missing = next(_missing(workspace, log), None)
    if missing is None:
        return None
    path = shlex.quote(missing.path)
    lock_it = f"lock and mount it with `--input {path}` (or task.workload.inputs)"
    match missing.why:
        case "pointer":
            return f"{missing.path} is only a Git LFS pointer here: fetch it with `git lfs pull`"
        case "folder":
            return (
                f"the folder {missing.path} is in your checkout, but not in the commit: have the "
                "training make it, or commit a placeholder in it"
            )
        case "untracked" if missing.path.endswith(".py"):
            return f"{missing.path} is not committed, and trials run the commit: commit it"
        case "untracked":
            return f"{missing.path} is in your checkout but not committed: commit it, or {lock_it}"
        case "ignored":
            return f"{missing.path} is in your checkout, but git ignores it: {lock_it}"
        case "outside" if workspace.tier is Tier.BUBBLEWRAP:
            return f"a contained trial does not see {missing.path}: {lock_it}"
        case "outside":
            return (
                f"{missing.path} leads out of the repository, and an uncontained trial runs in "
                "another folder: name it by an absolute path, or install bubblewrap"
            )


def _missing(workspace: Workspace, log: str) -> Iterator[_Missing]:
    known = workspace.contract.task.workload.inputs
    commit, repository = workspace.lock.commit, workspace.repository
    pointers = repository.lfs_pointers(workspace.tracked)
    shown = (workspace.folder, *workspace.interpreter.readable(workspace.root))
    for place in _candidates(workspace, log):
        if any(map(place.is_relative_to, shown)):
            continue
        if not place.exists():
            yield from _missing_folder(workspace, place.parent)
            continue
        if not place.is_relative_to(workspace.root):
            name = os.path.relpath(place, workspace.root)
            if str(place) not in known and name not in known:
                yield _Missing(_as_said(workspace, place), "outside")
            continue
        name = str(place.relative_to(workspace.root))
        if name in {".", ".git"} or any(place.is_relative_to(workspace.root / i) for i in known):
            continue
        if name in pointers:
            yield _Missing(name, "pointer")
        elif (why := repository.outside_the_commit(name, commit)) is not None:
            yield _Missing(name, why)
    yield from (_Missing(name, "pointer") for name in pointers)


def _missing_folder(workspace: Workspace, folder: Path) -> Iterator[_Missing]:
    """Tell of a folder that the program would have written to: git keeps no empty ones."""
    if folder.is_dir() and folder != workspace.root and folder.is_relative_to(workspace.root):
        name = str(folder.relative_to(workspace.root))
        if workspace.repository.outside_the_commit(name, workspace.lock.commit):
            yield _Missing(name, "folder")


def _candidates(workspace: Workspace, log: str) -> Iterator[Path]:
    """Give the places, as the user has them, that the end of a log may be about."""
    root, folder = workspace.root, workspace.root / workspace.contract.task.folder
    trees = str(workspace.folder / "trees") + os.sep
    for said in paths_named(log):
        if said.startswith(trees):  # an uncontained trial's own tree
            yield root / said.removeprefix(trees).partition(os.sep)[2]
        elif Path(said).is_absolute():
            place = Path(os.path.normpath(said))
            hidden = place.is_relative_to("/tmp") and workspace.tier is Tier.BUBBLEWRAP
            if place.is_relative_to(root) or hidden:
                yield place
        else:
            yield from (Path(os.path.normpath(base / said)) for base in (folder, root))
    for module in modules_named(log):
        stem = module.replace(".", "/")
        for base in (folder, root, root / "src"):
            yield from (base / f"{stem}.py", base / stem / "__init__.py")


def _as_said(workspace: Workspace, place: Path) -> str:
    """Name a place outside the repository as an input: relative where it is a sibling."""
    relative = os.path.relpath(place, workspace.root)
    return relative if relative.count("..") <= 2 else str(place)
