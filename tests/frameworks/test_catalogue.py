"""Knobs are drafted from what a program declares, and only where they leave the training the same."""

import pytest

from infrarsi.frameworks.catalogue import draft_knobs, role_of
from infrarsi.frameworks.program import find_settings
from infrarsi.records.task import ConfigKey, Environment, Flag, Knob, Override, Surface

SOURCE = """
import argparse
p = argparse.ArgumentParser()
p.add_argument("-b", "--batch-size", type=int, default=8)
p.add_argument("--gradient_accumulation_steps", type=int, default=2)
p.add_argument("--lr", type=float, default=1e-3)
p.add_argument("--gradient-checkpointing", action="store_true")
p.add_argument("--compile", action=argparse.BooleanOptionalAction, default=False)
p.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
p.add_argument("--num-workers", type=int, default=3)
p.add_argument("--data", required=True)
p.add_argument("--layers", type=parse_layers, default=DEFAULT)
p.add_argument("positional")
"""


def names(knobs):
    return {knob.name: knob for knob in knobs}


def test_settings_are_read_without_running_the_program():
    settings = {each.name: each for each in find_settings(SOURCE)}
    assert settings["batch_size"].default == 8
    assert settings["gradient_checkpointing"].style == "presence"
    assert settings["compile"].style == "negatable"
    assert settings["dtype"].choices == ("float32", "bfloat16")
    assert "positional" not in settings
    assert "layers" not in settings


@pytest.mark.parametrize("source", ["not python (", "\0", ""])
def test_what_is_not_python_gives_no_settings(source):
    assert find_settings(source) == ()


def test_settings_that_change_the_training_are_no_knobs():
    knobs, _ = draft_knobs(find_settings(SOURCE), ("python", "t.py"), device="cpu")
    assert set(names(knobs)) == {
        "batch_size", "gradient_accumulation_steps", "gradient_checkpointing", "compile", "dtype",
        "num_workers", "malloc", "huge_pages",
    }  # fmt: skip


def test_the_global_batch_is_tied():
    knobs, constraints = draft_knobs(find_settings(SOURCE), ("python", "t.py"), device="cpu")
    assert constraints == ("batch_size * gradient_accumulation_steps == 16",)
    assert names(knobs)["batch_size"].values == (1, 2, 4, 8, 16)
    Surface(editable=(), knobs=knobs, constraints=constraints)


def test_the_command_gives_the_defaults():
    command = ("python", "t.py", "--batch-size=4", "--dtype", "bfloat16", "--compile",
               "--gradient-checkpointing", "--num-workers", "7")  # fmt: skip
    knobs, constraints = draft_knobs(find_settings(SOURCE), command, device="cpu")
    drafted = names(knobs)
    assert drafted["batch_size"].default == 4
    assert constraints == ("batch_size * gradient_accumulation_steps == 8",)
    assert drafted["dtype"].default == "bfloat16"
    assert drafted["compile"].default is True
    assert drafted["gradient_checkpointing"].default is True
    assert drafted["num_workers"].values == (0, 1, 2, 4, 7)


def test_a_batch_without_accumulation_is_left_alone():
    source = 'p.add_argument("--batch-size", type=int, default=8)'
    knobs, constraints = draft_knobs(find_settings(source), ("python", "t.py"), device="cuda")
    assert set(names(knobs)) == {"expandable_segments"}
    assert constraints == ()


def test_recomputation_lowers_memory():
    knobs, _ = draft_knobs(find_settings(SOURCE), ("python", "t.py"), device="cpu")
    assert names(knobs)["gradient_checkpointing"].raises_memory == "down"


@pytest.mark.parametrize(
    ("reach", "role"),
    [
        (Flag(flag="--gradient-checkpointing"), "recompute"),
        (Flag(flag="--train.activation_checkpointing"), "recompute"),
        (Override(key="trainer.compile"), "compile"),
        (ConfigKey(file="a.yaml", key="data.num_workers"), "workers"),
        (Flag(flag="--per-device-train-batch-size"), "batch_micro"),
        (Flag(flag="--gradient_accumulation_steps"), "batch_accumulation"),
        (Environment(variable="GLIBC_TUNABLES"), None),
        (Flag(flag="--fused"), None),
    ],
)
def test_a_knob_is_known_by_what_it_is_whatever_its_program_calls_it(reach, role):
    assert role_of(Knob(name="x", reach=reach, values=(1, 2), default=1)) == role
