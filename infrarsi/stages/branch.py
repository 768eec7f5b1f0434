"""The promoted branch: commits by atom, made without touching the user's checkout."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping

from infrarsi.edits.combine import combine
from infrarsi.errors import RepositoryError, UsageError
from infrarsi.execute.invocation import Invocation, invocation_of
from infrarsi.execute.repository import Repository
from infrarsi.records.candidate import Candidate
from infrarsi.records.promotion import Promotion
from infrarsi.records.verdict import Verdict
from infrarsi.stages.history import History
from infrarsi.stages.workspace import Workspace

LAUNCH_FILE = "infrarsi-launch.json"


def make_branch(
    workspace: Workspace,
    history: History,
    candidate: Candidate,
    verdict: Verdict,
    *,
    evidence_digest: str,
) -> Promotion:
    """Commit each patch, then the launch settings, on a new branch from the locked commit.

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
    patched = combine(workspace.sources, patches)
    invocation = invocation_of(
        workspace.contract.task, candidate.knobs, {**workspace.sources, **patched}
    )
    parent = repository.commit_files(
        parent, {**invocation.files, LAUNCH_FILE: _launch_file(workspace, candidate, invocation)},
        message=_message(*_launch_words(workspace, invocation, verdict), trailers),
    )  # fmt: skip
    branch = f"infrarsi/{workspace.contract.name}-{candidate.short_id()}"
    repository.create_branch(branch, parent)
    return Promotion(
        candidate=candidate, branch=branch, commit=parent, base_commit=workspace.lock.commit,
        verdict_digest=verdict.digest(), evidence_digest=evidence_digest,
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


def _launch_file(workspace: Workspace, candidate: Candidate, invocation: Invocation) -> bytes:
    """Give the settings of the launch as a file that people and programs can read."""
    said = {
        "command": list(invocation.argv),
        "environment": invocation.env,
        "unset": list(invocation.unset),
        "folder": workspace.contract.task.folder,
        "knobs": _changed_knobs(workspace, candidate.knobs),
    }
    return (json.dumps(said, indent=2, ensure_ascii=False) + "\n").encode()


def _changed_knobs(workspace: Workspace, knobs: Mapping[str, object]) -> dict[str, object]:
    defaults = workspace.contract.task.surface.default_knobs()
    return {name: value for name, value in knobs.items() if value != defaults.get(name)}


def _launch_words(
    workspace: Workspace, invocation: Invocation, verdict: Verdict
) -> tuple[str, str]:
    env = [f"{name}={shlex.quote(value)}" for name, value in sorted(invocation.env.items())]
    typed = shlex.join(invocation.argv)
    speedup = verdict.speedup
    found = (
        f"{speedup.point:.2f}x the reference's speed, interval [{speedup.low:.2f}, "
        f"{speedup.high:.2f}] at {100 * speedup.level:.1f} %, confirmed back to back."
        if speedup
        else ""
    )
    return "launch: the settings that were confirmed", f"{' '.join([*env, typed])}\n\n{found}"


def _message(subject: str, body: str, trailers: Mapping[str, str]) -> str:
    lines = "\n".join(f"{key}: {value}" for key, value in trailers.items())
    return f"{subject}\n\n{body.strip()}\n\n{lines}\n"
