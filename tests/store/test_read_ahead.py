"""Artifacts that are read ahead are the same bytes, and what is damaged is told when it is asked for."""

import pytest

from infrarsi.errors import LedgerError
from infrarsi.store.artifacts import Artifacts
from infrarsi.store.read_ahead import read_ahead


@pytest.fixture
def kept(tmp_path):
    artifacts = Artifacts(tmp_path)
    return artifacts, [artifacts.put(f"evidence {number}".encode()) for number in range(40)]


def test_they_are_given_in_their_order_and_out_of_it(kept):
    artifacts, digests = kept
    with read_ahead(artifacts, digests) as ahead:
        for number in (0, 1, 2, 30, 3, 39, 4, 4):
            assert ahead.get(digests[number]) == f"evidence {number}".encode()


def test_what_is_missing_is_refused_when_it_is_asked_for_and_the_rest_is_read(kept):
    artifacts, digests = kept
    (artifacts.folder / digests[1][:2] / f"{digests[1][2:]}.gz").unlink()
    with read_ahead(artifacts, digests) as ahead:
        assert ahead.get(digests[0])
        with pytest.raises(LedgerError, match="is missing"):
            ahead.get(digests[1])
        assert all(ahead.get(digest) for digest in digests[2:])


def test_what_was_never_announced_is_read_all_the_same(kept):
    artifacts, digests = kept
    with read_ahead(artifacts, digests[:2]) as ahead:
        assert ahead.get(digests[20]) == b"evidence 20"


def test_a_block_that_fails_waits_for_nothing(kept):
    artifacts, digests = kept
    with pytest.raises(ZeroDivisionError), read_ahead(artifacts, digests):
        raise ZeroDivisionError
