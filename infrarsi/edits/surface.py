"""Which paths a patch may touch."""

from __future__ import annotations

import re
from functools import lru_cache

from infrarsi.records.task import Surface

_NEVER = frozenset({".git", ".gitmodules", ".gitattributes", ".infrarsi", "", ".", ".."})


def within_surface(path: str, surface: Surface) -> bool:
    """Tell whether a patch may edit a path: named editable, not protected, inside the tree.

    Globs are relative to the root: ``*`` and ``?`` stay within a folder, ``**`` spans any
    number of folders, and a glob that ends in ``/`` means everything below it.
    """
    if not _stays_inside(path):
        return False
    if any(_pattern(glob).fullmatch(path) for glob in surface.protected):
        return False
    return any(_pattern(glob).fullmatch(path) for glob in surface.editable)


def _stays_inside(path: str) -> bool:
    if any(ord(letter) < ord(" ") or letter == "\\" for letter in path):
        return False
    if re.match(r"[A-Za-z]:", path):
        return False
    # Case-folding file systems take .GIT for .git.
    return not any(part.casefold() in _NEVER for part in path.split("/"))


@lru_cache(maxsize=512)
def _pattern(glob: str) -> re.Pattern[str]:
    glob = glob.removeprefix("./")
    if glob.endswith("/"):
        glob += "**"
    parts = glob.split("/")
    pieces = []
    for number, part in enumerate(parts):
        last = number == len(parts) - 1
        if part == "**":
            pieces.append(".+" if last else "(?:[^/]+/)*")
        else:
            pieces.append(_component(part) + ("" if last else "/"))
    return re.compile("".join(pieces), re.DOTALL)


def _component(part: str) -> str:
    """Translate the glob of one path component; a star does not cross a slash."""
    pieces, at = [], 0
    while at < len(part):
        letter = part[at]
        closing = part.find("]", at + 2) if letter == "[" else -1
        if letter == "*":
            pieces.append("[^/]*")
        elif letter == "?":
            pieces.append("[^/]")
        elif closing > 0:
            inside = part[at + 1 : closing].replace("\\", r"\\").replace("[", r"\[")
            negated = inside[:1] in "!^"
            pieces.append(f"[{'^/' if negated else ''}{inside[1:] if negated else inside}]")
            at = closing
        else:
            pieces.append(re.escape(letter))
        at += 1
    return "".join(pieces)
