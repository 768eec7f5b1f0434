"""The verdict in one sentence, and what in a report does not agree with itself."""

from __future__ import annotations

import math

from infrarsi.records.report import Confirmed, Report
from infrarsi.records.verdict import Ruling
from infrarsi.render import numbers
from infrarsi.render.document import Headline, printable, shortened
from infrarsi.render.rows import num_launches, winner_row


def headline_of(report: Report) -> Headline:
    """Give the verdict in one sentence, and the sentence of what it rests on."""
    confirmed = report.confirmed
    if confirmed is None:
        return _unconfirmed(report)
    match confirmed.ruling:
        case Ruling.PASS:
            return _accepted(confirmed)
        case Ruling.FAIL:
            return _not_accepted(confirmed, refused=True)
        case Ruling.INCONCLUSIVE:
            return _not_accepted(confirmed, refused=False)


def contradictions(report: Report) -> tuple[str, ...]:
    """Name what in a report does not agree with itself: a reader should not have to find it."""
    confirmed = report.confirmed
    if confirmed is None:
        return ()
    found = []
    if report.winner is None:
        found.append("A confirmation is recorded, but no winner.")
    if confirmed.ruling is Ruling.PASS:
        if confirmed.speedup is None:
            found.append("The confirmation is recorded as passed, but holds no speedup.")
        elif confirmed.speedup.low <= confirmed.threshold:
            low, threshold = numbers.against(confirmed.speedup.low, confirmed.threshold)
            found.append(
                f"The confirmation is recorded as passed, but its lower bound {low} does not "
                f"exceed the threshold {threshold}."
            )
        open_checks = [each for each in confirmed.findings if each.ruling is not Ruling.PASS]
        if open_checks:
            found.append(
                "The confirmation is recorded as passed, but "
                f"{numbers.counted(len(open_checks), 'check')} did not pass."
            )
    found.extend(_disagreement_with_blocks(confirmed))
    return tuple(found)


def _accepted(confirmed: Confirmed) -> Headline:
    speedup = confirmed.speedup
    if speedup is None:
        return Headline("inconclusive", "Accepted without a number", *_no_speedup(confirmed))
    low, threshold = numbers.against(speedup.low, confirmed.threshold)
    return Headline(
        "pass",
        "Accepted",
        "The winner trains the same model on the same data "
        f"{numbers.ratio_point(speedup)} as fast as the reference "
        f"({numbers.level(speedup)} interval {numbers.ratio_bounds(speedup)}).",
        f"{_launches(confirmed)}; the lower bound {low} had to exceed {threshold}; "
        f"{_checks(confirmed)}.",
        numbers.ratio_point(speedup),
    )


def _no_speedup(confirmed: Confirmed) -> tuple[str, str]:
    return (
        "The confirmation is recorded as passed, but without a speedup: read it as inconclusive.",
        f"{_launches(confirmed)}; {_checks(confirmed)}.",
    )


def _not_accepted(confirmed: Confirmed, *, refused: bool) -> Headline:
    wanted = Ruling.FAIL if refused else Ruling.INCONCLUSIVE
    causes = [each for each in confirmed.findings if each.ruling is wanted]
    speedup, because, reason = confirmed.speedup, "", ""
    if causes:
        verb = "did not pass" if refused else "could not tell"
        because = f": {causes[0].layer} / {causes[0].check} {verb}"
        reason = f"{_sentence(causes[0].reason)} "
    elif speedup is not None and speedup.low <= confirmed.threshold:
        low, threshold = numbers.against(speedup.low, confirmed.threshold)
        because = f": the lower bound {low} does not exceed {threshold}"
    measured = "no speedup was measured"
    if speedup is not None:
        measured = (
            f"measured {numbers.ratio_estimate(speedup)} at {numbers.level(speedup)}, which is not "
            "a result"
        )
    support = f"{reason}{_launches(confirmed)}; {measured}; {_checks(confirmed)}."
    if refused:
        sentence = f"The judge refused the candidate put forward{because}."
        return Headline("fail", "Refused", sentence, support)
    sentence = f"The evidence does not settle whether the candidate is faster{because}."
    return Headline("inconclusive", "Inconclusive", sentence, support)


def _unconfirmed(report: Report) -> Headline:
    rows = report.trials.rows
    tried = f"{numbers.counted(len(rows), 'trial')} in the search"
    if report.winner is not None:
        row = winner_row(report)
        screened = row.screening_speedup if row else None
        return Headline(
            "none",
            "Not confirmed",
            "A candidate stands out in screening, but was not confirmed: no speedup is claimed.",
            f"Its screening ratio is {numbers.ratio(screened)}; one launch ranks candidates, and "
            f"decides nothing. {tried}.",
        )
    if report.reference_update_s is None:
        sentence = "The reference was not measured, so nothing can be said about any speedup."
    elif not rows:
        sentence = "Nothing was tried yet."
    else:
        sentence = "No candidate was found that is faster and passed every check."
    return Headline("none", "No winner", sentence, f"{tried}; no speedup is claimed.")


def _sentence(text: str) -> str:
    words = shortened(" ".join(printable(text).split()), 240)
    return words if words.endswith((".", "…", "!", "?")) else f"{words}."


def _launches(confirmed: Confirmed) -> str:
    blocks = numbers.counted(len(confirmed.blocks), "randomised block")
    return f"{blocks}, {numbers.counted(num_launches(confirmed), 'fresh launch', 'fresh launches')}"


def _checks(confirmed: Confirmed) -> str:
    total = len(confirmed.findings)
    if not total:
        return "no check is on record"
    passed = sum(each.ruling is Ruling.PASS for each in confirmed.findings)
    return f"{passed} of {numbers.counted(total, 'check')} passed"


def _disagreement_with_blocks(confirmed: Confirmed) -> list[str]:
    if confirmed.speedup is None or not confirmed.blocks:
        return []
    if any(block.ratio <= 0 for block in confirmed.blocks):
        return ["A block's ratio is not positive."]
    mean = math.exp(
        sum(math.log(block.ratio) for block in confirmed.blocks) / len(confirmed.blocks)
    )
    if abs(math.log(mean / confirmed.speedup.point)) <= 0.002:
        return []
    return [
        f"The geometric mean of the blocks is {numbers.ratio(mean, decimals=3)}, but the recorded "
        f"speedup is {numbers.ratio(confirmed.speedup.point, decimals=3)}."
    ]
