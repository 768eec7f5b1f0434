"""Apply search/replace edits exactly, or refuse them whole."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from itertools import pairwise

from infrarsi.errors import EditError
from infrarsi.records.candidate import Edit

_SHOWN = 100


def apply_edits(files: Mapping[str, bytes], edits: Iterable[Edit]) -> dict[str, bytes]:
    """Give the files that the edits change, with their new bytes.

    Every ``search`` is looked up in the file as it is given, never in the result of another
    edit, so the order of the edits does not matter. Bytes outside the replaced places stay
    as they are: line ends, tabs, a byte order mark, a missing newline at the end. An empty
    ``search`` makes a new file, or fills an empty one.

    Raises
    ------
    EditError
        An edit does not apply exactly; nothing is applied then. The message says which and
        why, and the hint holds what the proposer needs in order to mend it.
    """
    by_path: dict[str, list[Edit]] = {}
    for edit in edits:
        by_path.setdefault(edit.path, []).append(edit)
    changed = {}
    for path in sorted(by_path):
        before = files.get(path)
        after = _edited(path, before, by_path[path])
        if after != before:
            changed[path] = after
    return changed


def decoded(path: str, content: bytes) -> str:
    """Read a file as text, byte order mark and line ends kept."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise EditError(
            f"{path} is not UTF-8 (byte {error.start} is 0x{content[error.start]:02x})",
            hint="Edits are text; leave this file as it is, or convert it to UTF-8 first.",
        ) from error


def _edited(path: str, before: bytes | None, edits: list[Edit]) -> bytes:
    if any(edit.search == "" for edit in edits):
        return _created(path, before, edits)
    if before is None:
        raise EditError(
            f"the edit's file {path} does not exist",
            hint="Name an existing file, or leave the search text empty to make a new one.",
        )
    text = decoded(path, before)
    spans = sorted(
        (start, start + len(edit.search), edit.replace)
        for edit in dict.fromkeys(edits)
        for start in (_place(path, text, edit),)
    )
    for (_, end, _), (start, _, _) in pairwise(spans):
        if start < end:
            line = text.count("\n", 0, start) + 1
            raise EditError(
                f"two edits of {path} overlap at line {line}",
                hint="Join them into one edit.",
            )
    pieces, done = [], 0
    for start, end, replacement in spans:
        pieces += [text[done:start], replacement]
        done = end
    return "".join([*pieces, text[done:]]).encode("utf-8")


def _created(path: str, before: bytes | None, edits: list[Edit]) -> bytes:
    contents = {edit.replace for edit in edits}
    if before:
        raise EditError(
            f"an empty search text makes a new file, but {path} exists",
            hint="Quote the text to be replaced, exactly as it stands in the file.",
        )
    if len(contents) > 1 or any(edit.search for edit in edits):
        raise EditError(
            f"{path} is new, and has more than one edit",
            hint="Give the whole content of a new file in one edit.",
        )
    return contents.pop().encode("utf-8")


def _place(path: str, text: str, edit: Edit) -> int:
    """Find the one place where ``search`` stands; overlapping matches count as two."""
    search = edit.search
    first = text.find(search)
    if first < 0:
        done = edit.replace.strip() and edit.replace in text
        raise EditError(
            f"the search text {_quoted(search)} is not in {path}",
            hint="The replacement stands there already: leave this edit out."
            if done
            else _feedback(text, search),
        )
    second = text.find(search, first + 1)
    if second >= 0:
        lines = [text.count("\n", 0, at) + 1 for at in (first, second)]
        raise EditError(
            f"the search text {_quoted(search)} stands more than once in {path}, "
            f"at lines {lines[0]} and {lines[1]}",
            hint="Add lines of context above or below until it stands only once.",
        )
    return first


def _quoted(text: str) -> str:
    lines = text.strip("\r\n").split("\n")
    shown = lines[0].strip()[:_SHOWN]
    return f"{shown!r}" if len(lines) == 1 else f"{shown!r} and {len(lines) - 1} more lines"


def _feedback(text: str, search: str) -> str:
    if "\r\n" in text and "\n" in search and "\r\n" not in search:
        if search.replace("\n", "\r\n") in text:
            return "The file ends its lines with CRLF; the search text must do so too."
    elif "\r\n" in search and search.replace("\r\n", "\n") in text:
        return "The file ends its lines with LF; the search text has CRLF."
    lines = text.split("\n")
    wanted = [line for line in search.split("\n") if line.strip()]
    missing = next((line for line in wanted if line not in text), None)
    if missing is None:
        return "Each of its lines stands in the file, but not one after another like this."
    for number, line in enumerate(lines, 1):
        if line.split() == missing.split():
            return (
                f"Line {number} differs only in white space: {line[:_SHOWN]!r} "
                f"instead of {missing[:_SHOWN]!r}."
            )
    nearest = difflib.get_close_matches(missing, lines, n=1, cutoff=0.5)
    if not nearest:
        return f"Nothing in the file is like its line {missing.strip()[:_SHOWN]!r}."
    number = lines.index(nearest[0]) + 1
    return f"The nearest line is {number}: {nearest[0].strip()[:_SHOWN]!r}."
