"""Where the allowed deviations come from: null launches of the reference itself.

The rule, and why it is this one
--------------------------------
A *null* is a launch that trains the same thing and is disturbed in a way that an honest change
disturbs it: initial weights moved by scaled ulps, another thread count, regrouped
micro-batches, an allowed precision. Its score in a metric is the **largest** deviation from
the reference over all compared updates. The candidate is scored in the same way, so the
multiplicity over updates is in the score, however deviations grow from update to update, and
only the number of bands is left for Bonferroni.

Deviations are signed quantities around zero that a disturbance scales, so from few nulls the
limit is a Student prediction limit about a *known* mean of zero, with ``n`` degrees of freedom::

    limit = t(1 - 0.01 / (2 bands), n) * rms(scores) * sqrt(1 + 1/n)

and never below the largest score. The root mean square about zero, rather than the mean plus
the spread, is deliberate: nulls that happen to agree (spread 0) must not give a band without
margin; and the limit stays within a small factor of the largest null (5 for n = 3, 2 for
n = 6), whereas a spread of logarithms from five nulls of unlike kinds multiplies it by 1e3 and
lets hacks in. A null that left no trace in a metric (A/A on CPU is bitwise equal) is no draw
of a disturbance and is left out of ``n``: it would only dilute the rest.

From 19 nulls on, the joint conformal quantile at .05 replaces Student: each null's worst ratio
of score to rms over all bands is ranked, and the ceil(.95 (n + 1))-th scales every band. It
assumes exchangeability and no shape, and needs no Bonferroni.

The floor keeps a band from being tighter than arithmetic, and is counted in epsilons.
Measured on a 4-layer GPT over ten updates, honest float32 reorderings move loss, gradient
norm, update norm and sketch by 2, 2, 4 and 400 float32 epsilons; the mildest thing that must
be refused moves each by 140 (bfloat16 autocast), 5,000 (the same), 1,700 and 17,000 (bfloat16
optimizer state). The floors lie between, on a logarithmic scale near the middle: deeper
models and longer windows reorder more. Where less is *allowed* for matmuls, its rounding
averages out over tokens: bfloat16 autocast moves the four by .002, .08, .6 and 14 of its own
epsilon, and the floor is a few times that. The sketch and the update norm have one floor more:
stored parameters round by an epsilon *of themselves* an update, which is large against a small
displacement.

Where chaos is strong (a high learning rate), late updates deviate much and would blunt the
band for early ones. So each metric also gets bands for update 1 and for updates 2 to 4 and 5 to
16 alone, wherever these are four times tighter.

When not to trust it: nulls that miss a kind of disturbance that honest changes bring. Then
honest candidates are refused, with the number that says by how much; hacks are not let in.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from infrarsi.judge.deviations import Deviation, deviations
from infrarsi.judge.series import length_of, series_of, sketch_of
from infrarsi.records.baseline import Band
from infrarsi.records.evidence import Evidence
from infrarsi.records.task import Metric, Numerics, Window

EPSILON = {
    "float64": 2.0**-52, "float32": 2.0**-23, "tf32": 2.0**-10, "float16": 2.0**-10,
    "bfloat16": 2.0**-7, "float8_e4m3fn": 2.0**-3, "float8_e5m2": 2.0**-2,
}  # fmt: skip
"""Distance from 1 to the next number, by dtype."""

_ALPHA = 0.01
"""Chance, for each candidate like the nulls, of leaving any band."""
_CONFORMAL_ALPHA = 0.05
_CONFORMAL_NULLS = 19
_FLOAT32_FLOOR = {"loss": 64.0, "grad_norm": 256.0, "update_norm": 512.0, "sketch": 4096.0}
_LOW_FLOOR = {"loss": 0.01, "grad_norm": 0.3, "update_norm": 2.0, "sketch": 30.0}
_STORED_FLOOR = 4.0
_SEGMENTS = ((1, 1), (2, 4), (5, 16))
_TIGHTER = 4.0


@dataclass(frozen=True)
class Segment:
    """The updates that a band covers; all of them where ``first`` is ``None``."""

    first: int | None = None
    last: int | None = None

    @classmethod
    def of(cls, band: str) -> Segment:
        """Read the segment from a band's name: ``loss``, ``loss@1``, ``loss@2-4``."""
        _, _, text = band.partition("@")
        if not text:
            return cls()
        first, _, last = text.partition("-")
        return cls(int(first), int(last or first))

    def name(self, metric: str) -> str:
        """Give the band's name for a metric."""
        if self.first is None:
            return metric
        return f"{metric}@{self.first}" + (f"-{self.last}" if self.last != self.first else "")

    def score(self, deviation: Deviation) -> float:
        """Give the largest deviation inside; ``nan`` where nothing was compared."""
        inside = deviation.values
        if self.first is not None and self.last is not None:
            inside = inside[(deviation.updates >= self.first) & (deviation.updates <= self.last)]
        return float(inside.max()) if len(inside) else math.nan


