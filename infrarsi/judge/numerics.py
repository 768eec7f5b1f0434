"""Layer 4: the candidate trains the same model, paired with the reference on seed and data."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from infrarsi.judge.bands import EPSILON, Segment, metric_of
from infrarsi.judge.case import Case
from infrarsi.judge.deviations import Deviation, compare
from infrarsi.judge.findings import fails, gravest, passes, unsure
from infrarsi.judge.randomness import EXPLAINED
from infrarsi.judge.workload import batches_moved
from infrarsi.records.baseline import Band
from infrarsi.records.task import Metric
from infrarsi.records.verdict import Finding, Layer

_LAYER: Layer = "numerics"
_START_EPSILONS = 8
_CLIPPED = 1e-4
"""How closely norms meet a ceiling: clips divide by the norm and a small number."""
_HACKS_BEGIN = {"loss": 1.9e-3, "grad_norm": 0.09, "update_norm": 0.08, "sketch": 0.46}
"""What the mildest hack that shows (a skipped layer, a truncated sequence) was measured at."""


def judge_numerics(case: Case) -> list[Finding]:
    """Check loss, gradient norm, update norm and parameter sketch against their bands.

    Parameters
    ----------
    case : Case
        ``case.baseline.bands`` holds the limits; ``case.task.numerics.metrics`` says which
        metrics are compared.

    Returns
    -------
    list of Finding
        One a metric, one for the initial parameters, and one that tells where the bands are
        too wide to refuse anything.

    Notes
    -----
    A value that is not finite fails; a value that the candidate does not show is
    inconclusive, never a pass. A loss scaled by a constant is accepted only where the gradient
    norm agrees at every update: the objective whose gradient was applied is then the same.
    Low-precision optimizer state hides below honest rounding; the precision layer sees it.
    """
    bands = case.bands
    compared = compare(case.candidate, case.reference, case.task.window)
    wanted = case.task.numerics.metrics
    moved = batches_moved(case)
    findings = {
        metric: _judge_metric(
            metric, compared[metric], bands, draws=_Draws(moved, case.redraws.get(metric))
        )
        for metric in wanted
    }
    loss = findings.get(Metric.LOSS)
    grad = findings.get(Metric.GRAD_NORM)
    if loss is not None and loss.ruling == "fail" and grad is not None and grad.ruling == "pass":
        findings[Metric.LOSS] = _excuse_scale(compared[Metric.LOSS], bands) or loss
    if grad is not None and grad.ruling == "fail":
        findings[Metric.GRAD_NORM] = _read_after_a_clip(case) or grad
    extra = [_judge_power(case)]
    if Metric.SKETCH in wanted and not compared[Metric.SKETCH].reason:
        extra.append(_judge_start(case, compared[Metric.SKETCH].start))
    return [*findings.values(), *extra]


@dataclass(frozen=True)
class _Draws:
    """What chance explains: see `judge.randomness`."""

    moved_from: int | None
    """The first update whose batch was drawn otherwise; nothing from there on is comparable."""
    redraw: float | None
    """How far another draw of the model's own numbers moved the metric."""


def _judge_metric(
    metric: Metric, deviation: Deviation, bands: tuple[Band, ...], *, draws: _Draws
) -> Finding:
    words = metric.replace("_", " ")
    doubt = _doubt(metric, deviation, words)
    if doubt is not None:
        return doubt
    mine = [band for band in bands if metric_of(band.metric) == metric]
    if not mine:
        return unsure(
            _LAYER, metric, f"there is no band for the {words} on this machine",
            hint="run doctor: its null launches give the bands",
        )  # fmt: skip
    beyond = [each for each in mine if Segment.of(each.metric).score(deviation) > each.limit]
    if beyond:
        refusals = [(each, _refuse(metric, deviation, each)) for each in beyond]
        return gravest([
            _excuse_draw(metric, deviation, refusal, band=each, draws=draws) or refusal
            for each, refusal in refusals
        ])  # fmt: skip
    band = next((each for each in mine if each.metric == metric), mine[0])
    largest = float(deviation.values.max())
    return passes(
        _LAYER, metric,
        f"the {words} deviates by at most {largest:.2g} over {len(deviation.values)} "
        f"{_places(metric)}; allowed {band.limit:.2g} ({band.source})",
    )  # fmt: skip


