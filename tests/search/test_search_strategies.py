import statistics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from truths import (
    GIB,
    MemoryBound,
    RefusedShortcut,
    knob,
    observe,
    patch,
    reference_of,
    regret,
    search,
)

from infrarsi.records.candidate import Candidate
from infrarsi.records.constraint import constraint_holds, first_broken
from infrarsi.records.history import Space
from infrarsi.search import suggest_next
from infrarsi.search.lattice import Lattice
from infrarsi.search.memory import MemoryModel

STRATEGIES = ("infrarsi", "random", "hillclimb", "configonly")


def next_of(space, observations, strategy="infrarsi", seed=0, starts=3):
    return suggest_next(space, observations, strategy=strategy, starts=starts, seed=seed)


@pytest.fixture(scope="module")
def truth():
    return MemoryBound()


@pytest.fixture(scope="module")
def searches(truth):
    return [search(truth, "infrarsi", seed=seed, trials=25, enough=0.02) for seed in range(20)]


def test_the_published_interaction_is_in_the_synthetic_machine(truth):
    reference = reference_of(truth.space)
    unhelped = reference.with_knob("recompute", False)
    helped = Candidate.of(unhelped.knobs, ["sdpa", "chunked_loss"])
    assert truth.fits(reference)
    assert not truth.fits(unhelped)
    assert truth.fits(helped)
    assert truth.update_s(helped) < truth.update_s(reference)


def test_it_comes_within_five_per_cent_of_the_optimum_in_nearly_all_seeds(truth, searches):
    regrets = [regret(truth, observations) for observations, _ in searches]
    assert sum(each <= 0.05 for each in regrets) >= 18


def test_its_median_beats_random_at_equal_budget(truth, searches):
    ours = statistics.median(regret(truth, each) for each, _ in searches)
    others = [regret(truth, search(truth, "random", seed=seed, trials=25)[0]) for seed in range(5)]
    assert ours < statistics.median(others) - 0.05


def test_it_recovers_from_priors_that_point_the_wrong_way():
    truth = MemoryBound(misleading=True)
    regrets = [
        regret(truth, search(truth, "infrarsi", seed=seed, trials=25, enough=0.05)[0])
        for seed in range(6)
    ]
    assert statistics.median(regrets) <= 0.05


def test_what_helps_is_found_behind_a_faster_shortcut_that_is_refused():
    truth = RefusedShortcut()
    found = [search(truth, "infrarsi", seed=seed, trials=8)[0] for seed in range(6)]
    for observations in found:
        fused = [each.candidate.knobs["fused"] and each.status == "ok" for each in observations]
        assert any(fused)
        refused = [each.status == "refused" for each in observations]
        assert sum(refused) <= 3


def test_ooms_stay_near_a_third_of_the_trials(searches):
    for observations, _ in searches:
        ooms = sum(each.status == "oom" for each in observations)
        assert ooms <= 1 + len(observations) / 2


def test_nothing_that_dominates_an_oom_is_proposed(truth, searches):
    # The knobs alone: their directions are known whatever was measured.
    signs = {"recompute": (True, False), "micro_batch": (1, 2, 4, 8)}
    for observations, _ in searches:
        for i, later in enumerate(observations):
            for earlier in observations[:i]:
                same = later.candidate.patches == earlier.candidate.patches and all(
                    later.candidate.knobs[k] == earlier.candidate.knobs[k]
                    for k in ("num_workers", "prefetch", "grad_accum")
                )
                hungrier = all(
                    values.index(later.candidate.knobs[k])
                    >= values.index(earlier.candidate.knobs[k])
                    for k, values in signs.items()
                )
                assert not (earlier.status == "oom" and same and hungrier)


def test_the_patch_that_is_refused_is_soon_left_alone(searches):
    late = [each for observations, _ in searches for each in observations[10:]]
    assert len(late) > 50
    assert sum("fast_cast" in each.candidate.patches for each in late) <= 0.15 * len(late)


