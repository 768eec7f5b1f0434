"""The section on experience: which packs a search started from, and how much they weighed."""

from __future__ import annotations

from infrarsi.records.report import ExperienceUsed, Report
from infrarsi.render import numbers
from infrarsi.render.document import Section, cell, code, line, muted, number, stacked, table


def experience_section(report: Report) -> tuple[Section, ...]:
    """Tell what was recalled of other searches; nothing where no bank was asked."""
    used = report.experience
    if used is None:
        return ()
    title = "Experience from other searches"
    if not used.num_beliefs:
        text = line(
            f"No experience was used: {used.note or 'no pack said anything of this search'}."
        )
        return (Section("experience", title, (text,)),)
    count = numbers.counted(used.num_beliefs, "patch or setting", "patches and settings")
    text = line(
        f"Packs of other searches said something of {count}, as ratios to their own references, "
        "widened by how unlike those searches are. They stood beside a model that knows nothing of "
        "them, which keeps at least 0.30 of the weight and every third pick to itself; what was "
        "measured here decides between the two. No figure of this report comes from them."
    )
    rows = [
        (
            stacked([each.label], [muted("pack "), code(each.pack)]),
            cell(each.device),
            cell(f"{each.distance:.2f}"),
            cell(numbers.count(each.num_compared)),
            cell(numbers.count(each.num_lessons)),
        )
        for each in used.sources
    ]
    columns = (
        "Search", "Machine", number("Distance"), number("Features compared"), number("Lessons"),
    )  # fmt: skip
    listing = table("Packs that were recalled, the nearest first", columns, rows=rows)
    return (Section("experience", title, (text, line(_weights(used))), (), (listing,)),)


def _weights(used: ExperienceUsed) -> str:
    if used.first_in_time is None or used.first_in_memory is None:
        return "It had no part in choosing any trial."
    return (
        f"It had a part in choosing {numbers.counted(used.num_guided, 'trial')}. Its weight went "
        f"from {used.first_in_time:.2f} to {used.last_in_time:.2f} in what was expected of time, "
        f"and from {used.first_in_memory:.2f} to {used.last_in_memory:.2f} in what was "
        "expected of memory (0.70 is the most that it can have)."
    )
