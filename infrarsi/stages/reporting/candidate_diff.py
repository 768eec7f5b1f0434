"""A candidate's change of the source, as a person reads it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from infrarsi.edits.combine import combine
from infrarsi.execute.repository import Repository
from infrarsi.records.candidate import Patch


def diff_of(repository: Repository, commit: str, patches: Iterable[Patch]) -> str:
    """Give the unified diff of patches against the commit that they were written for.

    Raises
    ------
    RepositoryError
        The commit is not here any more.
    EditError
        The patches do not apply to it.
    """
    carried = list(patches)
    paths = sorted({edit.path for patch in carried for edit in patch.edits})
    before = repository.read(commit, paths)
    after = combine(before, carried)
    return "".join(
        line for path in sorted(after) for line in _diff(path, before.get(path), after[path])
    )


def _diff(path: str, before: bytes | None, after: bytes) -> list[str]:
    old = before.decode("utf-8", "replace").splitlines(keepends=True) if before else []
    new = after.decode("utf-8", "replace").splitlines(keepends=True)
    origin = f"a/{path}" if before is not None else "/dev/null"
    lines = difflib.unified_diff(old, new, fromfile=origin, tofile=f"b/{path}")
    return [
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    ]
