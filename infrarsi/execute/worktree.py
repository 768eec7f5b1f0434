"""A trial's own checkout: made from the locked commit, patched, hashed, and taken away."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from infrarsi.errors import EditError
from infrarsi.execute.repository import Repository


@contextmanager
def make_worktree(repository: Repository, commit: str, *, place: Path) -> Iterator[Path]:
    """Check a commit out at a place, detached, and take it away afterwards."""
    place.parent.mkdir(parents=True, exist_ok=True)
    repository.git("worktree", "add", "--detach", "--force", str(place), commit)
    try:
        yield place
    finally:
        remove_worktree(repository, place)


def remove_worktree(repository: Repository, place: Path) -> None:
    """Take a worktree away, whatever state it is in."""
    shutil.rmtree(place, ignore_errors=True)
    repository.git("worktree", "prune", "--expire=now")


def sweep_worktrees(repository: Repository, folder: Path) -> int:
    """Take away every worktree that a killed command left below a folder; give how many."""
    left = [each for each in folder.iterdir() if each.is_dir()] if folder.exists() else []
    for place in left:
        shutil.rmtree(place, ignore_errors=True)
    if left:
        repository.git("worktree", "prune", "--expire=now")
    return len(left)


def write_files(tree: Path, files: Mapping[str, bytes]) -> None:
    """Write patched files into a worktree.

    Raises
    ------
    EditError
        A path, or a folder on its way, is a symbolic link, or leads out of the tree.
    """
    for path, content in files.items():
        place = tree / path
        steps = [
            tree / Path(*place.relative_to(tree).parts[: i + 1])
            for i in range(len(Path(path).parts))
        ]
        if ".." in Path(path).parts or any(step.is_symlink() for step in steps):
            raise EditError(
                f"{path} leads through a symbolic link or out of the tree",
                hint="patch the file that it points to",
            )
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
