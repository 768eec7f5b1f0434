"""An archive of evidence is read within bounds, whoever wrote it; nothing in it is a path."""

import hashlib
import io
import lzma
import tarfile

import pytest

from infrarsi.errors import BundleError
from infrarsi.records.event import Event
from infrarsi.store.artifacts import Artifacts
from infrarsi.store.bundle import pack_evidence, unpack_evidence
from infrarsi.store.ledger import read_ledger

EVENT = Event(seq=7, at="2026-01-01T00:00:00Z", kind="began", body={"command": "apply"},
              previous="f" * 64)  # fmt: skip
CONTENT = b'{"t_ns": 1}\n'
DIGEST = hashlib.sha256(CONTENT).hexdigest()


def archive_of(*members):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for entry, content in members:
            archive.addfile(entry, io.BytesIO(content))
    return lzma.compress(packed.getvalue())


def entry_of(name, content=b"", **changed):
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    for field, value in changed.items():
        setattr(entry, field, value)
    return entry, content


def refused(packed, place, **options):
    with pytest.raises(BundleError) as error:
        unpack_evidence(packed, place, **options)
    assert error.value.exit_code == 4
    assert error.value.hint
    return str(error.value)


def test_events_and_artifacts_come_back_and_the_same_give_the_same_bytes(tmp_path):
    packed = pack_evidence([EVENT, EVENT], {DIGEST: CONTENT})
    assert packed == pack_evidence([EVENT, EVENT], {DIGEST: CONTENT})
    unpack_evidence(packed, tmp_path)
    events = read_ledger(tmp_path).events
    assert [event.seq for event in events] == [0, 1]
    assert events[1].previous == events[0].digest()
    assert all(event.body == EVENT.body for event in events)
    assert Artifacts(tmp_path / "artifacts").get(DIGEST) == CONTENT


def test_what_is_no_archive_is_refused(tmp_path):
    assert "cannot be decompressed" in refused(b"no archive at all, whatever its name", tmp_path)
    assert "no archive" in refused(lzma.compress(b"x" * 5000), tmp_path)
    whole = pack_evidence([EVENT], {})
    assert "does not end where it says" in refused(whole[:-10], tmp_path)
    assert "does not end where it says" in refused(whole + b"more", tmp_path)
    assert "holds no ledger" in refused(archive_of(), tmp_path)


def test_an_archive_that_would_fill_the_memory_is_not_unpacked(tmp_path):
    large = lzma.compress(bytes(3 << 20))
    assert "more than 1 MiB" in refused(large, tmp_path, most_bytes=1 << 20)


@pytest.mark.parametrize(
    ("member", "words"),
    [
        (entry_of("../outside", b"x"), "no part of one"),
        (entry_of("/etc/passwd", b"x"), "no part of one"),
        (entry_of(f"artifacts/{DIGEST}", b"other"), "not what its digest says"),
        (entry_of("link", type=tarfile.SYMTYPE, linkname="/etc/passwd"), "no plain file"),
        (entry_of("ledger.jsonl", b"again"), "twice"),
    ],
    ids=["above", "absolute", "another content", "link", "twice"],
)
def test_a_member_that_does_not_belong_there_is_refused(tmp_path, member, words):
    packed = archive_of(entry_of("ledger.jsonl", b""), member)
    assert words in refused(packed, tmp_path / "state")
    assert not (tmp_path / "outside").exists()
