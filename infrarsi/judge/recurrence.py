"""Whether a speedup recurs: the sessions of a confirmation, each by itself and all together.

A session is a whole confirmation: its own fresh launches, its own replays. What one session cannot
show is what that day lent it: a driver's mood, a neighbour, a choice of kernels. So that the
session, and not the block, is the unit of the interval that counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from infrarsi.judge.case import Block, Confirmation
from infrarsi.judge.decide import acceptance_threshold, judge_confirmation
from infrarsi.judge.findings import fails, join, passes, unsure
from infrarsi.judge.series import Floats
from infrarsi.judge.speedup import alpha_for_attempt, block_log_ratios, interval_of_logs
from infrarsi.judge.timing import steady_update_s
from infrarsi.records.estimate import Estimate
from infrarsi.records.verdict import Finding, Layer, Verdict

_LAYER: Layer = "timing"
_MOST_SESSIONS = 20


@dataclass(frozen=True)
class Session:
    """One session of a confirmation, and when it was held."""

    confirmation: Confirmation
    began_s: float
    """Start of its first launch, in seconds since the epoch."""
    ended_s: float
    """End of its last launch, in seconds since the epoch."""


def recurring_interval(logs: Floats, *, alpha: float) -> tuple[Floats, Floats, Floats]:
    """Give low, mean and high of log ratios with the session as a random effect.

    Parameters
    ----------
    logs : ndarray, shape (..., sessions, blocks)
        Log reference time over candidate time, block by block; two sessions or more, of equally
        many blocks.
    alpha : float
        The two-sided level is ``1 - alpha``.

    Returns
    -------
    tuple of ndarray
        ``mean ± t s / sqrt(sessions)`` over the means of the sessions, with ``sessions - 1``
        degrees of freedom; never narrower than the interval over all blocks.

    Notes
    -----
    Whatever moves a whole session (its share of the day) is in the spread of the means, and the
    level holds however large it is. With two sessions there is one degree of freedom, and the
    interval is wide: at alpha .025 it reaches 12.7 times their difference to either side. That is
    what two days can say of all others. The bound by all blocks keeps two sessions that agree by
    luck from claiming more than their blocks can. When not to trust it: sessions that were left
    out for what they showed.
    Source: one-way random effects, balanced (Scheffe 1959, section 7.2).
    """
    low, mean, high = interval_of_logs(logs.mean(axis=-1), alpha=alpha)
    every = logs.reshape(*logs.shape[:-2], -1)
    fixed_low, _, fixed_high = interval_of_logs(every, alpha=alpha)
    return np.minimum(low, fixed_low), mean, np.maximum(high, fixed_high)


def sessions_needed(logs: Floats, least_log: float, *, attempt: int) -> int | None:
    """Give how many sessions would tell, if they go on differing as these did.

    Parameters
    ----------
    logs : ndarray, shape (sessions, blocks)
        Of the sessions that were held.
    least_log : float
        What the lower bound must exceed, as a logarithm.
    attempt : int
        The attempt that those sessions would be judged under.

    Returns
    -------
    int or None
        ``None`` where not even twenty would, or their mean lies below.
    """
    from scipy.special import stdtrit

    means = logs.mean(axis=-1)
    mean, spread = float(means.mean()), float(means.std(ddof=1))
    alpha = alpha_for_attempt(attempt)
    for sessions in range(len(means) + 1, _MOST_SESSIONS + 1):
        half = float(stdtrit(sessions - 1, 1 - alpha / 2)) * spread / sessions**0.5
        if mean - half > least_log:
            return sessions
    return None


def judge_sessions(sessions: Sequence[Session], *, planned: int, gap_s: float) -> Verdict:
    """Judge the sessions of one confirmation, each by itself and all together.

    Parameters
    ----------
    sessions : sequence of Session
        In the order in which they were held, all of one attempt's share of the error rate.
    planned : int
        How many were fixed in advance.
    gap_s : float
        The least time from the end of one to the beginning of the next, in seconds.

    Returns
    -------
    Verdict
        ``pass`` where every session passes as a confirmation of its own, with an interval of its
        own above the threshold, and the lower bound of :func:`recurring_interval` exceeds it too.

    Notes
    -----
    All of these must hold, so that the attempt's error rate need not be divided among them
    (intersection-union test, Berger 1982).
    """
    verdicts = [judge_confirmation(each.confirmation) for each in sessions]
    findings = [
        *_of_sessions(verdicts, planned),
        _judge_apart(sessions, planned=planned, gap_s=gap_s),
    ]
    speedup = verdicts[0].speedup
    if len(sessions) > 1:
        speedup, finding = _judge_recurrence([each.confirmation for each in sessions])
        findings.append(finding)
    return verdicts[0].model_copy(
        update={
            "ruling": join(findings), "findings": tuple(findings), "speedup": speedup,
            "trials": tuple(name for each in verdicts for name in each.trials),
            "sandbox": tuple(sorted({tier for each in verdicts for tier in each.sandbox})),
        }
    )  # fmt: skip


def _of_sessions(verdicts: Sequence[Verdict], planned: int) -> list[Finding]:
    """Give what was found in each session, and say in which; the source is the same in all."""
    first = verdicts[0].findings
    found = [each for each in first if each.layer == "audit"]
    for number, verdict in enumerate(verdicts, start=1):
        found += [
            each.model_copy(update={"reason": f"session {number} of {planned}: {each.reason}"})
            for each in verdict.findings
            if each.layer != "audit" or each not in first
        ]
    return found


def _judge_apart(sessions: Sequence[Session], *, planned: int, gap_s: float) -> Finding:
    """Check that there were as many sessions as planned, and as far apart."""
    gaps = [after.began_s - before.ended_s for before, after in pairwise(sessions)]
    words = ", ".join(_hours(each) for each in gaps)
    due = f"at least {_hours(gap_s)} were asked for"
    if gaps and min(gaps) < gap_s:
        return unsure(
            _LAYER, "apart", f"the sessions lay {words} apart; {due}",
            hint="confirm again, with the sessions further apart",
        )  # fmt: skip
    if len(sessions) != planned:
        return unsure(
            _LAYER, "apart",
            f"{len(sessions)} of the {planned} sessions that were fixed in advance were held",
            hint=f"confirm again with `infrarsi apply --sessions {planned}`",
        )  # fmt: skip
    return passes(_LAYER, "apart", f"{planned} sessions were held, {words} apart; {due}")


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{seconds:.0f} s"


def _judge_recurrence(confirmations: Sequence[Confirmation]) -> tuple[Estimate | None, Finding]:
    """Check the speedup over all sessions: what a session lends its figure is in the interval."""
    try:
        of_each = [_log_ratios(each) for each in confirmations]
        if len({len(each) for each in of_each}) > 1:
            raise ValueError("the sessions have different numbers of blocks")
        logs = np.array(of_each)
    except ValueError as error:
        return None, unsure(
            _LAYER, "recurrence", f"the sessions give no common interval: {error}",
            hint="settle the other findings, then confirm again",
        )  # fmt: skip
    attempt = confirmations[-1].attempt
    alpha = alpha_for_attempt(attempt)
    threshold = max(map(acceptance_threshold, confirmations))
    low, point, high = (float(np.exp(each)) for each in recurring_interval(logs, alpha=alpha))
    speedup = Estimate(low=low, point=point, high=high, level=1 - alpha)
    count = len(confirmations)
    points = ", ".join(f"{each:.4f}" for each in np.exp(logs.mean(axis=-1)))
    words = (
        f"over {count} sessions ({points}) the speedup is {point:.4f} ({low:.4f} to {high:.4f} at "
        f"{speedup.level:.2%}, sessions being the units, {count - 1} degree(s) of freedom); its "
        f"lower bound must exceed {threshold:.4f}"
    )
    if low > threshold:
        return speedup, passes(_LAYER, "recurrence", words)
    if high < threshold:
        return speedup, fails(_LAYER, "recurrence", words)
    needed = sessions_needed(logs, float(np.log(threshold)), attempt=attempt + 1)
    more = f"{needed} sessions would tell" if needed else "more sessions may not tell either"
    return speedup, unsure(
        _LAYER, "recurrence", words,
        hint=f"{more}, if they go on differing as these did; those that passed are kept: "
        f"`infrarsi apply --sessions {needed or count + 1}`",
    )  # fmt: skip


def _log_ratios(confirmation: Confirmation) -> Floats:
    """Give the log ratio of every block.

    Raises
    ------
    ValueError
        A launch has no steady rate, or a block lacks an arm.
    """
    return np.array([_log_ratio(confirmation, block) for block in confirmation.blocks])


def _log_ratio(confirmation: Confirmation, block: Block) -> float:
    window = confirmation.task.window
    arms = [[steady_update_s(each.evidence, window) for each in block.arm(arm)] for arm in "AB"]
    if not all(arms):
        raise ValueError("a block lacks launches of an arm")
    return float(block_log_ratios(arms[0], arms[1]))
