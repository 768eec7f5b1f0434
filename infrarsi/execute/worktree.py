"""A trial's own checkout: made from the locked commit, patched, hashed, and taken away."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from infrarsi.errors import EditError
from infrarsi.execute.repository import Repository
from infrarsi.execute.submodules import fill_submodules


@contextmanager
def make_worktree(repository: Repository, commit: str, *, place: Path) -> Iterator[Path]:
    """Check a commit out at a place, detached, its submodules too; take it away afterwards.

    Raises
    ------
    RepositoryError
        Git says no, or a submodule's locked commit is not here.
    """
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        repository.git("worktree", "add", "--detach", "--force", str(place), commit)
        fill_submodules(repository, commit, place)
        yield place
    finally:
        remove_worktree(repository, place)


def remove_worktree(repository: Repository, place: Path) -> None:
    """Take a worktree away, whatever state it is in."""
    shutil.rmtree(place, ignore_errors=True)
    _forget(repository, [place])


def sweep_worktrees(repository: Repository, folder: Path) -> int:
    """Take away every worktree that a killed command left below a folder; give how many."""
    left = [each for each in folder.iterdir() if each.is_dir()] if folder.exists() else []
    for place in left:
        shutil.rmtree(place, ignore_errors=True)
    _forget(repository, left)
    return len(left)


def _forget(repository: Repository, places: list[Path]) -> None:
    """Take away git's record of our worktrees alone.

    ``git worktree prune`` would also forget a worktree of the user's whose disk is not mounted
    at the moment.
    """
    if not places:
        return
    ours = {str(place / ".git") for place in places}
    ours |= {str(place.resolve() / ".git") for place in places}
    for record in _records(repository):
        with contextlib.suppress(OSError):
            if (record / "gitdir").read_text(encoding="utf-8").strip() in ours:
                shutil.rmtree(record)


def _records(repository: Repository) -> list[Path]:
    folder = Path(repository.git("rev-parse", "--path-format=absolute", "--git-common-dir"))
    try:
        return sorted((folder / "worktrees").iterdir())
    except OSError:
        return []


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
