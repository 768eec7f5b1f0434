import math
from dataclasses import replace

import numpy as np
import pytest
from synthetic_training import WINDOW, Recipe, evidence_of

from infrarsi.judge.bands import (
    EPSILON,
    Segment,
    bands_from_null,
    conformal_limits,
    metric_of,
    student_limit,
)
from infrarsi.judge.deviations import deviations
from infrarsi.records.task import Numerics

CANDIDATES = 4000


@pytest.mark.parametrize("nulls", [3, 5, 8])
def test_honest_candidates_leave_a_band_from_few_nulls_at_most_one_time_in_a_hundred(nulls):
    rng = np.random.default_rng(nulls)
    scores = np.abs(rng.normal(0, 1e-6, (CANDIDATES, nulls + 1)))
    left = sum(each[-1] > student_limit(each[:-1], bands=1)[0] for each in scores)
    assert left / CANDIDATES <= 0.01 + 3 * math.sqrt(0.01 / CANDIDATES)


def test_honest_candidates_leave_any_conformal_band_at_most_one_time_in_twenty():
    rng = np.random.default_rng(1)
    left = 0
    for _ in range(CANDIDATES):
        scale = np.exp(rng.standard_t(3, 21))
        scores = {name: scale * rng.exponential(1, 21) for name in ("loss", "sketch")}
        limits = conformal_limits({name: each[:-1] for name, each in scores.items()})
        left += any(scores[name][-1] > limits[name][0] for name in scores)
    assert left / CANDIDATES <= 0.05 + 3 * math.sqrt(0.05 / CANDIDATES) + 0.01


def test_nulls_that_agree_leave_a_margin():
    limit, _ = student_limit([2e-7] * 5, bands=4)
    assert 3 * 2e-7 < limit < 20 * 2e-7


def test_nulls_that_left_no_trace_do_not_tighten_the_band():
    assert student_limit([2e-7, 3e-7, 1e-7, 0.0, 0.0, 0.0], bands=4) == student_limit(
        [2e-7, 3e-7, 1e-7], bands=4
    )


@pytest.mark.parametrize("nulls", [3, 6, 12, 18])
def test_the_largest_null_stays_inside_its_own_band(nulls):
    scores = [1e-9] * (nulls - 1) + [1e-3]
    assert student_limit(scores, bands=4)[0] >= 1e-3


def test_every_metric_gets_a_band_that_says_where_it_came_from(bench):
    assert {metric_of(band.metric) for band in bench.bands} == {
        "loss", "grad_norm", "update_norm", "sketch"
    }  # fmt: skip
    for band in bench.bands:
        assert "6 null launches" in band.source
        assert "1 ulp" in band.source


def test_bitwise_equal_nulls_give_the_floor_of_the_dtype(bench):
    nulls = [("A/A", bench.reference.evidence)] * 3
    bands = bands_from_null(bench.reference.evidence, nulls, Numerics(), WINDOW)
    limits = {band.metric: band.limit for band in bands}
    assert limits["loss"] == pytest.approx(64 * EPSILON["float32"])
    assert all("floor" in band.source for band in bands)


def test_the_floor_rises_with_the_precision_that_is_allowed(bench):
    nulls = [("A/A", bench.reference.evidence)] * 3
    strict, loose = (
        bands_from_null(bench.reference.evidence, nulls, numerics, WINDOW)
        for numerics in (Numerics(), Numerics(matmul=("float32", "bfloat16")))
    )
    for tight, wide in zip(strict, loose, strict=True):
        assert wide.limit > 5 * tight.limit
        assert "bfloat16" in wide.source


@pytest.mark.parametrize("recipe", [
    Recipe(micro_batches=4), Recipe(permute=True), Recipe(micro_batches=8, permute=True), Recipe(ulps=3),
])  # fmt: skip
def test_the_bands_let_honest_reorderings_in_with_a_margin_of_three(bench, recipe):
    strays = deviations(evidence_of(recipe), bench.reference.evidence, WINDOW)
    for band in bench.bands:
        score = Segment.of(band.metric).score(strays[metric_of(band.metric)])
        assert 3 * score < band.limit


