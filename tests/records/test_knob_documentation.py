"""Every form of a knob in docs/knobs.md is one that a contract takes, and none is left out."""

import re
from pathlib import Path

import yaml

from infrarsi.records.task import ConfigKey, Environment, Flag, Knob, Override

DOCUMENT = Path(__file__).parents[2] / "docs" / "knobs.md"


def test_the_documented_forms_are_those_of_the_contract():
    forms = re.findall(r"^\| `(\{kind: [^`]+\})` \|", DOCUMENT.read_text(), re.MULTILINE)
    reaches = []
    for form in forms:
        knob = {
            "name": "x",
            "reach": yaml.safe_load(form),
            "values": [False, True],
            "default": False,
        }
        reaches.append(Knob.model_validate(knob).reach)
    assert {type(each) for each in reaches} == {Flag, Environment, ConfigKey, Override}
    styles = {each.style for each in reaches if isinstance(each, Flag)}
    assert styles == set(Flag.model_fields["style"].annotation.__args__)
