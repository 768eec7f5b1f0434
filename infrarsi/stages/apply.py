"""apply: meet the winner and the original reference back to back; promote what is confirmed."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Sequence

from infrarsi.errors import InconclusiveError, RejectedError, UsageError
from infrarsi.execute.keeping import Keep
from infrarsi.execute.signature import sign
from infrarsi.judge.decide import acceptance_threshold, judge_confirmation
from infrarsi.judge.speedup import alpha_for_attempt, confirmation_schedule
from infrarsi.records.base import canonical_json
from infrarsi.records.candidate import Candidate
from infrarsi.records.machine import differences
from infrarsi.records.plan import Lock
from infrarsi.records.promotion import Promotion
from infrarsi.records.statement import PROMOTION_NAMESPACE
from infrarsi.records.trial import Trial
from infrarsi.records.verdict import Ruling, Verdict
from infrarsi.stages.branch import make_branch, remove_branch
from infrarsi.stages.doctor import require_baseline
from infrarsi.stages.history import History
from infrarsi.stages.judging import confirmation_of, measured_update_s
from infrarsi.stages.limits import Limits, Meter
from infrarsi.stages.replays import (
    Pair,
    draw_pairs,
    forget_kept,
    keep_for,
    replay_kept,
)
from infrarsi.stages.trial import Request, perform_trial
from infrarsi.stages.workspace import Workspace

ARMS = {"A": "reference", "B": "winner"}


NO_LIMITS = Limits()


def confirm_and_promote(
    workspace: Workspace,
    *,
    limits: Limits = NO_LIMITS,
    key: str | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> tuple[Verdict, Promotion]:
    """Confirm the chosen candidate with fresh launches, and put it on a branch.

    With a ``key``, the statement on the branch is signed; see :func:`sign`.

    Raises
    ------
    UsageError
        Nothing was chosen yet, the machine was not measured, the limits leave no room, or the
        key cannot sign.
    RejectedError, InconclusiveError
        The confirmation did not pass; nothing was promoted.
    """
    history = History.of(workspace.ledger.events)
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
    verdict = confirm(workspace, candidate, limits=limits, tell=tell)
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
    tell: Callable[[str], None] = lambda _: None,
) -> Verdict:
    """Run randomised blocks of reference and candidate, judge them, and record the verdict.

    A confirmation that is killed, or that its limits cut short, counts as an attempt, so that
    none can be tried until it pleases: each attempt spends its own share of the error rate.
    """
    history = History.of(workspace.ledger.events)
    baseline = require_baseline(workspace, history)
    meter = limits.meter(workspace, history)
    attempt = 1 + max((_attempt_of(history, t) for t in history.trials.values()), default=0)
    blocks = workspace.contract.plan.confirmation_blocks
    schedule = schedule_of(workspace.lock, attempt=attempt, blocks=blocks)
    chance = random.SystemRandom()
    pairs = draw_pairs(workspace, schedule, update_s=baseline.update_s.point, chance=chance)
    workspace.begin("apply")
    done = _run_blocks(
        workspace, history, candidate, schedule,
        attempt=attempt, pairs=pairs, meter=meter, tell=tell,
    )  # fmt: skip
    if not done:
        raise InconclusiveError(
            f"the confirmation was cut short before its first block was whole: {meter.in_words()}",
            hint="allow more with --max-wall or --max-usd",
        )
    seen = confirmation_of(workspace, history, candidate, done, planned=blocks, attempt=attempt)
    # Replaying takes two launches more: only where nothing else keeps the winner from passing.
    open_layers = {each.layer for each in judge_confirmation(seen).reasons}
    if open_layers == {"replay"} and not meter.is_spent():
        launched = {trial.replicate: trial for _, trials in done for trial in trials}
        replay_kept(
            workspace, history, candidate, launched, pairs=pairs, attempt=attempt, tell=tell
        )
        history = History.of(workspace.ledger.events)
    forget_kept(workspace)
    verdict = judge_blocks(workspace, history, candidate, done, planned=blocks, attempt=attempt)
    if len(done) < blocks:
        tell(f"cut short after {len(done)} of {blocks} blocks: {meter.in_words()}")
    return verdict


def judge_blocks(
    workspace: Workspace,
    history: History,
    candidate: Candidate,
    done: Sequence[tuple[str, Sequence[Trial]]],
    *,
    planned: int,
    attempt: int,
) -> Verdict:
    """Judge the blocks of a confirmation, and record the verdict."""
    confirmation = confirmation_of(
        workspace, history, candidate, done, planned=planned, attempt=attempt
    )
    verdict = judge_confirmation(confirmation)
    rows = [
        {
            "order": order,
            "trials": [trial.trial_id for trial in trials],
            "update_s": [measured_update_s(workspace, trial) for trial in trials],
        }
        for order, trials in done
    ]
    workspace.ledger.append(
        "confirmed",
        {
            "verdict": verdict.model_dump(mode="json"), "blocks": rows, "attempt": attempt,
            "alpha": alpha_for_attempt(attempt), "threshold": acceptance_threshold(confirmation),
            "candidate": candidate.model_dump(mode="json"), "planned_blocks": planned,
        },
    )  # fmt: skip
    return verdict


def schedule_of(lock: Lock, *, attempt: int, blocks: int) -> tuple[str, ...]:
    """Draw the order of each block by the lock and the attempt, so that nobody chooses it."""
    seed = int(hashlib.sha256(f"{lock.digest()}/{attempt}".encode()).hexdigest()[:8], 16)
    return confirmation_schedule(blocks, seed=seed)


def _run_blocks(
    workspace: Workspace,
    history: History,
    candidate: Candidate,
    schedule: Sequence[str],
    *,
    attempt: int,
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
            place = 4 * number + position
            keep = keep_for(workspace, pairs, number=place, arm=ARMS[letter])
            request = _request(workspace, candidate, letter, attempt, number=place, keep=keep)
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
    attempt: int,
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
        remarks={"attempt": attempt},
    )


def _attempt_of(history: History, trial: Trial) -> int:
    return int(history.remarks.get(trial.trial_id, {}).get("attempt", 0))


def _refuse_unless_passed(verdict: Verdict) -> None:
    reasons = "; ".join(finding.reason for finding in verdict.reasons) or "no reason given"
    hints = " ".join(finding.hint for finding in verdict.reasons if finding.hint)
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