def metric_of(band: str) -> str:
    """Give the metric that a band is for: ``loss`` of ``loss@2-4``."""
    return band.partition("@")[0]


def bands_from_null(
    reference: Evidence,
    nulls: Sequence[tuple[str, Evidence]],
    numerics: Numerics,
    window: Window,
) -> tuple[Band, ...]:
    """Derive the allowed deviation of every metric from null launches.

    Parameters
    ----------
    reference : Evidence
        The launch that candidates are paired with.
    nulls : sequence of (str, Evidence)
        Label and evidence of each null launch: the label says what was disturbed.
    numerics : Numerics
        The metrics wanted, and the precision allowed, which sets the floor.
    window : Window
        Nulls that do not reach its end are refused.

    Returns
    -------
    tuple of Band
        One a metric, named after it, and ``metric@first-last`` where early updates have a
        tighter one. No band for a metric that the reference does not show: its judgement is
        then inconclusive.

    Raises
    ------
    ValueError
        Fewer than three nulls, or one that did not reach the window's end.

    Notes
    -----
    The module's docstring gives the rule, its reasons, and when not to trust it.
    """
    if len(nulls) < 3:
        raise ValueError(f"bands need three null launches or more, not {len(nulls)}")
    for label, evidence in nulls:
        if len(evidence.updates) < window.last_update:
            raise ValueError(f"the null launch {label!r} ended before the window did")
    compared = [deviations(null, reference, window) for _, null in nulls]
    floors = _floors(reference, numerics, window)
    scores: dict[str, list[float]] = {}
    for metric in numerics.metrics:
        for segment in (Segment(), *(Segment(*each) for each in _SEGMENTS)):
            found = [segment.score(each[metric]) for each in compared]
            usable = [score for score in found if math.isfinite(score)]
            if usable and metric in floors:
                scores[segment.name(metric)] = usable
    labels = ", ".join(dict.fromkeys(label for label, _ in nulls))
    limits = _limits(scores, len(nulls))
    bands = [
        _band(name, limits[name], scores[name], floors[metric_of(name)], labels)
        for name in scores
    ]  # fmt: skip
    whole = {band.metric: band.limit for band in bands}
    return tuple(
        band
        for band in bands
        if "@" not in band.metric or band.limit * _TIGHTER <= whole[metric_of(band.metric)]
    )


def _limits(scores: dict[str, list[float]], num_nulls: int) -> dict[str, tuple[float, str]]:
    """Give the limit of every band before the floor, and the rule in words."""
    complete = all(len(each) == num_nulls for each in scores.values())
    if num_nulls >= _CONFORMAL_NULLS and complete:
        return conformal_limits(scores)
    # Segments of one metric are nearly one question: Bonferroni counts each metric as two,
    # all updates and the early ones.
    bands = 2 * len({metric_of(name) for name in scores})
    return {name: student_limit(each, bands=bands) for name, each in scores.items()}


def student_limit(scores: Sequence[float], *, bands: int) -> tuple[float, str]:
    """Give the prediction limit of one more score, from few nulls, and the rule in words.

    Parameters
    ----------
    scores : sequence of float
        Each null's largest deviation; those that are 0 left no trace and do not count.
    bands : int
        Over how many bands the error rate is spread.

    Notes
    -----
    Assumes that scores are sizes of normal deviations with one scale. Heavier tails leave the
    band more often; the largest null always stays inside.
    """
    from scipy.special import stdtrit

    traces = np.array([score for score in scores if score > 0])
    n = len(traces)
    if n == 0:
        return 0.0, "all of them bitwise equal to the reference"
    rms = float(np.sqrt(np.mean(traces**2)))
    quantile = float(stdtrit(n, 1 - _ALPHA / (2 * bands)))
    limit = max(quantile * rms * math.sqrt(1 + 1 / n), float(traces.max()))
    words = (
        f"t(1 - {_ALPHA}/{2 * bands}, {n}) = {quantile:.3g} x rms {rms:.2g} of the {n} that left a "
        f"trace x sqrt(1 + 1/{n})"
    )
    return limit, words


