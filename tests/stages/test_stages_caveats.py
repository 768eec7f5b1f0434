"""Inputs are named from where the user stands, and kept by their paths from the root."""

import pytest

from infrarsi.errors import UsageError
from infrarsi.stages.drafting.caveats import named_inputs, refuse_machines


@pytest.fixture
def root(tmp_path):
    root = tmp_path / "repo"
    for folder in ("prepared", "sub/prepared", "sub/only"):
        (root / folder).mkdir(parents=True)
    (tmp_path / "shared").mkdir()
    return root


@pytest.mark.parametrize(
    ("start", "typed", "kept"),
    [(".", "prepared", "prepared"), ("sub", "prepared", "sub/prepared"), ("sub", "only/", "sub/only"),
     ("sub", "../prepared", "prepared"), (".", "../shared", "../shared"),
     ("sub", "../../shared", "../shared"), (".", "not yet there", "not yet there")],
)  # fmt: skip
def test_an_input_is_kept_by_its_path_from_the_root(root, start, typed, kept):
    assert named_inputs(root, root / start, (typed,)) == (kept,)


def test_an_input_typed_by_its_whole_path_stays_so_outside_and_not_within(root):
    outside = str(root.parent / "shared")
    assert named_inputs(root, root, (outside, str(root / "prepared"))) == (outside, "prepared")


def test_a_launch_over_several_machines_is_refused():
    with pytest.raises(UsageError, match="over 2 machines"):
        refuse_machines(["torchrun", "--nnodes=2", "--nproc_per_node=8", "train.py"])
    refuse_machines(["torchrun", "--nnodes=1", "train.py", "--nnodes", "2"])
