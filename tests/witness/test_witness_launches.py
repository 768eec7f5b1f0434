"""The witness in real processes: what it sees, and that nobody notices it."""

import json
import sys
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"

pytestmark = pytest.mark.training


def losses_of(done):
    return [float.fromhex(each) for each in json.loads(done.stdout)]


def test_the_program_computes_the_same_bits(launch):
    without, with_it = launch.fresh_loop(witness=False), launch.fresh_loop()
    assert without.code == with_it.code == 0
    assert with_it.stdout == without.stdout
    assert with_it.stderr == without.stderr
    assert without.events == []


def test_what_it_says_reads_as_evidence(launch):
    done = launch.loop()
    seen = done.evidence
    assert seen.malformed == 0
    assert seen.notes == ()
    assert seen.hello["torch"]
    assert seen.ended_ns is not None
    assert [each.update for each in seen.updates] == [1, 2, 3, 4]
    assert [each.loss for each in seen.updates] == pytest.approx(losses_of(done), rel=1e-6)
    first = seen.updates[0]
    assert (first.sequences, first.tokens, first.target_tokens, first.forwards) == (8, 64, 64, 1)
    assert [each.update for each in seen.marks] == [0, 2, 3]
    assert [each["kind"] for each in done.events][:2] == ["hello", "mark"]
    assert str(PROGRAMS / "loop.py") in seen.loaded_files


def test_a_mark_holds_sketch_census_and_flags(launch):
    seen = launch.loop().evidence
    start, mark = seen.mark_at(0), seen.mark_at(2)
    size = mark.census["parameters"]["float32"]
    assert mark.census["gradients"] == {"float32": size}
    assert mark.census["optimizer_state"] == {"float32": 2 * size}
    assert set(mark.census["matmul"]) == {"float32"}
    assert mark.shapes == start.shapes
    assert all(len(part) == 8 for part in mark.sketch)
    assert mark.sketch != start.sketch
    assert mark.flags["autocast"] is False
    assert mark.num_threads >= 1


@pytest.mark.parametrize("micro", [4, 2])
def test_digest_loss_and_norm_stay_under_regrouping(launch, micro):
    whole, parts = launch.loop().evidence.updates, launch.loop({"micro": micro}).evidence.updates
    for one, two in zip(whole, parts, strict=True):
        assert two.forwards == 8 // micro
        assert (two.batch, two.tokens, two.target_tokens) == (
            one.batch,
            one.tokens,
            one.target_tokens,
        )
        assert two.loss == pytest.approx(one.loss, rel=1e-5)
        assert two.grad_norm == pytest.approx(one.grad_norm, rel=1e-4)


def test_a_permuted_batch_has_the_same_digest(launch):
    whole = launch.loop().evidence.updates
    other = launch.loop({"permute": True, "micro": 4}).evidence.updates
    assert [each.batch for each in other] == [each.batch for each in whole]


@pytest.mark.parametrize("hack", [{"drop": True, "micro": 4}, {"swap": True}])
def test_other_data_have_another_digest(launch, hack):
    whole, other = launch.loop().evidence.updates, launch.loop(hack).evidence.updates
    assert all(one.batch != two.batch for one, two in zip(whole, other, strict=True))


@pytest.mark.parametrize("kind", ["plain", "reentrant"])
def test_recomputation_is_no_batch(launch, kind):
    whole = launch.loop().evidence.updates
    done = launch.loop({"checkpoint": kind})
    assert done.code == 0
    other = done.evidence
    assert [each.forwards for each in other.updates] == [1] * 4
    assert [each.batch for each in other.updates] == [each.batch for each in whole]
    assert [each.loss for each in other.updates] == [each.loss for each in whole]
    assert other.mark_at(3).census["matmul"].get("float32", 0) > 0


@pytest.mark.parametrize("optimizer", ["foreach", "fused"])
def test_other_optimizers_show_the_same_numbers(launch, optimizer):
    whole = launch.loop().evidence.updates
    other = launch.loop({"optimizer": optimizer}).evidence.updates
    for one, two in zip(whole, other, strict=True):
        assert two.grad_norm == pytest.approx(one.grad_norm, rel=1e-5)
        assert two.update_norm == pytest.approx(one.update_norm, rel=1e-4)


def test_the_norm_is_taken_before_clipping(launch):
    plain, clipped = launch.loop().evidence.updates, launch.loop({"clip": 0.01}).evidence.updates
    assert clipped[0].grad_norm == pytest.approx(plain[0].grad_norm, rel=1e-6)
    assert clipped[0].grad_norm > 0.1


@pytest.mark.parametrize("clip", [None, 0.01])
def test_a_gradient_scaler_is_undone(launch, clip):
    plain = launch.loop().evidence.updates
    scaled = launch.loop({"scaler": True, "clip": clip}).evidence
    assert scaled.marks[1].flags["grad_scaler"] is True
    assert len(scaled.updates) == 4
    assert scaled.updates[0].loss == pytest.approx(plain[0].loss, rel=1e-6)
    assert scaled.updates[0].grad_norm == pytest.approx(plain[0].grad_norm, rel=1e-5)