def _doubt(metric: Metric, deviation: Deviation, words: str) -> Finding | None:
    """Say what stands in the way of comparing a metric at all."""
    if deviation.reference_non_finite:
        return unsure(
            _LAYER, metric,
            f"the reference's own {words} was not finite at update "
            f"{deviation.reference_non_finite[0]}",
            hint="repair the reference, or begin the window after its first overflow",
        )  # fmt: skip
    if deviation.non_finite:
        return fails(
            _LAYER, metric,
            f"the {words} was not finite at update {deviation.non_finite[0]} "
            f"({len(deviation.non_finite)} updates in all); the reference's was, and must be",
        )  # fmt: skip
    if deviation.reason:
        return unsure(
            _LAYER, metric, f"the parameters cannot be compared: {deviation.reason}",
            hint="a change that renames, fuses or reorders parameters needs a state mapping",
        )  # fmt: skip
    for arm, updates in (("candidate", deviation.missing), ("reference", deviation.absent)):
        if updates:
            return unsure(
                _LAYER, metric,
                f"the {arm}'s {words} was not seen at update {updates[0]} "
                f"({len(updates)} updates in all)",
                hint="keep it visible to the witness, or take the metric out of the contract",
            )  # fmt: skip
    if not len(deviation.values):
        return unsure(
            _LAYER, metric, f"no {words} was seen in both arms", hint="run the trial again"
        )
    return None


def _refuse(metric: Metric, deviation: Deviation, band: Band) -> Finding:
    segment = Segment.of(band.metric)
    inside = np.ones(len(deviation.updates), dtype=bool)
    if segment.first is not None and segment.last is not None:
        inside = (deviation.updates >= segment.first) & (deviation.updates <= segment.last)
    updates, values = deviation.updates[inside], deviation.values[inside]
    beyond = np.flatnonzero(values > band.limit)
    first, worst = beyond[0], int(np.argmax(values))
    reason = (
        f"the {metric.replace('_', ' ')} deviates by {values[first]:.2g} after update "
        f"{updates[first]} and at most by {values[worst]:.2g} after update {updates[worst]}; "
        f"allowed {band.limit:.2g} ({band.source})"
    )
    hint = ""
    if metric is Metric.LOSS and updates[first] == 1:
        reason += "; it differs before anything was learnt: the model or its dropout differs"
        hint = "an honest change of how dropout draws numbers needs dropout turned off to compare"
    return fails(_LAYER, metric, reason, hint=hint)


def _excuse_draw(
    metric: Metric, deviation: Deviation, refusal: Finding, *, band: Band, draws: _Draws
) -> Finding | None:
    """Doubt instead of refusing where chance, drawn otherwise, would explain the deviation."""
    moved, redraw = draws.moved_from, draws.redraw
    if moved is not None and not np.any(deviation.values[deviation.updates < moved] > band.limit):
        why = f"the batches are drawn otherwise from update {moved} on: nothing after compares"
    elif redraw is not None and float(deviation.values.max()) <= EXPLAINED * redraw:
        why = (
            "the model draws random numbers of its own (dropout), and another draw of them moved "
            f"it by up to {redraw:.2g} in a null launch: up to {EXPLAINED:g} times that cannot be "
            "told from other training"
        )
    else:
        return None
    return unsure(
        _LAYER, metric, f"{refusal.reason}; but {why}",
        hint="give the data a generator of their own, set dropout to 0 in the contract's command, "
        "and lock anew; or keep the order in which numbers are drawn",
    )  # fmt: skip


