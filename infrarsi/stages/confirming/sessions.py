"""Sessions of one confirmation: when the next may be held, and what all of them come to.

A confirmation of several sessions is one attempt, and spends its share of the error rate once. A
session that passed stays for a later attempt, where it is judged again by that one's smaller share,
until its candidate is refused or promoted.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from infrarsi.errors import InconclusiveError, UsageError
from infrarsi.judge.decide import acceptance_threshold, judge_confirmation
from infrarsi.judge.recurrence import Session, judge_sessions
from infrarsi.judge.speedup import alpha_for_attempt
from infrarsi.records.candidate import Candidate, Patch
from infrarsi.records.trial import Trial
from infrarsi.records.verdict import Ruling, Verdict
from infrarsi.render import numbers
from infrarsi.stages.history import HeldSession, History
from infrarsi.stages.judging import Court, confirmation_in, confirmation_of, reference_of, rows_of
from infrarsi.stages.launching.trial import Keeper
from infrarsi.stages.periods import time_of
from infrarsi.stages.workspace import Workspace
from infrarsi.store.ledger import now

Blocks: TypeAlias = Sequence[tuple[str, Sequence[Trial]]]
"""The order of each block, and its launches."""


@dataclass(frozen=True)
class Sitting:
    """The session that is to be held now: which one, of how many, and of how many blocks."""

    attempt: int
    blocks: int
    number: int = 1
    sessions: int = 1
    gap_s: float = 0.0
    former: tuple[HeldSession, ...] = ()
    """The sessions that passed before."""

    @property
    def remarks(self) -> dict[str, int]:
        """What the ledger remembers with each of its launches."""
        told = {"session": self.number} if self.sessions > 1 else {}
        return {"attempt": self.attempt, **told}

    @property
    def first_launch(self) -> int:
        """The number of its first launch within the confirmation."""
        return sum(each.num_launches for each in self.former)

    @property
    def is_held(self) -> bool:
        """Whether all sessions were held, and only their common verdict is missing."""
        return len(self.former) == self.sessions


def sitting_for(
    workspace: Workspace, history: History, candidate: Candidate, *, sessions: int
) -> Sitting:
    """Give the session that is due, by what the ledger has of those before.

    Raises
    ------
    UsageError
        It is too early for it, or so many sessions were held and judged already.
    """
    plan = workspace.contract.plan
    fresh = 1 + history.num_attempts
    if sessions == 1:
        return Sitting(fresh, plan.confirmation_blocks)
    former = tuple(history.sessions_of(candidate))
    number = len(former) + 1
    attempt = _attempt(history, former, sessions=sessions) or fresh
    blocks = former[0].body["planned_blocks"] if former else plan.confirmation_blocks
    sitting = Sitting(attempt, blocks, number, sessions, plan.session_gap_s, former)
    if number > sessions:
        if sitting.is_held and attempt != fresh:
            return sitting
        raise UsageError(
            f"{number - 1} sessions of this candidate were held, and did not tell together",
            hint=f"hold another one with `infrarsi apply --sessions {number}`",
        )
    if former:
        _refuse_too_early(history, sitting)
    return sitting


def _attempt(history: History, former: Sequence[HeldSession], *, sessions: int) -> int | None:
    """Give the attempt that goes on; ``None`` where another begins.

    One that was cut off by a kill does not go on, nor one that asked for another number of
    sessions: nobody shall look at a session and then choose.
    """
    if not former or former[-1].body["sessions"] != sessions:
        return None
    attempt, last = former[-1].body["attempt"], former[-1].body["session"]
    begun = any(
        each.get("attempt") == attempt and each.get("session", 1) > last
        for each in history.remarks.values()
    )
    judged = any(each.body["attempt"] == attempt for each in history.confirmations)
    return None if begun or judged else int(attempt)


def due_at(history: History, held: HeldSession, gap_s: float) -> datetime:
    """Give from when on the session after this one may be held."""
    return span_of(history, held.verdict.trials)[1] + timedelta(seconds=gap_s)


def _refuse_too_early(history: History, sitting: Sitting) -> None:
    due, at = due_at(history, sitting.former[-1], sitting.gap_s), time_of(now())
    if at >= due:
        return
    left = numbers.duration((due - at).total_seconds())
    raise UsageError(
        f"it is too early for session {sitting.number} of {sitting.sessions}: it may be held from "
        f"{in_words(due)} on, in {left}",
        hint="repeat the command then; plan.session_gap_s in infrarsi.yaml says how far apart "
        f"sessions lie ({numbers.duration(sitting.gap_s)})",
    )


def in_words(at: datetime) -> str:
    """Write a time to the second, in UTC."""
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def span_of(history: History, names: Sequence[str]) -> tuple[datetime, datetime]:
    """Give when the first of some launches began and the last of them ended."""
    wanted = frozenset(names)
    times = [
        time_of(event.at)
        for event in history.events
        if event.kind in {"trial_started", "trial_ended"} and event.body["trial_id"] in wanted
    ]
    return min(times), max(times)


def set_caches_aside(workspace: Workspace) -> None:
    """Have a session begin without what compilers kept: its choices of kernels are its own."""
    shutil.rmtree(workspace.folder / "caches", ignore_errors=True)


def judge_rows(
    keeper: Keeper,
    court: Court,
    candidate: Candidate,
    rows: Sequence[tuple[int, str, Sequence[Trial]]],
    *,
    sitting: Sitting,
    history: History,
    patches: Mapping[str, Patch],
) -> tuple[Verdict, float]:
    """Judge all blocks of a confirmation, and give what the lower bound must exceed.

    ``rows`` name the session of each block, its order and its launches.
    """
    held = [
        [(order, trials) for each, order, trials in rows if each == number]
        for number in sorted({each for each, _, _ in rows})
    ]
    confirmations = [
        confirmation_in(
            keeper, court, candidate, blocks, planned=sitting.blocks, attempt=sitting.attempt,
            history=history, patches=patches,
        )
        for blocks in held
    ]  # fmt: skip
    threshold = acceptance_threshold(confirmations[0])
    if sitting.sessions == 1:
        return judge_confirmation(confirmations[0]), threshold
    sessions = []
    for confirmation, blocks in zip(confirmations, held, strict=True):
        names = [trial.trial_id for _, trials in blocks for trial in trials]
        began, ended = (each.timestamp() for each in span_of(history, names))
        sessions.append(Session(confirmation, began, ended))
    return judge_sessions(sessions, planned=sitting.sessions, gap_s=sitting.gap_s), threshold


def sitting_in(body: Mapping[str, Any], *, planned: int) -> Sitting:
    """Give what a confirmation's event says of its sessions."""
    return Sitting(
        attempt=int(body["attempt"]), blocks=planned, sessions=int(body.get("sessions", 1)),
        gap_s=float(body.get("session_gap_s", 0.0)),
    )  # fmt: skip


