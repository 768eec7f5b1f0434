import pytest
from truths import GIB, knob, observe, patch

from infrarsi.records.candidate import Candidate
from infrarsi.records.history import Space
from infrarsi.search import ablation_arms, best_so_far, rank

SPACE = Space(
    knobs=(
        knob("micro", (1, 2, 4), 1),
        knob("accum", (8, 4, 2), 8),
        knob("recompute", (True, False), True),
        knob("workers", (0, 2), 0),
    ),
    constraints=("micro * accum == 8",),
    patches=(patch("sdpa"), patch("compile")),
    capacity_bytes=80 * GIB,
    default_cost_s=60.0,
)


def test_each_part_is_taken_out_once_and_tied_knobs_go_together():
    knobs = {"micro": 4, "accum": 2, "recompute": False, "workers": 0}
    winner = Candidate.of(knobs, ["sdpa", "compile"])
    arms = dict(ablation_arms(SPACE, winner))
    assert arms == {
        "+sdpa": Candidate.of(knobs, ["compile"]),
        "+compile": Candidate.of(knobs, ["sdpa"]),
        "micro=4, accum=2": Candidate.of({**knobs, "micro": 1, "accum": 8}, winner.patches),
        "recompute=False": Candidate.of({**knobs, "recompute": True}, winner.patches),
    }


def test_the_reference_has_no_parts():
    reference = Candidate.of({k.name: k.default for k in SPACE.knobs})
    assert ablation_arms(SPACE, reference) == ()


def test_a_winner_outside_the_space_is_an_error():
    with pytest.raises(ValueError, match="outside the space"):
        ablation_arms(SPACE, Candidate.of({"micro": 4}, ["nobody"]))


def test_the_fewest_companions_go_back_along():
    space = SPACE.model_copy(
        update={"constraints": ("micro * accum == 8", "not (workers == 2) or micro > 1")}
    )
    winner = Candidate.of({"micro": 2, "accum": 4, "recompute": True, "workers": 2})
    assert [label for label, _ in ablation_arms(space, winner)] == [
        "micro=2, accum=4, workers=2",
        "workers=2",
    ]


def test_only_accepted_and_measured_observations_are_ranked():
    slow, fast = observe(Candidate.of({"micro": 1})), observe(Candidate.of({"micro": 2}))
    fast = fast.model_copy(update={"update_s": 0.5})
    cheat = fast.model_copy(update={"status": "refused", "update_s": 0.1})
    unmeasured = slow.model_copy(update={"update_s": None})
    oom = observe(Candidate.of({"micro": 4}), "oom")
    assert rank([slow, cheat, oom, unmeasured, fast]) == (fast, slow)
    assert best_so_far([slow, cheat, fast]) == fast
    assert best_so_far([oom, cheat]) is None
