"""Which candidates a sweep measures, and how the knobs of a contract are told to a table."""

import pytest
from search_world import PATCHES, contract

from infrarsi.errors import UsageError
from infrarsi.records.history import Space
from infrarsi.records.task import Environment, Knob
from infrarsi.stages.sweep import candidates_of, described_knob

SPACE = Space(
    knobs=contract().task.surface.knobs, patches=tuple(PATCHES), incompatible=(("cast", "fused"),),
    capacity_bytes=1, default_cost_s=1.0,
)  # fmt: skip


def test_the_whole_grid_begins_with_the_reference_and_holds_each_candidate_once():
    every = candidates_of(SPACE, None, seed=0)
    assert not every[0].patches
    assert every[0].knobs == {"log_every": 10, "recompute": True}
    assert len({each.digest() for each in every}) == len(every) == 2 * 2 * 12
    assert not any({"cast", "fused"} <= set(each.patches) for each in every)


def test_a_sample_is_the_beginning_of_the_grid_in_the_order_that_its_seed_draws():
    every = candidates_of(SPACE, None, seed=4)
    assert candidates_of(SPACE, 7, seed=4) == every[:7]
    assert candidates_of(SPACE, 7, seed=5) != every[:7]


def test_a_space_too_large_to_list_is_sampled_and_never_measured_whole():
    knobs = tuple(
        Knob(name=f"k{i}", reach=Environment(variable=f"K{i}"), values=(0, 1, 2, 3), default=0)
        for i in range(9)
    )
    space = SPACE.model_copy(update={"knobs": knobs})
    drawn = candidates_of(space, 50, seed=1)
    assert len({each.digest() for each in drawn}) == 50
    assert drawn == candidates_of(space, 50, seed=1)
    with pytest.raises(UsageError, match="too many to measure"):
        candidates_of(space, None, seed=1)


@pytest.mark.parametrize(
    ("values", "way", "scale", "told"),
    [
        ((1, 2, 4, 8), "up", "log2", "up"), ((8, 4, 2, 1), "up", "log2", "down"),
        ((False, True), "down", "ordinal", "down"), ((True, False), "up", "ordinal", "down"),
        ((0, 2, 1), "up", "ordinal", None), (("a", "b"), "up", "category", None),
        ((None, 4), None, "category", None),
    ],
)  # fmt: skip
def test_a_knob_is_told_by_the_natural_order_of_its_values(values, way, scale, told):
    knob = Knob(
        name="k", reach=Environment(variable="K"), values=values, default=values[0],
        raises_memory=way,
    )  # fmt: skip
    described = described_knob(knob)
    assert (described.scale, described.raises_memory, described.may_decide) == (scale, told, True)
