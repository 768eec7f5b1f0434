"""What a report's rows mean: questions that plots, tables and sentences ask alike."""

from __future__ import annotations

import math

from infrarsi.records.report import Confirmed, Report, TrialRow
from infrarsi.records.trial import Outcome
from infrarsi.records.verdict import Ruling

_MEMORY_OUTCOMES = {Outcome.OOM, Outcome.AMBIGUOUS_MEMORY}


def is_refused(row: TrialRow) -> bool:
    """Tell whether the judge refused a trial, before or after it ran."""
    return row.verdict is Ruling.FAIL or row.outcome == Outcome.REFUSED


def is_memory_failure(row: TrialRow) -> bool:
    """Tell whether a trial ended for want of memory."""
    return row.outcome in _MEMORY_OUTCOMES


def winner_row(report: Report) -> TrialRow | None:
    """Give the search trial of the winner that was measured best, if there is one."""
    if report.winner is None:
        return None
    rows = [row for row in report.trials.rows if row.candidate == report.winner.candidate]
    measured = [row for row in rows if row.update_s is not None]
    return min(measured or rows, key=lambda row: row.update_s or math.inf, default=None)


def num_launches(confirmed: Confirmed) -> int:
    """Count the launches of a confirmation."""
    return sum(len(block.reference_s) + len(block.winner_s) for block in confirmed.blocks)


def accepted(report: Report) -> Confirmed | None:
    """Give the confirmation where it passed: only then is anything claimed."""
    confirmed = report.confirmed
    return confirmed if confirmed is not None and confirmed.ruling is Ruling.PASS else None
