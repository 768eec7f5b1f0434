"""A report as one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterable

from infrarsi.records.report import Report
from infrarsi.render.document import Cell, Column, Fact, Figure, Line, Row, Section, Span, Table
from infrarsi.render.drawing import element, escaped
from infrarsi.render.pages import document_of
from infrarsi.render.style import PAGE, PLOT, THEME

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""Were a script or a reference to slip in, the browser would not follow it."""


def render_html(report: Report) -> str:
    """Give a report as one self-contained HTML page."""
    document = document_of(report)
    head = [
        '<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width,initial-scale=1">',
        f'<meta http-equiv="Content-Security-Policy" content="{escaped(_POLICY)}">',
        '<meta name="referrer" content="no-referrer">',
        element("title", escaped(document.title)),
        element("style", THEME + PLOT + PAGE),
    ]
    headline = document.headline
    sentence = [
        element("span", escaped(headline.label), cls="label"),
        element("h1", escaped(headline.sentence)),
        element("p", escaped(headline.support), cls="support"),
    ]
    big = element("div", escaped(headline.figure), cls="big", aria_hidden="true")
    top = element("div", [big if headline.figure else "", element("div", sentence)], cls="top")
    strip = ""
    if document.strip is not None:
        text = element("p", escaped(document.strip.summary), id="strip-text", cls="unseen")
        strip = element("div", document.strip.svg, cls="scroll") + text
    header = [
        element("p", _line(document.about), cls="about"),
        element("div", [top, strip], cls=f"verdict {headline.tone}"),
        *(element("p", escaped(words), cls="warning", role="alert") for words in document.warnings),
        element("dl", map(_fact, document.facts), cls="facts"),
        _contents(document.sections),
    ]
    body = [
        '<a class="skip" href="#search">Skip to the sections</a>',
        element("header", header),
        element("main", map(_section, document.sections)),
        element(
            "footer", "Written by InfraRSI. The same numbers stand in report.md and report.json."
        ),
    ]
    return (
        f'<!doctype html>\n<html lang="en">\n{element("head", head)}\n'
        f"{element('body', _in_lines(body))}\n</html>\n"
    )


def _contents(sections: Iterable[Section]) -> str:
    entries = [
        element("li", element("a", escaped(each.title), href=f"#{each.anchor}"))
        for each in sections
    ]
    return element("nav", element("ul", entries), aria_label="Contents")


def _section(section: Section) -> str:
    parts = [element("h2", escaped(section.title), id=f"{section.anchor}-heading")]
    parts += [element("p", _line(each)) for each in section.paragraphs]
    if section.bullets:
        parts.append(element("ul", [element("li", _line(each)) for each in section.bullets]))
    parts += map(_figure, section.figures)
    if section.tables:
        parts.append(element("div", _in_lines(map(_table, section.tables)), cls="tables"))
    heading = f"{section.anchor}-heading"
    return element("section", _in_lines(parts), id=section.anchor, aria_labelledby=heading)


def _figure(figure: Figure) -> str:
    parts = [
        element("h3", escaped(figure.title)),
        element("div", figure.svg, cls="scroll"),
        element("figcaption", escaped(figure.summary), id=f"{figure.name}-text"),
    ]
    return element("figure", parts)


def _table(table: Table) -> str:
    head = element("tr", map(_heading, table.columns))
    rows = [_row(row, table.columns) for row in table.rows]
    caption = element("caption", escaped(table.caption))
    narrow = not any(column.wide for column in table.columns)
    body = element(
        "table",
        [caption, element("thead", head), element("tbody", _in_lines(rows))],
        cls="narrow" if narrow else None,
    )
    region = element(
        "div", body, cls="scroll", tabindex="0", role="region", aria_label=table.caption
    )
    return element("div", region, cls="block" if narrow else "block wide")


def _heading(column: Column) -> str:
    return element("th", escaped(column.title), scope="col", cls=column.holds)


def _row(row: Row, columns: tuple[Column, ...]) -> str:
    cells = []
    for each, column in zip(row.cells, columns, strict=True):
        cls = f"{column.holds} wide" if column.wide else column.holds
        cells.append(element("td", _cell(each), cls=cls))
    return element("tr", cells, cls="dropped" if row.dropped else None)


def _fact(fact: Fact) -> str:
    parts = [element("dt", escaped(fact.label)), element("dd", _cell(fact.value))]
    note = _cell(fact.note)
    if note:
        parts.append(element("dd", note, cls="note"))
    return element("div", parts, cls="wide" if fact.wide else None)


def _cell(cell: Cell) -> str:
    lines = [_line(each) for each in cell.lines]
    if len(lines) == 1:
        return lines[0]
    return "".join(element("div", each) for each in lines)


def _line(line: Line) -> str:
    return "".join(map(_span, line))


def _span(span: Span) -> str:
    text = escaped(span.text)
    match span.style:
        case "plain":
            return text
        case "code":
            return element("code", text)
        case "strong":
            return element("strong", text)
        case "muted":
            return element("span", text, cls="muted")
        case "pass" | "fail" | "inconclusive" as ruling:
            return element("span", text, cls=f"ruling {ruling}")


def _in_lines(parts: Iterable[str]) -> str:
    return "\n".join(part for part in parts if part)
