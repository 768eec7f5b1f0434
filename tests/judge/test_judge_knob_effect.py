"""A knob that a program ignores in silence is noticed, and one that it obeys is not accused."""

import random

import pytest

from infrarsi.judge.knob_effect import comparisons_of, silent_knobs
from infrarsi.judge.observed import observe
from infrarsi.records.candidate import Candidate
from infrarsi.records.evidence import Evidence, MarkSeen, UpdateSeen
from infrarsi.records.task import Flag, Knob, Surface

LAST = 12


def knob(name, values, default):
    return Knob(name=name, reach=Flag(flag=f"--{name}"), values=values, default=default)


SURFACE = Surface(
    editable=(),
    knobs=(
        knob("micro", (1, 2, 4, 8), 2), knob("accum", (1, 2, 4, 8), 4),
        knob("dtype", ("float32", "bfloat16"), "float32"), knob("workers", (0, 2), 0),
        knob("threads", (1, 2), 1), knob("fused", (False, True), False),
    ),
    constraints=("micro * accum == 8", "not fused or dtype in ('float32', 'bfloat16')"),
)  # fmt: skip
CLAIMS = {
    "micro": "micro_batches", "accum": "micro_batches", "dtype": "dtypes", "workers": "workers",
    "threads": "threads", "fused": "anything",
}  # fmt: skip
REACHED = {knob.name: f"--{knob.name}" for knob in SURFACE.knobs}


class Program:
    """Trains as its knobs say, but for those that it ignores."""

    def __init__(self, *ignored, deterministic=True, noise=0.003, fused_gain=0.2, argv=True):
        self.ignored, self.deterministic = ignored, deterministic
        self.noise, self.fused_gain, self.argv = noise, fused_gain, argv
        self.draw = random.Random(7)
        self.launched, self.observed = {}, {}

    def launch(self, patches=(), **turned):
        name = f"t{len(self.launched) + 1}"
        knobs = {**SURFACE.default_knobs(), **turned}
        self.launched[name] = Candidate.of(knobs, patches)
        obeyed = {**SURFACE.default_knobs(),
                  **{k: v for k, v in turned.items() if k not in self.ignored}}  # fmt: skip
        self.observed[name] = self._seen(knobs, obeyed, patches)
        return name

    def _seen(self, said, obeyed, patches):
        jitter = 0.0 if self.deterministic else self.draw.gauss(0, 1e-6)
        jitter += 1e-7 * (obeyed["fused"] + (obeyed["dtype"] == "bfloat16") + len(patches))
        forwards = 8 // obeyed["micro"]
        updates = tuple(
            UpdateSeen(
                update=n, t_ns=n, loss=4.0 / n + jitter, forwards=forwards, sequences=8, tokens=64,
                phase_s={"forward": 0.03, "backward": 0.05, "optimizer": 0.02},
            )
            for n in range(1, LAST + 4)
        )  # fmt: skip
        mark = MarkSeen(
            update=LAST, t_ns=1, num_threads=3 + obeyed["threads"] + 2 * obeyed["workers"],
            num_children=obeyed["workers"], census={"matmul": {obeyed["dtype"]: 12}},
            flags={"generator": str(self.draw.random()), "tf32_matmul": False},
        )  # fmt: skip
        argv = ["train.py", *(w for k, v in said.items() for w in (f"--{k}", str(v)))]
        evidence = Evidence(
            hello={"num_threads": obeyed["threads"], **({"argv": argv} if self.argv else {})},
            updates=updates, marks=(mark,), loaded_files=(f"/tree{len(self.launched)}/train.py",),
        )  # fmt: skip
        time = 0.1 * (1 - self.fused_gain * obeyed["fused"] - 0.1 * len(patches))
        return observe(
            evidence, update_s=time * (1 + self.draw.gauss(0, self.noise)), last_update=LAST,
            peak_bytes=500_000_000 + self.draw.randrange(20_000_000),
        )  # fmt: skip

    def silent(self, equal=("t1", "t2", "t3", "t4")):
        found = silent_knobs(
            SURFACE, comparisons_of(SURFACE, self.launched), self.observed, equal=equal,
            claims=CLAIMS, reached_by=REACHED,
        )  # fmt: skip
        return {each.knob: each for each in found}


def measured(*ignored, **how):
    program = Program(*ignored, **how)
    for _ in range(4):
        program.launch()
    return program


TURNS = {
    "micro": {"micro": 4, "accum": 2}, "dtype": {"dtype": "bfloat16"}, "workers": {"workers": 2},
    "threads": {"threads": 2}, "fused": {"fused": True},
}  # fmt: skip


