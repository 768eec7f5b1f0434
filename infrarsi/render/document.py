"""A report as a document: what it says, before any format gives it a look."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from infrarsi.records.verdict import Ruling

Tone: TypeAlias = Literal["pass", "fail", "inconclusive", "none"]
"""The colour of a statement; always said in words as well."""

Style: TypeAlias = Literal["plain", "code", "strong", "muted", "pass", "fail", "inconclusive"]


@dataclass(frozen=True)
class Span:
    """A run of text in one style."""

    text: str
    style: Style = "plain"


Words: TypeAlias = str | Span
Line: TypeAlias = tuple[Span, ...]


@dataclass(frozen=True)
class Cell:
    """Some lines of text."""

    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Column:
    """A column of a table: its heading and what it holds."""

    title: str
    holds: Literal["words", "number"] = "words"
    wide: bool = False
    """Whether it holds sentences, and so needs room."""


@dataclass(frozen=True)
class Row:
    """A row of a table."""

    cells: tuple[Cell, ...]
    dropped: bool = False
    """Whether it is listed only for the record."""


@dataclass(frozen=True)
class Table:
    """A table with its caption."""

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    long: bool = False
    """Whether a format may fold it."""


@dataclass(frozen=True)
class Figure:
    """A plot: what it shows in words, and the drawing."""

    name: str
    title: str
    summary: str
    """What it shows, with its numbers: the text alternative."""
    svg: str


@dataclass(frozen=True)
class Fact:
    """One thing that the first screen says."""

    label: str
    value: Cell
    note: Cell
    wide: bool = False


@dataclass(frozen=True)
class Section:
    """A heading with what stands below it."""

    anchor: str
    title: str
    paragraphs: tuple[Line, ...] = ()
    figures: tuple[Figure, ...] = ()
    tables: tuple[Table, ...] = ()
    bullets: tuple[Line, ...] = ()


@dataclass(frozen=True)
class Headline:
    """The verdict in one sentence, with what it rests on."""

    tone: Tone
    label: str
    sentence: str
    support: str
    figure: str = ""
    """The number to print large, where there is one."""


@dataclass(frozen=True)
class Document:
    """The whole report in words, tables and plots."""

    title: str
    about: Line
    headline: Headline
    warnings: tuple[str, ...]
    strip: Figure | None
    facts: tuple[Fact, ...]
    sections: tuple[Section, ...]


def line(*words: Words) -> Line:
    """Make a line out of texts and spans."""
    return tuple(each if isinstance(each, Span) else Span(each) for each in words)


def cell(*words: Words) -> Cell:
    """Make a cell of one line."""
    return Cell((line(*words),))


def stacked(*lines: Sequence[Words]) -> Cell:
    """Make a cell of several lines; empty ones are left out."""
    return Cell(tuple(line(*words) for words in lines if any(words)))


def code(text: str) -> Span:
    """Make a span of code."""
    return Span(text, "code")


def number(title: str) -> Column:
    """Make a column of numbers."""
    return Column(title, "number")


def sentences(title: str) -> Column:
    """Make a column of sentences."""
    return Column(title, wide=True)


def muted(text: str) -> Span:
    """Make a span that stands back."""
    return Span(text, "muted")


def ruling_span(ruling: Ruling | None) -> Span:
    """Give the word for a ruling in its colour."""
    match ruling:
        case Ruling.PASS:
            return Span("✓ pass", "pass")
        case Ruling.FAIL:
            return Span("✗ fail", "fail")
        case Ruling.INCONCLUSIVE:
            return Span("? inconclusive", "inconclusive")
        case None:
            return muted("not judged")


def table(
    caption: str,
    columns: Iterable[Column | str],
    *,
    rows: Iterable[Sequence[Cell] | Row],
    long: bool = False,
) -> Table:
    """Make a table; a column given by its title holds words."""
    return Table(
        caption,
        tuple(each if isinstance(each, Column) else Column(each) for each in columns),
        tuple(each if isinstance(each, Row) else Row(tuple(each)) for each in rows),
        long,
    )


def printable(text: str) -> str:
    """Replace what would steer a terminal, break XML, or reorder text, by a mark.

    A program's messages reach the report; escape sequences, control characters, lone surrogates
    and bidirectional overrides in them must not act on its reader. Newlines and tabs become spaces.
    """
    shown = []
    for character in text:
        if character in "\n\r\t\u2028\u2029":
            shown.append(" ")
        elif character in "\u200c\u200d":  # joiners, which honest scripts need
            shown.append(character)
        elif unicodedata.category(character) in {"Cc", "Cf", "Cs", "Cn", "Co"}:
            shown.append("\N{REPLACEMENT CHARACTER}")
        else:
            shown.append(character)
    return "".join(shown)


def shortened(text: str, most: int) -> str:
    """Cut a text to so many characters, the last of them an ellipsis."""
    return text if len(text) <= most else f"{text[: max(0, most - 1)].rstrip()}…"
