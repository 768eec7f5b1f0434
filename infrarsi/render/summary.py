"""The first screen of a report as one picture, for a README."""

from __future__ import annotations

import re
import textwrap

from infrarsi.records.report import Report
from infrarsi.render.confirmation_plot import draw_strip
from infrarsi.render.document import Cell, Fact, Headline
from infrarsi.render.drawing import element, escaped, fitted, label
from infrarsi.render.facts import facts_of
from infrarsi.render.headline import headline_of
from infrarsi.render.search_plot import draw_search
from infrarsi.render.style import PLOT, THEME

_WIDTH, _PAD = 880.0, 30.0
_INNER = _WIDTH - 2 * _PAD
_SHOWN = ("Time per update", "Cost of the search", "Break-even", "Refused by the judge")
_STYLE = """
svg .label-tone{font-size:12.5px;font-weight:700;letter-spacing:.8px}
svg .big{font-size:58px;font-weight:700;letter-spacing:-2px}
svg .sentence{font-size:18px;font-weight:650}
svg .support{font-size:13px;fill:var(--soft)}
svg .fact{font-size:17px;font-weight:650}
svg .tone-pass{fill:var(--pass)}svg .tone-fail{fill:var(--fail)}
svg .tone-inconclusive{fill:var(--warn)}svg .tone-none{fill:var(--soft)}
svg .paper{fill:var(--paper);stroke:var(--line)}
"""


def render_svg_summary(report: Report) -> str:
    """Give the verdict, its interval, four facts and the search as one SVG file."""
    headline = headline_of(report)
    top, y = _draw_headline(headline)
    drawn = [top]
    strip = draw_strip(report.confirmed, width=_INNER) if report.confirmed else None
    if strip is not None:
        drawn.append(strip.placed(_PAD, y))
        y += strip.height
    y += 22
    drawn.append(_draw_facts([each for each in facts_of(report) if each.label in _SHOWN], y))
    y += 74
    if report.trials.rows:
        search = draw_search(report, width=_INNER, height=270.0)
        drawn.append(search.placed(_PAD, y))
        y += search.height
    height = y + 18
    paper = element(
        "rect", x=0.5, y=0.5, width=_WIDTH - 1, height=float(height - 1), rx=12, cls="paper"
    )
    bar = element(
        "rect", x=0.5, y=16.0, width=5.0, height=float(height - 32), cls=f"tone-{headline.tone}"
    )
    words = f"{headline.label}. {headline.sentence} {headline.support}"
    return (
        element(
            "svg",
            [
                element("title", "InfraRSI report"),
                element("desc", escaped(words)),
                element("style", THEME + PLOT + _STYLE),
                paper,
                bar,
                *drawn,
            ],
            xmlns="http://www.w3.org/2000/svg",
            viewBox=f"0 0 {_WIDTH:g} {height:g}",
            width=f"{_WIDTH:g}",
            role="img",
        )
        + "\n"
    )


def _draw_headline(headline: Headline) -> tuple[str, float]:
    left = _PAD
    drawn = []
    if headline.figure:
        drawn.append(label(_PAD, 96, headline.figure, cls=f"big tone-{headline.tone}"))
        left += 33.0 * len(headline.figure) + 22
    tone = f"label-tone tone-{headline.tone}"
    drawn.append(label(left, 42, headline.label.upper(), cls=tone))
    y = 68.0
    room = _WIDTH - _PAD - left
    for words in textwrap.wrap(_kept_together(headline.sentence), int(room / 11.6))[:4]:
        drawn.append(label(left, y, words, cls="sentence"))
        y += 25
    y -= 3
    for words in textwrap.wrap(headline.support, int(room / 7.4))[:4]:
        drawn.append(label(left, y, words, cls="support"))
        y += 19
    return "".join(drawn), max(y, 112.0)


def _draw_facts(facts: list[Fact], y: float) -> str:
    drawn, step = [], _INNER / len(facts)
    for place, fact in enumerate(facts):
        x = _PAD + step * place
        drawn += [
            label(x, y, fact.label, cls="tick"),
            label(x, y + 22, fitted(_plain(fact.value), (step - 14) * 0.72), cls="fact"),
            label(x, y + 42, _first_clause(fact.note), cls="tick", room=step - 8),
        ]
    return "".join(drawn)


def _kept_together(text: str) -> str:
    """Bind the two bounds of an interval by a space that no line ends at."""
    return re.sub(r"(\[[^\],]*), ", "\\1,\N{NO-BREAK SPACE}", text)


def _first_clause(note: Cell) -> str:
    return re.split(r"[;.](?:\s|$)", _plain(note))[0]


def _plain(cell: Cell) -> str:
    return " ".join("".join(span.text for span in line) for line in cell.lines)