def _read_after_a_clip(case: Case) -> Finding | None:
    """Doubt gradient norms that are the reference's up to one ceiling, and that ceiling above it.

    A program that clips by its own arithmetic has its gradients read after it. What the ceiling
    is in the reference is not known, so that this is no pass.
    """
    mine, theirs = (each.series.grad_norm for each in (case.candidate, case.reference))
    length = min(len(mine), len(theirs))
    seen = np.isfinite(mine[:length]) & (theirs[:length] > 0)
    mine, theirs = mine[:length][seen], theirs[:length][seen]
    if not len(mine) or mine.min() <= 0:
        return None
    ceiling = float(mine.max())
    clipped = np.minimum(theirs, ceiling)
    apart = np.abs(mine - clipped) / clipped
    floor = min((b.limit for b in case.bands if b.metric == Metric.GRAD_NORM), default=0.0)
    if apart.max() > max(floor, _CLIPPED) or not np.any(theirs > (1 + _CLIPPED) * ceiling):
        return None
    return unsure(
        _LAYER, Metric.GRAD_NORM,
        f"the grad norm is the reference's where that is below {ceiling:.6g}, and {ceiling:.6g} "
        f"in the {int(np.sum(theirs > ceiling))} of {len(mine)} updates where it is above: it was "
        "read after a clip of the program's own",
        hint="clip with torch.nn.utils.clip_grad_norm_, which is read before it clips "
        "(foreach=True is its fast form)",
    )  # fmt: skip


def _excuse_scale(deviation: Deviation, bands: tuple[Band, ...]) -> Finding | None:
    """Accept a loss that is the reference's times a constant, given equal gradient norms."""
    signed = deviation.signed
    # A value that was not finite is no ratio at all, whatever the others are.
    if deviation.non_finite or not len(signed) or not np.all(np.isfinite(signed)):
        return None
    scale = float(np.median(signed))
    shifted = Deviation(
        updates=deviation.updates, values=np.abs(signed - scale), signed=signed - scale
    )
    for band in (each for each in bands if metric_of(each.metric) == Metric.LOSS):
        # Two recorded losses enter each difference: the ratio's own and the median's.
        if Segment.of(band.metric).score(shifted) > 2 * band.limit:
            return None
    return passes(
        _LAYER, Metric.LOSS,
        f"the loss is the reference's times {math.exp(scale):.6g} at every update, within "
        f"{float(shifted.values.max()):.2g} (twice the loss's band is allowed), and the gradient "
        "norm agrees",
    )  # fmt: skip


def _judge_power(case: Case) -> Finding:
    bands, controls = case.bands, case.controls
    if controls and not any(each.seen_by for each in controls):
        kinds = ", ".join(each.kind for each in controls)
        return unsure(
            _LAYER, "power",
            f"of {len(controls)} falsifications that doctor made on this workload ({kinds}) the "
            "checks saw none: they overlap with honest launches",
            hint="measure more updates, turn off dropout and other unpaired randomness, then "
            "`infrarsi doctor --fresh --controls`",
        )  # fmt: skip
    strong = [
        band.metric for band in bands
        if band.limit < _HACKS_BEGIN.get(metric_of(band.metric), 0.0)
    ]  # fmt: skip
    if strong:
        words = f"bands that known hacks leave: {', '.join(strong)}"
        blind = [each.kind for each in controls if not each.seen_by]
        words += f"; not seen of what doctor tried: {', '.join(blind)}" if blind else ""
        return passes(_LAYER, "power", words)
    wide = ", ".join(
        f"{band.metric} {band.limit:.2g} (hacks: {_HACKS_BEGIN[metric_of(band.metric)]:.2g} and up)"
        for band in bands
        if metric_of(band.metric) in _HACKS_BEGIN
    )
    return unsure(
        _LAYER, "power",
        "on this workload honest launches vary as much as known hacks do; allowed deviations: "
        f"{wide or 'none was measured'}",
        hint="turn off dropout and other unpaired randomness, or lower the learning rate",
    )  # fmt: skip


def _judge_start(case: Case, gap: float) -> Finding:
    """Check that both arms begin with the same parameters."""
    dtypes = (*case.task.numerics.parameters, "float32")
    coarsest = max(dtypes, key=lambda dtype: EPSILON.get(dtype, 0.0))
    limit = _START_EPSILONS * EPSILON.get(coarsest, 0.0)
    words = (
        f"the initial parameters, before update 1, differ by {gap:.2g} of their norm; allowed "
        f"{limit:.2g} ({_START_EPSILONS} {coarsest} epsilons)"
    )
    if gap > limit:
        return fails(
            _LAYER, "start", words,
            hint="the candidate draws or loads other weights than the reference",
        )  # fmt: skip
    return passes(_LAYER, "start", words)


def _places(metric: Metric) -> str:
    return "marks" if metric is Metric.SKETCH else "updates"
