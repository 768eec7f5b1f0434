"""Whether what a change does to the tree is what its bundle speaks of, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable

from infrarsi.edits.surface import within_surface
from infrarsi.errors import RejectedError
from infrarsi.execute.git_trees import as_typed, differing, entries_of, require_tree
from infrarsi.records.plan import Contract
from infrarsi.records.statement import EVIDENCE, FOLDER, LAUNCH_FILE, REVIEW, SIGNATURE, STATEMENT
from infrarsi.records.task import Surface
from infrarsi.records.trial import Trial
from infrarsi.stages.gating.opened import Change, Opened
from infrarsi.stages.launching.trial import source_of
from infrarsi.store.contract import CONTRACT_FILE

OF_A_BUNDLE = frozenset({STATEMENT, EVIDENCE, SIGNATURE, REVIEW})
_AGAIN = "lock the base as it is now (`infrarsi init --relock`), search, and promote again"
_LISTED = 5


def is_winner(trial: Trial) -> bool:
    """Tell whether a launch was one of the candidate's in the confirmation."""
    return (trial.purpose, trial.arm) == ("confirm", "winner")


def is_aside(path: str, contract: Contract) -> bool:
    """Tell whether a file takes no part in the training, by the base's own policy."""
    policy = contract.plan.gate
    if path in {CONTRACT_FILE, policy.signers} or path.startswith(f"{FOLDER}/"):
        return True
    return within_surface(path, Surface(editable=policy.aside))


def check_patch(opened: Opened) -> str:
    """Check that the patches are within the surface, and apply to what was measured."""
    said = opened.bundle.predicate
    require_tree(opened.change.repository, said.base_tree)
    if set(opened.history.patches) != set(said.candidate.patches):
        raise RejectedError(
            "the bundle does not hold the candidate's patches, and these alone", hint=_AGAIN
        )
    surface = opened.contract.task.surface
    edited = {e.path for patch in opened.history.patches.values() for e in patch.edits}
    outside = sorted(
        path
        for path in edited
        if not within_surface(path, surface)
        or path == LAUNCH_FILE
        or is_aside(path, opened.contract)
    )
    if outside:
        raise RejectedError(
            f"a patch edits {_some(outside)}, which no patch may edit under the base's contract",
            hint=_AGAIN,
        )
    files = opened.files  # applied here, or refused
    if not files.ran:
        return "launch settings alone: no file of the training changes"
    return f"what changes is within the base's surface, and applies: {_some(sorted(files.ran))}"


def check_ran(opened: Opened) -> str:
    """Check that every launch ran the tree that it must have run."""
    base = opened.bundle.predicate.base_tree
    for row in opened.bundle.predicate.evidence:
        trial = opened.history.trials[row.trial_id]
        source = source_of(opened.workspace, trial)
        due = opened.ran if is_winner(trial) else base
        ran = {trial.tree_digest, source.tree_ran if source else None}
        if ran != {due}:
            other = next(iter(ran - {due})) or "an unknown one"
            raise RejectedError(
                f"the launch {trial.trial_id} ran the tree {other[:12]}; this promotion's "
                f"{'winner' if is_winner(trial) else 'reference'} is {due[:12]}",
                hint="the evidence is of another promotion: promote again with `infrarsi apply`",
            )
    return (
        f"the winner's launches ran {opened.ran[:12]}, which gives the promoted tree "
        f"{opened.place.promoted[:12]}; all others ran {base[:12]}"
    )


def check_base(opened: Opened) -> str:
    """Check that the base still is what the reference was measured on."""
    measured = entries_of(opened.change.repository, opened.bundle.predicate.base_tree)
    moved = [
        path
        for path in differing(measured, opened.change.at_base)
        if not is_aside(path, opened.contract)
    ]
    if moved:
        raise RejectedError(
            f"the base is not what was measured: {_some(moved)} differ(s)",
            hint=f"{_AGAIN}; files that take no part in the training may be named in "
            "plan.gate.aside on the base",
        )
    return "the base holds what the reference was measured on"


def check_changes(opened: Opened) -> str:
    """Check that the change is the promoted files and the bundle, and nothing else."""
    change, due = opened.change, opened.files.all
    wrong = [path for path in due if change.at_head.get(path) != opened.at_promoted[path]]
    if wrong:
        raise RejectedError(
            f"{_some(sorted(wrong))} in the head is not what was confirmed",
            hint="take the branch as `infrarsi apply` made it",
        )
    extra = {path for path in change.paths if path not in due and not _is_old_bundle(path, change)}
    extra |= {path for path in change.at_head if path.startswith(f"{FOLDER}/")}
    extra -= OF_A_BUNDLE
    if extra:
        raise RejectedError(
            f"the change also touches {_some(sorted(extra))}, of which the bundle does not speak",
            hint="bring that in a change of its own",
        )
    crossed = [p for p in change.paths if change.at_base.get(p) != change.at_fork.get(p)]
    if crossed:
        raise RejectedError(
            f"the base has changed {_some(crossed)} since the head left it",
            hint="rebase the head on the base, or promote again",
        )
    return f"{len(change.paths)} path(s) change: {_some(sorted(due))}, and the bundle"


def check_standing(opened: Opened) -> str:
    """Say whether what was promoted is still what the tree holds; later changes are no fault."""
    at_head, due = opened.change.at_head, opened.files.all
    gone = [path for path in due if at_head.get(path) != opened.at_promoted[path]]
    if not gone:
        return f"{_some(sorted(due))} stand(s) as promoted"
    return f"{_some(sorted(gone))} changed since it was promoted"


def _is_old_bundle(path: str, change: Change) -> bool:
    """Tell whether a path belongs to an earlier bundle, which a new one may take the place of."""
    return path.startswith(f"{FOLDER}/") and path not in change.at_head


def _some(paths: Iterable[str]) -> str:
    listed = [as_typed(path) for path in paths]
    more = f" and {len(listed) - _LISTED} more" if len(listed) > _LISTED else ""
    return ", ".join(listed[:_LISTED]) + more
