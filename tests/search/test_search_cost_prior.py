"""A patch that is thought to compile for long is left to a probe, and its true cost is learnt."""

import numpy as np

from infrarsi.records.candidate import Candidate, Edit, Effect, Patch
from infrarsi.records.history import Observation, Space
from infrarsi.search import suggest_next
from infrarsi.search.cost import CostModel
from infrarsi.search.lattice import Lattice


def patch(name, cold_start_s):
    return Patch(
        name=name, proposer="patchbook", summary=name, cold_start_s=cold_start_s,
        edits=(Edit(path="m.py", search=name, replace="x"),), log_time=Effect(mean=-0.2, sd=0.2),
    )  # fmt: skip


SPACE = Space(
    knobs=(), patches=(patch("compile", 60.0), patch("sdpa", 0.0)), capacity_bytes=10**9,
    default_cost_s=10.0,
)  # fmt: skip


def seen(names, cost_s, update_s=0.1):
    return Observation(
        candidate=Candidate.of({}, names), status="ok", update_s=update_s, update_sd=0.01,
        peak_bytes=10**8, cost_s=cost_s,
    )  # fmt: skip


def expected(observations, names):
    lattice = Lattice(SPACE)
    rows = [(lattice.point_of(each.candidate), each) for each in observations]
    point = np.array([lattice.point_of(Candidate.of({}, names))])
    return CostModel(lattice, rows).expected(point, np.ones(1))[0]


def test_the_first_start_leaves_the_costly_patch_out():
    first = suggest_next(SPACE, [seen([], 10.0)], strategy="infrarsi", starts=3, seed=0)
    assert first.candidate.patches == ("sdpa",)


def test_the_cost_is_believed_before_it_is_measured_and_learnt_after():
    reference = seen([], 10.0)
    assert 50.0 < expected([reference], ["compile"]) < 90.0
    assert expected([reference], ["sdpa"]) < 15.0
    cheap = [reference, *[seen(["compile"], 12.0)] * 6]
    assert expected(cheap, ["compile"]) < 20.0
