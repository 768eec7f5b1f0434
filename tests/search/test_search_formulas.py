"""The formulas of time and memory: their slopes, their limits, and what trials teach them."""

import itertools

import numpy as np
import pytest
from truths import GIB, knob

from infrarsi.records.beliefs import Beliefs
from infrarsi.records.candidate import Candidate, Effect
from infrarsi.records.history import UNKNOWN_CAPACITY, Observation, Space
from infrarsi.search import footprint, step_time
from infrarsi.search.hardware import hardware_of
from infrarsi.search.lattice import Lattice
from infrarsi.search.learning import learned, pooled
from infrarsi.search.linearise import most_likely
from infrarsi.search.physics import default_beliefs, formulas_of
from infrarsi.search.quantities import Configurations

CONTEXT = {
    "params_b": 7.0, "n_layers": 32, "hidden": 4096, "seq_len": 4096, "num_gpus": 16,
    "gpus_per_node": 8, "global_batch_samples": 128, "gpu": "NVIDIA A100-SXM4-80GB",
}  # fmt: skip
DERIVED = {
    "dp": "num_gpus / (tp * pp)", "grad_accum": "global_batch_samples / (dp * micro_batch)",
}  # fmt: skip


def space_of(**changed):
    parts = {
        "knobs": (
            knob("tp", (1, 2, 4, 8, 16), 2, "down"), knob("pp", (1, 2, 4), 1, "down"),
            knob("zero_stage", (0, 1, 2, 3), 1, "down"), knob("micro_batch", (1, 2, 4), 1, "up"),
            knob("recompute", (False, True), False, "down"),
        ),
        "capacity_bytes": 80 * GIB, "default_cost_s": 1.0, "context": CONTEXT,
        "derived": DERIVED, "unit": "token/GPU",
    }  # fmt: skip
    return Space(**{**parts, **changed})


LATTICE = Lattice(space_of())
POINTS = np.array(
    [p for p in LATTICE.listing().tolist() if (1, 2, 4, 8, 16)[p[0]] * (1, 2, 4)[p[1]] <= 16]
)
TIME, MEMORY = formulas_of(LATTICE, Beliefs())


@pytest.mark.parametrize("formula", [TIME, MEMORY])
def test_the_slopes_agree_with_finite_differences(formula):
    rng = np.random.default_rng(0)
    for _ in range(5):
        theta = formula.mean + formula.sd * rng.normal(size=len(formula.mean)) * 0.5
        value, slopes = formula.at(POINTS, theta)
        for i in range(len(theta)):
            step = np.zeros(len(theta))
            step[i] = 1e-6
            rise = (
                formula.at(POINTS, theta + step)[0] - formula.at(POINTS, theta - step)[0]
            ) / 2e-6
            # Where the hungrier stage changes within the step, the slope has a corner.
            assert np.quantile(np.abs(rise - slopes[:, i]), 0.95) < 1e-5
        assert np.isfinite(value).all()


def at(**values):
    names = [each.name for each in LATTICE.knobs]
    chosen = {"tp": 1, "pp": 1, "zero_stage": 0, "micro_batch": 1, "recompute": False, **values}
    return [k.values.index(chosen[n]) for n, k in zip(names, LATTICE.knobs, strict=True)]


def value_of(formula, **values):
    return float(np.exp(formula.at(np.array([at(**values)]), formula.mean)[0][0]))


def test_time_and_memory_go_the_ways_that_everyone_knows():
    assert value_of(TIME, tp=8) > value_of(TIME, tp=2)  # more talk for the same work
    assert value_of(TIME, tp=16) > 1.5 * value_of(TIME, tp=8)  # over the network
    assert value_of(TIME, recompute=True) > value_of(TIME)
    assert value_of(TIME, pp=4, micro_batch=4) > value_of(TIME, pp=4, micro_batch=1)  # the bubble
    assert value_of(MEMORY, recompute=True) < value_of(MEMORY)
    stages = [value_of(MEMORY, zero_stage=stage) for stage in range(4)]
    assert stages == sorted(stages, reverse=True)
    assert value_of(MEMORY, micro_batch=4) > value_of(MEMORY, micro_batch=2)
    assert value_of(MEMORY, tp=4) < value_of(MEMORY, tp=2)


def test_a_model_of_seven_billion_takes_about_what_it_is_known_to_take():
    # 18 bytes a parameter without sharding, 126 GB, and activations; 2-5 thousand tokens a second.
    assert 115 * GIB < value_of(MEMORY) < 190 * GIB
    assert 1500 < 1 / value_of(TIME, tp=2, micro_batch=2) < 5500


