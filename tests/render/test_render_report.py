"""Both long formats: the same numbers, nothing fetched, nothing that a hostile text can do."""

import re
from html import unescape
from html.parser import HTMLParser

import pytest
import report_samples as samples

from infrarsi.records.report import Report, Trials, Winner
from infrarsi.records.verdict import Ruling
from infrarsi.render.html import render_html
from infrarsi.render.markdown import render_markdown

VOID = {"meta", "br", "img", "hr", "link", "input"}
NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?(?:e[+-]?\d+)?")
HOSTILE = '</svg><script>alert(1)</script> "><img src=x onerror=y> | `a` \x1b[2J \u202e @someone'


class Page(HTMLParser):
    """Reads a page strictly: every element closed in order; texts apart from drawings."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.drawn: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and not {"style", "title", "head"} & set(self.open):
            (self.drawn if "svg" in self.open else self.texts).append(data)

    def ids(self) -> list[str]:
        return [value for _, name, value in self.attributes if name == "id"]


def page_of(report: Report) -> Page:
    page = Page()
    page.feed(render_html(report))
    page.close()
    assert page.open == []
    return page


def numbers_of(text: str) -> list[str]:
    return sorted(NUMBER.findall(text))


def numbers_of_markdown(report: Report) -> list[str]:
    text = re.sub(r"<!--.*?-->|</?[a-z]+>", " ", render_markdown(report))
    return numbers_of(unescape(re.sub(r"\\([^A-Za-z0-9\s])", r"\1", text)))


def in_body(page: Page) -> str:
    words = " ".join(page.texts)
    # What only a page has: the number printed large stands in the sentence beside it as well.
    return words.replace("Written by InfraRSI.", "")


REPORTS = [
    samples.full_report,
    samples.bare_report,
    samples.refused_report,
    samples.winnerless_report,
]


@pytest.mark.parametrize("make", REPORTS)
def test_html_and_markdown_show_the_same_numbers(make):
    report = make()
    page = page_of(report)
    shown = numbers_of(in_body(page))
    if report.confirmed and report.confirmed.ruling is Ruling.PASS:
        shown.remove("2.31")  # printed large
    assert shown == numbers_of_markdown(report)


def test_numbers_written_on_the_plots_stand_in_the_markdown_too():
    report = samples.full_report()
    text = render_markdown(report)
    html = render_html(report)
    written = re.findall(r'<text[^>]*class="(?:value|label)[^"]*"[^>]*>([^<]*)</text>', html)
    figures = {each for words in written for each in NUMBER.findall(unescape(words))}
    assert len(figures) > 30
    assert figures <= set(NUMBER.findall(text))


@pytest.mark.parametrize("make", REPORTS)
def test_a_page_is_well_formed_and_its_names_are_unique(make):
    page = page_of(make())
    assert len(page.ids()) == len(set(page.ids()))
    references = {v for _, n, v in page.attributes if n in ("aria-labelledby", "aria-describedby")}
    assert references <= set(page.ids())
    anchors = {v[1:] for t, n, v in page.attributes if t == "a" and n == "href"}
    assert anchors <= set(page.ids())


@pytest.mark.parametrize("make", REPORTS)
def test_a_page_fetches_nothing(make):
    html = render_html(make())
    assert not re.search(r"[a-z]+://|url\(|@import|srcset", html)
    page = page_of(make())
    assert not {"script", "link", "img", "iframe", "object", "form"} & set(page.tags)
    assert not [name for _, name, _ in page.attributes if name.startswith("on") or name == "src"]


def test_every_plot_is_there_and_has_a_text_beside_it():
    page = page_of(samples.full_report())
    names = {"strip", "search", "blocks", "launches", "parts", "phases", "memory", "cost"}
    assert {f"{name}-title" for name in names} <= set(page.ids())
    assert {f"{name}-text" for name in names} <= set(page.ids())


def test_every_table_has_a_caption_and_column_headings():
    page = page_of(samples.full_report())
    assert page.tags.count("caption") == page.tags.count("table") > 8
    scopes = [value for tag, name, value in page.attributes if (tag, name) == ("th", "scope")]
    assert scopes
    assert set(scopes) == {"col"}


def hostile_report() -> Report:
    report = samples.full_report()
    rows = tuple(
        row.model_copy(update={"change": HOSTILE, "reason": HOSTILE, "why": HOSTILE})
        for row in report.trials.rows
    )
    winner = report.winner
    assert winner is not None
    parts = tuple(
        part.model_copy(update={"name": HOSTILE, "note": HOSTILE}) for part in winner.parts
    )
    phases = tuple(phase.model_copy(update={"phase": HOSTILE}) for phase in report.phases)
    confirmed = report.confirmed
    assert confirmed is not None
    findings = tuple(
        each.model_copy(update={"check": HOSTILE, "reason": HOSTILE, "hint": HOSTILE})
        for each in confirmed.findings
    )
    return report.model_copy(
        update={
            "contract": HOSTILE,
            "command": (HOSTILE,),
            "machine": {HOSTILE: HOSTILE},
            "sandbox": HOSTILE,
            "quality": HOSTILE,
            "limits": (HOSTILE,),
            "bands": {HOSTILE: HOSTILE},
            "phases": phases,
            "trials": report.trials.model_copy(update={"rows": rows}),
            "winner": winner.model_copy(
                update={"parts": parts, "knobs": {HOSTILE: HOSTILE}, "summaries": {"sdpa": HOSTILE}}
            ),
            "confirmed": confirmed.model_copy(update={"findings": findings, "branch": HOSTILE}),
            "ideas": tuple(
                each.model_copy(update={"name": HOSTILE, "summary": HOSTILE, "because": HOSTILE})
                for each in report.ideas
            ),
            "language_calls": tuple(
                each.model_copy(update={"model": HOSTILE, "host": HOSTILE, "note": HOSTILE})
                for each in report.language_calls
            ),
        }
    )


def test_a_hostile_text_stays_text_in_a_page():
    html, page = render_html(hostile_report()), page_of(hostile_report())
    assert "script" not in page.tags
    assert "img" not in page.tags
    assert page.tags.count("svg") == 8
    assert "\x1b" not in html
    assert "\u202e" not in html
    assert "alert(1)" in " ".join(page.texts)


def test_a_hostile_text_stays_text_in_markdown():
    text = render_markdown(hostile_report())
    outside_code = re.sub(r"(`+)[^`].*?[^`]\1(?!`)", "", text)
    assert "<script>" not in outside_code
    assert "<img" not in outside_code
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert not re.search(r"(?<!`)@someone", outside_code.replace("@<!-- -->someone", ""))


def test_a_hostile_text_opens_no_cell_in_a_markdown_table():
    lines = render_markdown(hostile_report()).splitlines()
    bars = [len(re.findall(r"(?<!\\)\|", each)) for each in lines]
    for place, each in enumerate(lines):
        if re.fullmatch(r"\|[-:|]+\|", each):
            assert bars[place] == bars[place - 1] == bars[place + 1]


def test_what_was_not_measured_is_said_and_never_written_as_nothing():
    report = samples.bare_report()
    for text in (" ".join(page_of(report).texts), render_markdown(report)):
        assert "The reference was not measured" in text
        assert text.count("not measured") > 6
        assert "None" not in text
        assert not re.search(r"\b(nan|inf)\b", text.lower())
        assert not re.search(r"\b0(\.0+)?x", text)


def test_without_a_winner_nothing_is_claimed():
    text = render_markdown(samples.winnerless_report())
    assert text.startswith("# ⬜ No winner: No candidate was found that is faster")
    assert "no speedup is claimed" in text
    assert "15,601" not in text, "a break-even of nothing"


def test_a_refused_candidate_shows_its_figure_only_as_no_result():
    text = render_markdown(samples.refused_report())
    assert text.startswith("# ❌ Refused: The judge refused the candidate put forward: numerics")
    assert "which is not a result" in text
    assert "candidate, not accepted: 141 ms" in text
    assert "trains the same model" not in text


def test_an_unsettled_candidate_is_called_inconclusive():
    report = samples.refused_report()
    assert report.confirmed is not None
    finding = report.confirmed.findings[-1].model_copy(update={"ruling": Ruling.INCONCLUSIVE})
    confirmed = report.confirmed.model_copy(
        update={"ruling": Ruling.INCONCLUSIVE, "findings": (finding,)}
    )
    text = render_markdown(report.model_copy(update={"confirmed": confirmed}))
    assert "Inconclusive: The evidence does not settle whether the candidate is faster" in text
    assert "0 of 1 check passed" in text


def test_a_screened_candidate_without_a_confirmation_claims_nothing():
    text = render_markdown(samples.full_report().model_copy(update={"confirmed": None}))
    assert "Not confirmed: A candidate stands out in screening" in text
    assert "one launch ranks candidates, and decides nothing" in text


def test_a_report_that_contradicts_itself_says_so():
    report = samples.refused_report()
    assert report.confirmed is not None
    confirmed = report.confirmed.model_copy(update={"ruling": Ruling.PASS, "threshold": 2.5})
    blocks = tuple(each.model_copy(update={"ratio": 1.0}) for each in confirmed.blocks)
    confirmed = confirmed.model_copy(update={"blocks": blocks})
    report = report.model_copy(update={"confirmed": confirmed, "winner": None})
    for text in (" ".join(page_of(report).texts), render_markdown(report)):
        assert "does not exceed the threshold 2.500x" in text
        assert "1 check did not pass" in text
        assert "The geometric mean of the blocks is 1.000x" in text
        assert "no winner" in text


def test_a_pass_without_a_speedup_is_no_acceptance():
    report = samples.full_report()
    assert report.confirmed is not None
    confirmed = report.confirmed.model_copy(update={"speedup": None})
    text = render_markdown(report.model_copy(update={"confirmed": confirmed}))
    assert text.startswith("# ⚠️ Accepted without a number")
    assert "holds no speedup" in text


def test_a_part_that_cannot_be_measured_is_listed_without_a_figure():
    report = samples.full_report()
    assert report.winner is not None
    parts = tuple(part.model_copy(update={"gain": None}) for part in report.winner.parts)
    report = report.model_copy(update={"winner": report.winner.model_copy(update={"parts": parts})})
    assert "parts-title" in page_of(report).ids()
    assert "| `+sdpa` | patch | not measured | kept |" in render_markdown(report)


def test_every_refusal_is_listed_with_its_whole_reason():
    report = samples.full_report()
    listed = render_markdown(report).split("## What was refused")[1].split("## Cost")[0]
    for row in report.trials.rows:
        if row.verdict is Ruling.FAIL or row.outcome == "refused":
            assert row.why.replace("_", "") in listed.replace("_", "").replace("\\", "")


def test_out_of_memory_is_a_bound_and_not_a_missing_number():
    text = render_markdown(samples.winnerless_report())
    assert "above capacity" in text


def test_a_long_list_gives_way_before_a_pull_request_refuses_it():
    report = samples.full_report()
    many = tuple(
        row.model_copy(update={"index": 24 * turn + row.index})
        for turn in range(20)
        for row in report.trials.rows
    )
    report = report.model_copy(update={"trials": report.trials.model_copy(update={"rows": many})})
    whole, fitted = render_markdown(report), render_markdown(report, most_characters=65_536)
    assert len(whole) > 65_536 >= len(fitted)
    assert "routine trials left out for length" in fitted
    assert fitted.count("which is protected") >= 20


def test_a_limit_that_cannot_be_met_keeps_the_verdict():
    text = render_markdown(samples.full_report(), most_characters=10)
    assert "2.31x as fast as the reference" in text


def test_rendering_twice_gives_the_same_bytes():
    assert render_html(samples.full_report()) == render_html(samples.full_report())


def test_an_unchanged_winner_says_that_it_differs_in_nothing():
    report = samples.full_report()
    winner = Winner(candidate="abc", knobs={}, patches=())
    trials = Trials(outcomes={}, verdicts={}, failed_share=0, rows=())
    text = render_markdown(report.model_copy(update={"winner": winner, "trials": trials}))
    assert "It differs from the reference in nothing." in text
    assert "What each part adds was not measured." in text
