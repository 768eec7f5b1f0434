"""Trees of a repository, compared by what they hold; no checkout is read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from infrarsi.errors import RejectedError, RepositoryError, UsageError
from infrarsi.execute.repository import Repository

_FETCH = "fetch the whole history (git fetch --unshallow; in a workflow `fetch-depth: 0`)"


@dataclass(frozen=True)
class Entry:
    """One file of a tree."""

    mode: str
    """``100644``, ``100755``, ``120000`` for a link, ``160000`` for a submodule."""
    object_id: str
    size: int
    """Bytes; 0 for a submodule."""

    @property
    def is_file(self) -> bool:
        """Whether it is a regular file."""
        return self.mode.startswith("100")


Entries = Mapping[str, Entry]
"""A tree, by path."""


def commit_of(repository: Repository, ref: str) -> str:
    """Give the commit that a name means.

    Raises
    ------
    UsageError
        It means none here.
    """
    try:
        if ref.startswith("-"):
            raise RepositoryError(f"{ref} is an option", hint="")
        return repository.git("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}")
    except RepositoryError as error:
        raise UsageError(f"{ref!r} is no commit here", hint=f"name another, or {_FETCH}") from error


def merge_base(repository: Repository, left: str, right: str) -> str:
    """Give the commit where two lines of history parted.

    Raises
    ------
    UsageError
        They have none in common here.
    """
    try:
        return repository.git("merge-base", left, right)
    except RepositoryError as error:
        raise UsageError(
            f"{left[:12]} and {right[:12]} have no commit in common here", hint=_FETCH
        ) from error


def tree_of(repository: Repository, commit: str) -> str:
    """Give the id of a commit's tree."""
    return repository.git("rev-parse", "--verify", f"{commit}^{{tree}}")


def require_tree(repository: Repository, tree: str) -> None:
    """Refuse where a tree is not in this clone.

    Raises
    ------
    RejectedError
        It is not; a shallow clone may lack it.
    """
    try:
        known = repository.git("cat-file", "-t", tree) == "tree"
    except RepositoryError:
        known = False
    if not known:
        raise RejectedError(
            f"the tree {tree[:12]} that the reference was measured on is not in this clone",
            hint=f"{_FETCH}; where its commit was never pushed, measure on one that was",
        )


def entries_of(
    repository: Repository, tree: str, *, env: Mapping[str, str] | None = None
) -> dict[str, Entry]:
    """Give all files of a tree or commit."""
    listed = repository.git("ls-tree", "-r", "-l", "-z", "--full-tree", tree, env=env)
    entries: dict[str, Entry] = {}
    for row in filter(None, listed.split("\0")):
        meta, path = row.split("\t", 1)
        mode, _kind, object_id, size = meta.split()
        entries[path] = Entry(mode, object_id, 0 if size == "-" else int(size))
    return entries


def differing(left: Entries, right: Entries) -> tuple[str, ...]:
    """Give the paths at which two trees do not hold the same, in order."""
    return tuple(sorted(path for path in {*left, *right} if left.get(path) != right.get(path)))


def as_typed(path: str) -> str:
    """Give a path for a message, also where its name is no text."""
    return os.fsencode(path).decode("utf-8", "replace")
