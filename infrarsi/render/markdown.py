"""A report as Markdown, GitHub's kind: fit to stand in a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterable

from infrarsi.records.report import Report
from infrarsi.render.document import (
    Cell,
    Document,
    Figure,
    Line,
    Row,
    Section,
    Span,
    Table,
    printable,
)
from infrarsi.render.pages import document_of

_SIGNS = {"pass": "✅", "fail": "❌", "inconclusive": "⚠️", "none": "⬜"}
_FEWEST_TRIALS = 5


def render_markdown(report: Report, *, most_characters: int | None = None) -> str:
    """Give a report as Markdown.

    With ``most_characters`` (a pull request's description takes 65,536), routine trials are left
    out of the long list until it fits, and the text says how many; nothing else is shortened.
    """
    text = _written(document_of(report))
    most_trials = len(report.trials.rows)
    while most_characters is not None and len(text) > most_characters:
        if most_trials <= _FEWEST_TRIALS:
            break
        most_trials = max(_FEWEST_TRIALS, most_trials * 2 // 3)
        text = _written(document_of(report, most_trials=most_trials))
    return text


def _written(document: Document) -> str:
    headline = document.headline
    parts = [
        f"# {_SIGNS[headline.tone]} {escaped(headline.label)}: {escaped(headline.sentence)}",
        escaped(headline.support),
        _line(document.about),
        *(f"> **Warning:** {escaped(words)}" for words in document.warnings),
    ]
    if document.strip is not None:
        parts.append(f"*{escaped(document.strip.summary)}*")
    facts = ["| | | |", "|---|---|---|"]
    facts += [
        f"| **{escaped(fact.label)}** | {_cell(fact.value)} | {_cell(fact.note)} |"
        for fact in document.facts
    ]
    parts.append("\n".join(facts))
    for section in document.sections:
        parts += _section(section)
    return "\n\n".join(part for part in parts if part) + "\n"


def _section(section: Section) -> Iterable[str]:
    yield f"## {escaped(section.title)}"
    for paragraph in section.paragraphs:
        yield _line(paragraph)
    if section.bullets:
        yield "\n".join(f"- {_line(each)}" for each in section.bullets)
    for figure in section.figures:
        yield _figure(figure)
    for table in section.tables:
        yield _table(table)


def _figure(figure: Figure) -> str:
    return f"**{escaped(figure.title)}.** {escaped(figure.summary)}"


def _table(table: Table) -> str:
    heads = " | ".join(escaped(column.title) for column in table.columns)
    sides = "|".join("--:" if column.holds == "number" else "---" for column in table.columns)
    listing = "\n".join([f"| {heads} |", f"|{sides}|", *map(_row, table.rows)])
    caption = escaped(table.caption)
    if table.long:
        return f"<details><summary>{caption}</summary>\n\n{listing}\n\n</details>"
    return f"**{caption}**\n\n{listing}"


def _row(row: Row) -> str:
    return f"| {' | '.join(map(_cell, row.cells))} |"


def _cell(cell: Cell) -> str:
    return "<br>".join(_line(each, in_table=True) for each in cell.lines)


def _line(line: Line, *, in_table: bool = False) -> str:
    return "".join(_span(span, in_table=in_table) for span in line)


def _span(span: Span, *, in_table: bool) -> str:
    match span.style:
        case "code":
            return _code(span.text, in_table=in_table)
        case "strong" | "pass" | "fail" | "inconclusive":
            return f"**{escaped(span.text)}**"
        case "plain" | "muted":
            return escaped(span.text)


def _code(text: str, *, in_table: bool) -> str:
    shown = printable(text)
    if not shown.strip():
        return ""
    if in_table and "|" in shown:
        # A backslash before the bar would undo an escaped bar inside backticks.
        return f"<code>{escaped(shown).replace(chr(92) + '|', '&#124;')}</code>"
    longest = max((len(run) for run in re.findall("`+", shown)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if shown[0] == "`" or shown[-1] == "`" else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def escaped(text: str) -> str:
    """Make a text mean itself: no markup, no table cell, no mention of a stranger."""
    shown = printable(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    shown = re.sub(r"([\\`*|~])", r"\\\1", shown)
    shown = re.sub(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])", r"\\_", shown)  # inside words it is plain
    shown = re.sub(r"\](?=[(\[:])", r"\\]", shown)
    shown = re.sub(r"^(\d+)([.)])(?=\s)", r"\1\\\2", re.sub(r"^([#+-])(?=\s)", r"\\\1", shown))
    return shown.replace("@", "@<!-- -->")