@pytest.mark.parametrize("deterministic", [True, False])
@pytest.mark.parametrize("turned", TURNS)
def test_a_knob_that_is_obeyed_is_not_accused_and_one_that_is_ignored_is(turned, deterministic):
    for ignored in ((), (turned, "accum")):
        program = measured(*ignored, deterministic=deterministic)
        program.launch(**TURNS[turned])
        expected = {turned, "accum"} & set(TURNS[turned]) if ignored else set()
        assert set(program.silent()) == expected


def test_the_sentence_says_what_was_compared_and_no_more():
    program = measured("micro", "accum", "fused")
    program.launch(micro=4, accum=2)
    program.launch(fused=True)
    found = program.silent()
    micro = found["micro"]
    assert micro.values == (4,)
    assert micro.default == 2
    assert micro.together_with == ("accum",)
    assert micro.trials == ("t5", "t1", "t2", "t3", "t4")
    assert micro.compared == (
        "the same forwards an update (4) and rows a forward (2); --micro was on the command line "
        "of the training process"
    )
    assert "loss of every update" in found["fused"].compared
    assert "either way is noise" in found["fused"].compared
    assert "what it prints and writes was not compared" in found["fused"].compared


def test_a_flag_that_never_reached_the_program_is_told_apart():
    program = measured("workers")
    name = program.launch(workers=2)
    seen = program.observed[name]
    program.observed[name] = type(seen)(
        seen.exact, seen.update_s, seen.peak_bytes, seen.phases, ("train.py",)
    )
    assert "--workers was not on the command line" in program.silent()["workers"].compared
    unknown = measured("workers", argv=False)
    unknown.launch(workers=2)
    assert "command line" not in unknown.silent()["workers"].compared


def test_a_micro_batch_is_judged_by_its_forwards_though_time_differs():
    program = measured("micro", "accum", noise=0.0)
    name = program.launch(micro=8, accum=1)
    seen = program.observed[name]
    program.observed[name] = type(seen)(
        {**seen.exact, "loss of every update": (1.0,)}, seen.update_s * 2, 10**9, seen.phases,
        seen.argv,
    )  # fmt: skip
    assert set(program.silent()) == {"micro", "accum"}


def test_without_its_surest_sign_a_knob_is_compared_in_everything():
    for update_s, told in ((0.1, {"workers"}), (0.07, set())):
        program = measured("workers", noise=0.0)
        program.launch(workers=2)
        for name, seen in program.observed.items():
            exact = {**seen.exact, "child processes": None}
            time = update_s if name == "t5" else 0.1
            program.observed[name] = type(seen)(exact, time, seen.peak_bytes, seen.phases)
        assert set(program.silent()) == told


def test_one_launch_that_shows_an_effect_acquits_the_knob():
    program = measured(noise=0.0, fused_gain=0.0)
    program.launch(fused=True)
    assert program.silent() == {}, "its losses differ by a bit"
    program = measured("fused")
    program.launch(fused=True)
    program.ignored = ()
    program.launch(fused=True, patches=("sdpa",))
    assert set(program.silent()) == {"fused"}, "a launch that differs in more tells nothing"
    program.launch(patches=("sdpa",))
    assert program.silent() == {}


def test_an_effect_within_the_noise_of_a_program_that_repeats_nothing_is_not_seen():
    program = measured(deterministic=False, noise=0.02, fused_gain=0.01)
    program.launch(fused=True)
    assert set(program.silent()) == {"fused"}
    assert "loss" not in program.silent()["fused"].compared


def test_where_nothing_was_seen_nothing_is_said():
    program = Program()
    for _ in range(2):
        program.launch()
        program.launch(fused=True)
    blind = observe(Evidence(), update_s=None, peak_bytes=None, last_update=LAST)
    program.observed = dict.fromkeys(program.observed, blind)
    assert program.silent(equal=("t1", "t3")) == {}
    assert silent_knobs(SURFACE, (), {}, equal=(), claims=CLAIMS, reached_by=REACHED) == ()


def test_knobs_that_were_never_turned_alone_are_not_compared():
    program = measured("workers", "threads")
    program.launch(workers=2, threads=2)
    program.launch(workers=2, patches=("sdpa",))
    assert program.silent() == {}


def test_noise_of_time_and_memory_seldom_hides_an_ignored_knob():
    noticed = 0
    for seed in range(40):
        program = Program("fused")
        program.draw = random.Random(seed)
        for _ in range(4):
            program.launch()
        program.launch(fused=True)
        noticed += set(program.silent()) == {"fused"}
    assert noticed >= 36