def test_a_scaler_over_a_fused_optimizer_is_undone(launch):
    plain = launch.loop({"optimizer": "fused"}).evidence.updates
    scaled = launch.loop({"optimizer": "fused", "scaler": True}).evidence.updates
    for one, two in zip(plain, scaled, strict=True):
        assert two.grad_norm == pytest.approx(one.grad_norm, rel=1e-4)


def test_evaluation_is_no_batch(launch):
    whole, other = launch.loop().evidence.updates, launch.loop({"evaluate": True}).evidence.updates
    assert [(each.batch, each.forwards) for each in other] == [
        (each.batch, each.forwards) for each in whole
    ]


def test_training_in_eval_mode_is_training(launch):
    whole, other = launch.loop().evidence.updates, launch.loop({"eval_mode": True}).evidence.updates
    assert [each.batch for each in other] == [each.batch for each in whole]


def test_two_optimizers_make_one_update(launch):
    seen = launch.loop({"two": True}).evidence
    whole = launch.loop().evidence
    assert len(seen.updates) == 4
    assert [each.batch for each in seen.updates] == [each.batch for each in whole.updates]
    assert seen.updates[0].grad_norm == pytest.approx(whole.updates[0].grad_norm, rel=1e-6)
    assert seen.mark_at(2).census["optimizer_state"].keys() == {"float32"}


def test_half_precision_state_that_hides_during_the_step_is_seen(launch):
    census = launch.loop({"optimizer": "half-state"}).evidence.mark_at(2).census
    assert set(census["optimizer_state"]) == {"bfloat16"}


@pytest.mark.parametrize("cast", ["explicit", "function", "autocast"])
def test_casts_inside_the_model_are_seen_in_the_matmuls(launch, cast):
    mark = launch.loop({"cast": cast}).evidence.mark_at(2)
    assert mark.census["matmul"].get("bfloat16", 0) > 0
    assert mark.census["matmul"].get("float32", 0) > 0
    assert mark.flags["autocast"] is (cast == "autocast")


@pytest.mark.parametrize("cast", ["explicit", "autocast"])
def test_later_marks_see_casts_too(launch, cast):
    assert launch.loop({"cast": cast}).evidence.mark_at(3).census["matmul"]["bfloat16"] > 0


def test_autocast_around_the_model_is_seen(launch):
    mark = launch.loop({"autocast": True}).evidence.mark_at(2)
    assert mark.flags["autocast_dtypes"] == "bfloat16"
    assert "bfloat16" in mark.census["matmul"]


def test_a_precision_switch_that_was_turned_back_is_seen(launch):
    flags = launch.loop({"precision": "medium"}).evidence.mark_at(0).flags
    assert flags["float32_matmul_precision"] == "highest"
    assert "medium" in flags["precision_calls"]


def test_an_optimizer_that_is_not_torchs_shows_in_the_parameters(launch):
    seen = launch.loop({"optimizer": "by hand"}).evidence
    assert len(seen.updates) == 4
    assert any("inferred" in note for note in seen.notes)
    assert all(each.update_norm > 0 and each.batch for each in seen.updates)


def test_a_nudge_moves_the_start_by_ulps_only(launch):
    plain = launch.loop().evidence
    nudged = launch.fresh_loop(perturb={"ulps": 4.0, "seed": 7}).evidence
    before, after = plain.mark_at(0), nudged.mark_at(0)
    pairs = [(a, b) for x, y in zip(before.sketch, after.sketch, strict=True)
             for a, b in zip(x, y, strict=True)]  # fmt: skip
    assert any(a != b for a, b in pairs)
    assert all(b == pytest.approx(a, rel=1e-6) for a, b in pairs)
    assert nudged.updates[0].batch == plain.updates[0].batch
    assert nudged.updates[3].loss == pytest.approx(plain.updates[3].loss, rel=1e-3)
    assert nudged.mark_at(0).flags["generator"] == plain.mark_at(0).flags["generator"]


def test_targets_of_a_loss_outside_the_model_are_not_in_the_digest(launch):
    inside = launch.loop().kinds("values")
    outside = launch.loop({"criterion": "functional"}).kinds("values")
    assert [each["batch"] for each in outside] == [each["inputs"] for each in inside]
    assert outside[0]["target_tokens"] is None
    module = launch.loop({"criterion": "module"}).kinds("values")
    assert [each["batch"] for each in module] == [each["inputs"] for each in inside]
    assert module[0]["target_tokens"] == 64


def test_without_the_variable_nothing_happens(launch):
    from infrarsi.witness import ENTRY

    code = "import sys, torch; sys.stdout.write(str([m for m in sys.modules if 'infrarsi_witness' in m]))"
    done = launch([sys.executable, "-c", code], witness=False, path=[ENTRY])
    assert done.stdout == "[]"
    assert done.events == []


def test_the_spec_of_torch_is_left_as_it_was(launch):
    code = (
        "import sys, torch; loader = torch.__spec__.loader;"
        "sys.stdout.write(str('exec_module' in vars(loader)) + type(loader).__name__)"
    )
    done = launch([sys.executable, "-c", code])
    assert done.stdout == "FalseSourceFileLoader"
    assert done.events == []


def test_a_module_run_is_seen(launch):
    done = launch([sys.executable, "-m", "loop", '{"updates": 1}'], folder=str(PROGRAMS))
    assert done.code == 0
    assert len(done.evidence.updates) == 1
