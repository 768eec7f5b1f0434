"""Asking the proposers for patches, once a search."""

from __future__ import annotations

from typing import Any

from infrarsi.edits.combine import incompatible_pairs
from infrarsi.frameworks.program import entry_script
from infrarsi.propose.patchbook import default_book, propose_patches
from infrarsi.stages.workspace import Workspace


def propose(workspace: Workspace) -> dict[str, Any]:
    """Give the body of the event ``proposed``: patches, what was declined, and conflicts."""
    task = workspace.contract.task
    if "patchbook" not in workspace.contract.plan.proposers:
        return {"patches": [], "declined": [], "incompatible": []}
    files = {path: text for path, text in workspace.sources.items() if path in workspace.editable}
    scripts = [path for path in workspace.tracked if path.endswith(".py") and path not in files]
    script = entry_script(task.command, task.folder)
    found = propose_patches(
        files,
        numerics=task.numerics,
        book=default_book(),
        readonly=workspace.repository.read(workspace.lock.commit, scripts),
        entry=script if script in workspace.tracked else None,
    )
    return {
        "patches": [patch.model_dump(mode="json") for patch in found.patches],
        "declined": [{"name": each.recipe, "because": each.because} for each in found.declined],
        "incompatible": [list(pair) for pair in incompatible_pairs(files, found.patches)],
    }
