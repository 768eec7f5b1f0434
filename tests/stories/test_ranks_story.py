"""A launch of two ranks, as its owner types it."""

import re
from pathlib import Path

import pytest
import yaml

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "ddp_gpt"
LAUNCH = ("torchrun", "--standalone", "--nproc_per_node=2", "train.py", "--depth=2", "--dim=32")


@pytest.fixture
def owner(owner_of, tmp_path):
    pytest.importorskip("torch")
    return owner_of(tmp_path / "training on two ranks", EXAMPLE)


@pytest.mark.training
def test_both_ranks_are_rehearsed_and_the_launchers_flags_are_no_knobs(owner):
    said = owner.infrarsi("init", "--", *LAUNCH, "--heads=2", "--context=32").stdout
    assert re.search(r"Rehearsed \d+ updates: 128 tokens on 2 ranks, in 1 forward", said), said
    task = yaml.safe_load((owner.root / "infrarsi.yaml").read_text())["task"]
    assert task["command"] == [*LAUNCH, "--heads=2", "--context=32"]
    assert task["surface"]["editable"] == ["model.py", "train.py"]
    assert "nproc_per_node" not in {knob["name"] for knob in task["surface"]["knobs"]}


@pytest.mark.training
def test_a_rank_that_dies_is_told_by_its_own_words(owner):
    said = owner.refused("init", "--", *LAUNCH, "--heads=3", code=8)
    assert "rank" in said
    assert "Error: shape" in said
