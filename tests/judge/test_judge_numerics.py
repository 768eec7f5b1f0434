import math
from dataclasses import replace

import numpy as np
import pytest
from synthetic_training import WINDOW, Recipe, changed_launch, edited, evidence_of

from infrarsi.judge.deviations import deviations
from infrarsi.judge.numerics import judge_numerics
from infrarsi.records.baseline import Band


def rulings(findings):
    return {each.check: each.ruling.value for each in findings}


def reason(findings, check):
    return next(each.reason for each in findings if each.check == check)


@pytest.mark.parametrize("recipe", [
    Recipe(), Recipe(micro_batches=4), Recipe(permute=True), Recipe(micro_batches=16, permute=True),
])  # fmt: skip
def test_honest_variants_pass(bench, recipe):
    assert set(rulings(judge_numerics(bench.trained(recipe))).values()) == {"pass"}


@pytest.mark.parametrize("recipe", [
    Recipe(skip_layer=True), Recipe(truncate=7), Recipe(micro_batches=4, drop_micro_batch=True),
    Recipe(step_every=2), Recipe(frozen=(3,)), Recipe(bf16_matmul=True), Recipe(half_batch=True),
    Recipe(late_hack_from=9), Recipe(lr=3.3e-3),
])  # fmt: skip
def test_other_training_fails(bench, recipe):
    assert "fail" in rulings(judge_numerics(bench.trained(recipe))).values()


def test_a_hack_that_begins_after_the_window_fails_in_the_updates_after_it(bench):
    findings = judge_numerics(bench.trained(Recipe(late_hack_from=WINDOW.last_update + 2)))
    assert rulings(findings)["loss"] == "fail"
    assert f"after update {WINDOW.last_update + 2}" in reason(findings, "loss")


def test_a_reason_names_the_update_the_size_the_band_and_its_source(bench):
    text = reason(judge_numerics(bench.trained(Recipe(late_hack_from=9))), "grad_norm")
    for words in ("after update 9", "allowed", "6 null launches"):
        assert words in text


def test_a_loss_that_differs_at_the_first_update_points_to_the_model_or_dropout(bench):
    text = reason(judge_numerics(bench.trained(Recipe(skip_layer=True))), "loss")
    assert "before anything was learnt" in text


def test_a_loss_scaled_by_a_constant_passes_while_the_gradient_norm_agrees(bench):
    findings = judge_numerics(bench.trained(Recipe(micro_batches=4, undivided_loss=True)))
    assert set(rulings(findings).values()) == {"pass"}
    assert "times 4" in reason(findings, "loss")


def test_a_loss_scaled_by_a_constant_fails_where_the_gradient_norm_is_scaled_too(bench):
    case = bench.trained(Recipe())
    rows = tuple(
        row.model_copy(update={"loss": 2 * row.loss, "grad_norm": 2 * row.grad_norm})
        for row in case.candidate.evidence.updates
    )
    scaled = case.candidate.evidence.model_copy(update={"updates": rows, "ranks": {0: rows}})
    case = replace(case, candidate=changed_launch(case.candidate, scaled))
    assert rulings(judge_numerics(case))["loss"] == "fail"


def test_a_loss_whose_ratio_changes_is_no_constant(bench):
    case = bench.trained(Recipe())
    evidence = case.candidate.evidence
    for update in range(1, 23):
        evidence = edited(evidence, update, loss=2.5)
    case = replace(case, candidate=changed_launch(case.candidate, evidence))
    assert rulings(judge_numerics(case))["loss"] == "fail"


def with_norms(case, change):
    evidence = case.candidate.evidence
    for row in evidence.updates:
        evidence = edited(evidence, row.update, grad_norm=change(row.update, row.grad_norm))
    return replace(case, candidate=changed_launch(case.candidate, evidence))


