"""Searches of a pool: only what it holds is tried, each once, by every strategy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from truths import GIB, knob, patch

from infrarsi.records.history import Observation, Space
from infrarsi.search import STRATEGIES, suggest_next
from infrarsi.search.lattice import Lattice

SPACE = Space(
    knobs=(
        knob("tp", (1, 2, 4, 8), 2, "down"), knob("micro", (1, 2, 4, 8), 2, "up"),
        knob("kernel", ("a", "b", None), "a"), knob("late", (False, True), False),
    ),
    capacity_bytes=80 * GIB, default_cost_s=1.0,
)  # fmt: skip
GRID = Lattice(SPACE).listing()


def outcome(point):
    memory = 20.0 * 2 ** point[1] / 2 ** (0.5 * point[0])
    time = 1.0 * 1.3 ** point[0] * 0.8 ** point[1] * (1.1, 1.0, 1.2)[point[2]]
    return time, memory


def trial(lattice, point):
    time, memory = outcome(point)
    fits = memory < 80
    return Observation(
        candidate=lattice.candidate_of(point), status="ok" if fits else "oom",
        update_s=time if fits else None, peak_bytes=int(memory * GIB) if fits else None, cost_s=1.0,
    )  # fmt: skip


def searched(pool, strategy, *, trials, seed=0):
    lattice = Lattice(SPACE, pool=pool)
    seen, points = [], []
    for _ in range(trials):
        made = suggest_next(
            SPACE, seen, strategy=strategy, starts=0, seed=seed, pool=pool, predict=False
        )
        if made is None:
            break
        points.append(lattice.point_of(made.candidate))
        seen.append(trial(lattice, points[-1]))
    return points, seen


@settings(max_examples=2)
@given(st.integers(0, 10**6), st.integers(2, 30))
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_no_strategy_leaves_the_pool_or_tries_a_row_twice(strategy, seed, size):
    rng = np.random.default_rng(seed)
    pool = GRID[rng.permutation(len(GRID))[:size]]
    points, _ = searched(pool, strategy, trials=min(size, 5), seed=seed)
    rows = set(map(tuple, pool.tolist()))
    assert set(points) <= rows
    assert len(set(points)) == len(points)


@pytest.mark.parametrize("strategy", [s for s in STRATEGIES if s not in {"infrarsi", "configonly"}])
def test_a_rival_can_try_the_whole_of_a_small_pool(strategy):
    points, _ = searched(GRID[::13], strategy, trials=50)
    rows = set(map(tuple, GRID[::13].tolist()))
    climbs = {"hillclimb", "bestofk"}
    assert set(points) == rows or (strategy in climbs and len(points) > len(rows) / 2)


def test_ours_is_ahead_of_an_even_draw_and_finds_nearly_the_best():
    def best(strategy, seed):
        _, seen = searched(GRID, strategy, trials=10, seed=seed)
        times = [each.update_s for each in seen if each.update_s]
        return min(times, default=9.0)

    ours, draws = best("infrarsi", 0), [best("random", seed) for seed in range(8)]
    assert ours <= np.median(draws)
    assert ours < 1.05 * min(outcome(p)[0] for p in GRID.tolist() if outcome(p)[1] < 80)


def test_a_pool_has_no_reference_to_begin_with():
    made = suggest_next(SPACE, [], strategy="random", starts=0, seed=1, pool=GRID[5:7])
    assert made.reason == "random draw"


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_pool_may_hold_patches_which_configonly_leaves_off(strategy):
    space = SPACE.model_copy(update={"patches": (patch("a", (-0.3, 0.1)), patch("b"))})
    rng = np.random.default_rng(0)
    pool = np.hstack([GRID, rng.integers(2, size=(len(GRID), 2))])
    rows = set(map(tuple, pool.tolist()))
    lattice = Lattice(space, pool=pool)
    seen = []
    for _ in range(4):
        made = suggest_next(space, seen, strategy=strategy, starts=0, seed=0, pool=pool)
        point = lattice.point_of(made.candidate)
        assert point in rows
        assert strategy != "configonly" or not made.candidate.patches
        seen.append(trial(lattice, point))


def test_an_empty_rest_ends_the_search():
    lattice = Lattice(SPACE, pool=GRID[:2])
    seen = [trial(lattice, point) for point in GRID[:2].tolist()]
    for strategy in STRATEGIES:
        assert suggest_next(SPACE, seen, strategy=strategy, starts=0, seed=0, pool=GRID[:2]) is None


def test_best_of_k_begins_anew_after_every_attempt():
    # Without a pool, an attempt starts from the reference, whatever earlier ones found.
    lattice = Lattice(SPACE)
    seen = [trial(lattice, lattice.reference)]
    for _ in range(7):
        made = suggest_next(SPACE, seen, strategy="bestofk", starts=0, seed=3, predict=False)
        if len(seen) % 4 == 0:
            assert made.reason.endswith("the reference")
        assert made.reason.startswith("one change of attempt")
        seen.append(trial(lattice, lattice.point_of(made.candidate)))


def test_ten_thousand_rows_are_searched_without_listing_what_is_not_there():
    knobs = tuple(knob(f"k{i}", tuple(range(8)), 0, "up" if i < 2 else None) for i in range(12))
    space = SPACE.model_copy(update={"knobs": knobs})
    rng = np.random.default_rng(0)
    pool = rng.integers(8, size=(10_000, 12))
    lattice = Lattice(space, pool=pool)
    assert lattice.size() == len(np.unique(pool, axis=0))
    seen = []
    for strategy in ("infrarsi", "hillclimb", "random"):
        made = suggest_next(space, seen, strategy=strategy, starts=0, seed=0, pool=pool)
        point = lattice.point_of(made.candidate)
        assert lattice.is_feasible(point)
        seen.append(
            Observation(
                candidate=made.candidate, status="ok", update_s=1.0, peak_bytes=GIB, cost_s=1.0
            )
        )


def test_what_fails_for_other_reasons_is_soon_left_alone():
    lattice = Lattice(SPACE, pool=GRID)
    seen = []
    for _ in range(12):
        made = suggest_next(SPACE, seen, strategy="infrarsi", starts=0, seed=0, pool=GRID)
        done = trial(lattice, lattice.point_of(made.candidate))
        if made.candidate.knobs["kernel"] == "b":
            done = done.model_copy(
                update={"status": "failed", "update_s": None, "peak_bytes": None}
            )
        seen.append(done)
    assert sum(each.status == "failed" for each in seen[6:]) <= 2
