"""Several candidates at once."""

import pytest
from truths import knob

from infrarsi.records.candidate import Candidate
from infrarsi.records.history import Observation, Space
from infrarsi.search import suggest_batch, suggest_next

SPACE = Space(
    knobs=(knob("micro_batch", (1, 2, 4, 8), 2, "up"), knob("threads", (1, 2, 4), 1)),
    capacity_bytes=10**9, default_cost_s=5.0,
)  # fmt: skip
HOW = {"strategy": "infrarsi", "starts": 2, "seed": 0}


def observed(**knobs):
    return Observation(
        candidate=Candidate.of({"micro_batch": 2, "threads": 1, **knobs}, ()), status="ok",
        update_s=1.0, peak_bytes=4 * 10**8, cost_s=5.0,
    )  # fmt: skip


def test_the_first_of_a_batch_is_what_would_be_tried_alone_and_none_comes_twice():
    seen = [observed()]
    batch = suggest_batch(SPACE, seen, 5, **HOW)
    assert batch[0].candidate == suggest_next(SPACE, seen, **HOW).candidate
    names = [each.candidate.digest() for each in batch]
    assert len(set(names)) == 5
    assert seen[0].candidate.digest() not in names


def test_a_batch_ends_where_nothing_is_left_to_try():
    small = SPACE.model_copy(update={"knobs": (knob("threads", (1, 2), 1),)})
    seen = [
        Observation(
            candidate=Candidate.of({"threads": 1}, ()), status="ok", update_s=1.0, cost_s=5.0
        )
    ]
    assert len(suggest_batch(small, seen, 4, **HOW)) == 1
    assert suggest_batch(small, seen, 0, **HOW) == ()


@pytest.mark.parametrize("strategy", ["random", "hillclimb", "gp"])
def test_rivals_make_batches_too(strategy):
    batch = suggest_batch(SPACE, [observed()], 3, **{**HOW, "strategy": strategy})
    assert len({each.candidate.digest() for each in batch}) == 3