def test_every_suggestion_says_why_and_what_it_expects(searches):
    reasons = [s.reason for _, suggestions in searches for s in suggestions]
    assert all(reasons)
    for start in ("start 1 of 3", "probe of", "the best without +", "the models' own optimum"):
        assert any(reason.startswith(start) for reason in reasons)
    for _, suggestions in searches:
        for each in suggestions:
            assert each.prediction.update_s.low > 0
            assert 0 <= each.prediction.p_fits <= 1
            assert each.prediction.cost_s > 0


def test_the_predicted_intervals_hold_most_of_the_measurements(searches):
    inside_time, inside_memory = [], []
    for observations, suggestions in searches:
        for each, made in zip(observations[1:], suggestions, strict=True):
            if each.status == "ok":
                time, peak = made.prediction.update_s, made.prediction.peak_bytes
                inside_time.append(time.low <= each.update_s <= time.high)
                inside_memory.append(peak.low <= each.peak_bytes <= peak.high)
    assert np.mean(inside_time) > 0.75
    assert np.mean(inside_memory) > 0.75


def test_after_an_oom_a_saving_patch_is_brought_along(truth):
    reference = reference_of(truth.space)
    space = truth.space.model_copy(update={"patches": truth.space.patches[:2]})
    hungry = reference.with_knob("recompute", False)
    observations = [
        observe(reference, update_s=4.0, peak_gib=46.0),
        observe(reference.with_knob("num_workers", 2), update_s=3.8, peak_gib=46.0),
        observe(hungry, "oom"),
    ]
    made = next_of(space, observations, starts=2)
    assert made.reason.startswith("partner for the OOM of recompute=False: +")
    assert made.candidate.knobs["recompute"] is False
    assert set(made.candidate.patches) & {"sdpa", "chunked_loss"}


def test_the_same_seed_gives_the_same_search_and_another_one_differs(truth):
    first = search(truth, "infrarsi", seed=3, trials=6)
    again = search(truth, "infrarsi", seed=3, trials=6)
    assert first == again
    drawn = {next_of(truth.space, first[0], "random", seed=s).candidate.digest() for s in range(5)}
    assert len(drawn) > 1


def test_configonly_moves_no_patch(truth):
    observations, _ = search(truth, "configonly", seed=0, trials=6)
    assert len(observations) > 3
    assert all(not each.candidate.patches for each in observations)


def test_hillclimb_changes_one_thing_of_its_incumbent(truth):
    reference = reference_of(truth.space)
    better = Candidate.of(reference.knobs, ["sdpa"])
    worse = Candidate.of(reference.knobs, ["chunked_loss"])
    seen = [
        observe(reference, update_s=4.0),
        observe(better, update_s=3.0),
        observe(worse, update_s=5.0),
    ]
    near = {
        tuple(row)
        for row in Lattice(truth.space).neighbours((0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0)).tolist()
    }
    for seed in range(10):
        made = next_of(truth.space, seen, "hillclimb", seed=seed)
        assert Lattice(truth.space).point_of(made.candidate) in near


def test_the_reference_comes_first_where_it_was_not_measured(truth):
    for strategy in STRATEGIES:
        made = next_of(truth.space, [], strategy)
        assert made.candidate == reference_of(truth.space)


def test_an_unknown_strategy_is_an_error(truth):
    with pytest.raises(ValueError, match="unknown strategy 'magic'"):
        next_of(truth.space, [], "magic")


def space_of(knobs=(), patches=(), constraints=(), incompatible=()):
    return Space(
        knobs=knobs,
        patches=patches,
        constraints=constraints,
        incompatible=incompatible,
        capacity_bytes=80 * GIB,
        default_cost_s=60.0,
    )


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_when_everything_was_tried_there_is_nothing_left(strategy):
    empty = space_of()
    assert next_of(empty, [observe(Candidate.of({}))], strategy) is None
    small = space_of((knob("x", (1, 2), 1),))
    seen = [observe(Candidate.of({"x": 1})), observe(Candidate.of({"x": 2}), update_s=0.9)]
    assert next_of(small, seen, strategy) is None


