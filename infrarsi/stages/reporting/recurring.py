"""What status and the report say of a confirmation's sessions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from infrarsi.judge.speedup import confirm_speedup
from infrarsi.records.estimate import Estimate
from infrarsi.records.plan import Plan
from infrarsi.records.report import SessionRow
from infrarsi.render import numbers
from infrarsi.stages.confirming.sessions import due_at, in_words, span_of
from infrarsi.stages.history import Confirmation, History


def session_rows(history: History, confirmation: Confirmation) -> tuple[SessionRow, ...]:
    """Give each session of a confirmation by itself; none where it was not held in sessions."""
    body = confirmation.body
    if body.get("sessions", 1) == 1:
        return ()
    rows = []
    for number in sorted({row["session"] for row in body["blocks"]}):
        blocks = [row for row in body["blocks"] if row["session"] == number]
        began, ended = span_of(history, [name for row in blocks for name in row["trials"]])
        rows.append(
            SessionRow(
                session=number, began_at=in_words(began), ended_at=in_words(ended),
                num_blocks=len(blocks), speedup=_speedup(blocks, alpha=body["alpha"]),
            )
        )  # fmt: skip
    return tuple(rows)


def _speedup(blocks: Sequence[dict[str, Any]], *, alpha: float) -> Estimate | None:
    pairs = []
    for row in blocks:
        arms: dict[str, list[float]] = {"A": [], "B": []}
        for letter, update_s in zip(row["order"], row["update_s"], strict=True):
            if update_s is None:
                return None
            arms[letter].append(update_s)
        pairs.append((arms["A"], arms["B"]))
    return confirm_speedup(pairs, alpha=alpha) if len(pairs) > 1 else None


def sessions_in_words(plan: Plan, history: History) -> list[str]:
    """Say which sessions of what is put forward passed, and from when on the next may be held."""
    held = history.sessions_of(history.choice.candidate) if history.choice else []
    if not held:
        return []
    body = held[-1].body
    judged = any(each.body["attempt"] == body["attempt"] for each in history.confirmations)
    planned = max(body["sessions"], len(held) + judged)
    figures = ", ".join(numbers.ratio_estimate(each.verdict.speedup) for each in held)
    passed = f"{numbers.counted(len(held), 'session')} of {planned} passed ({figures})"
    command = f"`infrarsi apply --sessions {planned}`"
    if planned == len(held):
        return [f"{passed}; {command} judges them together"]
    due = in_words(due_at(history, held[-1], plan.session_gap_s))
    return [f"{passed}; nothing is promoted until the speedup recurs: from {due} on, {command}"]
