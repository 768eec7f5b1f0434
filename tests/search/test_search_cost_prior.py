"""A patch that is thought to compile for long is left to a probe, and its true cost is learnt."""

import numpy as np
import pytest

from infrarsi.records.candidate import Candidate, Edit, Effect, Patch
from infrarsi.records.history import Observation, Space
from infrarsi.records.task import Environment, Knob
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


@pytest.mark.parametrize("strategy", ["infrarsi", "configonly"])
def test_nothing_is_suggested_that_takes_longer_than_can_be_afforded(strategy):
    knobs = (Knob(name="k", reach=Environment(variable="K"), values=(0, 1), default=0),)
    space = SPACE.model_copy(update={"knobs": knobs if strategy == "configonly" else ()})
    zero = {"k": 0} if strategy == "configonly" else {}
    known = [
        each.model_copy(update={"candidate": Candidate.of(zero, each.candidate.patches)})
        for each in (seen([], 10.0), seen(["sdpa"], 10.0, update_s=0.08))
    ]
    free = suggest_next(space, known, strategy=strategy, starts=0, seed=0)
    dear = 40.0 if strategy == "infrarsi" else 5.0
    assert free is not None
    assert free.prediction.cost_s > dear
    assert (
        suggest_next(space, known, strategy=strategy, starts=0, seed=0, affordable_s=dear) is None
    )


def test_what_was_never_tried_may_take_longer_than_what_was():
    lattice = Lattice(SPACE)
    rows = [(lattice.point_of(each.candidate), each) for each in [seen(["sdpa"], 10.0)] * 4]
    model = CostModel(lattice, rows)
    points = np.array([lattice.point_of(Candidate.of({}, [name])) for name in ("sdpa", "compile")])
    margin = model.at_most(points, np.ones(2)) / model.expected(points, np.ones(2))
    assert margin[0] < 1.2
    assert margin[1] > 1.5
