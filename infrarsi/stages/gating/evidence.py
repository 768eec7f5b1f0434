"""Whether a bundle's evidence gives what its statement says, under today's rules."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

from infrarsi import __version__
from infrarsi.errors import InconclusiveError, RejectedError
from infrarsi.judge.speedup import alpha_for_attempt
from infrarsi.records.base import Record
from infrarsi.records.candidate import Candidate
from infrarsi.records.command import split_command
from infrarsi.records.statement import Promoted
from infrarsi.records.verdict import Finding, Ruling, Verdict
from infrarsi.stages.apply import ARMS, schedule_of
from infrarsi.stages.confirming.bundle import launches_behind, statement_of
from infrarsi.stages.gating.opened import Opened
from infrarsi.stages.gating.trees import is_winner
from infrarsi.stages.judging import measured_update_s

_PROMOTE = "promote again with `infrarsi apply`"
_SAME = 1e-9
"""Relative: the same arithmetic on another processor may differ in the last digits."""
_ON_FAITH = frozenset({
    "machine_digest", "peak_flops", "least_detectable", "packages", "controls",
})  # fmt: skip
"""Of a baseline: what its launches do not show, or what depends on the plan of the day."""


def check_statement(opened: Opened) -> str:
    """Check that the statement says of its own evidence what that evidence gives."""
    found, said = opened.bundle.statement, opened.bundle.predicate
    due = statement_of(
        opened.history, opened.files, opened.place, contract=opened.contract.task.digest(),
        archive=opened.bundle.archive, version=said.infrarsi, ledger_head=said.ledger_head,
    )  # fmt: skip
    if found.subject != due.subject:
        known = {each.name: each.digests for each in found.subject}
        odd = [each.name for each in due.subject if known.pop(each.name, None) != each.digests]
        raise RejectedError(
            "the statement's subject is not what was promoted: "
            f"{', '.join([*odd, *known]) or 'the order'}",
            hint=_PROMOTE,
        )
    for name in Promoted.model_fields:
        if getattr(said, name) != getattr(due.predicate, name):
            raise RejectedError(
                f"the statement's {name} is not what its evidence gives", hint=_PROMOTE
            )
    return f"{len(found.subject)} subjects and {len(said.evidence)} launches are as stated"


def check_launches(opened: Opened) -> str:
    """Check that each arm was launched with its own settings, and left evidence of its own."""
    task, said = opened.contract.task, opened.bundle.predicate
    reference = Candidate.of(task.surface.default_knobs())
    launches = launches_behind(opened.history, said.verdict)
    for trial in launches:
        due = said.candidate if is_winner(trial) else reference
        command = said.launch.command if is_winner(trial) else task.command
        typed, ran = split_command(command).arguments, split_command(trial.argv).arguments
        if trial.candidate != due or ran != typed:
            raise RejectedError(
                f"the launch {trial.trial_id} did not have the settings of its arm", hint=_PROMOTE
            )
    if len({trial.evidence_digest for trial in launches}) < len(launches):
        raise RejectedError("two launches rest on one and the same evidence", hint=_PROMOTE)
    return f"all {len(launches)} launches had the settings of their arm"


def check_schedule(opened: Opened) -> str:
    """Check that the blocks are the ones that were drawn, and the figures those of their stamps."""
    said = opened.bundle.predicate
    _check_plan(opened)
    drawn = _drawn(opened)
    if tuple(block.order for block in said.blocks) != drawn:
        raise RejectedError("the blocks ran in another order than was drawn", hint=_PROMOTE)
    if said.alpha != alpha_for_attempt(said.attempt):
        raise RejectedError("it spent another error rate than its attempt has", hint=_PROMOTE)
    for number, block in enumerate(said.blocks):
        rows = zip(block.order, block.trials, block.update_s, strict=True)
        for position, (letter, name, update_s) in enumerate(rows):
            due = _Due(block.session, ARMS[letter], 4 * number + position)
            attempt = _attempt_of(opened, block.trials[0])
            _check_launch(opened, name, update_s, due=due, attempt=attempt)
    told = f" in {said.sessions} sessions" if said.sessions > 1 else ""
    return f"{len(said.blocks)} blocks{told} ran as drawn for attempt {said.attempt}"


def _check_plan(opened: Opened) -> None:
    """Refuse fewer blocks or sessions than the base's plan asks for, or closer sessions."""
    said, plan = opened.bundle.predicate, opened.contract.plan
    if said.sessions < plan.confirmation_sessions or (
        said.sessions > 1 and said.session_gap_s < plan.session_gap_s
    ):
        raise RejectedError(
            f"it was confirmed in {said.sessions} session(s), {said.session_gap_s:g} s apart; the "
            f"base's plan asks for {plan.confirmation_sessions}, {plan.session_gap_s:g} s apart",
            hint="confirm as the plan says: `infrarsi apply` without --sessions",
        )
    per_session = Counter(block.session for block in said.blocks)
    if sorted(per_session) != list(range(1, said.sessions + 1)):
        raise RejectedError("its blocks are not those of its sessions", hint=_PROMOTE)
    fewest = plan.confirmation_blocks
    if min(per_session.values()) < fewest:
        each = " each" if said.sessions > 1 else ""
        raise RejectedError(
            f"it was confirmed in {min(per_session.values())} blocks{each}; the base's plan asks "
            f"for {fewest}",
            hint="confirm as the plan says: `infrarsi apply` without --blocks",
        )


