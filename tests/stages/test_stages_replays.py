"""Which launches keep a state, and at which updates: both arms alike, after every hidden stop."""

import random
from itertools import pairwise
from types import SimpleNamespace

import pytest

from infrarsi.judge.speedup import confirmation_schedule
from infrarsi.records.candidate import Candidate, Edit, Patch
from infrarsi.records.task import Window
from infrarsi.stages.confirming.replays import draw_pairs, keep_for, mapping_of

WINDOW = Window(warmup_updates=4, measured_updates=20)


def stop_update(number, *, arm):
    drawn = len(arm) * 7 + number
    return WINDOW.last_update + 2 + drawn % 4 + 10 * (number % 2)


def workspace(folder="/"):
    return SimpleNamespace(
        contract=SimpleNamespace(task=SimpleNamespace(window=WINDOW)), stop_update=stop_update,
        folder=folder,
    )  # fmt: skip


def drawn(seed, *, blocks=6, update_s=0.5):
    schedule = confirmation_schedule(blocks, seed=seed)
    chance = random.Random(seed)
    return schedule, draw_pairs(workspace(), schedule, update_s=update_s, chance=chance)


@pytest.mark.parametrize("seed", range(20))
def test_each_pair_is_one_launch_of_each_arm_that_stops_before_it(seed):
    schedule, pairs = drawn(seed)
    assert len(pairs) == 3
    numbers = [number for pair in pairs for number in pair.launches.values()]
    assert len(set(numbers)) == 6
    for pair in pairs:
        for arm, letter in (("winner", "B"), ("reference", "A")):
            number = pair.launches[arm]
            assert schedule[number // 4][number % 4] == letter
            assert pair.update >= stop_update(number, arm=f"confirm/{arm}") + pair.ahead


@pytest.mark.parametrize("seed", range(20))
def test_updates_lie_apart_by_the_batches_that_are_scored(seed):
    _, pairs = drawn(seed)
    updates = sorted(pair.update for pair in pairs)
    assert all(later - sooner >= 3 for sooner, later in pairwise(updates))
    assert updates[1] + 2 <= WINDOW.last_update + 20, (
        "what init asks a training to be long enough for"
    )


def test_what_is_drawn_is_not_always_the_same():
    assert len({tuple(pair.update for pair in drawn(seed)[1]) for seed in range(20)}) > 10


def test_quick_updates_are_given_more_notice():
    assert drawn(1, update_s=0.001)[1][0].ahead > drawn(1, update_s=1.0)[1][0].ahead >= 3


def test_two_blocks_give_two_pairs():
    assert len(drawn(1, blocks=2)[1]) == 2


def test_launches_that_are_in_no_pair_keep_nothing(tmp_path):
    _, pairs = drawn(3)
    of_winners = {pair.launches["winner"]: pair.update for pair in pairs}
    for number in range(24):
        keep = keep_for(workspace(tmp_path), pairs, number=number, arm="winner")
        assert (keep.update if keep else None) == of_winners.get(number)
        assert keep is None or keep.most_bytes > 0


def test_the_mappings_of_a_candidates_patches_are_joined():
    def patch(name, **mapping):
        edits = (Edit(path="m.py", search="a", replace="b"),)
        return Patch(name=name, proposer="t", edits=edits, summary=name, state_mapping=mapping)

    patches = {
        "a": patch("a", qkv=("q", "k", "v")),
        "b": patch("b", top=("head",)),
        "c": patch("c"),
    }
    mapping = mapping_of(Candidate.of({}, ["a", "b"]), patches)
    assert mapping == {"qkv": ("q", "k", "v"), "top": ("head",)}