@pytest.mark.parametrize("recipe", [
    Recipe(skip_layer=True), Recipe(half_batch=True), Recipe(truncate=7), Recipe(step_every=2),
    Recipe(micro_batches=4, drop_micro_batch=True), Recipe(frozen=(1,)), Recipe(reuse_batch=True),
])  # fmt: skip
def test_the_bands_keep_hacks_out_with_a_margin_of_ten(bench, recipe):
    strays = deviations(evidence_of(recipe), bench.reference.evidence, WINDOW)
    beyond = [
        band.metric
        for band in bench.bands
        if Segment.of(band.metric).score(strays[metric_of(band.metric)]) > 10 * band.limit
    ]
    assert len(beyond) >= 3


def test_chaos_late_in_the_window_does_not_blunt_the_band_of_the_first_update(bench):
    reference = bench.reference.evidence

    def disturbed(seed):
        rng = np.random.default_rng(seed)
        rows = tuple(
            row.model_copy(update={"loss": row.loss * math.exp(
                rng.normal(0, 1e-7 * 2.2 ** row.update)
            )})
            for row in reference.updates
        )  # fmt: skip
        return reference.model_copy(update={"updates": rows, "ranks": {0: rows}})

    nulls = [(f"ulp {seed}", disturbed(seed)) for seed in range(6)]
    limits = {
        band.metric: band.limit for band in bands_from_null(reference, nulls, Numerics(), WINDOW)
    }
    assert limits["loss"] > 1.0
    assert limits["loss@1"] < 1e-4
    assert limits["loss@1"] < limits["loss@2-4"] < limits["loss@5-16"] < limits["loss"]


def test_nineteen_nulls_are_ranked_instead_of_extrapolated(bench):
    nulls = [
        (f"ulp {i}", evidence_of(Recipe(ulps=1 + i / 10, updates=WINDOW.last_update)))
        for i in range(19)
    ]  # fmt: skip
    bands = bands_from_null(bench.reference.evidence, nulls, Numerics(), WINDOW)
    assert all("conformal" in band.source for band in bands)


def test_too_few_nulls_or_a_null_cut_short_is_a_wrong_argument(bench):
    reference = bench.reference.evidence
    with pytest.raises(ValueError, match="three null launches"):
        bands_from_null(reference, [("A/A", reference)] * 2, Numerics(), WINDOW)
    short = reference.model_copy(update={"updates": reference.updates[:5], "ranks": {}})
    with pytest.raises(ValueError, match="ended before"):
        bands_from_null(
            reference, [("A/A", reference)] * 2 + [("short", short)], Numerics(), WINDOW
        )


def test_a_metric_that_the_reference_does_not_show_gets_no_band(bench):
    def blind(evidence):
        rows = tuple(row.model_copy(update={"grad_norm": None}) for row in evidence.updates)
        return evidence.model_copy(update={"updates": rows, "ranks": {0: rows}})

    reference = blind(bench.reference.evidence)
    nulls = [(label, blind(null)) for label, null in bench.nulls]
    bands = bands_from_null(reference, nulls, Numerics(), WINDOW)
    assert "grad_norm" not in {metric_of(band.metric) for band in bands}


def test_a_tiny_displacement_widens_the_sketch_band_by_the_rounding_of_what_is_stored():
    slow = replace(Recipe(), lr=1e-6)
    reference = evidence_of(slow)
    nulls = [("A/A", reference)] * 3
    limits = {b.metric: b for b in bands_from_null(reference, nulls, Numerics(), WINDOW)}
    honest = deviations(evidence_of(replace(slow, permute=True)), reference, WINDOW)
    assert honest["sketch"].values.max() < limits["sketch"].limit
    assert "rounding of stored parameters" in limits["sketch"].source


def test_a_segment_is_read_back_from_the_name_of_its_band():
    for segment in (Segment(), Segment(1, 1), Segment(2, 4)):
        assert Segment.of(segment.name("grad_norm")) == segment
        assert metric_of(segment.name("grad_norm")) == "grad_norm"
