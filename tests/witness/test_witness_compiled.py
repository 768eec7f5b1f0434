"""A compiled model captures the same graphs with the witness as without."""

import json
import sys
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"

pytestmark = pytest.mark.training

CASES = ["whole", "in_place", "blocks", "blocks_in_place", "forward", "nested", "late whole",
         "late in_place", "late blocks", "functions", "step"]  # fmt: skip


@pytest.fixture(scope="module")
def pair(launch):
    command = [sys.executable, str(PROGRAMS / "compiled.py")]
    return launch(command, witness=False), launch(command)


@pytest.mark.parametrize("case", CASES)
def test_graphs_and_losses_stay_with_the_witness(pair, case):
    without, with_it = (json.loads(each.stdout)[case] for each in pair)
    assert without["stats"]["unique_graphs"] >= 1
    assert with_it == without


def test_every_update_of_compiled_models_is_seen(pair):
    seen = pair[1].evidence
    assert len(seen.updates) == 4 * len(CASES)
    assert seen.malformed == 0
    assert all(each.batch and each.loss and each.grad_norm for each in seen.updates)
    assert not [note for note in seen.notes if "failed" in note]


def test_compiled_and_plain_updates_agree(pair):
    updates = pair[1].evidence.updates
    by_case = [updates[i : i + 4] for i in range(0, len(updates), 4)]
    first = by_case[0]
    for other in by_case[1:9]:
        assert [each.batch for each in other] == [each.batch for each in first]
        for one, two in zip(first, other, strict=True):
            assert two.loss == pytest.approx(one.loss, rel=1e-5)
            assert two.grad_norm == pytest.approx(one.grad_norm, rel=1e-4)
    # The functions see one micro-batch an update; compiled step or not, the same ones.
    assert [each.batch for each in by_case[9]] == [each.batch for each in by_case[10]]


def test_marks_of_compiled_models_hold_their_census(pair):
    # The marks fall into the first case, whose optimizer is not compiled.
    mark = pair[1].evidence.mark_at(2)
    size = mark.census["parameters"]["float32"]
    assert mark.census["gradients"] == {"float32": size}
    assert mark.census["optimizer_state"] == {"float32": 2 * size}
    assert set(mark.census["matmul"]) == {"float32"}


def test_a_compiled_step_is_told(pair):
    assert any("step is compiled" in note for note in pair[1].evidence.notes)


def test_the_matmuls_of_inductor_are_seen(launch):
    done = launch([sys.executable, str(PROGRAMS / "compiled.py"), "inductor"])
    if done.code != 0 and "compiler" in done.stderr:
        pytest.skip("no compiler for inductor here")
    assert json.loads(done.stdout)["whole"]["stats"]["unique_graphs"] == 2
    assert len(done.evidence.updates) == 4
    assert done.evidence.mark_at(2).census["matmul"].get("float32", 0) > 0
