"""A contract whose knobs cannot work is refused before anything runs: two sentences, exit code 3."""

import pytest
import yaml

CONTRACT = {
    "schema_version": 1,
    "name": "tied",
    "task": {
        "command": ["python", "train.py", "--batch-size", "4"],
        "surface": {
            "editable": ["train.py"],
            "knobs": [
                {"name": "batch", "reach": {"kind": "flag", "flag": "--batch-size"},
                 "values": [1, 2, 4], "default": 4},
                {"name": "accum", "reach": {"kind": "flag", "flag": "--grad-accum"},
                 "values": [1, 2, 4], "default": 1},
            ],
            "constraints": ["batch * accum == 4"],
        },
        "memory": {"capacity_bytes": 2_000_000_000},
    },
}  # fmt: skip


def unknown_name(surface):
    surface["constraints"] = ["batch == 4 or acum == 1"]


def broken(surface):
    surface["constraints"] = ["batch * accum == 8"]


def no_value(surface):
    surface["knobs"][0]["default"] = 3


def contradicted(surface):
    surface["knobs"][0]["default"], surface["constraints"] = 2, []


def absent_key(surface):
    reach = {"kind": "config", "file": "conf.yaml", "key": "micro_batch"}
    surface["knobs"].append({"name": "mb", "reach": reach, "values": [1, 2], "default": 1})


def outside(surface):
    reach = {"kind": "config", "file": "../conf.yaml", "key": "a"}
    surface["knobs"].append({"name": "mb", "reach": reach, "values": [1, 2], "default": 1})


REFUSED = [
    (unknown_name, "there is no knob of that name; did you mean accum"),
    (broken, "'batch * accum == 8' is broken by the defaults (batch=4, accum=1)"),
    (no_value, "the default 3 of knob 'batch' is not one of its values (1, 2, 4)"),
    (contradicted, "the knob 'batch' has the default 2, but the reference launch has 4"),
    (absent_key, "the nearest keys are: train.micro_batch"),
    (outside, "the knob's file ../conf.yaml lies outside the repository"),
]


@pytest.mark.parametrize(("change", "says"), REFUSED, ids=[each.__name__ for each, _ in REFUSED])
def test_a_contract_with_knobs_that_cannot_work(user, change, says):
    (user.root / "conf.yaml").write_text("train: {micro_batch: 1}\n")
    user.git("add", "-A")
    user.git("commit", "-qm", "configuration")
    contract = yaml.safe_load(yaml.safe_dump(CONTRACT))
    change(contract["task"]["surface"])
    (user.root / "infrarsi.yaml").write_text(yaml.safe_dump(contract))
    assert says in user.refused("init", code=3)
    assert not (user.root / ".infrarsi" / "trees").exists()
