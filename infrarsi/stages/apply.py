"""apply: meet the winner and the original reference back to back; promote what is confirmed."""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Callable, Mapping, Sequence

from infrarsi.errors import InconclusiveError, RejectedError, UsageError
from infrarsi.execute.keeping import Keep
from infrarsi.execute.signature import sign
from infrarsi.judge.decide import acceptance_threshold, judge_confirmation
from infrarsi.judge.rules import RULES
from infrarsi.judge.speedup import alpha_for_attempt, confirmation_schedule
from infrarsi.records.base import canonical_json
from infrarsi.records.candidate import Candidate
from infrarsi.records.machine import differences
from infrarsi.records.plan import Lock
from infrarsi.records.promotion import Promotion
from infrarsi.records.statement import PROMOTION_NAMESPACE
from infrarsi.records.trial import Trial
from infrarsi.records.verdict import Ruling, Verdict
from infrarsi.stages.confirming.branch import make_branch, remove_branch
from infrarsi.stages.confirming.course import plan_course
from infrarsi.stages.confirming.horizon import refuse_unless_no_worse, run_course
from infrarsi.stages.confirming.limits import Limits, Meter
from infrarsi.stages.confirming.replays import (
    Pair,
    draw_pairs,
    forget_kept,
    keep_for,
    replay_kept,
)
from infrarsi.stages.confirming.sessions import (
    Blocks,
    Sitting,
    conclude,
    judge_all,
    set_caches_aside,
    sitting_for,
)
from infrarsi.stages.doctor import require_baseline
from infrarsi.stages.history import History
from infrarsi.stages.judging import confirmation_of, rows_of
from infrarsi.stages.launching.trial import Request, perform_trial
from infrarsi.stages.workspace import Workspace

ARMS = {"A": "reference", "B": "winner"}


NO_LIMITS = Limits()


