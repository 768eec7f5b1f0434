"""Confirming a promotion again where the gate runs, and taking back one that no longer holds."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from infrarsi.edits.difference import edits_between
from infrarsi.errors import InconclusiveError, RepositoryError, UsageError
from infrarsi.execute.repository import Repository
from infrarsi.execute.worktree import sweep_worktrees
from infrarsi.records.candidate import Candidate, Patch
from infrarsi.records.plan import Lock
from infrarsi.records.statement import FOLDER, LAUNCH_FILE
from infrarsi.records.task import ConfigKey
from infrarsi.records.verdict import Verdict
from infrarsi.stages.apply import confirm
from infrarsi.stages.doctor import diagnose
from infrarsi.stages.gating.opened import Opened
from infrarsi.stages.workspace import STATE_FOLDER, Workspace
from infrarsi.store.contract import hash_files
from infrarsi.store.ledger import open_ledger

_RERUN_FOLDER = "rerun"
_PROMOTED = "promoted"


@dataclass(frozen=True)
class _Meeting:
    """What is launched back to back: a commit as the reference, and a candidate upon it."""

    commit: str
    candidate: Candidate
    patches: Mapping[str, Patch]


def rerun_change(opened: Opened, *, tell: Callable[[str], None]) -> Verdict:
    """Confirm what a change brings against its base, on this machine.

    Raises
    ------
    InfraRSIError
        The reference cannot be measured here, or its inputs are not those of the promotion.
    """
    said = opened.bundle.predicate
    meeting = _Meeting(opened.change.base, said.candidate, opened.history.patches)
    return _meet(opened, meeting, tell=tell)


def rerun_standing(opened: Opened, *, tell: Callable[[str], None]) -> tuple[Verdict, str]:
    """Confirm what stands against the same tree without it.

    Returns
    -------
    Verdict
        On the promotion as it stands now.
    str
        The commit that takes the promotion back, upon the head; no branch leads to it yet.

    Raises
    ------
    InconclusiveError
        Later changes stand on what was promoted, or nothing is left of it.
    """
    restored = _restored(opened)
    commit = _reverting_commit(opened, restored)
    candidate, patches = _what_is_left(opened, restored)
    return _meet(opened, _Meeting(commit, candidate, patches), tell=tell), commit


def prepare_revert(opened: Opened, commit: str) -> str:
    """Put the commit that takes a promotion back on a branch here; nothing is pushed."""
    subject, head = opened.bundle.predicate.verdict.subject, opened.change.head
    branch = f"infrarsi/revert-{subject}-{head[:8]}"
    repository = opened.change.repository
    if repository.branch_commit(branch) is None:
        repository.create_branch(branch, commit)
    return branch


def _meet(opened: Opened, meeting: _Meeting, *, tell: Callable[[str], None]) -> Verdict:
    """Calibrate and confirm in a state folder of its own, which the next rerun takes away."""
    repository, contract = opened.change.repository, opened.contract
    inputs = _same_inputs(opened)
    repository.ignore_locally(f"/{STATE_FOLDER}/")
    state = repository.root / STATE_FOLDER
    folder = state / _RERUN_FOLDER
    with open_ledger(state, command="gate"):  # nobody else launches here meanwhile
        sweep_worktrees(repository, folder / "trees")
        shutil.rmtree(folder, ignore_errors=True)
        with open_ledger(folder, command="gate") as ledger:
            lock = Lock(
                name=contract.name, task_digest=contract.task.digest(), commit=meeting.commit,
                protected={}, inputs=inputs,
            )  # fmt: skip
            ledger.append("locked", lock.model_dump(mode="json"))
            workspace = Workspace(repository, contract, lock, ledger, state=folder)
            diagnose(workspace, tell=tell)
            patches = [each.model_dump(mode="json") for each in meeting.patches.values()]
            ledger.append("proposed", {"patches": patches, "declined": [], "incompatible": []})
            return confirm(workspace, meeting.candidate, tell=tell)


def _same_inputs(opened: Opened) -> dict[str, str]:
    """Give the digests of the inputs here, which must be those that were measured on.

    Raises
    ------
    UsageError
        One is missing or another.
    """
    locked = opened.workspace.lock.inputs
    here = hash_files(opened.change.repository.root, opened.contract.task.workload.inputs)
    odd = [path for path in {*locked, *here} if locked.get(path) != here.get(path)]
    if odd:
        verb = "is missing here" if here.get(odd[0]) == "missing" else "is not what was measured on"
        raise UsageError(
            f"the input {odd[0]} {verb}", hint="prepare the same inputs where the gate reruns"
        )
    return here


def _restored(opened: Opened) -> dict[str, bytes | None]:
    """Give each promoted file as it would be now without the promotion; ``None``: gone.

    Raises
    ------
    InconclusiveError
        A later change stands on the promoted lines.
    """
    repository, said = opened.change.repository, opened.bundle.predicate
    promoted = opened.files.ran
    before = repository.read(said.base_tree, promoted)
    now = repository.read(opened.change.head, promoted)
    return {
        path: _without(repository, path, now.get(path), promoted[path], before.get(path))
        for path in promoted
    }


def _without(
    repository: Repository, path: str, now: bytes | None, promoted: bytes, before: bytes | None
) -> bytes | None:
    """Take the step from ``before`` to ``promoted`` back out of a file."""
    if now is None or now == promoted:
        return None if now is None else before
    with TemporaryDirectory() as scratch:
        places = [Path(scratch) / name for name in ("now", "promoted", "before")]
        for place, content in zip(places, (now, promoted, before or b""), strict=True):
            place.write_bytes(content)
        try:
            repository.git("merge-file", "--quiet", *map(str, places))
        except RepositoryError as error:
            raise InconclusiveError(
                f"later changes of {path} stand on the promoted lines",
                hint="promote again with `infrarsi apply`, or take it back by hand",
            ) from error
        return places[0].read_bytes()


def _reverting_commit(opened: Opened, restored: Mapping[str, bytes | None]) -> str:
    """Make the commit that takes the promotion back; what stood before it comes back."""
    repository, said = opened.change.repository, opened.bundle.predicate
    tracked = repository.tracked(said.base_tree)
    former = [p for p in tracked if p == LAUNCH_FILE or p.startswith(f"{FOLDER}/")]
    files = {path: content for path, content in restored.items() if content is not None}
    gone = [path for path, content in restored.items() if content is None]
    subject = said.verdict.subject
    message = (
        f"revert: take the promotion {subject} back\n\n"
        f"It was confirmed again upon {opened.change.head[:12]}, and no longer held.\n\n"
        f"InfraRSI-Reverts: {said.verdict.digest()}\n"
    )
    return repository.commit_files(
        opened.change.head, {**files, **repository.read(said.base_tree, former)}, message=message,
        without=(FOLDER, LAUNCH_FILE, *gone),
    )  # fmt: skip


def _what_is_left(
    opened: Opened, restored: Mapping[str, bytes | None]
) -> tuple[Candidate, dict[str, Patch]]:
    """Give the promotion as it stands now, as a candidate upon the tree without it.

    Raises
    ------
    InconclusiveError
        Nothing is left of it.
    """
    knobs = opened.contract.task.surface.knobs
    written = {each.reach.file for each in knobs if isinstance(each.reach, ConfigKey)}
    now = opened.change.repository.read(opened.change.head, restored)
    edits = [
        edit
        for path, before in restored.items()
        if path in now and now[path] != before and path not in written
        for edit in edits_between(path, before or b"", now[path])
    ]
    candidate = opened.bundle.predicate.candidate
    if not edits:
        if candidate.knobs == opened.contract.task.surface.default_knobs():
            raise InconclusiveError(
                "nothing is left of what was promoted",
                hint=f"take {FOLDER} out of the tree: it speaks of nothing any more",
            )
        return Candidate.of(candidate.knobs), {}
    patch = Patch(
        name=_PROMOTED, proposer="gate", edits=tuple(edits), summary="what was promoted, as it is"
    )
    return Candidate.of(candidate.knobs, [_PROMOTED]), {_PROMOTED: patch}
