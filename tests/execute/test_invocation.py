"""A knob reaches the program as its contract says, and only where it differs from the default."""

import json
import tomllib

import pytest
import yaml

from infrarsi.errors import ContractError
from infrarsi.execute.invocation import check_reference, invocation_of
from infrarsi.records.task import (
    ConfigKey,
    Environment,
    Flag,
    Knob,
    Memory,
    Override,
    Surface,
    Task,
)


def task(knob, command=("python", "train.py")):
    surface = Surface(editable=(), knobs=(knob,))
    memory = Memory(capacity_bytes=1)
    return Task(command=command, surface=surface, memory=memory)


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
        (flag(), 2, ("python", "t.py", "--x=1", "--y"), ("t.py", "--x=2", "--y")),
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


@pytest.mark.parametrize(
    ("style", "value", "given", "argv"),
    [
        # The command's own spelling and place stay, whatever the contract's style.
        ("equals", 2, ["--x", "1", "--y"], ["--x", "2", "--y"]),
        ("space", 2, ["--x=1", "--y"], ["--x=2", "--y"]),
        ("space", 2, ["--y", "--x", "1", "pos"], ["--y", "--x", "2", "pos"]),
        ("space", 2, ["--x", "1", "--y", "--x=5"], ["--y", "--x=2"]),
        ("space", None, ["--x", "1", "--y", "--x=5"], ["--y"]),
        # Nothing of it in the command: at the end, before a separator.
        ("space", 2, ["--y", "--", "pos"], ["--y", "--x", "2", "--", "pos"]),
        ("equals", 2, ["--", "--x", "1"], ["--x=2", "--", "--x", "1"]),
        # A switch without a value is not given the next flag for one.
        ("equals", 2, ["--x", "--y", "1"], ["--x=2", "--y", "1"]),
        ("space", 2, ["--xx", "1", "--x-y=3"], ["--xx", "1", "--x-y=3", "--x", "2"]),
        # Numbers below zero: argparse takes -1e-05 for a flag.
        ("space", -1, ["--x", "-7", "--y"], ["--x", "-1", "--y"]),
        ("space", -0.5, [], ["--x", "-0.5"]),
        ("space", -1e-5, ["--x", "1"], ["--x=-1e-05"]),
        ("space", "-a", [], ["--x=-a"]),
        # Lists, one argument each or the flag again and again.
        ("list", "2 'b c'", ["--x", "1", "-3", "a", "--y"], ["--x", "2", "b c", "--y"]),
        ("list", "", ["--x", "1", "2"], ["--x"]),
        ("list", None, ["--x", "1", "2", "--y"], ["--y"]),
        ("repeated", "2 3", ["--x", "1", "--y", "--x", "5"], ["--x", "2", "--x", "3", "--y"]),
        ("repeated", "2 3", ["--y", "--x=5"], ["--y", "--x=2", "--x=3"]),
        # JSON is text; a shell never sees it.
        ("space", '{"a": [1, null]}', [], ["--x", '{"a": [1, null]}']),
        ("python", True, ["--x=False"], ["--x=True"]),
        ("python", None, [], ["--x=None"]),
        ("python", "bf16", ["--x=a"], ["--x=bf16"]),
        ("presence", True, ["--y"], ["--y", "--x"]),
        ("presence", False, ["--x", "--y", "--x"], ["--y"]),
    ],
)
def test_a_flag_keeps_the_form_that_the_command_gives_it(style, value, given, argv):
    switch = isinstance(value, bool) and style != "python"
    other = not value if switch else "another"
    knob = flag(style, (other, value), other)
    assert list(typed(knob, value, ("python", "t.py", *given))) == ["t.py", *argv]


def test_dashes_and_underscores_are_one_flag():
    reach = Flag(flag="--batch_size")
    knob = Knob(name="x", reach=reach, values=(1, 2), default=1)
    assert typed(knob, 2, ("python", "t.py", "--batch-size", "1")) == ("t.py", "--batch-size", "2")
    negatable = flag("negatable", BOOLS, True, negation="--no_x")
    assert typed(negatable, False, ("python", "t.py", "--no-x")) == ("t.py", "--no_x")


def test_short_flags_keep_their_value_where_it_is():
    knob = Knob(name="x", reach=Flag(flag="-b"), values=(1, 2, -1e-9), default=1)
    assert typed(knob, 2, ("python", "t.py", "-b", "1")) == ("t.py", "-b", "2")
    assert typed(knob, 2, ("python", "t.py", "-b1")) == ("t.py", "-b2")
    assert typed(knob, 2, ("python", "t.py", "-bx", "-y")) == ("t.py", "-b2", "-y")
    assert typed(knob, -1e-9, ("python", "t.py", "-b", "1")) == ("t.py", "-b-1e-09")


