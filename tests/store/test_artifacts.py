"""Artifacts are what their digest says, or an error."""

import hashlib
import subprocess
import sys

import pytest

from infrarsi.errors import LedgerError
from infrarsi.store.artifacts import Artifacts


def test_bytes_come_back_under_their_sha256(tmp_path):
    store = Artifacts(tmp_path)
    digest = store.put(b"evidence")
    assert digest == hashlib.sha256(b"evidence").hexdigest()
    assert store.get(digest) == b"evidence"
    assert store.put(b"evidence") == digest


def test_an_altered_artifact_is_refused(tmp_path):
    store = Artifacts(tmp_path)
    digest, other = store.put(b"evidence"), store.put(b"another")
    places = {place.stem: place for place in tmp_path.rglob("*.gz")}
    places[digest[2:]].write_bytes(places[other[2:]].read_bytes())
    with pytest.raises(LedgerError, match="was altered"):
        store.get(digest)


@pytest.mark.parametrize("damage", ["truncate", "remove"])
def test_a_damaged_artifact_is_refused(tmp_path, damage):
    store = Artifacts(tmp_path)
    digest = store.put(b"evidence" * 100)
    place = next(tmp_path.rglob("*.gz"))
    if damage == "truncate":
        place.write_bytes(place.read_bytes()[:-5])
    else:
        place.unlink()
    with pytest.raises(LedgerError, match="missing or cannot be read"):
        store.get(digest)


def test_a_full_disk_leaves_no_half_of_an_artifact(tmp_path):
    """A limit on the file's size stands in for a full disk: both fail the write midway."""
    script = (
        "import os, resource, sys; from pathlib import Path\n"
        "from infrarsi.errors import SpaceError\n"
        "from infrarsi.store.artifacts import Artifacts\n"
        "store = Artifacts(Path(sys.argv[1]))\n"
        "kept = store.put(b'small')\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (5000, resource.RLIM_INFINITY))\n"
        "try:\n"
        "    store.put(os.urandom(200_000))\n"
        "except SpaceError as error:\n"
        "    print(error.exit_code, error, '->', error.hint)\n"
        "print(store.get(kept).decode())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("6 evidence cannot be written: File too large -> free space at")
    assert done.stdout.endswith("small\n")
    assert len([each for each in tmp_path.rglob("*") if each.is_file()]) == 1