def test_a_spent_oom_budget_does_not_end_a_search_with_an_optimum_at_the_edge_of_memory():
    space = space_of((knob("m", tuple(2**i for i in range(9)), 1, "up"), knob("w", (0, 1), 0)))
    truth_best = 0.1**0.6
    observations = [observe(reference_of(space), peak_gib=20.0)]
    for _ in range(14):
        made = next_of(space, observations)
        if made is None:
            break
        knobs = made.candidate.knobs
        peak = 20.0 * 1.21 ** np.log2(knobs["m"])
        time = 0.1 ** (0.1 * min(np.log2(knobs["m"]), 6)) * (1.01 if knobs["w"] else 1.0)
        status = "ok" if peak < 70 else "oom"
        observations.append(observe(made.candidate, status, update_s=time, peak_gib=peak))
    assert min(e.update_s for e in observations if e.update_s) <= 1.02 * truth_best


def test_a_flat_space_is_given_up_after_some_exploration():
    space = space_of(
        (knob("a", tuple(range(6)), 0), knob("b", tuple(range(6)), 0)), (patch("p", (0.0, 0.05)),)
    )
    observations = [observe(reference_of(space))]
    while (made := next_of(space, observations)) is not None:
        observations.append(observe(made.candidate, update_s=1.0))
    assert 9 <= len(observations) <= 40


