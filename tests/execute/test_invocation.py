"""A knob reaches the program as its contract says, and only where it differs from the default."""

import json
import sys
import tomllib

import pytest
import yaml

from infrarsi.errors import ContractError
from infrarsi.execute.invocation import invocation_of
from infrarsi.records.task import ConfigKey, Environment, Flag, Knob, Memory, Surface, Task


def task(knob, command=("python", "train.py"), python=None):
    surface = Surface(editable=(), knobs=(knob,))
    memory = Memory(capacity_bytes=1)
    return Task(command=command, python=python, surface=surface, memory=memory)


def flag(style="space", values=(1, 2, None), default=1, **reach):
    return Knob(
        name="x", reach=Flag(flag="--x", style=style, **reach), values=values, default=default
    )


def typed(knob, value, command=("python", "train.py")):
    return invocation_of(task(knob, command), {"x": value}, {}).argv[1:]


BOOLS = (False, True)


@pytest.mark.parametrize(
    ("knob", "value", "command", "argv"),
    [
        (flag(), 2, ("python", "t.py"), ("t.py", "--x", "2")),
        (flag(), 2, ("python", "t.py", "--x", "1"), ("t.py", "--x", "2")),
        (flag(), 2, ("python", "t.py", "--x=1", "--y"), ("t.py", "--y", "--x", "2")),
        (flag(), None, ("python", "t.py", "--x", "1"), ("t.py",)),
        (flag(), 1, ("python", "t.py", "--x", "1"), ("t.py", "--x", "1")),
        (flag("equals"), 2, ("python", "t.py", "--x=1"), ("t.py", "--x=2")),
        (flag("presence", BOOLS, False), True, ("python", "t.py"), ("t.py", "--x")),
        (flag("presence", BOOLS, True), False, ("python", "t.py", "--x"), ("t.py",)),
        (flag("negatable", BOOLS, True), False, ("python", "t.py"), ("t.py", "--no-x")),
        (flag("negatable", BOOLS, True), False, ("python", "t.py", "--x"), ("t.py", "--no-x")),
        (flag("negatable", BOOLS, False), True, ("python", "t.py", "--no-x"), ("t.py", "--x")),
        (flag("negatable", BOOLS, True, negation="--off"), False, ("python", "t.py"),
         ("t.py", "--off")),
        (flag(values=("a", "b c"), default="a"), "b c", ("python", "t.py"), ("t.py", "--x", "b c")),
        (flag(values=(0.1, 0.2), default=0.1), 0.2, ("python", "t.py"), ("t.py", "--x", "0.2")),
    ],
)  # fmt: skip
def test_a_flag_is_typed_in_its_own_style(knob, value, command, argv):
    assert typed(knob, value, command) == argv


def test_an_environment_variable_is_set_and_unset():
    knob = Knob(name="x", reach=Environment(variable="OMP"), values=(None, "2", True), default=None)
    assert invocation_of(task(knob), {"x": "2"}, {}).env == {"OMP": "2"}
    assert invocation_of(task(knob), {"x": True}, {}).env == {"OMP": "true"}
    assert invocation_of(task(knob), {"x": None}, {}).env == {}
    knob = knob.model_copy(update={"default": "2"})
    assert invocation_of(task(knob), {"x": None}, {}).unset == ("OMP",)


@pytest.mark.parametrize(
    ("file", "before", "read"),
    [
        ("c.json", '{"train": {"mb": 4, "lr": 0.1}}', json.loads),
        ("c.yaml", "train:\n  mb: 4\n  lr: 0.1\n", yaml.safe_load),
        ("c.toml", "mb = 1\n[train]\nmb = 4\nlr = 0.1\n", tomllib.loads),
    ],
)
def test_a_key_of_a_configuration_file_is_set(file, before, read):
    knob = Knob(name="x", reach=ConfigKey(file=file, key="train.mb"), values=(4, 8), default=4)
    found = invocation_of(task(knob), {"x": 8}, {file: before.encode()})
    assert read(found.files[file].decode())["train"] == {"mb": 8, "lr": 0.1}
    assert invocation_of(task(knob), {"x": 4}, {file: before.encode()}).files == {}


@pytest.mark.parametrize("file", ["c.json", "c.yaml", "c.toml", "c.ini"])
def test_a_key_that_is_not_there_is_refused(file):
    before = {"c.json": b'{"a": 1}', "c.yaml": b"a: 1\n", "c.toml": b"a = 1\n", "c.ini": b""}
    knob = Knob(name="x", reach=ConfigKey(file=file, key="train.mb"), values=(4, 8), default=4)
    with pytest.raises(ContractError):
        invocation_of(task(knob), {"x": 8}, before)


def test_an_unknown_knob_and_a_foreign_value_are_refused():
    with pytest.raises(ContractError, match="no knob 'y'"):
        invocation_of(task(flag()), {"y": 1}, {})
    with pytest.raises(ContractError, match="7 is not a value"):
        invocation_of(task(flag()), {"x": 7}, {})
    with pytest.raises(ContractError, match="True is not a value"):
        invocation_of(task(flag()), {"x": True}, {})


def test_the_training_interpreter_stands_in_for_python():
    assert invocation_of(task(flag()), {}, {}).argv[0] == sys.executable
    assert invocation_of(task(flag(), python="/opt/venv/bin/python"), {}, {}).argv[0] == (
        "/opt/venv/bin/python"
    )
    assert invocation_of(task(flag(), ("torchrun", "t.py")), {}, {}).argv[0] == "torchrun"
