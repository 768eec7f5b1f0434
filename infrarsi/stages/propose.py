"""Asking the proposers for patches, once a search."""

from __future__ import annotations

from typing import Any

from infrarsi.edits.combine import incompatible_pairs
from infrarsi.propose.patchbook import default_book, propose_patches
from infrarsi.stages.workspace import Workspace


def propose(workspace: Workspace) -> dict[str, Any]:
    """Give the body of the event ``proposed``: patches, what was declined, and conflicts."""
    contract = workspace.contract
    files = {
        path: workspace.sources[path] for path in workspace.editable if path in workspace.sources
    }
    if "patchbook" not in contract.plan.proposers:
        return {"patches": [], "declined": [], "incompatible": []}
    found = propose_patches(files, numerics=contract.task.numerics, book=default_book())
    return {
        "patches": [patch.model_dump(mode="json") for patch in found.patches],
        "declined": [{"name": each.recipe, "because": each.because} for each in found.declined],
        "incompatible": [list(pair) for pair in incompatible_pairs(files, found.patches)],
    }