@pytest.mark.parametrize("status", ["oom", "failed", "refused"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_search_in_which_nothing_works_still_goes_on_or_ends(status, strategy, truth):
    observations = [observe(reference_of(truth.space), status)]
    for _ in range(8):
        made = next_of(truth.space, observations, strategy)
        if made is None:
            break
        assert made.candidate not in [each.candidate for each in observations]
        observations.append(observe(made.candidate, status))


def test_trials_of_patches_that_are_gone_do_no_harm(truth):
    reference = reference_of(truth.space)
    seen = [observe(reference), observe(Candidate.of(reference.knobs, ["withdrawn"]))]
    assert next_of(truth.space, seen).prediction is not None


VALUES = st.sampled_from(
    [(1, 2, 4, 8), (True, False), ("a", "b", "c"), (None, 1, "x", True), (0, 1, 2, 3), (0.5,)]
)


@st.composite
def spaces(draw):
    knobs = []
    for i in range(draw(st.integers(0, 4))):
        values = draw(VALUES)
        way = draw(st.sampled_from([None, "up", "down"]))
        knobs.append(knob(f"k{i}", values, draw(st.sampled_from(values)), way))
    effect = st.tuples(st.floats(-0.5, 0.5), st.floats(0.01, 0.5))
    names = [f"p{i}" for i in range(draw(st.integers(0, 4)))]
    conflict = st.lists(st.sampled_from([*names, "absent"]), max_size=2).map(tuple)
    patches = tuple(patch(n, draw(effect), draw(effect), draw(conflict)) for n in names)
    pairs = st.lists(st.tuples(*[st.sampled_from([*names, "absent"])] * 2), max_size=2).map(tuple)
    constraints = []
    if len(knobs) > 1:
        defaults = f"(k0 == {knobs[0].default!r} and k1 == {knobs[1].default!r})"
        constraints = [f"{defaults} or not (k0 == k1)"] if draw(st.booleans()) else []
    return space_of(tuple(knobs), patches, tuple(constraints), draw(pairs))


TIED = (
    "micro * accum == 8", "not compile or attention in ('sdpa', 'flash')",
    "attention != 'flash' or micro > 1", "depth == None or depth * micro <= 8",
)  # fmt: skip


def tied_space(micro=2):
    knobs = (
        knob("micro", (1, 2, 4, 8), micro), knob("accum", (1, 2, 4, 8), 8 // micro),
        knob("compile", (False, True), False), knob("attention", ("eager", "sdpa", "flash"), "eager"),
        knob("depth", (None, 1, 2), None),
    )  # fmt: skip
    return space_of(knobs, (patch("a"), patch("b")), TIED)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_search_never_proposes_what_breaks_a_constraint(strategy):
    space = tied_space()
    observations = [observe(reference_of(space))]
    for status in ("ok", "oom", "refused"):
        made = next_of(space, observations, strategy, seed=len(strategy))
        assert first_broken(TIED, made.candidate.knobs) is None
        observations.append(observe(made.candidate, status, update_s=0.9))


@settings(max_examples=25, deadline=None, derandomize=True)
@given(micro=st.sampled_from([1, 2, 4, 8]), seed=st.integers(0, 2**20))
def test_no_point_that_the_search_can_reach_breaks_a_constraint(micro, seed):
    lattice = Lattice(tied_space(micro))
    points = [*lattice.sample(20, np.random.default_rng(seed)), *lattice.listing()[:50]]
    points += [move for point in points[:5] for move in lattice.neighbours(point)]
    for point in points:
        assert first_broken(TIED, lattice.candidate_of(point).knobs) is None


def assert_is_allowed(space, candidate):
    knobs = {each.name: each for each in space.knobs}
    assert set(candidate.knobs) == set(knobs)
    for name, value in candidate.knobs.items():
        assert any(type(v) is type(value) and v == value for v in knobs[name].values)
    assert all(constraint_holds(each, candidate.knobs) for each in space.constraints)
    carried = set(candidate.patches)
    for each in space.patches:
        assert not (each.name in carried and (set(each.conflicts) - {each.name}) & carried)
    for left, right in space.incompatible:
        assert left == right or not {left, right} <= carried


@settings(max_examples=30, deadline=None, derandomize=True)
@given(
    space=spaces(),
    strategy=st.sampled_from(STRATEGIES),
    seed=st.integers(-5, 2**40),
    starts=st.integers(0, 4),
)
def test_no_candidate_is_forbidden_or_tried_before(space, strategy, seed, starts):
    rng = np.random.default_rng(seed % 1000)
    observations = []
    for _ in range(6):
        made = next_of(space, observations, strategy, seed, starts)
        if made is None:
            break
        assert_is_allowed(space, made.candidate)
        assert made.candidate.digest() not in {each.candidate.digest() for each in observations}
        status = str(rng.choice(["ok", "ok", "oom", "failed", "refused"]))
        observations.append(
            observe(made.candidate, status, update_s=float(np.exp(rng.normal(0, 2))), cost_s=0.0)
        )


def test_a_large_space_is_searched_without_listing_it():
    knobs = tuple(knob(f"k{i}", (1, 2, 4, 8, 16), 1, "up" if i < 2 else None) for i in range(8))
    patches = tuple(patch(f"p{i}", (-0.05 * i, 0.1), conflicts=("p0",)) for i in range(8))
    space = space_of(knobs, patches, ("k0 * k1 <= 32", "k2 * k3 * k4 <= 64"), (("p1", "p2"),))
    lattice = Lattice(space)
    rng = np.random.default_rng(0)
    observations = [observe(reference_of(space))]
    for row in np.unique(lattice.sample(60, rng), axis=0).tolist():
        status = "oom" if row[0] + row[1] > 5 else "ok"
        observations.append(
            observe(lattice.candidate_of(row), status, update_s=float(np.exp(-0.02 * sum(row))))
        )
    made = next_of(space, observations)
    assert_is_allowed(space, made.candidate)
    model = MemoryModel(lattice, [(lattice.point_of(o.candidate), o) for o in observations])
    assert model.p_fits(np.array([lattice.point_of(made.candidate)]))[0] > 0.02
