"""Layer 6, its numbers: what the winner said of an update, and what its states lose later."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from infrarsi.judge.bands import arithmetic_floor, student_limit
from infrarsi.judge.case import Confirmation, Launch
from infrarsi.judge.deviations import log_ratio
from infrarsi.judge.findings import fails, passes, unsure
from infrarsi.judge.movement import Replayed
from infrarsi.judge.series import Floats
from infrarsi.records.task import Metric
from infrarsi.records.verdict import Finding, Layer

_LAYER: Layer = "replay"
_LEVEL = 0.95
_NEXT = "confirm again with `infrarsi apply`"


def judge_said(confirmation: Confirmation, found: Sequence[Replayed]) -> list[Finding]:
    """Compare the loss and the gradient norm that the winner said with what its states give.

    Parameters
    ----------
    confirmation : Confirmation
        ``confirmation.task.numerics.metrics`` says which are compared.
    found : sequence of Replayed
        The updates that were replayed.

    Notes
    -----
    The reference's code computes both from the winner's own state on the same batch, so that a
    loss that was kept from an earlier update, or made up, differs. A loss that is scaled by one
    constant is accepted where the gradient norm agrees, as in the window.
    """
    values = {
        metric: _judge_value(confirmation, found, metric)
        for metric in (Metric.LOSS, Metric.GRAD_NORM)
        if metric in confirmation.task.numerics.metrics
    }
    loss, grad = values.get(Metric.LOSS), values.get(Metric.GRAD_NORM)
    if loss is not None and grad is not None and loss.ruling == "fail" and grad.ruling == "pass":
        values[Metric.LOSS] = _excuse_scale(confirmation, found) or loss
    return list(values.values())


@dataclass(frozen=True)
class _Said:
    """What the winner said of its own update, and what the reference's code found."""

    update: int
    said: float
    found: float
    is_broken: bool
    """Whether the winner said something that is no finite number."""

    @property
    def is_seen(self) -> bool:
        """Whether there is something to compare."""
        return math.isfinite(self.found) and (math.isfinite(self.said) or self.is_broken)

    @property
    def ratio(self) -> float:
        """The log ratio; not finite where one of the two is not."""
        return _ratio(self.said, self.found)


def _ratio(left: float, right: float) -> float:
    return float(log_ratio(np.array([left]), np.array([right]))[0])


def _value(launch: Launch, metric: Metric, update: int) -> float:
    column = launch.series.metric(metric)
    return float(column[update - 1]) if update <= len(column) else math.nan


def _said(found: Sequence[Replayed], metric: Metric) -> list[_Said]:
    return [
        _Said(
            each.slot.update,
            _value(each.kept_by, metric, each.slot.update),
            _value(each.replayed_by, metric, each.slot.update),
            each.slot.update in each.kept_by.series.non_finite[metric],
        )
        for each in found
    ]


def _value_limit(
    confirmation: Confirmation, found: Sequence[Replayed], metric: Metric
) -> tuple[float, str]:
    nulls = [each.null for each in found if each.null is not None]
    updates = [each.slot.update for each in found if each.null is not None]
    scores = [
        abs(_ratio(_value(n.kept_by, metric, u), _value(n.replayed_by, metric, u)))
        for u, n in zip(updates, nulls, strict=True)
    ]
    finite = [score for score in scores if math.isfinite(score)]
    limit, rule = student_limit(finite, bands=2)
    floor = arithmetic_floor(metric, confirmation.task.numerics)
    words = f"{len(finite)} nulls; {rule}"
    return (limit, words) if limit >= floor[0] else (floor[0], f"{words}; raised to {floor[1]}")


def _judge_value(confirmation: Confirmation, found: Sequence[Replayed], metric: Metric) -> Finding:
    """Compare what the winner said of an update with what the reference's code finds in it."""
    words = metric.replace("_", " ")
    limit, source = _value_limit(confirmation, found, metric)
    pairs = _said(found, metric)
    unseen = [each.update for each in pairs if not each.is_seen]
    if unseen:
        return unsure(
            _LAYER, metric, f"the {words} of the replayed update {unseen[0]} was not seen",
            hint=_NEXT,
        )  # fmt: skip
    worst = max(pairs, key=lambda each: _finite(abs(each.ratio)))
    reason = (
        f"the winner said a {words} of {worst.said:.6g} at update {worst.update}; the reference's "
        f"code, from the winner's own state and on its batch, finds {worst.found:.6g}; a deviation "
        f"of {_finite(abs(worst.ratio)):.2g}, allowed {limit:.2g} ({source})"
    )
    if _finite(abs(worst.ratio)) > limit:
        return fails(_LAYER, metric, reason)
    return passes(_LAYER, metric, reason)


