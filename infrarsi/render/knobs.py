"""The section on knobs that the program seems to ignore."""

from __future__ import annotations

from infrarsi.records.report import Report
from infrarsi.render import numbers
from infrarsi.render.document import Section, cell, code, line, muted, sentences, stacked, table


def silent_knobs_section(report: Report) -> tuple[Section, ...]:
    """Tell which knobs had no visible effect, and what was compared; nothing where all had one."""
    if not report.silent_knobs:
        return ()
    rows = [
        (
            stacked(
                [code(each.knob)],
                [muted(f"{each.reached_by}; reference {numbers.scalar(each.default)}")],
            ),
            cell(", ".join(map(numbers.scalar, each.values))),
            stacked(
                [each.compared],
                [muted(f"turned together with {', '.join(each.together_with)}")]
                if each.together_with
                else [],
                [muted(f"launches {', '.join(each.trials)}")],
            ),
        )
        for each in report.silent_knobs
    ]
    listing = table(
        "Knobs without a visible effect",
        (
            "Knob",
            "Values tried",
            sentences("What was compared with the launches that differ in it"),
        ),
        rows=rows,
    )
    count = numbers.counted(len(rows), "knob")
    text = line(
        f"{count} had no visible effect wherever a launch differed in nothing else: the program "
        "may ignore them, or they act where the witness does not look. This is no verdict; look "
        "up how the program reads them, and take out those that it does not."
    )
    return (Section("silent-knobs", "Settings without a visible effect", (text,), (), (listing,)),)