@pytest.mark.parametrize(
    "launcher",
    [
        ["torchrun", "--x", "9", "--nproc_per_node", "2", "t.py"],
        ["torchrun", "--x=9", "--standalone", "-m", "pkg.train"],
        ["python", "-m", "torch.distributed.run", "--x", "9", "t.py"],
        ["accelerate", "launch", "--x", "9", "--config_file", "a.yaml", "t.py"],
        ["python3", "-u", "-m", "pkg.train"],
        ["uv", "run", "t.py"],
        ["/opt/env/bin/python", "-X", "dev", "sub folder/t.py"],
        ["bash", "run.sh"],
        ["mytrain"],
    ],
)
def test_a_flag_lands_after_the_script_and_never_among_the_launchers(launcher):
    for given, argv in (
        ([], ["--x", "2"]),
        (["--x", "1", "--y"], ["--x", "2", "--y"]),
        (["--y", "--x=1"], ["--y", "--x=2"]),
    ):
        found = invocation_of(task(flag(), (*launcher, *given)), {"x": 2}, {})
        assert list(found.argv) == [*launcher, *argv]


def test_a_line_for_a_shell_has_no_place_for_a_flag():
    with pytest.raises(ContractError, match="hands a line to a shell") as caught:
        invocation_of(task(flag(), ("bash", "-c", "python t.py --x 1")), {"x": 2}, {})
    assert "$@" in caught.value.hint


@pytest.mark.parametrize(
    ("value", "given", "argv"),
    [
        (8, [], ["train.mb=8"]),
        (8, ["a=1", "train.mb=4", "b=2"], ["a=1", "train.mb=8", "b=2"]),
        (8, ["+train.mb=4"], ["+train.mb=8"]),
        (8, ["++train.mb=4", "train.mb=5"], ["train.mb=8"]),
        (8, ["train.mb_x=4", "x.train.mb=1"], ["train.mb_x=4", "x.train.mb=1", "train.mb=8"]),
        (True, [], ["train.mb=true"]),
        (None, [], ["train.mb=null"]),
        ("sdpa", [], ["train.mb=sdpa"]),
        ("null", [], ["train.mb='null'"]),
        ("a, b", [], ["train.mb='a, b'"]),
        ("it's", [], ["train.mb='it\\'s'"]),
        ("8", [], ["train.mb='8'"]),
        (1e-5, [], ["train.mb=1e-05"]),
    ],
)
def test_an_override_is_typed_as_hydra_reads_it(value, given, argv):
    knob = Knob(name="x", reach=Override(key="train.mb"), values=("d", value), default="d")
    assert list(typed(knob, value, ("python", "t.py", *given))) == ["t.py", *argv]


def test_an_override_of_a_key_that_is_new_is_added_and_taken_away():
    reach = Override(key="train.mb", prefix="+")
    knob = Knob(name="x", reach=reach, values=(None, 8), default=None)
    assert typed(knob, 8) == ("train.py", "+train.mb=8")
    knob = knob.model_copy(update={"default": 8})
    assert typed(knob, None, ("python", "train.py", "+train.mb=8")) == ("train.py",)


def test_an_environment_variable_is_set_and_unset():
    knob = Knob(name="x", reach=Environment(variable="OMP"), values=(None, "2", True), default=None)
    assert invocation_of(task(knob), {"x": "2"}, {}).env == {"OMP": "2"}
    assert invocation_of(task(knob), {"x": True}, {}).env == {"OMP": "true"}
    assert invocation_of(task(knob), {"x": None}, {}).env == {}
    knob = knob.model_copy(update={"default": "2"})
    assert invocation_of(task(knob), {"x": None}, {}).unset == ("OMP",)


def test_a_variable_is_set_at_its_default_too_so_that_every_shell_trains_the_same():
    knob = Knob(name="x", reach=Environment(variable="OMP"), values=("1", "2"), default="2")
    assert invocation_of(task(knob), {}, {}, environ={"OMP": "7"}).env == {"OMP": "2"}
    unset = Knob(name="x", reach=Environment(variable="OMP"), values=(None, "2"), default=None)
    found = invocation_of(task(unset), {}, {}, environ={"OMP": "7"})
    assert (found.env, found.unset) == ({}, ())


@pytest.mark.parametrize(
    ("present", "value", "text"),
    [
        (None, "expandable_segments:True", "expandable_segments:True"),
        ("", "expandable_segments:True", "expandable_segments:True"),
        ("max_split_size_mb:128", "expandable_segments:True",
         "max_split_size_mb:128,expandable_segments:True"),
        ("expandable_segments:False,max_split_size_mb:128", "expandable_segments:True",
         "max_split_size_mb:128,expandable_segments:True"),
        ("roundup_power2_divisions:[256:1,512:2],a:1", "a:2",
         "roundup_power2_divisions:[256:1,512:2],a:2"),
        ("max_split_size_mb:128", None, None),
    ],
)  # fmt: skip
def test_a_setting_is_added_to_what_the_users_variable_has(present, value, text):
    reach = Environment(variable="PYTORCH_CUDA_ALLOC_CONF", separator=",")
    knob = Knob(name="x", reach=reach, values=(None, value or "b:1"), default=None)
    environ = {} if present is None else {"PYTORCH_CUDA_ALLOC_CONF": present}
    found = invocation_of(task(knob), {"x": value}, {}, environ=environ)
    assert found.env.get("PYTORCH_CUDA_ALLOC_CONF") == text
    assert found.unset == ()


