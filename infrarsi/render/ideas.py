"""The section on proposers: what each brought, and how its predictions stood up."""

from __future__ import annotations

from infrarsi.records.report import Credit, IdeaRow, LanguageCall, Report
from infrarsi.render import numbers
from infrarsi.render.document import (
    Row,
    Section,
    Table,
    cell,
    code,
    line,
    muted,
    number,
    sentences,
    stacked,
    table,
)

_FATES = {
    "declined": "declined before any trial",
    "untried": "not tried",
    "tried": "tried, never accepted",
    "accepted": "accepted, not in the winner",
    "kept": "in the winner",
}
_NO_SCORE = "no score"


def ideas_section(report: Report) -> Section:
    """Tell where the ideas came from, and what became of each."""
    title = "Where the ideas came from"
    if not report.credits and not report.language_calls:
        return Section("ideas", title, (line("No proposer has put anything forward yet."),))
    text = line(
        "Predictions were recorded before any trial. They are ratios of update time, with the "
        "idea over without it; below 1 is faster. They are scored against what was measured alone "
        "or by ablation, where at least three ideas were."
    )
    tables = [_credit_table(report.credits)]
    if report.ideas:
        tables.append(_ideas_table(report.ideas))
    if report.language_calls:
        tables.append(_calls_table(report.language_calls))
    return Section("ideas", title, (text,), (), tuple(tables))


def _credit_table(credits: tuple[Credit, ...]) -> Table:
    columns = (
        "Proposer", number("Ideas"), number("Declined"), number("Tried"), number("Accepted"),
        sentences("In the winner"), number("Rank correlation"), number("Mean log error"),
        sentences("Note"),
    )  # fmt: skip
    rows = [
        (
            cell(each.proposer),
            cell("not counted" if each.proposed is None else numbers.count(each.proposed)),
            cell(numbers.count(each.declined)),
            cell(numbers.count(each.tried)),
            cell(numbers.count(each.accepted)),
            stacked(*([code(name)] for name in each.parts)) if each.parts else cell("nothing"),
            cell(_correlation(each)),
            cell(_error(each)),
            cell(each.note),
        )
        for each in credits
    ]
    return table("What each proposer brought", columns, rows=rows)


def _correlation(credit: Credit) -> str:
    if credit.rank_correlation is None:
        return _NO_SCORE
    return f"{credit.rank_correlation:+.2f} (of {credit.num_scored})"


def _error(credit: Credit) -> str:
    if credit.mean_log_error is None:
        return _NO_SCORE
    return numbers.significant(credit.mean_log_error, 2)


def _ideas_table(ideas: tuple[IdeaRow, ...]) -> Table:
    columns = (
        sentences("Idea"), "Proposer", number("Predicted"), number("Measured"),
        sentences("What became of it"),
    )  # fmt: skip
    rows = [
        Row(
            (
                stacked([code(each.name)], [muted(each.summary)] if each.summary else []),
                cell(each.proposer),
                cell(_ratio(each.predicted, "not predicted")),
                cell(_ratio(each.measured, numbers.NOT_MEASURED)),
                stacked([_FATES[each.fate]], [muted(each.because)] if each.because else []),
            ),
            dropped=each.fate == "declined",
        )
        for each in ideas
    ]
    return table("Every idea", columns, rows=rows, long=True)


def _ratio(value: float | None, missing: str) -> str:
    return missing if value is None else numbers.ratio(value, decimals=3)


def _tokens(number: int | None) -> str:
    return "not reported" if number is None else numbers.count(number)


def _calls_table(calls: tuple[LanguageCall, ...]) -> Table:
    columns = (
        number("#"), sentences("Model"), sentences("Outcome"), number("Ideas, declined"),
        number("Tokens in, out"), number("US dollars"), number("Time"), sentences("Digests"),
    )  # fmt: skip
    rows = [
        (
            cell(str(each.index)),
            stacked([each.model], [muted(f"{each.provider} at {each.host}")]),
            stacked(
                [each.outcome + (", asked to mend" if each.mending else "")],
                [muted(each.note)] if each.note else [],
                [muted(f"{numbers.counted(each.redactions, 'secret')} taken out")]
                if each.redactions
                else [],
            ),
            stacked([numbers.count(each.num_ideas)], [numbers.count(each.num_declined)]),
            stacked([_tokens(each.input_tokens)], [_tokens(each.output_tokens)]),
            cell(numbers.dollars(each.usd)),
            cell(numbers.duration(each.wall_s)),
            stacked(*([muted(words), code(digest[:12])] for words, digest in _digests(each))),
        )
        for each in calls
    ]
    return table("Calls of a language model", columns, rows=rows, long=True)


def _digests(call: LanguageCall) -> list[tuple[str, str]]:
    named = (("prompt ", call.prompt_digest), ("reply ", call.reply_digest))
    return [(words, digest) for words, digest in named if digest]
