from dataclasses import replace

import pytest
from synthetic_training import WINDOW, Recipe, changed_launch, task_of

from infrarsi.judge.numerics import judge_numerics
from infrarsi.judge.precision import judge_precision


def rulings(case):
    return {each.check: each.ruling.value for each in judge_precision(case)}


def with_marks(case, *, arm="candidate", census=None, flags=None, update=WINDOW.last_update):
    launch = getattr(case, arm)
    marks = tuple(
        mark.model_copy(update={
            "census": {**mark.census, **(census or {})}, "flags": {**mark.flags, **(flags or {})}
        }) if mark.update == update else mark
        for mark in launch.evidence.marks
    )  # fmt: skip
    evidence = launch.evidence.model_copy(update={"marks": marks})
    return replace(case, **{arm: changed_launch(launch, evidence)})


def test_the_references_own_precision_passes(bench):
    assert set(rulings(bench.trained(Recipe())).values()) == {"pass"}


def test_low_precision_optimizer_state_fails_even_where_no_curve_shows_it(bench):
    case = bench.trained(Recipe(bf16_state=True))
    wide = tuple(band.model_copy(update={"limit": 0.04}) for band in bench.bands)
    case = replace(case, baseline=bench.baseline.model_copy(update={"bands": wide}))
    assert {each.ruling for each in judge_numerics(case)} == {"pass"}
    assert rulings(case)["optimizer_state"] == "fail"


def test_bfloat16_matmuls_fail_unless_the_contract_allows_them(bench):
    case = bench.trained(Recipe(bf16_matmul=True))
    assert rulings(case)["matmul"] == "fail"
    allowed = replace(case, task=task_of(matmul=("float32", "bfloat16")))
    assert rulings(allowed)["matmul"] == "pass"


@pytest.mark.parametrize("kind", ["parameters", "gradients", "optimizer_state", "matmul"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "int8", "uint8", "float8_e4m3fn"])
def test_any_dtype_that_is_not_allowed_fails_in_every_class(bench, kind, dtype):
    case = with_marks(bench.trained(Recipe()), census={kind: {"float32": 1000, dtype: 3}})
    assert rulings(case)[kind] == "fail"


@pytest.mark.parametrize("update", [0, WINDOW.warmup_updates, WINDOW.last_update])
def test_a_dtype_seen_at_one_mark_alone_counts(bench, update):
    case = with_marks(bench.trained(Recipe()), census={"parameters": {"float16": 1}}, update=update)
    assert rulings(case)["parameters"] == "fail"


@pytest.mark.parametrize("kind", ["parameters", "gradients", "optimizer_state"])
def test_a_class_that_only_the_reference_shows_at_a_mark_is_inconclusive(bench, kind):
    case = with_marks(bench.trained(Recipe()), census={kind: {}})
    assert rulings(case)[kind] == "inconclusive"


def noting(case, note):
    launch = case.candidate
    evidence = launch.evidence.model_copy(update={"notes": (note,)})
    return replace(case, candidate=changed_launch(launch, evidence))


@pytest.mark.parametrize("note", [
    "update 16: only compiled nodes in the graph, no matmul to be seen",
    "CUDA graphs: a captured backward; its replays cannot be seen",
])  # fmt: skip
def test_matmuls_of_compiled_code_must_show_at_one_mark_and_need_not_at_the_others(bench, note):
    case = noting(with_marks(bench.trained(Recipe()), census={"matmul": {}}), note)
    assert rulings(case)["matmul"] == "pass"
    case = with_marks(case, census={"matmul": {}}, update=WINDOW.warmup_updates)
    assert rulings(case)["matmul"] == "inconclusive"


def test_a_timed_update_whose_graph_holds_no_matmul_is_inconclusive(bench):
    case = with_marks(bench.trained(Recipe()), census={"matmul": {}})
    assert rulings(case)["matmul"] == "inconclusive"


def test_state_that_the_reference_has_before_the_first_update_is_not_asked_for(bench):
    case = with_marks(
        bench.trained(Recipe()),
        arm="reference",
        census={"optimizer_state": {"float32": 9}},
        update=0,
    )
    assert rulings(case)["optimizer_state"] == "pass"


def test_a_candidate_without_marks_is_inconclusive(bench):
    case = bench.trained(Recipe())
    evidence = case.candidate.evidence.model_copy(update={"marks": ()})
    found = rulings(replace(case, candidate=changed_launch(case.candidate, evidence)))
    assert set(found.values()) == {"inconclusive"}


@pytest.mark.parametrize("flags", [
    {"cuda.matmul.allow_tf32": True}, {"float32_matmul_precision": "high"},
    {"float32_matmul_precision": "medium"}, {"mkldnn.matmul.fp32_precision": "bf16"},
])  # fmt: skip
def test_a_switch_looser_than_the_references_fails(bench, flags):
    assert rulings(with_marks(bench.trained(Recipe()), flags=flags))["switches"] == "fail"


def test_tf32_passes_where_it_is_allowed_and_bfloat16_products_still_do_not(bench):
    case = replace(bench.trained(Recipe()), task=task_of(tf32=True))
    tf32 = with_marks(case, flags={"float32_matmul_precision": "high"})
    low = with_marks(case, flags={"float32_matmul_precision": "medium"})
    assert rulings(tf32)["switches"] == "pass"
    assert rulings(low)["switches"] == "fail"


def test_a_switch_as_loose_as_the_references_passes(bench):
    flags = {"cudnn.allow_tf32": True}
    case = with_marks(bench.trained(Recipe()), flags=flags)
    assert rulings(with_marks(case, flags=flags, arm="reference"))["switches"] == "pass"


def test_facts_about_generators_are_no_precision_switches(bench):
    case = with_marks(
        bench.trained(Recipe()), flags={"generator_offset": 17, "deterministic": True}
    )
    assert rulings(case)["switches"] == "pass"


@pytest.mark.parametrize("calls", [
    "set_float32_matmul_precision(medium); set_float32_matmul_precision(highest)",
    "set_cublas_allow_tf32(True); set_cublas_allow_tf32(False)",
    "set_fp32_precision_setter(cuda, matmul, tf32)", "set_cublas_allow_fp16_accumulation(True)",
])  # fmt: skip
def test_a_switch_loosened_between_marks_and_turned_back_fails(bench, calls):
    case = with_marks(bench.trained(Recipe()), flags={"precision_calls": calls})
    assert rulings(case)["switches"] == "fail"


def test_setting_what_is_set_already_passes(bench):
    base = {"tf32_cudnn": True, "bf16_reduced_accumulation": True}
    calls = (
        "set_cudnn_allow_tf32(True); set_float32_matmul_precision(highest); "
        "set_cublas_allow_bf16_reduced_precision_reduction(True)"
    )
    case = with_marks(bench.trained(Recipe()), flags={**base, "precision_calls": calls})
    assert rulings(with_marks(case, flags=base, arm="reference"))["switches"] == "pass"


def test_autocast_with_a_dtype_that_is_not_allowed_fails_even_where_no_mark_saw_its_matmuls(bench):
    case = with_marks(bench.trained(Recipe()), flags={"autocast_dtypes": "bfloat16"})
    assert rulings(case)["autocast"] == "fail"
    assert (
        rulings(replace(case, task=task_of(matmul=("float32", "bfloat16"))))["autocast"] == "pass"
    )
    assert (
        rulings(with_marks(case, flags={"autocast_dtypes": "bfloat16"}, arm="reference"))[
            "autocast"
        ]
        == "pass"
    )
