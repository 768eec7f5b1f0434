"""Experience speeds a search up where it is true, and costs little where it is not."""

import functools

import numpy as np
import pytest
from truths import MemoryBound, knob, observe, patch, reference_of

from infrarsi.records.candidate import Candidate, Effect
from infrarsi.records.experience import AtomBelief, Experience
from infrarsi.records.history import Space
from infrarsi.search import best_so_far, suggest_next
from infrarsi.search.acquisition import Models
from infrarsi.search.guard import LEAST_COLD, is_cold_pick, trust_of
from infrarsi.search.lattice import Lattice


class SmallBound(MemoryBound):
    """The same machine with fewer knobs and patches: what matters, and what is refused."""

    def __init__(self):
        super().__init__()
        knobs = (
            knob("recompute", (True, False), True, "up"), knob("micro_batch", (1, 2, 4), 1, "up"),
            knob("grad_accum", (16, 8, 4), 16), knob("num_workers", (0, 2), 0),
        )  # fmt: skip
        kept = {"sdpa", "chunked_loss", "compile", "fast_cast"}
        patches = tuple(each for each in self.space.patches if each.name in kept)
        self.space = self.space.model_copy(update={"knobs": knobs, "patches": patches})

    def peak_gib(self, candidate):
        return super().peak_gib(whole(candidate))

    def update_s(self, candidate):
        return super().update_s(whole(candidate))


def whole(candidate):
    return Candidate.of({"prefetch": "off", **candidate.knobs}, candidate.patches)


TRUTH = SmallBound()
TRIALS = 12
SEEDS = range(1)
ENOUGH = 0.005


def effects_of(truth):
    """What a search that knows the truth would tell of each atom alone."""
    reference = reference_of(truth.space)
    found = []
    for each in truth.space.patches:
        candidate = Candidate.of(reference.knobs, [each.name])
        found.append((AtomBelief(patch=each.name), candidate))
    for each in truth.space.knobs:
        for value in each.values:
            if value != each.default or type(value) is not type(each.default):
                candidate = reference.with_knob(each.name, value)
                found.append((AtomBelief(knob=each.name, value=value), candidate))
    for belief, candidate in found:
        time = np.log(truth.update_s(candidate) / truth.update_s(reference))
        memory = np.log(truth.peak_gib(candidate) / truth.peak_gib(reference))
        refused = 0.6 * bool(set(truth.refused) & set(candidate.patches))
        yield belief, float(time), float(memory), refused


def experience(kind):
    """True experience, or made false: inverted, shuffled among atoms, or inverted in time alone."""
    rows = list(effects_of(TRUTH))
    order = (
        np.random.default_rng(5).permutation(len(rows)) if kind == "shuffled" else range(len(rows))
    )
    in_time = -1 if kind in {"inverted", "time inverted"} else 1
    in_memory = -1 if kind == "inverted" else 1
    return Experience(beliefs=tuple(
        belief.model_copy(update={
            "log_time": Effect(mean=in_time * rows[i][1], sd=0.05),
            "log_memory": Effect(mean=in_memory * rows[i][2], sd=0.05),
            "refused": 0.6 - rows[i][3] if kind == "inverted" else rows[i][3],
        })
        for (belief, *_), i in zip(rows, order, strict=True)
    ))  # fmt: skip


@functools.cache
def searched(kind, seed, trials=TRIALS):
    """Search the synthetic machine from experience of a kind, until the best is found.

    Gives true times of the best so far, and why each was tried.
    """
    rng = np.random.default_rng(seed)
    observations = [TRUTH.measure(reference_of(TRUTH.space), rng)]
    best, reasons = [], []
    known = None if kind == "cold" else experience(kind)
    for _ in range(trials):
        made = suggest_next(
            TRUTH.space, observations, strategy="infrarsi", starts=3, seed=seed, experience=known
        )
        reasons.append(made.reason)
        observations.append(TRUTH.measure(made.candidate, rng))
        best.append(TRUTH.update_s(best_so_far(observations).candidate))
        if best[-1] <= TRUTH.best_s * (1 + ENOUGH):
            break
    return best, reasons


def mean_log(kind, trials):
    most = 3 if kind == "true" else TRIALS
    found = [min(searched(kind, seed, most)[0][:trials]) for seed in SEEDS]
    return np.mean(np.log(np.array(found) / TRUTH.best_s))


def test_true_experience_finds_at_once_what_a_cold_search_needs_trials_for():
    assert mean_log("true", 2) < 0.1
    assert mean_log("true", 2) < mean_log("cold", 2) - 0.1


