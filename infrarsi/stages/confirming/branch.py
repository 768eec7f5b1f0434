"""The promoted branch: commits by atom, made without touching the user's checkout."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from infrarsi.edits.combine import combine
from infrarsi.errors import RepositoryError, UsageError
from infrarsi.execute.git_trees import tree_of
from infrarsi.execute.repository import Repository
from infrarsi.execute.signature import sign
from infrarsi.records.candidate import Candidate
from infrarsi.records.promotion import Promotion
from infrarsi.records.statement import (
    FOLDER,
    PROMOTION_NAMESPACE,
    SIGNATURE,
    STATEMENT,
    LaunchSettings,
)
from infrarsi.records.verdict import Verdict
from infrarsi.stages.confirming.bundle import Place, bundle_of, promoted_files
from infrarsi.stages.history import History
from infrarsi.stages.workspace import Workspace


def make_branch(
    workspace: Workspace,
    history: History,
    candidate: Candidate,
    verdict: Verdict,
    *,
    evidence_digest: str,
    key: str | None = None,
) -> Promotion:
    """Commit each patch, the launch settings, and the evidence, on a branch from the locked commit.

    With a ``key``, the statement about them is signed.

    Raises
    ------
    RepositoryError
        The branch is there already and is not what would be made.
    """
    trailers = {
        "InfraRSI-Contract": workspace.lock.task_digest,
        "InfraRSI-Verdict": verdict.digest(),
        "InfraRSI-Evidence": evidence_digest,
    }
    repository, parent = workspace.repository, workspace.lock.commit
    patches = [history.patches[name] for name in candidate.patches]
    for number, patch in enumerate(patches, start=1):
        files = combine(workspace.sources, patches[:number])
        message = _message(
            f"{patch.name}: {patch.summary}", f"Proposed by {patch.proposer}.", trailers
        )
        parent = repository.commit_files(parent, files, message=message)
    promoted = promoted_files(
        workspace.contract.task, candidate, patches, sources=workspace.sources
    )
    parent = repository.commit_files(
        parent, promoted.all, message=_message(*_launch_words(promoted.launch, verdict), trailers)
    )
    place = Place(tree_of(repository, workspace.lock.commit), _tree_without(repository, parent))
    bundle = bundle_of(workspace, history, promoted, place)
    if key is not None:
        bundle[SIGNATURE] = sign(bundle[STATEMENT], key, namespace=PROMOTION_NAMESPACE)
    parent = repository.commit_files(
        parent, bundle, message=_message(*_bundle_words(key), trailers), without=(FOLDER,)
    )
    branch = f"infrarsi/{workspace.contract.name}-{candidate.short_id()}"
    repository.create_branch(branch, parent)
    return Promotion(
        candidate=candidate, branch=branch, commit=parent, base_commit=workspace.lock.commit,
        verdict_digest=verdict.digest(), evidence_digest=evidence_digest,
        statement_digest=hashlib.sha256(bundle[STATEMENT]).hexdigest(), signed_with=key,
    )  # fmt: skip


def remove_branch(repository: Repository, promotion: Promotion) -> None:
    """Delete a promoted branch, where it still is what was promoted.

    Raises
    ------
    UsageError
        It is checked out, or has commits that were not ours.
    """
    present = repository.branch_commit(promotion.branch)
    if present is None:
        return
    if present != promotion.commit:
        raise UsageError(
            f"the branch {promotion.branch} has moved since it was promoted",
            hint="it holds work of yours: delete it by hand when you are sure",
        )
    try:
        repository.git("branch", "-D", promotion.branch)
    except RepositoryError as error:
        raise UsageError(
            f"the branch {promotion.branch} cannot be deleted: {error}",
            hint="check out another branch first, then repeat",
        ) from error


def _tree_without(repository: Repository, commit: str) -> str:
    """Give the tree of a commit without the bundle of an earlier promotion."""
    with TemporaryDirectory() as objects:
        return repository.expected_tree(commit, {}, objects=Path(objects), without=(FOLDER,))


def _launch_words(launch: LaunchSettings, verdict: Verdict) -> tuple[str, str]:
    env = [f"{name}={shlex.quote(value)}" for name, value in sorted(launch.environment.items())]
    typed = shlex.join(launch.command)
    speedup = verdict.speedup
    found = (
        f"{speedup.point:.2f}x the reference's speed, interval [{speedup.low:.2f}, "
        f"{speedup.high:.2f}] at {100 * speedup.level:.1f} %, confirmed back to back."
        if speedup
        else ""
    )
    return "launch: the settings that were confirmed", f"{' '.join([*env, typed])}\n\n{found}"


def _bundle_words(key: str | None) -> tuple[str, str]:
    signed = "The statement is signed." if key is not None else "The statement is not signed."
    return (
        "evidence: what this promotion rests on",
        f"`infrarsi gate` verifies it, and judges it again. {signed}",
    )


def _message(subject: str, body: str, trailers: Mapping[str, str]) -> str:
    lines = "\n".join(f"{key}: {value}" for key, value in trailers.items())
    return f"{subject}\n\n{body.strip()}\n\n{lines}\n"