def _drawn(opened: Opened) -> tuple[str, ...]:
    """Give the orders that were drawn for the blocks, session by session."""
    said, drawn = opened.bundle.predicate, list[str]()
    for number in range(1, said.sessions + 1):
        blocks = [block for block in said.blocks if block.session == number]
        drawn += schedule_of(
            opened.workspace.lock, attempt=_attempt_of(opened, blocks[0].trials[0]),
            blocks=len(blocks), session=number,
        )  # fmt: skip
    return tuple(drawn)


def _attempt_of(opened: Opened, name: str) -> int:
    """Give the attempt that a launch was made for: of sessions before the last it may be earlier.

    Raises
    ------
    RejectedError
        It is none that could have been.
    """
    said, remarks = opened.bundle.predicate, opened.history.remarks.get(name, {})
    attempt, session = remarks.get("attempt"), remarks.get("session", 1)
    if not isinstance(attempt, int) or not 1 <= attempt <= said.attempt:
        raise RejectedError(f"the launch {name} belongs to no attempt", hint=_PROMOTE)
    if session == said.sessions and attempt != said.attempt:
        raise RejectedError(f"the launch {name} is of another attempt", hint=_PROMOTE)
    return attempt


@dataclass(frozen=True)
class _Due:
    """The launch that was due at a place."""

    session: int
    arm: str
    place: int


def _check_launch(
    opened: Opened, name: str, update_s: float | None, *, due: _Due, attempt: int
) -> None:
    """Refuse a launch that is not the one that was due at its place, or took another time."""
    workspace, trial = opened.workspace, opened.history.trials[name]
    remarks = opened.history.remarks.get(name, {})
    said = (
        trial.purpose, trial.arm, trial.replicate, trial.stop_update,
        remarks.get("attempt"), remarks.get("session", 1),
    )  # fmt: skip
    stop = workspace.stop_update(due.place, arm=f"confirm/{due.arm}")
    if said != ("confirm", due.arm, due.place, stop, attempt, due.session):
        raise RejectedError(
            f"the launch {name} is not the one that was due as number {due.place + 1}",
            hint=_PROMOTE,
        )
    measured = measured_update_s(workspace, trial)
    if not _same(update_s, measured):
        raise RejectedError(
            f"the launch {name} is said to take {update_s} s an update; its stamps give {measured}",
            hint=_PROMOTE,
        )


