"""Files that a program did not find, as far as its output names them."""

from __future__ import annotations

import re

_LAST_LINES = 40
_FRAME = re.compile(r'^\s*File "')
_QUOTED = re.compile(r"'([^'\n]{1,400})'|\"([^\"\n]{1,400})\"")
_BARE = re.compile(r"[^\s'\"=:,;()\[\]{}<>]*[./][^\s'\"=:,;()\[\]{}<>]+")
_MODULE = re.compile(r"No module named '?([A-Za-z_][\w.]*)'?")


def paths_named(log: str) -> tuple[str, ...]:
    """Give what looks like a path in the end of a program's output, the last named first.

    Which of them matter is for the caller to tell: those that the user has and a trial lacks.
    """
    lines = [line for line in log.splitlines()[-_LAST_LINES:] if not _FRAME.match(line)]
    found: list[str] = []
    for line in reversed(lines):
        found += [first or second for first, second in _QUOTED.findall(line)]
        found += [word.rstrip(".") for word in _BARE.findall(line)]
    return tuple(dict.fromkeys(each for each in found if each.strip("./")))


def modules_named(log: str) -> tuple[str, ...]:
    """Give the modules that a program could not import, the last first."""
    return tuple(dict.fromkeys(reversed(_MODULE.findall(log))))
