"""The facts of the first screen, each with what a sceptic asks of it next."""

from __future__ import annotations

import shlex

from infrarsi.records.report import Confirmed, Cost, Report
from infrarsi.render import numbers
from infrarsi.render.document import Cell, Fact, Line, Span, cell, code, line, muted
from infrarsi.render.rows import accepted, is_memory_failure, is_refused, num_launches, winner_row


def facts_of(report: Report) -> tuple[Fact, ...]:
    """Give what the first screen says below the verdict."""
    return (
        _update_time(report),
        _confirmation(report),
        _threshold(report.confirmed),
        _memory(report),
        _cost(report),
        _break_even(report),
        _refusals(report),
        _branch(report.confirmed),
        Fact("How far quality was tested", cell(report.quality or "not stated"), cell(), wide=True),
        Fact("Reference launch", cell(code(command_line(report.command))), cell(), wide=True),
        Fact("Machine", Cell((_machine_line(report),)), cell(), wide=True),
    )


def command_line(command: tuple[str, ...]) -> str:
    """Write a command as it would be typed."""
    return shlex.join(command)


def break_even(report: Report) -> str:
    """Write after how many updates the search has paid, where anything was accepted."""
    if accepted(report) is None:
        return "none, for nothing was accepted"
    return numbers.count(report.cost.break_even_updates)


def dollars_of(cost: Cost) -> str:
    """Write what was paid, with what is missing in it."""
    if cost.dollars is None:
        return cost.dollars_note or numbers.NOT_KNOWN
    note = f" ({cost.dollars_note})" if cost.dollars_note else ""
    return numbers.dollars(cost.dollars) + note


def _update_time(report: Report) -> Fact:
    confirmed = report.confirmed
    before = (confirmed and confirmed.reference_update_s) or report.reference_update_s
    after = confirmed.winner_update_s if confirmed else None
    if before is None:
        return Fact("Time per update", cell(numbers.NOT_MEASURED), cell())
    value, note = numbers.duration(before.point), f"reference {numbers.duration_estimate(before)}"
    if after is not None and accepted(report):
        value = f"{value} → {numbers.duration(after.point)}"
        note += f"; winner {numbers.duration_estimate(after)}"
    elif after is not None:
        note += f"; candidate, not accepted: {numbers.duration_estimate(after)}"
    return Fact("Time per update", cell(value), cell(note))


def _confirmation(report: Report) -> Fact:
    confirmed = report.confirmed
    if confirmed is None:
        return Fact("Confirmation", cell(numbers.NOT_MEASURED), cell("no back-to-back launches"))
    value = (
        f"{numbers.counted(len(confirmed.blocks), 'block')}, "
        f"{numbers.counted(num_launches(confirmed), 'launch', 'launches')}"
    )
    note = f"fresh, back to back, order randomised; error rate spent: {confirmed.alpha:.3g}"
    return Fact("Confirmation", cell(value), cell(note))


def _threshold(confirmed: Confirmed | None) -> Fact:
    if confirmed is None:
        return Fact("Threshold", cell(numbers.NOT_MEASURED), cell("nothing was put to the test"))
    note = "1 + the larger of the least effect and the bias between equal launches"
    if confirmed.speedup is None:
        value = numbers.ratio(confirmed.threshold, decimals=3)
        return Fact("Threshold", cell(value), cell(note))
    low, threshold = numbers.against(confirmed.speedup.low, confirmed.threshold)
    sign = ">" if confirmed.speedup.low > confirmed.threshold else "≤"
    return Fact("Lower bound against threshold", cell(f"{low} {sign} {threshold}"), cell(note))


def _memory(report: Report) -> Fact:
    before = report.reference_peak_bytes
    row = winner_row(report)
    after = row.peak_bytes if row else None
    value = numbers.size(before)
    if before is not None and after is not None:
        value = f"{value} → {numbers.size(after)}"
    return Fact("Peak memory", cell(value), cell(f"capacity {numbers.size(report.capacity_bytes)}"))


def _cost(report: Report) -> Fact:
    cost = report.cost
    note = f"failed launches {numbers.duration(cost.failed_wall_s)}"
    if cost.gpu_s:
        note += f"; accelerators held {numbers.duration(cost.gpu_s)}"
    note += f"; dollars {dollars_of(cost)}"
    return Fact("Cost of the search", cell(numbers.duration(cost.wall_s)), cell(note))


def _break_even(report: Report) -> Fact:
    confirmed, updates = accepted(report), report.cost.break_even_updates
    if confirmed is None:
        return Fact("Break-even", cell("none"), cell("nothing was accepted"))
    note = report.cost.break_even_note
    if updates is None:
        return Fact("Break-even", cell(numbers.NOT_KNOWN), cell(note))
    if confirmed.winner_update_s is not None:
        training = numbers.duration(updates * confirmed.winner_update_s.point)
        note = f"{training} of training; {note}".rstrip("; ")
    return Fact("Break-even", cell(numbers.counted(updates, "update")), cell(note))


def _refusals(report: Report) -> Fact:
    rows = report.trials.rows
    if not rows:
        return Fact("Refused by the judge", cell("nothing yet"), cell("no trial was made"))
    refused = [row for row in rows if is_refused(row)]
    looked_faster = sum((row.screening_speedup or 0) > 1 for row in refused)
    memory = sum(is_memory_failure(row) for row in rows)
    note = f"{looked_faster} of them looked faster; {memory} more ran out of memory"
    value = f"{len(refused)} of {numbers.counted(len(rows), 'trial')}"
    return Fact("Refused by the judge", cell(value), cell(note))


def _branch(confirmed: Confirmed | None) -> Fact:
    if confirmed is None or confirmed.branch is None:
        return Fact("Branch", cell("none"), cell("nothing was promoted"))
    return Fact("Branch", cell(code(confirmed.branch)), cell("holds the winner's edits"))


def _machine_line(report: Report) -> Line:
    if not report.machine:
        return line("not recorded")
    spans: list[Span] = []
    for index, (name, value) in enumerate(report.machine.items()):
        spans += [muted(f"{'; ' if index else ''}{name} "), Span(value)]
    return tuple(spans)
