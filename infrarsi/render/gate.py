"""What the gate found, as Markdown: for a pull request, a job's summary, or a terminal."""

from __future__ import annotations

from infrarsi.records.gate import GateReport
from infrarsi.records.verdict import Ruling
from infrarsi.render import numbers
from infrarsi.render.document import printable
from infrarsi.render.markdown import escaped

_SIGNS = {Ruling.PASS: "✅", Ruling.FAIL: "❌", Ruling.INCONCLUSIVE: "⚠️"}
_NOTHING = {
    "none": "no promotion in this change",
    "withdrawn": "this change takes a promotion away, and brings none",
}
_SAID = {
    ("promotion", Ruling.PASS): "the promotion holds",
    ("promotion", Ruling.FAIL): "the promotion is refused",
    ("promotion", Ruling.INCONCLUSIVE): "the promotion could not be judged",
    ("standing", Ruling.PASS): "what was promoted still holds",
    ("standing", Ruling.FAIL): "what was promoted does not hold",
    ("standing", Ruling.INCONCLUSIVE): "whether what was promoted still holds could not be told",
}


def gate_markdown(report: GateReport) -> str:
    """Give a report of the gate as Markdown, GitHub's kind."""
    said = _NOTHING.get(report.kind) or _SAID[report.kind, report.ruling]
    parts = [f"# {_SIGNS[report.ruling]} infrarsi gate: {said}", _about(report)]
    if report.checks:
        rows = ["| | check | what was found |", "|---|---|---|"]
        rows += [
            f"| {_SIGNS[each.ruling]} | {each.check} | {escaped(each.reason)} |"
            for each in report.checks
        ]
        parts.append("\n".join(rows))
    parts += [f"**{each.check}:** {_hint(each.hint)}" for each in report.refusals if each.hint]
    if report.revert_branch is not None:
        parts.append(
            f"The branch `{report.revert_branch}` takes it back. It was not pushed: look at it, "
            "then push it and open a pull request."
        )
    return "\n\n".join(part for part in parts if part) + "\n"


def _hint(text: str) -> str:
    """Give what to do, commands in it as code."""
    pieces = text.split("`")
    if len(pieces) % 2 == 0:
        return escaped(text)
    return "".join(
        f"`{printable(piece)}`" if index % 2 else escaped(piece)
        for index, piece in enumerate(pieces)
    )


def _about(report: GateReport) -> str:
    where = f"base `{report.base[:12]}`, head `{report.head[:12]}`"
    if not report.subject:
        return f"{where[0].upper()}{where[1:]}."
    speedup = report.rerun.speedup if report.rerun else report.speedup
    figure = f", {numbers.ratio_estimate(speedup)}" if speedup else ""
    again = " as confirmed again on this machine" if report.rerun and speedup else ""
    return f"Candidate `{escaped(report.subject)}`{figure}{again}; {where}."