@pytest.mark.parametrize(
    ("name", "flops", "bandwidth"),
    [
        ("NVIDIA A100-SXM4-80GB", 312e12, 2039e9), ("A100-40GB", 312e12, 1555e9),
        ("NVIDIA H100 80GB HBM3", 989e12, 3350e9), ("H100-SXM5-80GB", 989e12, 3350e9),
        ("NVIDIA H100 PCIe", 756e12, 2000e9), ("NVIDIA H200", 989e12, 4800e9),
        ("Tesla V100-SXM2-32GB", 125e12, 900e9), ("NVIDIA A10G", 70e12, 600e9),
        ("NVIDIA GeForce RTX 4090", 165e12, 1008e9), ("something else", 312e12, 2039e9),
    ],
)  # fmt: skip
def test_accelerators_are_known_by_the_names_that_tools_print(name, flops, bandwidth):
    found = hardware_of(name)
    assert (found.flops, found.memory_bw) == (flops, bandwidth)


def test_the_names_of_other_tools_are_understood():
    others = {
        "tp": "tensor_parallel",
        "pp": "pp_size",
        "micro_batch": "per_device_train_batch_size",
    }
    knobs = tuple(
        each.model_copy(update={"name": others.get(each.name, each.name)})
        for each in space_of().knobs
    )
    lattice = Lattice(space_of(knobs=knobs, derived={}))
    quantities = Configurations(lattice).of(POINTS)
    expected = Configurations(LATTICE).of(POINTS)
    for name in ("tp", "pp", "micro_batch", "dp", "grad_accum"):
        assert quantities[name] == pytest.approx(expected[name])


@pytest.mark.parametrize("missing", ["n_layers", "hidden", "params_b", "seq_len"])
def test_without_the_shape_of_the_model_there_is_no_formula(missing):
    context = {name: value for name, value in CONTEXT.items() if name != missing}
    assert formulas_of(Lattice(space_of(context=context)), Beliefs()) == (None, None)
    assert formulas_of(Lattice(space_of(context={})), Beliefs()) == (None, None)


def test_coefficients_are_learnt_from_what_they_explain():
    rng = np.random.default_rng(1)
    theta = TIME.mean + 0.7 * TIME.sd * rng.normal(size=len(TIME.mean))
    logs = TIME.at(POINTS, theta)[0] + rng.normal(0, 0.01, len(POINTS))
    found = most_likely(TIME, POINTS, logs=logs, noise=np.full(len(POINTS), 1e-4))
    assert TIME.at(POINTS, found)[0] == pytest.approx(logs, abs=0.05)
    assert most_likely(TIME, POINTS[:0], logs=logs[:0], noise=logs[:0]) == pytest.approx(TIME.mean)


def observations_of(lattice, time, memory):
    for point in POINTS[::3]:
        row = point[None, :]
        peak = float(np.exp(memory[0].at(row, memory[1])[0][0]))
        fits = peak < lattice.space.capacity_bytes
        yield Observation(
            candidate=lattice.candidate_of(point.tolist()), status="ok" if fits else "oom",
            update_s=float(np.exp(time[0].at(row, time[1])[0][0])) if fits else None,
            peak_bytes=int(peak) if fits else None, cost_s=1.0,
        )  # fmt: skip


def test_what_a_search_taught_can_be_told_to_the_next():
    rng = np.random.default_rng(2)
    time = TIME.mean + TIME.sd * rng.normal(size=len(TIME.mean))
    memory = MEMORY.mean + MEMORY.sd * rng.normal(size=len(MEMORY.mean))
    seen = list(observations_of(LATTICE, (TIME, time), (MEMORY, memory)))
    taught = learned(LATTICE.space, seen)
    start = default_beliefs()
    for kind, truth in (("time", time), ("memory", memory)):
        before, after = getattr(start, kind), getattr(taught, kind)
        names = (TIME if kind == "time" else MEMORY).names
        assert list(after) == list(names)
        far = {
            which: np.mean([((each[n].mean - t) / before[n].sd) ** 2 for n, t in zip(names, truth, strict=True)])
            for which, each in (("before", before), ("after", after))
        }  # fmt: skip
        assert far["after"] < far["before"]
        assert all(after[name].sd <= before[name].sd * 1.001 for name in names)
    assert learned(space_of(context={}), seen) is None


def test_tasks_that_disagree_leave_more_doubt_than_tasks_that_agree():
    def told(*means):
        each = [Beliefs(time={"compute": Effect(mean=mean, sd=0.1)}) for mean in means]
        return pooled(each).time["compute"]

    # Around the prior's own mean, so that it pulls nothing.
    agreed, apart, alone = told(0.5, 0.51, 0.49), told(-0.3, 0.5, 1.3), told(0.5)
    assert agreed.mean == pytest.approx(apart.mean, abs=0.01) == pytest.approx(0.5, abs=0.01)
    assert agreed.sd < alone.sd < apart.sd


