"""Submodules in a trial's tree, taken from the user's own clones: nothing is fetched."""

from __future__ import annotations

import tempfile
from pathlib import Path

from infrarsi.errors import RepositoryError
from infrarsi.execute.repository import Repository


def fill_submodules(repository: Repository, commit: str, tree: Path) -> None:
    """Put the files of every submodule that the user has checked out into a tree.

    Each stands at the commit that the superproject names, whatever is checked out in the user's
    own copy. A submodule that was never fetched stays an empty folder, as it is for the user.

    Raises
    ------
    RepositoryError
        The user has the submodule, but not at that commit.
    """
    for path, wanted in repository.gitlinks(commit).items():
        theirs = repository.root / path
        if not (theirs / ".git").exists():
            continue
        submodule = Repository(theirs)
        if not submodule.has_commit(wanted):
            raise RepositoryError(
                f"the submodule {path} has no commit {wanted[:12]}, which the last commit names",
                hint="fetch it with `git submodule update --init --recursive`, then repeat",
            )
        _check_out(submodule, wanted, tree / path)
        fill_submodules(submodule, wanted, tree / path)


def _check_out(submodule: Repository, commit: str, place: Path) -> None:
    """Write a commit's files to a place, by an index of their own."""
    place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="infrarsi-index-") as scratch:
        env = {"GIT_INDEX_FILE": str(Path(scratch) / "index"), "GIT_WORK_TREE": str(place)}
        submodule.git("read-tree", commit, env=env)
        submodule.git("checkout-index", "--all", "--force", env=env)
