"""A real program that swallows unknown flags: what it ignores is noticed, what it obeys is not."""

import pytest

from infrarsi.execute.invocation import invocation_of, reached_by
from infrarsi.frameworks.catalogue import claim_of
from infrarsi.judge.knob_effect import comparisons_of, silent_knobs
from infrarsi.judge.observed import observe
from infrarsi.records.candidate import Candidate
from infrarsi.records.task import Flag, Knob, Memory, Surface, Task

pytestmark = pytest.mark.training


def knob(name, values):
    flag = Flag(flag="--" + name.replace("_", "-"))
    return Knob(name=name, reach=flag, values=values, default=values[0])


TASK = Task(
    command=("python", "deaf.py"), memory=Memory(capacity_bytes=1),
    surface=Surface(
        editable=(),
        knobs=(
            knob("batch_size", (2, 4, 8)), knob("grad_accum", (4, 2, 1)),
            knob("micro_batch", (2, 4)), knob("precision", ("float32", "bfloat16")),
            knob("dtype", ("float32", "bfloat16")),
        ),
        constraints=("batch_size * grad_accum == 8",),
    ),
)  # fmt: skip
TURNS = (
    {}, {"batch_size": 8, "grad_accum": 1}, {"micro_batch": 4}, {"precision": "bfloat16"},
    {"dtype": "bfloat16"},
)  # fmt: skip


def test_the_flags_that_the_program_swallows_are_told_with_what_was_compared(launch):
    observed, launched = {}, {}
    for number, turned in enumerate(TURNS):
        done = launch.program("deaf.py", *invocation_of(TASK, turned, {}).argv[2:])
        assert done.code == 0, done.stderr
        name = f"t{number}"
        launched[name] = Candidate.of({**TASK.surface.default_knobs(), **turned})
        observed[name] = observe(done.evidence, update_s=None, peak_bytes=None, last_update=3)
    surface = TASK.surface
    found = silent_knobs(
        surface, comparisons_of(surface, launched), observed, equal=("t0",),
        claims={each.name: claim_of(each) for each in surface.knobs},
        reached_by={each.name: reached_by(each) for each in surface.knobs},
    )  # fmt: skip
    told = {each.knob: each.compared for each in found}
    assert set(told) == {"micro_batch", "dtype"}
    assert told["micro_batch"] == (
        "the same forwards an update (4) and rows a forward (2); --micro-batch was on the command "
        "line of the training process"
    )
    assert told["dtype"].startswith("the same dtypes and precision switches; --dtype was on")
