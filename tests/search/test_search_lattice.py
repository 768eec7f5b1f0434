import itertools

import numpy as np
import pytest
from truths import GIB, knob, patch

from infrarsi.records.candidate import Candidate
from infrarsi.records.constraint import constraint_holds
from infrarsi.records.history import Space
from infrarsi.search.features import memory_columns, runtime_columns
from infrarsi.search.lattice import Lattice


def space_of(knobs=(), patches=(), constraints=(), incompatible=()):
    return Space(
        knobs=knobs,
        patches=patches,
        constraints=constraints,
        incompatible=incompatible,
        capacity_bytes=80 * GIB,
        default_cost_s=60.0,
    )


def rows(points):
    return [tuple(row) for row in points.tolist()]


def test_the_listing_is_exactly_the_feasible_candidates():
    space = space_of(
        knobs=(
            knob("micro", (1, 2, 4), 1),
            knob("accum", (8, 4, 2), 8),
            knob("fused", (False, True), False),
        ),
        patches=(patch("a", conflicts=("b",)), patch("b"), patch("c")),
        constraints=("micro * accum == 8",),
        incompatible=(("b", "c"),),
    )
    lattice = Lattice(space)
    expected = set()
    for values in itertools.product((1, 2, 4), (8, 4, 2), (False, True)):
        knobs = dict(zip(("micro", "accum", "fused"), values, strict=True))
        if constraint_holds("micro * accum == 8", knobs):
            for chosen in ((), ("a",), ("b",), ("c",), ("a", "c")):
                expected.add(Candidate.of(knobs, chosen).digest())
    listed = [lattice.candidate_of(row).digest() for row in rows(lattice.listing())]
    assert len(listed) == len(set(listed)) == lattice.size()
    assert set(listed) == expected


def test_a_move_of_one_knob_takes_along_those_it_is_tied_to():
    space = space_of(
        knobs=(knob("micro", (1, 2, 4), 1), knob("accum", (8, 4, 2), 8), knob("seq", (1, 2), 1)),
        constraints=("micro * accum == 8",),
    )
    lattice = Lattice(space)
    assert set(rows(lattice.neighbours(lattice.reference))) == {(1, 1, 0), (2, 2, 0), (0, 0, 1)}


def test_samples_and_neighbours_of_a_large_tied_space_are_feasible():
    knobs = tuple(knob(f"k{i}", (1, 2, 4, 8, 16), 1) for i in range(7))
    patches = tuple(patch(f"p{i}", conflicts=(f"p{i + 1}",)) for i in range(8))
    space = space_of(knobs, patches, constraints=("k0 * k1 * k2 * k3 * k4 * k5 <= 64",))
    lattice = Lattice(space)
    assert lattice.listing() is None
    sampled = lattice.sample(200, np.random.default_rng(0))
    assert len(set(rows(sampled))) > 150
    for point in [*rows(sampled), *rows(lattice.neighbours(sampled[0]))]:
        assert lattice.is_feasible(point)


def test_a_patch_that_goes_in_pushes_out_what_it_conflicts_with():
    lattice = Lattice(space_of(patches=(patch("a"), patch("b", conflicts=("a",)))))
    assert rows(lattice.neighbours((1, 0))) == [(0, 0), (0, 1)]


def test_true_and_one_are_two_values_and_survive_the_way_there_and_back():
    values = (True, 1, 1.0, "1", None)
    lattice = Lattice(space_of(knobs=(knob("mixed", values, True),)))
    for i, value in enumerate(values):
        candidate = Candidate.of({"mixed": value})
        assert lattice.point_of(candidate) == (i,)
        back = lattice.candidate_of((i,)).knobs["mixed"]
        assert type(back) is type(value)
        assert back == value


def test_what_the_space_does_not_hold_has_no_point():
    lattice = Lattice(space_of(knobs=(knob("x", (1, 2), 1),), patches=(patch("a"),)))
    assert lattice.point_of(Candidate.of({"x": 3})) is None
    assert lattice.point_of(Candidate.of({"x": 1}, ["gone"])) is None
    assert lattice.point_of(Candidate.of({}, ["a"])) == (0, 1)


def test_a_value_for_which_a_constraint_cannot_be_computed_is_infeasible():
    lattice = Lattice(space_of((knob("x", (1, None, 2), 1),), constraints=("x * 2 <= 4",)))
    assert rows(lattice.listing()) == [(0,), (2,)]


def test_a_constraint_over_something_that_is_no_knob_is_an_error():
    with pytest.raises(ValueError, match="cannot read"):
        Lattice(space_of((knob("x", (1, 2), 1),), constraints=("y == 1",)))


def test_numbers_become_doublings_and_words_become_categories():
    lattice = Lattice(
        space_of(
            knobs=(
                knob("micro", (1, 2, 4, 8), 2, "up"),
                knob("zero", (0, 1, 2, 3), 0, "down"),
                knob("kernel", ("a", "b", "c"), "a"),
            ),
            patches=(patch("p"),),
        )
    )
    columns = memory_columns(lattice)
    point = np.array([[3, 2, 1, 1]])
    assert columns.of(point).tolist() == [[2.0, 2.0, -1.0, 1.0, 0.0, 1.0]]
    assert columns.signs.tolist() == [1, -1, 0, 0, 0, 0]
    assert np.abs(runtime_columns(lattice).of(point)).max() == 1.0


def test_an_ordered_knob_of_words_keeps_its_order_for_memory():
    lattice = Lattice(space_of((knob("remat", ("full", "some", "none"), "some", "up"),)))
    columns = memory_columns(lattice)
    assert columns.of(np.array([[0], [2]])).tolist() == [[-1.0], [1.0]]
    assert columns.signs.tolist() == [1]


def test_values_listed_downwards_turn_the_sign_and_not_the_meaning():
    up = memory_columns(Lattice(space_of((knob("m", (1, 2, 4), 1, "up"),))))
    down = memory_columns(Lattice(space_of((knob("m", (4, 2, 1), 1, "down"),))))
    assert up.signs.tolist() == down.signs.tolist() == [1]
