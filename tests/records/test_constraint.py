"""Constraints between knobs are read when the contract is, and say what is wrong in them."""

import pytest
from pydantic import ValidationError

from infrarsi.errors import ContractError
from infrarsi.records.constraint import (
    check_names,
    constraint_holds,
    first_broken,
    names_in,
    values_in_words,
)
from infrarsi.records.task import Flag, Knob, Surface
from infrarsi.store.contract import read_contract

KNOBS = {"compile": True, "attention": "sdpa", "micro": 4, "accum": 2, "depth": None}


@pytest.mark.parametrize(
    ("expression", "holds"),
    [
        ("attention == 'sdpa'", True),
        ("attention != 'eager'", True),
        ("attention in ('sdpa', 'flash')", True),
        ("attention not in ['sdpa', 'flash']", False),
        ("attention in {'eager'}", False),
        ("micro in (1, 2, 4) and accum in (2,)", True),
        ("not compile or attention == 'sdpa'", True),
        ("not compile or attention == 'eager'", False),
        ("attention == 'eager' or micro * accum == 8", True),
        ("depth == None", True),
        ("compile == True", True),
        (" micro * accum == 8 ", True),
    ],
)
def test_words_membership_and_implications_are_read(expression, holds):
    assert constraint_holds(expression, KNOBS) is holds


@pytest.mark.parametrize(
    "expression",
    ["attention in micro", "micro in attention", "attention in 'sdpa'", "micro in (a, b)",
     "[1] == [1]", "micro in (1, open('x'))", "compile is True", "micro if compile else accum",
     "f'{micro}' == '4'", "(micro := 2)"],
)  # fmt: skip
def test_what_is_no_literal_membership_is_refused(expression):
    with pytest.raises(ValueError, match="in the constraint"):
        constraint_holds(expression, KNOBS)


@pytest.mark.parametrize(
    "expression", ["micro == 4 or micr == 2", "not compile and unknown", "0 == 1 and acum == 2"]
)
def test_an_unknown_name_is_refused_though_it_would_not_be_reached(expression):
    with pytest.raises(ValueError, match="no knob of that name"):
        constraint_holds(expression, KNOBS)


def test_the_nearest_knob_is_named():
    with pytest.raises(ValueError, match="did you mean micro"):
        check_names("micr * accum == 8", KNOBS)
    with pytest.raises(ValueError, match="knobs are: compile, attention"):
        check_names("zzz == 8", KNOBS)


def test_names_and_values_are_given_in_the_order_of_the_expression():
    assert names_in("accum * micro == 8 or accum == 1") == ("accum", "micro")
    said = values_in_words("attention in ('a', 'b') or micro == 1", KNOBS)
    assert said == "attention='sdpa', micro=4"


def surface(*constraints, default=2):
    knobs = [Knob(name=n, reach=Flag(flag=f"--{n}"), values=(1, 2, 4), default=default)
             for n in ("micro", "accum")]  # fmt: skip
    return Surface(editable=(), knobs=tuple(knobs), constraints=constraints)


def test_a_constraint_that_the_defaults_break_names_itself_and_the_values():
    with pytest.raises(ValidationError, match=r"broken by the defaults \(micro=2, accum=2\)"):
        surface("micro * accum == 8")


def test_a_contract_with_an_unknown_knob_in_a_constraint_is_refused_when_it_is_read(tmp_path):
    place = tmp_path / "infrarsi.yaml"
    place.write_text(
        "schema_version: 1\nname: a\ntask:\n  command: [python, t.py]\n"
        "  surface: {editable: [], constraints: ['micro == 2 or acum == 1'], knobs: [\n"
        "    {name: micro, reach: {kind: flag, flag: --micro}, values: [1, 2], default: 2},\n"
        "    {name: accum, reach: {kind: flag, flag: --accum}, values: [1, 2], default: 2}]}\n"
        "  memory: {capacity_bytes: 1}\n"
    )
    with pytest.raises(ContractError, match="no knob of that name; did you mean accum") as caught:
        read_contract(place)
    assert caught.value.exit_code == 3


@pytest.mark.parametrize(
    ("reach", "says"),
    [
        ({"kind": "flag", "flag": "x"}, "should match pattern"),
        ({"kind": "flag", "flag": "--x=1"}, "should match pattern"),
        ({"kind": "flag", "flag": "-x", "style": "negatable"}, "needs its negation named"),
        ({"kind": "flag", "flag": "--x", "style": "presence"}, "takes only true and false"),
        ({"kind": "config", "file": "/etc/c.yaml", "key": "a"}, "outside the repository"),
        ({"kind": "config", "file": "../c.yaml", "key": "a"}, "outside the repository"),
        ({"kind": "config", "file": "c.ini", "key": "a"}, "neither YAML nor TOML nor JSON"),
        ({"kind": "override", "key": "+a"}, "should match pattern"),
        ({"kind": "environment", "variable": "a b"}, "should match pattern"),
        ({"kind": "telepathy"}, "does not match any of the expected tags"),
    ],
)
def test_a_way_that_cannot_work_is_refused_when_the_contract_is_read(reach, says):
    with pytest.raises(ValidationError, match=says):
        Knob.model_validate({"name": "x", "reach": reach, "values": (1, 2), "default": 1})


def test_a_file_is_named_in_one_way():
    reach = {"kind": "config", "file": "./conf//c.YAML", "key": "a"}
    knob = Knob.model_validate({"name": "x", "reach": reach, "values": (1, 2), "default": 1})
    assert knob.reach.file == "conf/c.YAML"


def test_a_default_that_is_no_value_is_told_with_the_values():
    with pytest.raises(
        ValidationError, match=r"the default 3 of knob 'x' is not one of .*\(1, 2\)"
    ):
        Knob(name="x", reach=Flag(flag="--x"), values=(1, 2), default=3)


def test_the_first_broken_constraint_is_given_and_one_that_cannot_be_computed_is_broken():
    constraints = ("micro * accum == 8", "depth == None or depth > 1", "depth * 2 == 4")
    assert first_broken(constraints[:2], KNOBS) is None
    assert first_broken(constraints, KNOBS) == "depth * 2 == 4"
    assert first_broken(constraints, {**KNOBS, "micro": 1}) == "micro * accum == 8"