@pytest.mark.parametrize("kind", ["inverted", "shuffled", "time inverted"])
def test_false_experience_costs_at_most_three_per_cent_at_twelve_trials(kind):
    assert mean_log(kind, TRIALS) <= mean_log("cold", TRIALS) + 0.03


def test_every_pick_says_how_much_experience_weighed_and_every_third_is_made_without():
    reasons = searched("true", 0, 3)[1]
    assert len(reasons) == 3
    for number, reason in enumerate(reasons):
        said = "without experience" if is_cold_pick(number) else "experience weighs 0."
        assert said in reason
    assert [number for number in range(9) if is_cold_pick(number)] == [2, 5, 8]


def test_a_false_belief_in_time_loses_its_weight_and_a_true_one_in_memory_keeps_it():
    truth = TRUTH
    reference = reference_of(truth.space)
    rng = np.random.default_rng(0)
    tried = [
        Candidate.of({**reference.knobs, "micro_batch": micro, "grad_accum": 16 // micro}, patches)
        for micro, patches in [(1, []), (1, ["sdpa"]), (2, ["compile"]),
                               (2, ["sdpa", "chunked_loss"]), (1, ["sdpa", "compile"])]
    ]  # fmt: skip
    observations = [truth.measure(each, rng) for each in tried]
    lattice = Lattice(truth.space)
    false = Models(lattice, observations, experience=experience("time inverted")).trust
    true = Models(lattice, observations, experience=experience("true")).trust
    assert false[0] < 0.2 < true[0]
    assert false[1] == pytest.approx(true[1])
    assert true[1] > 0.5
    assert max(*false, *true) <= 1 - LEAST_COLD


def test_the_weight_follows_bayes_rule_and_leaves_the_cold_expert_its_share():
    assert trust_of(0.0) == pytest.approx(0.7)
    assert trust_of(100.0) == pytest.approx(0.7)
    assert trust_of(-np.log(7 / 3)) == pytest.approx(0.5)
    assert trust_of(-1e6) < 1e-10


def test_experience_of_a_patch_is_joined_with_its_own_prior_and_others_keep_theirs():
    space = Space(knobs=(), patches=(patch("a", (-0.1, 0.2)), patch("b", (-0.1, 0.2))),
                  capacity_bytes=2**33, default_cost_s=10.0)  # fmt: skip
    known = Experience(beliefs=(AtomBelief(patch="a", log_time=Effect(mean=-0.7, sd=0.05)),))
    observations = [observe(Candidate.of({}), update_s=1.0)]
    models = Models(Lattice(space), observations, experience=known)
    cold = Models(Lattice(space), observations)
    points = np.array([[1, 0], [0, 1]])
    told, untold = models.runtime.predict(points).mean() - cold.runtime.predict(points).mean()
    assert told < -0.3
    assert untold == pytest.approx(0.0, abs=0.01)


def test_experience_that_says_nothing_of_a_search_changes_nothing_in_it():
    space = Space(
        knobs=(knob("x", (1, 2), 1),), patches=(), capacity_bytes=2**33, default_cost_s=1.0
    )
    strange = Experience(beliefs=(
        AtomBelief(patch="gone", log_time=Effect(mean=-1.0, sd=0.1)),
        AtomBelief(knob="x", value=3, log_time=Effect(mean=-1.0, sd=0.1)),
        AtomBelief(knob="y", value=3, refused=1.0),
    ))  # fmt: skip
    models = Models(Lattice(space), [observe(Candidate.of({"x": 1}))], experience=strange)
    assert models.trust is None


def test_what_was_refused_elsewhere_waits_until_it_is_accepted_here():
    space = Space(knobs=(), patches=(patch("a"), patch("b")), capacity_bytes=2**33,
                  default_cost_s=1.0)  # fmt: skip
    known = Experience(beliefs=(AtomBelief(patch="a", refused=0.8),))
    points = np.array([[1, 0], [0, 1]])

    def chances(*observations):
        models = Models(
            Lattice(space), [observe(Candidate.of({})), *observations], experience=known
        )
        return models.score(points).p_accepted

    refused, other = chances()
    assert refused < 0.6 * other
    refused, other = chances(observe(Candidate.of({}, ["a"])))
    assert refused >= other


def test_rivals_know_no_experience():
    seen = [observe(reference_of(TRUTH.space), update_s=4.0)]
    made = [
        suggest_next(TRUTH.space, seen, strategy="hillclimb", starts=3, seed=1, experience=each)
        for each in (None, experience("true"))
    ]
    assert made[0] == made[1]
