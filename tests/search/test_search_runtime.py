import math

import numpy as np
import pytest
from truths import GIB, knob, observe, patch, reference_of

from infrarsi.records.candidate import Candidate
from infrarsi.records.history import Space
from infrarsi.search.cost import CostModel
from infrarsi.search.lattice import Lattice
from infrarsi.search.runtime import RuntimeModel


def space_of(patches, knobs=()):
    return Space(knobs=knobs, patches=patches, capacity_bytes=80 * GIB, default_cost_s=60.0)


def placed(lattice, observations):
    return [(lattice.point_of(each.candidate), each) for each in observations]


def predicted(space, observations, point):
    lattice = Lattice(space)
    model = RuntimeModel(lattice, placed(lattice, observations))
    return model.predict(np.array([point])).estimate()


NAMES = ("a", "b", "c", "d", "e", "f")


def alone(effects, true_sign, names):
    """The reference, and each named patch alone."""
    yield observe(Candidate.of({}))
    for name in names:
        yield observe(Candidate.of({}, [name]), update_s=math.exp(true_sign * effects[name]))


@pytest.mark.parametrize(("true_sign", "better"), [(1, True), (-1, False)])
def test_the_weight_of_the_priors_is_learned_from_other_patches(true_sign, better):
    effects = dict(zip(NAMES, (-0.3, -0.25, -0.2, -0.15, -0.35, -0.3), strict=True))
    space = space_of(tuple(patch(name, (effects[name], 0.15)) for name in NAMES))
    seen = list(alone(effects, true_sign, NAMES[:5]))
    untried = (0, 0, 0, 0, 0, 1)
    before = predicted(space, seen[:1], untried).point
    after = predicted(space, seen, untried).point
    assert (after < before) is better
    if not better:
        assert after > 0.97


def test_a_prior_that_misleads_about_a_tried_patch_is_overruled():
    space = space_of((patch("liar", (-0.4, 0.1)), patch("other")))
    seen = [observe(Candidate.of({}, name), update_s=t) for name, t in (((), 1.0), (["liar"], 1.3))]
    assert predicted(space, seen, (1, 0)).point == pytest.approx(1.3, rel=0.06)


def test_effects_multiply_where_nothing_is_known_of_interactions():
    space = space_of((patch("a"), patch("b")))
    seen = [
        observe(Candidate.of({}), update_s=1.0),
        observe(Candidate.of({}, ["a"]), update_s=0.8),
        observe(Candidate.of({}, ["b"]), update_s=0.7),
    ]
    both = predicted(space, seen, (1, 1))
    assert both.low < 0.56 < both.high
    assert both.point < 0.7


def test_an_interaction_that_was_measured_is_followed():
    space = space_of((patch("a"), patch("b")))
    times = {(): 1.0, ("a",): 0.8, ("b",): 0.7, ("a", "b"): 0.9}
    seen = [observe(Candidate.of({}, names), update_s=t) for names, t in times.items()]
    assert predicted(space, seen, (1, 1)).point == pytest.approx(0.9, rel=0.05)


def test_a_refused_time_teaches_nothing():
    space = space_of((patch("cheat"),))
    reference = observe(Candidate.of({}))
    refused = observe(Candidate.of({}, ["cheat"]), update_s=0.01).model_copy(
        update={"status": "refused"}
    )
    assert predicted(space, [reference, refused], (1,)) == predicted(space, [reference], (1,))


def test_a_noisy_trial_moves_the_model_less():
    space = space_of((patch("a"),))
    reference = observe(Candidate.of({}))
    sharp = observe(Candidate.of({}, ["a"]), update_s=0.6, sd=0.01)
    vague = observe(Candidate.of({}, ["a"]), update_s=0.6, sd=0.5)
    assert (
        predicted(space, [reference, sharp], (1,)).point
        < predicted(space, [reference, vague], (1,)).point
    )


def test_intervals_cover_what_they_claim_on_functions_with_interactions():
    rng = np.random.default_rng(2)
    knobs = (knob("m", (1, 2, 4, 8), 1), knob("k", ("x", "y", "z"), "x"), knob("r", (0, 1), 0))
    space = space_of(tuple(patch(name) for name in NAMES[:4]), knobs)
    lattice = Lattice(space)
    points = lattice.listing()
    covered = []
    for _ in range(12):
        slopes = rng.normal(0, 0.15, points.shape[1])
        pairs = rng.normal(0, 0.05, (points.shape[1],) * 2)
        logs = points @ slopes + np.einsum("ni,ij,nj->n", points, pairs, points) / 3
        train = rng.choice(len(points), 16, replace=False)
        seen = [
            observe(
                lattice.candidate_of(points[i].tolist()),
                update_s=float(np.exp(logs[i] + rng.normal(0, 0.01))),
            )
            for i in train
        ]
        model = RuntimeModel(lattice, placed(lattice, seen))
        guess = model.predict(points)
        inside = (guess.quantile(0.025) <= logs) & (logs <= guess.quantile(0.975))
        covered.append(np.delete(inside, train).mean())
    assert 0.85 <= np.mean(covered) <= 0.995


def test_without_any_measurement_the_interval_is_wide_and_finite():
    space = space_of((patch("a", (-0.1, 0.1)),))
    guess = predicted(space, [], (1,))
    assert 0 < guess.low < guess.point / 5 < guess.point * 5 < guess.high < 1e6


def test_the_cost_of_compilation_is_learned():
    space = space_of((patch("compile"), patch("other")))
    lattice = Lattice(space)
    slow = [
        observe(reference_of(space), cost_s=60.0),
        observe(Candidate.of({}, ["compile"]), cost_s=200.0),
        observe(Candidate.of({}, ["compile"]), cost_s=210.0),
        observe(Candidate.of({}, ["other"]), cost_s=60.0),
    ]
    points = np.array([[0, 0], [1, 0], [0, 1]])
    before = CostModel(lattice, []).expected(points, np.ones(3))
    after = CostModel(lattice, placed(lattice, slow)).expected(points, np.ones(3))
    assert before == pytest.approx([60.0] * 3)
    assert after[1] > 2 * after[0]
    assert after[2] < 1.3 * after[0]


def test_a_likely_oom_is_cheaper_than_a_whole_launch():
    lattice = Lattice(space_of((patch("a"),)))
    ooms = [observe(Candidate.of({}, ["a"]), "oom", cost_s=6.0)] * 3
    model = CostModel(lattice, placed(lattice, ooms))
    sure, never = model.expected(np.array([[1], [1]]), np.array([1.0, 0.0]))
    assert never < 0.4 * sure
