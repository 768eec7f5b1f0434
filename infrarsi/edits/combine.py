"""Merge patches that were each written against the same base."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations, pairwise

from infrarsi.edits.apply import apply_edits, decoded
from infrarsi.edits.difference import Hunk, hunks_between, lines_of
from infrarsi.errors import EditError
from infrarsi.records.candidate import Patch


@dataclass(frozen=True)
class _Changes:
    """What one patch alone does to the base, as hunks by path."""

    name: str
    hunks: Mapping[str, tuple[Hunk, ...]]


def combine(files: Mapping[str, bytes], patches: Iterable[Patch]) -> dict[str, bytes]:
    """Apply every patch to the base alone, and merge what they change, by lines.

    Hunks that two patches share are kept once. Different lines inserted at one place are
    all kept, in the order of the patches' names. The order of ``patches`` does not matter.

    Raises
    ------
    EditError
        A patch does not apply, or two patches change the same lines differently.
    """
    return _merged(files, [_changes(files, patch) for patch in patches])


def incompatible_pairs(
    files: Mapping[str, bytes], patches: Iterable[Patch]
) -> tuple[tuple[str, str], ...]:
    """Give the pairs of names, each sorted, that must not stand in one candidate.

    Either one declares the conflict, or they change the same lines differently, or what
    they give together is not valid Python.

    Raises
    ------
    EditError
        A patch does not apply even alone.
    """
    ordered = sorted(patches, key=lambda patch: patch.name)
    changes = {patch.name: _changes(files, patch) for patch in ordered}
    pairs = []
    for left, right in combinations(ordered, 2):
        declared = right.name in left.conflicts or left.name in right.conflicts
        if declared or not _apply_together(files, changes[left.name], changes[right.name]):
            pairs.append((left.name, right.name))
    return tuple(pairs)


def is_python(path: str, content: bytes) -> bool:
    """Tell whether a file's content compiles."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(content, path, "exec", dont_inherit=True)
        except (SyntaxError, ValueError):
            return False
    return True


def _changes(files: Mapping[str, bytes], patch: Patch) -> _Changes:
    try:
        after = apply_edits(files, patch.edits)
    except EditError as error:
        raise EditError(f"patch {patch.name} does not apply: {error}", hint=error.hint) from error
    return _Changes(
        patch.name,
        {
            path: tuple(hunks_between(_base_lines(files, path), lines_of(decoded(path, content))))
            for path, content in after.items()
        },
    )


def _base_lines(files: Mapping[str, bytes], path: str) -> list[str]:
    return lines_of(decoded(path, files.get(path, b"")))


def _apply_together(files: Mapping[str, bytes], left: _Changes, right: _Changes) -> bool:
    try:
        merged = _merged(files, [left, right])
    except EditError:
        return False
    return all(
        is_python(path, content)
        for path, content in merged.items()
        if path.endswith(".py") and (path not in files or is_python(path, files[path]))
    )


def _merged(files: Mapping[str, bytes], changes: list[_Changes]) -> dict[str, bytes]:
    paths = sorted({path for each in changes for path in each.hunks})
    merged = {}
    for path in paths:
        base = _base_lines(files, path)
        owners: dict[Hunk, str] = {}
        for each in sorted(changes, key=lambda change: change.name):
            for hunk in each.hunks.get(path, ()):
                owners.setdefault(hunk, each.name)
        ordered = sorted(owners, key=lambda hunk: (hunk.start, hunk.end, owners[hunk], hunk.lines))
        _refuse_overlaps(path, ordered, owners, new=path not in files)
        pieces: list[str] = []
        done = 0
        for hunk in ordered:
            pieces += [*base[done : hunk.start], *hunk.lines]
            done = hunk.end
        merged[path] = "".join([*pieces, *base[done:]]).encode("utf-8")
    return merged


def _refuse_overlaps(
    path: str, ordered: list[Hunk], owners: Mapping[Hunk, str], *, new: bool
) -> None:
    for left, right in pairwise(ordered):
        # Hunks come sorted, so only the next one can begin inside this one. Two insertions
        # at one place (both empty in the base) stand one after the other.
        both_end_the_file = _lacks_newline(left) and left.start == right.start
        if right.start < left.end or new or both_end_the_file:
            raise EditError(
                f"patches {owners[left]} and {owners[right]} both change {path} "
                f"at line {right.start + 1}",
                hint="Leave one of them out of the candidate.",
            )


def _lacks_newline(hunk: Hunk) -> bool:
    return bool(hunk.lines) and not hunk.lines[-1].endswith("\n")
