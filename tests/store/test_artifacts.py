"""Artifacts are what their digest says, or an error."""

import hashlib

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
