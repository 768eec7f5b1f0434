"""What is installed is read from what installers leave, and checked against it."""

import base64
import hashlib
import sys
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

from infrarsi.execute.packages import changes, installed, states


def row(name, content):
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(content)}"


def install(site, name, release, files, *, editable=False):
    """Lay down a distribution as an installer does."""
    info = site / f"{name.replace('-', '_')}-{release}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {release}\n")
    rows = [f"{info.name}/RECORD,,", f"{info.name}/METADATA,sha256=x,1", "../../../bin/tool,,"]
    for path, text in files.items():
        place = site / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        rows.append(row(path, text.encode()))
    (info / "RECORD").write_text("\n".join(rows) + "\n")
    if editable:
        (info / "direct_url.json").write_text(
            '{"dir_info": {"editable": true}, "url": "file:///x"}'
        )
    return info


@pytest.fixture
def site(tmp_path):
    place = tmp_path / "lib" / "site-packages"
    install(place, "Fast.Kernels", "1.0", {"fast_kernels/__init__.py": "a = 1\n", "fast.py": "b\n"})
    install(place, "space-one", "2.0", {"space/one/__init__.py": ""})
    install(place, "space-two", "3.0", {"space/two/__init__.py": ""})
    return place


def test_each_is_known_by_its_normal_name_and_what_it_is_imported_by(site):
    found = installed([site, site / "not there"])
    assert states(found).keys() == {"fast-kernels", "space-one", "space-two"}
    assert found["fast-kernels"].version == "1.0"
    assert found["fast-kernels"].top_levels == {"fast_kernels", "fast"}
    assert found["space-one"].top_levels == {"space"}
    assert not found["fast-kernels"].is_editable


def test_the_first_along_the_path_counts(site, tmp_path):
    first = tmp_path / "user"
    install(first, "fast_kernels", "9.9", {"fast_kernels/__init__.py": ""})
    assert installed([first, site])["fast-kernels"].version == "9.9"


def test_another_version_another_build_and_a_new_one_are_changes(site):
    before = states(installed([site]))
    info = site / "Fast.Kernels-1.0.dist-info"
    record = info / "RECORD"
    record.write_text(record.read_text() + row("fast_kernels/more.py", b"c = 3\n") + "\n")
    install(site, "einops", "0.8", {"einops/__init__.py": ""})
    for each in sorted((site / "space_one-2.0.dist-info").iterdir(), reverse=True):
        each.unlink()
    (site / "space_one-2.0.dist-info").rmdir()
    install(site, "space-one", "2.1", {"space/one/__init__.py": ""})
    assert changes(before, states(installed([site]))) == (
        "einops none -> 0.8", "fast-kernels 1.0, its files changed", "space-one 2.0 -> 2.1",
    )  # fmt: skip


def test_a_file_that_is_not_what_was_installed_is_named(site):
    found = installed([site])["fast-kernels"]
    assert found.altered("fast_kernels") is None
    (site / "fast_kernels" / "__init__.py").write_text("a = 'another'\n")
    assert found.altered("fast_kernels") == "fast_kernels/__init__.py"
    assert found.altered("fast") is None, "another of its names"
    (site / "fast_kernels" / "__init__.py").unlink()
    assert found.altered("fast_kernels") is None, "what is gone cannot be imported"


def test_old_forms_remains_and_editable_installs_are_understood(tmp_path):
    site = tmp_path / "dist-packages"
    egg = site / "older-1.2.egg-info"
    egg.mkdir(parents=True)
    (egg / "PKG-INFO").write_text("Metadata-Version: 1.1\nName: older\nVersion: 1.2\n")
    (egg / "top_level.txt").write_text("older\n_older\n")
    (site / "flat-3.egg-info").write_text("Metadata-Version: 1.1\nName: flat\nVersion: 3\n")
    (site / "gone-1.0.dist-info").mkdir()
    install(site, "mine", "0.1", {"__editable___mine_finder.py": ""}, editable=True)
    found = installed([site])
    assert found.keys() == {"older", "flat", "mine"}
    assert found["older"].top_levels == {"older", "_older"}
    assert found["mine"].is_editable
    assert found["older"].altered("older") is None
    assert found["flat"].top_levels == {"flat"}, "by its name, where nothing else says"


def test_this_very_environment_is_whole():
    found = installed(map(Path, sys.path))
    assert found["numpy"].version == version("numpy")
    assert "numpy" in found["numpy"].top_levels
    assert found["pydantic"].altered("pydantic") is None
    assert {"yaml", "_yaml"} <= found["pyyaml"].top_levels


def test_a_zip_on_the_path_is_no_folder(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("m.py", "")
    assert installed([tmp_path / "x.zip"]) == {}