def conformal_limits(scores: Mapping[str, Sequence[float]]) -> dict[str, tuple[float, str]]:
    """Give the limits that the conformal quantile of the nulls' worst ratios sets.

    Parameters
    ----------
    scores : mapping of str to sequence of float
        By band, each null's largest deviation, the nulls in one order.

    Notes
    -----
    For exchangeable nulls and candidate at most .05 of candidates leave any band, whatever
    the distribution.
    """
    table = np.array([scores[name] for name in scores])
    scale = np.sqrt(np.mean(table**2, axis=1))
    ratios = table / np.where(scale > 0, scale, 1.0)[:, None]
    worst = np.sort(ratios.max(axis=0))
    n = table.shape[1]
    rank = min(math.ceil((1 - _CONFORMAL_ALPHA) * (n + 1)), n)
    words = f"conformal: the {rank}th of {n} nulls ranked by their worst metric"
    return {
        name: (float(worst[rank - 1] * scale[i]), words) for i, name in enumerate(scores)
    }  # fmt: skip


def _band(
    name: str, limit: tuple[float, str], scores: list[float], floor: tuple[float, str], labels: str
) -> Band:
    value, rule = limit
    source = f"{len(scores)} null launches ({labels}), largest {max(scores):.2g}; {rule}"
    if floor[0] > value:
        return Band(metric=name, limit=floor[0], source=f"{source}; raised to {floor[1]}")
    return Band(metric=name, limit=value, source=source)


def arithmetic_floor(metric: Metric, numerics: Numerics) -> tuple[float, str]:
    """Give the least limit of a metric that the allowed arithmetic needs, and its reason."""
    single = EPSILON["float32"]
    dtypes = ["float32", *numerics.matmul, *numerics.gradients]
    dtypes += ["tf32"] if numerics.tf32 else []
    lowest = max(dtypes, key=lambda dtype: EPSILON.get(dtype, single))
    count = _FLOAT32_FLOOR[metric]
    floor = (count * single, f"the floor of {count:g} float32 epsilons")
    low = _LOW_FLOOR[metric] * EPSILON.get(lowest, single)
    if EPSILON.get(lowest, single) > single and low > floor[0]:
        floor = (low, f"the floor of {_LOW_FLOOR[metric]:g} {lowest} epsilons")
    return floor


def _floors(
    reference: Evidence, numerics: Numerics, window: Window
) -> dict[str, tuple[float, str]]:
    """Give the least limit of every metric that the reference shows, and its reason."""
    series = series_of(reference)
    single = EPSILON["float32"]
    floors = {metric: arithmetic_floor(metric, numerics) for metric in numerics.metrics}
    stored = max(EPSILON.get(dtype, single) for dtype in (*numerics.parameters, "float32"))
    ratio = _size_over_displacement(reference, window)
    for metric, share in ((Metric.SKETCH, ratio[0]), (Metric.UPDATE_NORM, ratio[1])):
        rounding = _STORED_FLOOR * stored * share
        if metric in floors and rounding > floors[metric][0]:
            words = "the rounding of stored parameters against their displacement"
            floors[metric] = (rounding, words)
    return {
        str(metric): floor
        for metric, floor in floors.items()
        if metric is Metric.SKETCH or np.isfinite(series.metric(metric)).any()
    }


def _size_over_displacement(reference: Evidence, window: Window) -> tuple[float, float]:
    """Give the size of the parameters over their displacement, for sketch and update norm.

    Independent roundings add up as a random walk over updates, and in a norm over N elements
    they average out by sqrt(N).
    """
    start = reference.mark_at(0)
    if start is None or not start.sketch:
        return 0.0, 0.0
    origin = sketch_of(start)
    size = length_of(origin.values)
    shares = [0.0]
    for mark in reference.marks:
        if 0 < mark.update <= window.last_update and mark.sketch:
            moved = length_of(sketch_of(mark).values - origin.values)
            shares.append(math.sqrt(mark.update) * size / moved if moved > 0 else 0.0)
    norms = series_of(reference).update_norm[: window.last_update]
    norms = norms[np.isfinite(norms) & (norms > 0)]
    smallest = float(norms.min()) if len(norms) else math.inf
    return max(shares), size / smallest / math.sqrt(max(len(origin.values), 1))
