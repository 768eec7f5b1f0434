import numpy as np
from truths import GIB, knob, observe, patch

from infrarsi.records.candidate import Candidate
from infrarsi.records.history import Space
from infrarsi.search.acceptance import AcceptanceModel
from infrarsi.search.lattice import Lattice

SPACE = Space(
    knobs=(knob("cast", ("float32", "bfloat16"), "float32"), knob("workers", (0, 2, 4), 0)),
    patches=tuple(patch(name) for name in ("a", "b", "c", "bad")),
    capacity_bytes=80 * GIB,
    default_cost_s=60.0,
)
LATTICE = Lattice(SPACE)


def candidate(patches=(), cast="float32", workers=0):
    return Candidate.of({"cast": cast, "workers": workers}, patches)


def chances(trials, *asked):
    seen = [(LATTICE.point_of(c), observe(c, status)) for c, status in trials]
    points = np.array([LATTICE.point_of(each) for each in asked])
    return AcceptanceModel(LATTICE, seen).p_accepted(points)


def test_before_any_trial_everything_is_probably_accepted():
    assert chances([], candidate(), candidate(["a"]))[1] > 0.9


def test_the_atom_that_no_accepted_trial_carries_takes_the_blame():
    trials = [
        (candidate(["a", "b"]), "ok"),
        (candidate(["a", "bad"]), "refused"),
        (candidate(["b", "bad"]), "refused"),
    ]
    good, larger = chances(trials, candidate(["a", "b", "c"]), candidate(["c", "bad"]))
    assert good > 0.85
    assert larger < 0.1


def test_one_refusal_of_two_unknown_atoms_leaves_each_alone_worth_a_trial():
    together, alone = chances(
        [(candidate(["a", "bad"]), "refused")], candidate(["a", "bad", "c"]), candidate(["a"])
    )
    assert together < 0.1
    assert 0.2 < alone < 0.9


def test_an_atom_that_later_passes_is_acquitted():
    trials = [(candidate(["a", "bad"]), "refused"), (candidate(["a"]), "ok")]
    acquitted, blamed = chances(trials, candidate(["a", "b"]), candidate(["bad", "b"]))
    assert acquitted > 0.8
    assert blamed < 0.45


def test_a_knob_value_can_be_at_fault_and_its_other_values_are_not():
    trials = [(candidate(cast="bfloat16"), "refused"), (candidate(["a"], workers=2), "ok")]
    fault, fine = chances(trials, candidate(["a"], "bfloat16"), candidate(["a"], workers=4))
    assert fault < 0.15
    assert fine > 0.8


def test_a_crash_weighs_less_than_a_refusal():
    asked = candidate(["bad", "b"])
    refused = chances([(candidate(["bad"]), "refused")], asked)[0]
    crashed = chances([(candidate(["bad"]), "failed")], asked)[0]
    assert refused < crashed < 0.6


def test_a_pair_that_only_fails_together_is_avoided_and_its_halves_are_not():
    trials = [
        (candidate(["a"]), "ok"),
        (candidate(["b"]), "ok"),
        (candidate(["a", "b"]), "refused"),
    ]
    pair, half = chances(trials, candidate(["a", "b", "c"]), candidate(["a", "c"]))
    assert pair < 0.15
    assert half > 0.8


def test_of_two_that_were_always_refused_together_either_alone_is_worth_a_trial():
    both = [candidate(["a", "bad"]), candidate(["a", "bad"], workers=2)]
    trials = [(each, "refused") for each in (*both, candidate(["a", "bad", "b"], workers=4))]
    first, second, together = chances(
        [*trials, (candidate(["b"], workers=2), "ok"), (candidate(workers=4), "ok")],
        candidate(["a"]), candidate(["bad"]), candidate(["a", "bad", "c"]),
    )  # fmt: skip
    assert 0.25 < first < 0.75
    assert 0.25 < second < 0.75
    assert together < 0.05


def test_each_refused_alone_is_at_fault_and_does_not_excuse_the_others():
    trials = [(candidate([name]), "refused") for name in ("a", "b", "c")]
    asked = [candidate([name], workers=2) for name in ("a", "b", "c", "bad")]
    *refused, other = chances(trials, *asked)
    assert max(refused) < 0.4
    assert other > 0.85


def test_an_oom_says_nothing_about_acceptance():
    asked = candidate(["bad"])
    assert chances([(asked, "oom")], asked)[0] == chances([], asked)[0]


def test_a_refused_reference_blames_no_atom():
    assert chances([(candidate(), "refused")], candidate(["a"]))[0] > 0.8


def test_what_a_model_wrote_is_doubted_until_a_trial_of_it_passes():
    written = patch("a").model_copy(update={"proposer": "language"})
    space = SPACE.model_copy(update={"patches": (written, *SPACE.patches[1:])})
    lattice = Lattice(space)
    points = np.array([lattice.point_of(candidate(["a"])), lattice.point_of(candidate(["b"]))])
    before = AcceptanceModel(lattice, [])
    doubted, trusted = before.p_accepted(points)
    assert 0.5 < doubted < 0.7
    assert trusted > 0.9
    assert before.patches_at_fault()[0] > 0.3  # left out of the first bundles
    passed = (lattice.point_of(candidate(["a", "b"])), observe(candidate(["a", "b"]), "ok"))
    assert AcceptanceModel(lattice, [passed]).p_accepted(points).min() > 0.9