def test_norms_that_meet_one_ceiling_were_read_after_a_clip_and_are_inconclusive(bench):
    case = bench.trained(Recipe())
    norms = sorted(row.grad_norm for row in case.candidate.evidence.updates)
    ceiling = norms[len(norms) // 2]
    clipped = judge_numerics(with_norms(case, lambda _, norm: min(norm, ceiling)))
    assert rulings(clipped)["grad_norm"] == "inconclusive"
    assert "read after a clip" in reason(clipped, "grad_norm")
    below = judge_numerics(with_norms(case, lambda _, norm: min(0.9 * norm, ceiling)))
    assert rulings(below)["grad_norm"] == "fail"
    larger = judge_numerics(with_norms(case, lambda update, norm: norm * (1 + 0.01 * update)))
    assert rulings(larger)["grad_norm"] == "fail"
    none = judge_numerics(with_norms(case, lambda *_: 0.0))
    assert rulings(none)["grad_norm"] == "fail"


def test_a_value_that_is_not_finite_fails(bench):
    case = bench.trained(Recipe())
    evidence = edited(case.candidate.evidence, 7, loss=None, non_finite=("loss",))
    case = replace(case, candidate=changed_launch(case.candidate, evidence))
    findings = judge_numerics(case)
    assert rulings(findings)["loss"] == "fail"
    assert "update 7" in reason(findings, "loss")


def test_a_reference_that_is_not_finite_settles_nothing(bench):
    case = bench.trained(Recipe())
    evidence = edited(bench.reference.evidence, 7, grad_norm=None, non_finite=("grad_norm",))
    case = replace(case, reference=changed_launch(bench.reference, evidence))
    assert rulings(judge_numerics(case))["grad_norm"] == "inconclusive"


@pytest.mark.parametrize("metric", ["loss", "grad_norm", "update_norm"])
def test_a_metric_that_is_not_shown_is_inconclusive(bench, metric):
    case = bench.trained(Recipe())
    evidence = edited(case.candidate.evidence, 5, **{metric: None})
    case = replace(case, candidate=changed_launch(case.candidate, evidence))
    assert rulings(judge_numerics(case))[metric] == "inconclusive"


def test_values_that_had_not_come_when_the_launch_was_stopped_are_not_missed(bench):
    case = bench.trained(Recipe())
    evidence = edited(case.candidate.evidence, 22, loss=None, grad_norm=None, update_norm=None)
    case = replace(case, candidate=changed_launch(case.candidate, evidence))
    assert set(rulings(judge_numerics(case)).values()) == {"pass"}


def test_parameters_of_other_shapes_are_inconclusive(bench):
    case = bench.trained(Recipe())
    marks = tuple(
        mark.model_copy(update={"shapes": mark.shapes[::-1]})
        for mark in case.candidate.evidence.marks
    )
    evidence = case.candidate.evidence.model_copy(update={"marks": marks})
    case = replace(case, candidate=changed_launch(case.candidate, evidence))
    assert rulings(judge_numerics(case))["sketch"] == "inconclusive"


def test_a_mark_missing_at_the_end_of_the_window_is_inconclusive(bench):
    case = bench.trained(Recipe())
    evidence = case.candidate.evidence.model_copy(
        update={"marks": case.candidate.evidence.marks[:-1]}
    )
    case = replace(case, candidate=changed_launch(case.candidate, evidence))
    assert rulings(judge_numerics(case))["sketch"] == "inconclusive"


def test_other_initial_parameters_fail(bench):
    assert rulings(judge_numerics(bench.trained(Recipe(other_weights=True))))["start"] == "fail"


def test_a_machine_without_bands_is_inconclusive(bench):
    found = rulings(judge_numerics(bench.trained(Recipe(), baseline=None)))
    assert set(found.values()) == {"inconclusive", "pass"}
    assert found["loss"] == "inconclusive"


def test_bands_as_wide_as_hacks_are_inconclusive(bench):
    wide = tuple(Band(metric=b.metric, limit=2.0, source="dropout") for b in bench.bands)
    case = bench.trained(Recipe(), baseline=bench.baseline.model_copy(update={"bands": wide}))
    assert rulings(judge_numerics(case))["power"] == "inconclusive"


def test_a_learning_rate_of_zero_in_both_arms_is_no_deviation():
    still = evidence_of(Recipe(lr=0.0))
    found = deviations(still, still, WINDOW)
    assert found["update_norm"].values.max() == 0
    assert found["sketch"].values.max() == 0


def test_ranks_with_equal_norms_hold_one_gradient_and_others_hold_parts_of_it(bench):
    evidence = bench.reference.evidence
    half = tuple(
        row.model_copy(update={"grad_norm": row.grad_norm / math.sqrt(2)})
        for row in evidence.updates
    )
    sharded = evidence.model_copy(update={"ranks": {0: half, 1: half}})
    uneven = tuple(
        row.model_copy(update={"grad_norm": row.grad_norm * math.sqrt(0.3)})
        for row in evidence.updates
    )
    rest = tuple(
        row.model_copy(update={"grad_norm": row.grad_norm * math.sqrt(0.7)})
        for row in evidence.updates
    )
    replicated = evidence.model_copy(update={"ranks": {0: evidence.updates, 1: evidence.updates}})
    parted = evidence.model_copy(update={"ranks": {0: uneven, 1: rest}})
    for ranks, expected in ((replicated, 0.0), (parted, 0.0), (sharded, math.log(2) / 2)):
        strays = deviations(ranks, evidence, WINDOW)["grad_norm"].values
        assert np.allclose(strays, expected, atol=1e-9)


def test_shards_that_happen_to_be_equal_are_still_parts(bench):
    evidence = bench.reference.evidence
    half = tuple(
        row.model_copy(update={"grad_norm": row.grad_norm / math.sqrt(2), "sharded": True})
        for row in evidence.updates
    )
    sharded = evidence.model_copy(update={"ranks": {0: half, 1: half}})
    assert np.allclose(deviations(sharded, evidence, WINDOW)["grad_norm"].values, 0, atol=1e-9)