def test_a_setting_is_taken_out_of_a_variable_and_the_rest_stays():
    reach = Environment(variable="V", separator=":")
    knob = Knob(name="x", reach=reach, values=("a=1", None), default="a=1")
    assert invocation_of(task(knob), {"x": None}, {}, environ={"V": "b=2:a=9"}).env == {"V": "b=2"}
    assert invocation_of(task(knob), {"x": None}, {}, environ={"V": "a=9"}).unset == ("V",)


def test_a_variable_without_a_separator_leaves_the_tasks_digest_as_it_was():
    knob = Knob(name="x", reach=Environment(variable="V"), values=(None, "1"), default=None)
    assert b"separator" not in task(knob).to_bytes()
    assert Task.from_bytes(task(knob).to_bytes()) == task(knob)


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


@pytest.mark.parametrize("file", ["c.json", "c.yaml", "c.toml"])
def test_a_key_that_is_not_there_is_refused(file):
    before = {"c.json": b'{"a": 1}', "c.yaml": b"a: 1\n", "c.toml": b"a = 1\n"}
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


def test_a_broken_constraint_is_named_with_its_values():
    knobs = tuple(
        Knob(name=name, reach=Flag(flag=f"--{name}"), values=(1, 2, 4), default=2)
        for name in ("micro", "accum")
    )
    surface = Surface(editable=(), knobs=knobs, constraints=("micro * accum == 4",))
    tied = Task(command=("python", "t.py"), surface=surface, memory=Memory(capacity_bytes=1))
    assert invocation_of(tied, {"micro": 4, "accum": 1}, {}).argv[2:] == (
        "--micro",
        "4",
        "--accum",
        "1",
    )
    with pytest.raises(ContractError, match="is broken by micro=4, accum=2") as caught:
        invocation_of(tied, {"micro": 4}, {})
    assert "'micro * accum == 4'" in str(caught.value)
    assert caught.value.exit_code == 3


@pytest.mark.parametrize(
    ("knob", "command", "says"),
    [
        (flag(), ("--x", "2"), "default 1, but the reference launch has 2 for --x"),
        (flag(), ("--x=2",), "has 2 for --x"),
        (flag(), ("--x=1", "--x=2"), "has 2 for --x"),
        (flag("presence", BOOLS, True), (), "has false for --x"),
        (flag("presence", BOOLS, False), ("--x",), "has true for --x"),
        (flag("negatable", BOOLS, True), ("--no-x",), "has false for --x"),
        (flag("list", values=("1 2", "3"), default="1 2"), ("--x", "1", "3"), "has 1 3"),
        (Knob(name="x", reach=Override(key="a.b"), values=(1, 2), default=1), ("a.b=2",), "has 2"),
        (Knob(name="x", reach=ConfigKey(file="c.yaml", key="a"), values=(1, 2), default=2), (),
         "has 1 for a in c.yaml"),
        (Knob(name="x", reach=ConfigKey(file="c.yaml", key="b"), values=(1, 2), default=2), (),
         "no key b"),
    ],
)  # fmt: skip
def test_a_default_that_is_not_the_references_is_refused(knob, command, says):
    contradicted = task(knob, ("python", "t.py", *command))
    with pytest.raises(ContractError, match=says):
        check_reference(contradicted, {"c.yaml": b"a: 1\n"})


@pytest.mark.parametrize(
    ("knob", "command"),
    [
        (flag(), ()),
        (flag(), ("--x", "1")),
        (flag(values=(0.001, 1), default=0.001), ("--x", "1e-3")),
        (flag("equals", BOOLS, True), ("--x",)),
        (flag("equals", BOOLS, True), ("--x", "True")),
        (flag("presence", BOOLS, False), ()),
        (flag("negatable", BOOLS, False), ("--x", "--no-x")),
        (Knob(name="x", reach=Override(key="a.b"), values=("u", "v"), default="u"), ("+a.b='u'",)),
        (Knob(name="x", reach=ConfigKey(file="c.yaml", key="b", absent=True), values=(1, 2),
              default=2), ()),
    ],
)  # fmt: skip
def test_a_default_that_is_the_references_is_let_be(knob, command):
    check_reference(task(knob, ("python", "t.py", *command)), {"c.yaml": b"a: 1\n"})


def test_a_key_that_the_file_lacks_is_added():
    reach = ConfigKey(file="c.yaml", key="b", absent=True)
    knob = Knob(name="x", reach=reach, values=(1, 2), default=2)
    assert invocation_of(task(knob), {"x": 1}, {"c.yaml": b"a: 1\n"}).files == {
        "c.yaml": b"b: 1\na: 1\n"
    }
    assert invocation_of(task(knob), {"x": 2}, {"c.yaml": b"a: 1\n"}).files == {}


def test_the_command_stays_as_the_user_types_it():
    for command in (("python", "t.py"), ("torchrun", "t.py"), ("/opt/venv/bin/python", "t.py")):
        assert invocation_of(task(flag(), command), {}, {}).argv == command