def confirm_and_promote(
    workspace: Workspace,
    *,
    limits: Limits = NO_LIMITS,
    key: str | None = None,
    horizon: int | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> tuple[Verdict, Promotion]:
    """Confirm the chosen candidate with fresh launches, and put it on a branch.

    With a ``key``, the statement on the branch is signed; see :func:`sign`. With a ``horizon``, the
    winner must besides be shown to learn as well over so many updates; what was confirmed or
    promoted already is then only put to that test.

    Raises
    ------
    UsageError
        Nothing was chosen yet, the machine was not measured, the limits leave no room, or the
        key cannot sign.
    RejectedError, InconclusiveError
        The confirmation did not pass; nothing was promoted.
    """
    history = History.of(workspace.ledger.events)
    if history.promotion is not None and horizon is not None:
        _test(workspace, history.promotion.candidate, horizon, limits=limits, tell=tell)
        return history.confirmations[-1].verdict, history.promotion
    if history.promotion is not None:
        raise UsageError(
            f"this search is promoted already, on the branch {history.promotion.branch}",
            hint="undo it first with `infrarsi apply --revert`",
        )
    if history.choice is None:
        raise _nothing_put_forward(workspace, history)
    candidate = history.choice.candidate
    if key is not None:  # a key that cannot sign is found out before the first launch
        sign(b"", key, namespace=PROMOTION_NAMESPACE)
    verdict = _confirmed(workspace, history, candidate, horizon, limits=limits, tell=tell)
    _refuse_unless_passed(verdict)
    history = History.of(workspace.ledger.events)
    promotion = make_branch(
        workspace,
        history,
        candidate,
        verdict,
        evidence_digest=evidence_of_all(history, verdict),
        key=key,
    )
    workspace.ledger.append("promoted", promotion.model_dump(mode="json"))
    return verdict, promotion


def _confirmed(
    workspace: Workspace,
    history: History,
    candidate: Candidate,
    horizon: int | None,
    *,
    limits: Limits,
    tell: Callable[[str], None],
) -> Verdict:
    """Confirm a candidate, and test it over a horizon where one is asked for.

    What was confirmed for the sake of a horizon is not confirmed again for more seeds.
    """
    sessions = workspace.contract.plan.confirmation_sessions
    if horizon is None:
        return confirm(workspace, candidate, limits=limits, sessions=sessions, tell=tell)
    began_s = time.monotonic()
    seeds = workspace.contract.plan.horizon_seeds
    plan_course(workspace, candidate, updates=horizon, seeds=seeds, limits=limits)
    verdict = _passed_before(history, sessions=sessions)
    if verdict is None:
        verdict = confirm(workspace, candidate, limits=limits, sessions=sessions, tell=tell)
    if verdict.ruling is Ruling.PASS:
        left = limits.after(workspace, time.monotonic() - began_s)
        _test(workspace, candidate, horizon, limits=left, tell=tell)
    return verdict


def _passed_before(history: History, *, sessions: int) -> Verdict | None:
    """Give the verdict that what is put forward passed with, where it is the last of all."""
    last = history.confirmation
    if last is None or last is not history.confirmations[-1]:
        return None
    enough = last.body.get("sessions", 1) >= sessions and last.verdict.rules == RULES
    return last.verdict if enough and last.verdict.ruling is Ruling.PASS else None


def _test(
    workspace: Workspace,
    candidate: Candidate,
    horizon: int,
    *,
    limits: Limits,
    tell: Callable[[str], None],
) -> None:
    """Refuse what is not shown to learn as well over a horizon."""
    seeds = workspace.contract.plan.horizon_seeds
    course = plan_course(
        workspace, candidate, updates=horizon, seeds=seeds, limits=limits, tell=tell
    )
    promotion = History.of(workspace.ledger.events).promotion
    found = run_course(workspace, course, tell=tell)
    refuse_unless_no_worse(found, promoted=promotion.branch if promotion else None)


def _nothing_put_forward(workspace: Workspace, history: History) -> UsageError:
    """Say that there is nothing to confirm; what another machine put forward does not count."""
    former = [search.machine for search in history.elsewhere if search.choice and search.machine]
    require_baseline(workspace, history)
    if not former:
        return UsageError(
            "no candidate was put forward yet", hint="search for one with `infrarsi run`"
        )
    changed = ", ".join(differences(former[-1], workspace.machine))
    return UsageError(
        f"what was put forward was found on another machine than this one: {changed}",
        hint="search on this one with `infrarsi run`; it tries that candidate first",
    )


def confirm(
    workspace: Workspace,
    candidate: Candidate,
    *,
    limits: Limits = NO_LIMITS,
    sessions: int = 1,
    tell: Callable[[str], None] = lambda _: None,
) -> Verdict:
    """Run randomised blocks of reference and candidate, judge them, and record the verdict.

    A confirmation that is killed, or that its limits cut short, counts as an attempt, so that
    none can be tried until it pleases: each attempt spends its own share of the error rate.

    Raises
    ------
    UsageError
        It is too early for the session that is due.
    InconclusiveError
        It was cut short before its first block, or another of its ``sessions`` is to be held.
    """
    history = History.of(workspace.ledger.events)
    baseline = require_baseline(workspace, history)
    sitting = sitting_for(workspace, history, candidate, sessions=sessions)
    if sitting.sessions == 1 and history.sessions_of(candidate):
        tell("sessions of this candidate that passed take no part in a confirmation of one session")
    if sitting.is_held:
        return judge_all(workspace, candidate, [each.body for each in sitting.former], sitting)
    meter = limits.meter(workspace, history)
    schedule = schedule_of(
        workspace.lock, attempt=sitting.attempt, blocks=sitting.blocks, session=sitting.number
    )
    pairs = draw_pairs(
        workspace, schedule, update_s=baseline.update_s.point, chance=random.SystemRandom(),
        first=sitting.first_launch,
    )  # fmt: skip
    workspace.begin("apply")
    if sitting.sessions > 1:
        tell(f"session {sitting.number} of {sitting.sessions}")
        set_caches_aside(workspace)
    done = _run_blocks(
        workspace, history, candidate, schedule,
        sitting=sitting, pairs=pairs, meter=meter, tell=tell,
    )  # fmt: skip
    if not done:
        raise InconclusiveError(
            f"the confirmation was cut short before its first block was whole: {meter.in_words()}",
            hint="allow more with --max-wall or --max-usd",
        )
    _replay(workspace, candidate, done, sitting=sitting, pairs=pairs, meter=meter, tell=tell)
    if len(done) < sitting.blocks:
        tell(f"cut short after {len(done)} of {sitting.blocks} blocks: {meter.in_words()}")
    if sitting.sessions > 1:
        return conclude(workspace, candidate, done, sitting=sitting)
    history = History.of(workspace.ledger.events)
    return judge_blocks(
        workspace, history, candidate, done, planned=sitting.blocks, attempt=sitting.attempt
    )


def _replay(
    workspace: Workspace,
    candidate: Candidate,
    done: Blocks,
    *,
    sitting: Sitting,
    pairs: Sequence[Pair],
    meter: Meter,
    tell: Callable[[str], None],
) -> None:
    """Replay what was kept, where nothing else keeps the winner from passing: two launches."""
    history = History.of(workspace.ledger.events)
    seen = confirmation_of(
        workspace, history, candidate, done, planned=sitting.blocks, attempt=sitting.attempt
    )
    open_layers = {each.layer for each in judge_confirmation(seen).reasons}
    if open_layers == {"replay"} and not meter.is_spent():
        launched = {trial.replicate: trial for _, trials in done for trial in trials}
        replay_kept(
            workspace, history, candidate, launched, pairs=pairs, remarks=sitting.remarks, tell=tell
        )
    forget_kept(workspace)


def judge_blocks(
    workspace: Workspace,
    history: History,
    candidate: Candidate,
    done: Blocks,
    *,
    planned: int,
    attempt: int,
) -> Verdict:
    """Judge the blocks of a confirmation, and record the verdict."""
    confirmation = confirmation_of(
        workspace, history, candidate, done, planned=planned, attempt=attempt
    )
    verdict = judge_confirmation(confirmation)
    workspace.ledger.append(
        "confirmed",
        {
            "verdict": verdict.model_dump(mode="json"), "attempt": attempt,
            "blocks": rows_of(workspace, done, session=None),
            "alpha": alpha_for_attempt(attempt), "threshold": acceptance_threshold(confirmation),
            "candidate": candidate.model_dump(mode="json"), "planned_blocks": planned,
        },
    )  # fmt: skip
    return verdict


def schedule_of(lock: Lock, *, attempt: int, blocks: int, session: int = 1) -> tuple[str, ...]:
    """Draw the order of each block by the lock and the attempt, so that nobody chooses it."""
    place = f"{attempt}" if session == 1 else f"{attempt}/{session}"
    drawn = hashlib.sha256(f"{lock.digest()}/{place}".encode()).hexdigest()
    return confirmation_schedule(blocks, seed=int(drawn[:8], 16))


def _run_blocks(
    workspace: Workspace,
    history: History,
    candidate: Candidate,
    schedule: Sequence[str],
    *,
    sitting: Sitting,
    pairs: Sequence[Pair],
    meter: Meter,
    tell: Callable[[str], None],
) -> list[tuple[str, list[Trial]]]:
    """Launch block after block; give those that are whole when all ran or the limits are spent."""
    done: list[tuple[str, list[Trial]]] = []
    for number, order in enumerate(schedule):
        trials: list[Trial] = []
        for position, letter in enumerate(order):
            if meter.is_spent():
                return done
            tell(f"block {number + 1} of {len(schedule)} ({order}): {ARMS[letter]}")
            place = sitting.first_launch + 4 * number + position
            keep = keep_for(workspace, pairs, number=place, arm=ARMS[letter])
            request = _request(
                workspace, candidate, letter, sitting.remarks, number=place, keep=keep
            )
            trials.append(perform_trial(workspace, request, patches=history.patches))
        done.append((order, trials))
    return done


def revert(workspace: Workspace) -> Promotion:
    """Take the promoted branch away again.

    Raises
    ------
    UsageError
        Nothing is promoted, or the branch is checked out or has moved on.
    """
    promotion = History.of(workspace.ledger.events).promotion
    if promotion is None:
        raise UsageError("nothing is promoted", hint="there is nothing to undo")
    remove_branch(workspace.repository, promotion)
    workspace.ledger.append("reverted", {"branch": promotion.branch, "commit": promotion.commit})
    return promotion


def evidence_of_all(history: History, verdict: Verdict) -> str:
    """Give one digest over the evidence of all launches that a verdict rests on, in order."""
    digests = [history.trials[name].evidence_digest for name in verdict.trials]
    return hashlib.sha256(canonical_json(digests)).hexdigest()


def _request(
    workspace: Workspace,
    candidate: Candidate,
    letter: str,
    remarks: Mapping[str, int],
    *,
    number: int,
    keep: Keep | None,
) -> Request:
    reference = Candidate.of(workspace.contract.task.surface.default_knobs())
    return Request(
        candidate=reference if letter == "A" else candidate,
        purpose="confirm",
        arm=ARMS[letter],
        replicate=number,
        keep=keep,
        remarks=remarks,
    )


def _refuse_unless_passed(verdict: Verdict) -> None:
    reasons = "; ".join(finding.reason for finding in verdict.reasons) or "no reason given"
    hints = "; ".join(dict.fromkeys(each.hint for each in verdict.reasons if each.hint))
    match verdict.ruling:
        case Ruling.PASS:
            return
        case Ruling.FAIL:
            raise RejectedError(
                f"the winner was not confirmed: {reasons}",
                hint=hints or "nothing was promoted; read why with `infrarsi report`",
            )
        case Ruling.INCONCLUSIVE:
            raise InconclusiveError(
                f"the confirmation could not tell: {reasons}",
                hint=hints or "nothing was promoted; read why with `infrarsi report`",
            )
