"""An editable install is pointed at the trial's tree, in its own place, and nothing else is."""

import sys
import types

import pytest
from infrarsi_witness.moved import point_at


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """A checkout with a virtual environment that no tree holds, and a trial's tree within it."""
    checkout = tmp_path / "mein training"
    tree = checkout / ".infrarsi" / "trees" / "t0001"
    for place in (checkout / "src", checkout / ".venv" / "lib", tree / "src"):
        place.mkdir(parents=True)
    monkeypatch.setattr(sys, "path", [
        str(checkout / "src"), "/usr/lib/python3", str(checkout / ".venv" / "lib"), str(checkout),
        str(tree / "src"), str(tmp_path / "mein training 2"), "",
    ])  # fmt: skip
    return checkout, tree


def test_entries_of_the_checkout_mean_the_tree_and_keep_their_order(folders):
    checkout, tree = folders
    before = list(sys.path)
    point_at(str(tree), str(checkout))
    assert sys.path == [
        str(tree / "src"), before[1], before[2], str(tree), str(tree / "src"), before[5], "",
    ]  # fmt: skip


def test_mappings_of_an_editable_finder_are_pointed_too(folders, monkeypatch):
    checkout, tree = folders
    name = "__editable___mine_0_1_finder"
    module = types.ModuleType(name)
    module.MAPPING = {"mine": str(checkout / "src"), "other": "/opt/other"}
    module.NAMESPACES = {"mine.plugins": [str(checkout / "src"), "/opt/other"]}
    monkeypatch.setitem(sys.modules, name, module)
    finder = type("_EditableFinder", (), {"__module__": name})
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, finder])
    point_at(str(tree), str(checkout))
    mapping, spaces = module.MAPPING, module.NAMESPACES
    assert mapping == {"mine": str(tree / "src"), "other": "/opt/other"}
    assert spaces == {"mine.plugins": [str(tree / "src"), "/opt/other"]}
