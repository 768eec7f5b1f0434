"""Where the single values of a configuration file stand in its text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Path: TypeAlias = tuple[str | int, ...]
"""Keys and places in lists, from the outermost table inwards."""


@dataclass(frozen=True)
class Place:
    """Where one value stands: ``text[start:end]``."""

    start: int
    end: int
    value: Any
    quote: str = ""
    """The quotation mark that it is written with, if any."""
    why_not: str = ""
    """Why it cannot be set on its own, where it cannot: ``it is a block of text``."""


@dataclass(frozen=True)
class Gap:
    """Where a table takes a new key: at ``index``, between two texts."""

    index: int
    before: str = ""
    after: str = ""


@dataclass(frozen=True)
class Layout:
    """Where everything in a file stands."""

    places: dict[Path, Place] = field(default_factory=dict)
    gaps: dict[Path, Gap] = field(default_factory=dict)
    """By the path of the table."""


def newline_of(text: str) -> str:
    """Give the line end that a text uses."""
    return "\r\n" if "\r\n" in text else "\n"


TWICE = "its key stands there twice"
NOT_SINGLE = "it is no single value"


def dotted(path: Path) -> str:
    """Write a path as a knob names it."""
    return ".".join(map(str, path))


def leaves(loaded: Any, path: Path = ()) -> Iterator[tuple[Path, tuple[str, str]]]:
    """Give every single value of a loaded file, and empty tables and lists, by path.

    Values are given as type and text, so that ``True`` is not 1 and not-a-number is itself.
    """
    if isinstance(loaded, dict) and loaded:
        for key, value in loaded.items():
            yield from leaves(value, (*path, str(key)))
    elif isinstance(loaded, list) and loaded:
        for index, value in enumerate(loaded):
            yield from leaves(value, (*path, index))
    else:
        yield path, (type(loaded).__name__, repr(loaded))
