"""What may and what must stand in a trial's tree besides the commit: patches, and locked inputs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from infrarsi.edits.surface import within_surface
from infrarsi.errors import EditError
from infrarsi.stages.workspace import Workspace


def refuse_outside(workspace: Workspace, paths: Iterable[str]) -> None:
    """Refuse patches of what no patch may touch, before anything is launched.

    Raises
    ------
    EditError
        A path lies in a submodule, or is not among the files that a patch may edit.
    """
    for path in paths:
        inside = next(
            (link for link in workspace.gitlinks if f"{path}/".startswith(f"{link}/")), None
        )
        if inside is not None:
            raise EditError(
                f"{path} lies in the submodule {inside}, which is locked",
                hint="leave it as it is, or change a file of this repository instead",
            )
        if not within_surface(path, workspace.contract.task.surface):
            raise EditError(
                f"{path} is not among the files that a patch may edit",
                hint=f"edit these: {', '.join(workspace.contract.task.surface.editable)}",
            )


def provide_inputs(workspace: Workspace, tree: Path) -> None:
    """Put locked git-ignored inputs in the tree: as mount points, or uncontained as links."""
    for name in workspace.contract.task.workload.inputs:
        source, place = workspace.root / name, tree / name
        if Path(name).is_absolute() or ".." in Path(name).parts:
            continue  # it is where it is: it needs no place in the tree
        place.parent.mkdir(parents=True, exist_ok=True)
        if workspace.tier.value == "bubblewrap":
            if source.is_dir():
                place.mkdir(exist_ok=True)
            else:
                place.touch()
        elif not place.exists():
            place.symlink_to(source)
