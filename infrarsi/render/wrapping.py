"""Long lines on a narrow terminal: continued below, further in than they began."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

_DEEPER = "    "
_NARROWEST = 40


def wrapped(lines: Iterable[str], width: int | None) -> list[str]:
    """Break lines at words so that none is wider; ``None`` leaves them as they are."""
    if width is None:
        return list(lines)
    found: list[str] = []
    for line in lines:
        indent = line[: len(line) - len(line.lstrip())]
        found += textwrap.wrap(
            line, max(width, _NARROWEST), subsequent_indent=indent + _DEEPER,
            break_long_words=False, break_on_hyphens=False, replace_whitespace=False,
            drop_whitespace=True,
        ) or [""]  # fmt: skip
    return found