def test_what_no_task_told_anything_of_stays_as_unsure_as_it_was():
    prior = default_beliefs().time["tensor_network"]
    silent = Beliefs(time={"tensor_network": prior, "compute": Effect(mean=0.7, sd=0.1)})
    found = pooled([silent] * 30).time
    assert "tensor_network" not in found
    alone = (0.7 / 0.1**2 - 0.5 / 0.3**2) / (1 / 0.1**2 - 1 / 0.3**2)
    assert found["compute"].mean == pytest.approx(alone, abs=0.01), "the prior's pull is gone"
    one, many = (pooled([silent] * count).time["compute"].sd for count in (1, 3))
    assert many < one


def test_a_derived_quantity_may_compare_and_is_computed_for_every_configuration():
    space = space_of(derived={**DERIVED, "offload": "3 * (zero_stage == 3 and not recompute)"})
    lattice = Lattice(space)
    configurations = Configurations(lattice)
    points = np.array(lattice.listing())
    found = configurations.of(points)["offload"]
    alone = [float(configurations.of(point[None])["offload"][0]) for point in points]
    assert found.tolist() == alone
    assert set(alone) == {0.0, 3.0}


@pytest.mark.parametrize("values", [(0, 1, 2), (-1, 1, 2)])
def test_a_shape_that_cannot_be_meant_makes_no_formula(values):
    knobs = tuple(
        knob("micro_batch", values, 1, "up") if each.name == "micro_batch" else each
        for each in space_of().knobs
    )
    assert formulas_of(Lattice(space_of(knobs=knobs)), Beliefs()) == (None, None)


def test_without_a_known_capacity_there_is_a_formula_of_time_alone():
    lattice = Lattice(space_of(capacity_bytes=UNKNOWN_CAPACITY))
    time, memory = formulas_of(lattice, Beliefs())
    assert time is not None
    assert memory is None


def test_beliefs_move_the_coefficients_that_they_name_and_no_other():
    told = Beliefs(time={"compute": Effect(mean=1.0, sd=0.05), "unheard_of": Effect()})
    time, memory = formulas_of(LATTICE, told)
    changed = [n for n, a, b in zip(TIME.names, time.mean, TIME.mean, strict=True) if a != b]
    assert changed == ["compute"]
    assert memory.mean == pytest.approx(MEMORY.mean)


def test_every_coefficient_has_a_name_and_a_spread():
    for module in (step_time, footprint):
        assert len(set(module.NAMES)) == len(module.NAMES)
    for kind in (default_beliefs().time, default_beliefs().memory):
        assert all(each.sd > 0 for each in kind.values())


def test_a_live_search_with_context_predicts_better_from_its_reference_alone():
    """Seconds an update, a scale that the formula does not know: the reference teaches it."""
    from infrarsi.search.runtime import RuntimeModel

    errors = {}
    rng = np.random.default_rng(3)
    theta = TIME.mean + 0.5 * TIME.sd * rng.normal(size=len(TIME.mean))
    lattice = Lattice(space_of(unit=""))
    live = formulas_of(lattice, Beliefs())[0]
    truth = live.at(POINTS, np.append(theta[:0], theta))[0] + 3.0
    by_point = dict(zip(map(tuple, POINTS.tolist()), truth, strict=True))
    reference = lattice.reference
    seen = [
        (reference, Observation(candidate=lattice.candidate_of(reference), status="ok",
                                update_s=float(np.exp(by_point[reference])), cost_s=1.0))
    ]  # fmt: skip
    for name, formula in (("formula", live), ("nothing", None)):
        model = RuntimeModel(lattice, seen, formula=formula)
        errors[name] = float(np.median(np.abs(model.predict(POINTS).mean() - truth)))
    assert errors["formula"] < 0.5 * errors["nothing"]


def test_every_combination_of_usual_values_has_a_finite_time_and_peak():
    values = itertools.product((0.1, 400.0), (2, 128), (128, 16384), (128, 32768), (1, 1024))
    for params, layers, hidden, length, gpus in values:
        context = {**CONTEXT, "params_b": params, "n_layers": layers, "hidden": hidden,
                   "seq_len": length, "num_gpus": gpus}  # fmt: skip
        for formula in formulas_of(Lattice(space_of(context=context)), Beliefs()):
            value, slopes = formula.at(POINTS, formula.mean)
            assert np.isfinite(value).all()
            assert np.isfinite(slopes).all()


def test_a_candidate_keeps_its_place_in_a_pool():
    lattice = Lattice(space_of(), pool=POINTS[::7])
    for point in lattice.pool.tolist():
        assert lattice.point_of(lattice.candidate_of(point)) == tuple(point)
        assert isinstance(lattice.candidate_of(point), Candidate)
