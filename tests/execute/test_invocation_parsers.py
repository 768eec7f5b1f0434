"""What is typed means to a real parser just what the knob says, and nothing else changes."""

import argparse

import click
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infrarsi.execute.invocation import check_reference, invocation_of
from infrarsi.records.task import Flag, Knob, Memory, Surface, Task


def parser():
    p = argparse.ArgumentParser()
    p.add_argument("data", nargs="?")
    p.add_argument("-s", "--size", "--batch-size", type=int, default=1)
    p.add_argument("--rate", type=float, default=0.5)
    p.add_argument("--name", default="a")
    p.add_argument("--betas", type=float, nargs="+", default=[0.9, 0.95])
    p.add_argument("--tag", action="append", default=None)
    p.add_argument("--fused", action="store_true")
    p.add_argument("--compile", action=argparse.BooleanOptionalAction, default=True)
    p.add_argument("--amp", type=lambda t: t.lower() in {"true", "1"}, nargs="?", const=True,
                   default=False)  # fmt: skip
    return p


KNOBS = {
    "size": (Flag(flag="--size"), st.integers(-99, 99)),
    "batch-size": (Flag(flag="--batch-size", style="equals"), st.integers(-99, 99)),
    "s": (Flag(flag="-s"), st.integers(0, 99)),
    "rate": (Flag(flag="--rate"), st.floats(-1e9, 1e9)),
    "name": (Flag(flag="--name"), st.text("ab -='\"{}:,é", max_size=6)),
    "betas": (Flag(flag="--betas", style="list"), st.lists(st.integers(-9, 9), min_size=1, max_size=3)),
    "tag": (Flag(flag="--tag", style="repeated"), st.lists(st.sampled_from("ab"), min_size=1, max_size=3)),
    "fused": (Flag(flag="--fused", style="presence"), st.booleans()),
    "compile": (Flag(flag="--compile", style="negatable"), st.booleans()),
    "amp": (Flag(flag="--amp", style="equals"), st.booleans()),
}  # fmt: skip
DESTS = {"batch-size": "size", "s": "size"}
GIVEN = st.lists(
    st.sampled_from([
        ["--size", "3"], ["--size=4"], ["-s", "5"], ["-s6"], ["--batch-size", "-7"], ["--rate=1e-3"],
        ["--rate", "-2"], ["--name", "x y"], ["--name="], ["--betas", "1", "-2", "3"], ["--fused"],
        ["--tag", "q"], ["--tag=r"], ["--no-compile"], ["--compile"], ["--amp"], ["--amp=false"],
    ]),
    max_size=5,
)  # fmt: skip


@settings(max_examples=150, deadline=None, derandomize=True)
@given(name=st.sampled_from(sorted(KNOBS)), given_=GIVEN, data=st.data())
def test_argparse_reads_the_value_and_every_other_one_as_before(name, given_, data):
    reach, values = KNOBS[name]
    value = drawn = data.draw(values)
    if isinstance(drawn, list):
        value = " ".join(map(str, drawn))
    # Of several spellings of one flag the contract names the last one that the command uses.
    others = {f for k in ("size", "batch-size", "s") if k != name and DESTS.get(name, name) == "size"
              for f in (KNOBS[k][0].flag,)}  # fmt: skip
    spoken = [words for words in given_ if not any(words[0].startswith(flag) for flag in others)]
    reference = [*(word for words in spoken for word in words), "--", "data.bin"]
    before = vars(parser().parse_args(reference))
    other = "another" if not isinstance(value, bool) else not value
    knob = Knob(name="x", reach=reach, values=(other, value), default=other)
    task = Task(
        command=("torchrun", "--rate", "9", "t.py", *reference), memory=Memory(capacity_bytes=1),
        surface=Surface(editable=(), knobs=(knob,)),
    )  # fmt: skip
    argv = invocation_of(task, {"x": value}, {}).argv
    assert argv[:4] == task.command[:4]
    after = vars(parser().parse_args(argv[4:]))
    dest = DESTS.get(name, name)
    assert after.pop(dest) == drawn
    before.pop(dest)
    assert after == before
    turned = knob.model_copy(update={"default": value})
    check_reference(task.model_copy(update={
        "command": argv, "surface": Surface(editable=(), knobs=(turned,)),
    }), {})  # fmt: skip


@pytest.mark.parametrize("given_", [[], ["-b", "3"], ["--batch=3"], ["--eager"], ["-b3", "--fast"]])
def test_click_reads_it_too(given_):
    @click.command()
    @click.option("-b", "--batch", type=int, default=1)
    @click.option("--fast/--eager", default=False)
    def train(batch, fast):
        return batch, fast

    knobs = (
        Knob(name="b", reach=Flag(flag="-b"), values=(0, 8), default=0),
        Knob(name="f", reach=Flag(flag="--fast", style="negatable", negation="--eager"),
             values=(False, True), default=False),
    )  # fmt: skip
    task = Task(
        command=("python", "t.py", *given_), memory=Memory(capacity_bytes=1),
        surface=Surface(editable=(), knobs=knobs),
    )  # fmt: skip
    argv = invocation_of(task, {"b": 8, "f": True}, {}).argv[2:]
    assert train.main(list(argv), standalone_mode=False) == (8, True)