def conclude(
    workspace: Workspace, candidate: Candidate, done: Blocks, *, sitting: Sitting
) -> Verdict:
    """Record a session that was held; give the verdict on all where it was the last.

    Raises
    ------
    InconclusiveError
        It passed, and another one is to be held.
    """
    history = History.of(workspace.ledger.events)
    seen = confirmation_of(
        workspace, history, candidate, done, planned=sitting.blocks, attempt=sitting.attempt
    )
    verdict = judge_confirmation(seen)
    rows = rows_of(workspace, done, session=sitting.number)
    body = _body(candidate, verdict, rows, sitting) | {
        "session": sitting.number, "threshold": acceptance_threshold(seen)
    }  # fmt: skip
    workspace.ledger.append("session", body)
    if verdict.ruling is Ruling.PASS and sitting.number < sitting.sessions:
        raise _to_be_held(History.of(workspace.ledger.events), candidate, sitting)
    return judge_all(workspace, candidate, [*(each.body for each in sitting.former), body], sitting)


def judge_all(
    workspace: Workspace,
    candidate: Candidate,
    bodies: Sequence[Mapping[str, Any]],
    sitting: Sitting,
) -> Verdict:
    """Judge the sessions together, and record the verdict."""
    history = History.of(workspace.ledger.events)
    baseline = history.baseline
    assert baseline is not None, "a session has a baseline"
    court = Court(workspace.contract.task, baseline, reference_of(workspace, history, baseline))
    rows = [row for body in bodies for row in body["blocks"]]
    known = [
        (row["session"], row["order"], [history.trials[name] for name in row["trials"]])
        for row in rows
    ]
    verdict, threshold = judge_rows(
        workspace, court, candidate, known, sitting=sitting, history=history,
        patches=history.patches,
    )  # fmt: skip
    workspace.ledger.append(
        "confirmed", _body(candidate, verdict, rows, sitting) | {"threshold": threshold}
    )
    return verdict


def _body(
    candidate: Candidate,
    verdict: Verdict,
    rows: Sequence[Mapping[str, Any]],
    sitting: Sitting,
) -> dict[str, Any]:
    return {
        "verdict": verdict.model_dump(mode="json"), "blocks": list(rows),
        "attempt": sitting.attempt, "alpha": alpha_for_attempt(sitting.attempt),
        "candidate": candidate.model_dump(mode="json"), "planned_blocks": sitting.blocks,
        "sessions": sitting.sessions, "session_gap_s": sitting.gap_s,
    }  # fmt: skip


def _to_be_held(history: History, candidate: Candidate, sitting: Sitting) -> InconclusiveError:
    held = history.sessions_of(candidate)[-1]
    due = in_words(due_at(history, held, sitting.gap_s))
    found = held.verdict.speedup
    words = f" ({numbers.ratio_estimate(found)})" if found else ""
    return InconclusiveError(
        f"session {sitting.number} of {sitting.sessions} passed{words}; nothing is promoted until "
        "the speedup recurs",
        hint=f"hold the next one from {due} on: `infrarsi apply --sessions {sitting.sessions}`",
    )