def _finite(value: float) -> float:
    return value if math.isfinite(value) else math.inf


def _excuse_scale(confirmation: Confirmation, found: Sequence[Replayed]) -> Finding | None:
    """Accept a loss that is the reference's times one constant, given equal gradient norms."""
    limit, _ = _value_limit(confirmation, found, Metric.LOSS)
    ratios = [each.ratio for each in _said(found, Metric.LOSS)]
    if len(ratios) < 2 or not all(map(math.isfinite, ratios)):
        return None
    if max(ratios) - min(ratios) > 2 * limit:
        return None
    return passes(
        _LAYER, Metric.LOSS,
        f"the loss is the reference code's times {math.exp(float(np.median(ratios))):.6g} at every "
        "replayed update, and the gradient norm agrees",
    )  # fmt: skip


def judge_unseen(confirmation: Confirmation, found: Sequence[Replayed]) -> Finding:
    """Compare what both arms' states lose on batches that neither has seen.

    Parameters
    ----------
    confirmation : Confirmation
        Its baseline holds the band of the loss.
    found : sequence of Replayed
        Updates whose states of both arms were scored by the reference's code.

    Notes
    -----
    One-sided: a winner that loses less passes. Refused where the mean excess lies beyond the
    margin by more than its one-sided 95 % error, batches being the units; a doubt where only the
    mean does. The margin is the band of the loss, which the null launches of the window gave,
    widened by the square of how much longer was trained since: deviations grow.
    """
    band = next((each for each in confirmation.baseline.bands if each.metric == Metric.LOSS), None)
    if band is None or Metric.LOSS not in confirmation.task.numerics.metrics:
        return passes(_LAYER, "unseen", "the loss is not compared on this workload")
    pairs = [pair for each in found for pair in _scores(each)]
    if not pairs:
        return unsure(
            _LAYER, "unseen", "no batch was scored with the states of both arms", hint=_NEXT
        )
    broken = [update for update, mine, _ in pairs if not math.isfinite(mine)]
    if broken:
        return fails(
            _LAYER, "unseen", f"the winner's state gives no finite loss on batch {broken[0]}"
        )
    last = confirmation.task.window.last_update
    excess = np.array([(mine - theirs) / max(abs(theirs), 1e-30) for _, mine, theirs in pairs])
    widened = max(1.0, max(update for update, _, _ in pairs) / last) ** 2
    limit, mean = band.limit * widened, float(excess.mean())
    words = (
        f"on {len(pairs)} batches that neither has seen, the winner's states lose {mean:+.2g} of "
        f"the loss more than the reference's; allowed {limit:.2g} (the loss band, {band.source}, "
        f"widened by {widened:.2g} for the updates after it)"
    )
    if mean <= limit:
        return passes(_LAYER, "unseen", words)
    if mean - _half_width(excess) > limit:
        return fails(_LAYER, "unseen", words)
    return unsure(_LAYER, "unseen", f"{words}, and the batches differ too much", hint=_NEXT)


def _half_width(values: Floats) -> float:
    from scipy.special import stdtrit

    if len(values) < 2:
        return math.inf
    quantile = float(stdtrit(len(values) - 1, _LEVEL))
    return quantile * float(values.std(ddof=1)) / math.sqrt(len(values))


def _scores(each: Replayed) -> list[tuple[int, float, float]]:
    """Give the losses of both arms' states by the number of the batch."""
    if each.null is None:
        return []
    first = each.slot.update + 1
    rows = [
        (update, _value(each.replayed_by, Metric.LOSS, update),
         _value(each.null.replayed_by, Metric.LOSS, update))
        for update in range(first, first + each.slot.scores)
    ]  # fmt: skip
    return [row for row in rows if math.isfinite(row[2])]