def check_baseline(opened: Opened) -> str:
    """Check that the allowed deviations are those of the calibration's own launches."""
    stated, due = opened.history.baseline, opened.baseline
    count = len(due.trials) + len(due.null_trials)
    if not _same_rules(opened):
        return f"made anew by today's rules from {count} launches: {len(due.bands)} bands"
    for name in type(due).model_fields:
        if name not in _ON_FAITH and not _same(getattr(stated, name), getattr(due, name)):
            raise RejectedError(
                f"the baseline's {name} is not what its {count} launches give",
                hint=_PROMOTE,
            )
    return f"{len(due.bands)} bands follow from {count} launches"


def check_verdict(opened: Opened) -> str:
    """Judge the bundle's evidence again, under today's rules and the base's contract."""
    said = opened.bundle.predicate
    verdict, threshold = opened.judged
    rules = verdict.rules
    if said.verdict.rules > rules:
        raise InconclusiveError(
            f"it was judged by rules version {said.verdict.rules}, and this InfraRSI has {rules}",
            hint="upgrade InfraRSI where the gate runs",
        )
    if verdict.ruling is not Ruling.PASS:
        reasons = "; ".join(each.reason for each in verdict.reasons)
        kind = RejectedError if verdict.ruling is Ruling.FAIL else InconclusiveError
        raise kind(f"its evidence does not pass: {reasons}", hint=_PROMOTE)
    if not _same(said.threshold, threshold):
        raise RejectedError(
            f"the speedup had to exceed {threshold:.4f}, not {said.threshold:.4f}", hint=_PROMOTE
        )
    _refuse_other(said.verdict, verdict, same_words=_same_rules(opened))
    speedup = verdict.speedup
    assert speedup is not None, "what passes has its speedup"
    older = "" if said.verdict.rules == rules else f" (it was judged by {said.verdict.rules})"
    return (
        f"judged again by rules version {rules}{older}: {speedup.point:.2f}x, interval "
        f"[{speedup.low:.3f}, {speedup.high:.3f}], above {threshold:.3f}"
    )


def _same_rules(opened: Opened) -> bool:
    """Tell whether it was judged by the rules, and the words, of this very InfraRSI."""
    said = opened.bundle.predicate
    return said.infrarsi == __version__ and said.verdict.rules == opened.judged[0].rules


def _refuse_other(said: Verdict, due: Verdict, *, same_words: bool) -> None:
    """Refuse a verdict that is no pass, or that differs from what its own rules give.

    Two versions of InfraRSI may say the same in other words, but not one and the same.
    """
    if said.ruling is not Ruling.PASS or said.subject != due.subject:
        raise RejectedError("the verdict that it states is no pass of this", hint=_PROMOTE)
    if said.rules != due.rules:
        return
    if not same_words:
        said, due = (each.model_copy(update={"findings": _bare(each)}) for each in (said, due))
    for name in Verdict.model_fields:
        if not _same(getattr(said, name), getattr(due, name)):
            raise RejectedError(
                f"the verdict's {name} is not what the judge says of this evidence", hint=_PROMOTE
            )


def _bare(verdict: Verdict) -> tuple[Finding, ...]:
    """Give the findings without their words."""
    return tuple(each.model_copy(update={"reason": "", "hint": ""}) for each in verdict.findings)


def _same(left: Any, right: Any) -> bool:
    """Compare two values of records, floating-point numbers to their last digits."""
    match left, right:
        case (float(), float() | int()) | (int(), float()):
            return math.isclose(left, right, rel_tol=_SAME, abs_tol=1e-12)
        case (tuple(), tuple()):
            return len(left) == len(right) and all(map(_same, left, right))
        case (dict(), dict()):
            return left.keys() == right.keys() and all(_same(left[k], right[k]) for k in left)
        case (Record(), Record()) if type(left) is type(right):
            names = type(left).model_fields
            return all(_same(getattr(left, name), getattr(right, name)) for name in names)
        case _:
            return bool(left == right)
