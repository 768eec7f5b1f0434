"""Records are strict, and constraints are read, never run."""

import pytest
from pydantic import ValidationError

from infrarsi.records.candidate import Candidate
from infrarsi.records.constraint import constraint_holds
from infrarsi.records.estimate import Estimate
from infrarsi.records.evidence import read_evidence
from infrarsi.records.task import Flag, Knob, Surface


@pytest.mark.parametrize(
    ("expression", "holds"),
    [
        ("micro * accum == 32", True),
        ("micro * accum * 2 == 32", False),
        ("micro <= 8 and not accum > 4", True),
        ("micro % 2 == 0 or accum == 0", True),
        ("1 <= micro < 8", False),
        ("-micro + 40 // accum == 2", True),
        ("kind == 'a'", True),
    ],
)
def test_a_constraint_holds_or_not(expression, holds):
    assert constraint_holds(expression, {"micro": 8, "accum": 4, "kind": "a"}) is holds


@pytest.mark.parametrize(
    "expression",
    ["__import__('os')", "micro.bit_length()", "micro[0]", "unknown == 1", "micro ==", "lambda: 1",
     "micro / 0", "micro < 'a'", "[1]", "micro is 1"],
)  # fmt: skip
def test_anything_else_is_refused(expression):
    with pytest.raises(ValueError, match="constraint"):
        constraint_holds(expression, {"micro": 8})


def knob(name="x", default=1, values=(1, 2)):
    return Knob(name=name, reach=Flag(flag="--x"), values=values, default=default)


def test_a_default_must_be_one_of_the_values():
    with pytest.raises(ValidationError, match="not one of its values"):
        knob(default=3)
    with pytest.raises(ValidationError, match="not one of its values"):
        knob(default=True)


def test_the_defaults_must_meet_the_constraints():
    with pytest.raises(ValidationError, match="broken by the defaults"):
        Surface(editable=(), knobs=(knob(),), constraints=("x == 2",))
    with pytest.raises(ValidationError, match="share a name"):
        Surface(editable=(), knobs=(knob(), knob()))


def test_a_candidate_is_the_same_whatever_the_order():
    left = Candidate.of({"a": 1, "b": 2}, ["y", "x", "y"])
    right = Candidate.of({"b": 2, "a": 1}, ["x", "y"])
    assert left.digest() == right.digest()
    assert Candidate.of({"a": True}).digest() != Candidate.of({"a": 1}).digest()


def test_a_record_comes_back_from_its_bytes():
    candidate = Candidate.of({"a": None, "b": 0.5}, ["ü"])
    assert Candidate.from_bytes(candidate.to_bytes()) == candidate


def test_numbers_that_are_none_are_refused():
    with pytest.raises(ValidationError):
        Estimate(low=float("nan"), point=1.0, high=2.0)
    with pytest.raises(ValidationError, match="low <= point"):
        Estimate(low=2.0, point=1.0, high=3.0)


def test_evidence_counts_what_it_cannot_read():
    lines = [
        '{"t_ns": 5, "event": {"kind": "update", "update": 1}}',
        '{"t_ns": 6, "event": {"kind": "values", "update": 1, "loss": "nan", "forwards": 1}}',
        '{"t_ns": 7, "event": {"kind": "values", "update": 1, "loss": 1.0, "forwards": 1}}',
        '{"t_ns": 8, "event": {"kind": "update", "update": 1}}',
        '{"t_ns": 9, "event": {"kind": "unheard of"}}',
        "not json",
    ]
    evidence = read_evidence(lines)
    assert evidence.malformed == 4
    assert evidence.updates[0].loss is None
    assert evidence.updates[0].non_finite == ("loss",)
