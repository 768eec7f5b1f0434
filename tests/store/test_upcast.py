"""A ledger that an older InfraRSI wrote is read in today's words, and goes on."""

import hashlib
import json

import pytest

from infrarsi.errors import LedgerError
from infrarsi.records.base import canonical_json
from infrarsi.records.event import SCHEMA_VERSION
from infrarsi.store.ledger import open_ledger, read_ledger
from infrarsi.store.upcast import STEPS


def write_ledger(folder, *events):
    """Write a ledger as its own version did: by the bytes, not through today's records."""
    folder.mkdir(exist_ok=True)
    previous, lines = "0" * 64, []
    for seq, (version, kind, body) in enumerate(events):
        event = {"schema_version": version, "seq": seq, "at": "2026-01-05T08:00:00.000+00:00",
                 "kind": kind, "body": body, "previous": previous}  # fmt: skip
        previous = hashlib.sha256(canonical_json(event)).hexdigest()
        lines.append(canonical_json({"event": event, "sha256": previous}).decode())
    (folder / "ledger.jsonl").write_text("\n".join(lines) + "\n")
    return (folder / "ledger.jsonl").read_bytes()


def test_an_older_ledger_version_is_upcast_and_written_on(tmp_path):
    measured = {"trial_id": "t0001", "update_s": 0.1}
    old = write_ledger(tmp_path, (1, "measured", measured), (1, "repaired", {"torn_bytes": 17}))
    events = read_ledger(tmp_path).events
    assert [event.schema_version for event in events] == [SCHEMA_VERSION] * 2
    assert events[0].body == measured
    assert events[1].body == {"cut_bytes": 17, "kept_as": None}
    with open_ledger(tmp_path, command="run") as ledger:
        ledger.append("measured", {"trial_id": "t0002", "update_s": 0.2})
    content = (tmp_path / "ledger.jsonl").read_bytes()
    assert content.startswith(old)
    assert json.loads(content.splitlines()[2])["event"]["schema_version"] == SCHEMA_VERSION
    assert len(read_ledger(tmp_path).events) == 3


def test_an_altered_line_of_an_older_version_is_noticed(tmp_path):
    content = write_ledger(tmp_path, (1, "repaired", {"torn_bytes": 17}))
    (tmp_path / "ledger.jsonl").write_bytes(content.replace(b"17", b"18"))
    with pytest.raises(LedgerError, match=r"line 1 .* does not match its digest"):
        read_ledger(tmp_path)


def test_a_newer_ledger_is_refused_and_left_alone(tmp_path):
    content = write_ledger(tmp_path, (SCHEMA_VERSION + 1, "dreamt", {"of": "electric sheep"}))
    with pytest.raises(LedgerError, match="written by a newer InfraRSI") as error:
        read_ledger(tmp_path)
    assert "upgrade" in error.value.hint
    assert (tmp_path / "ledger.jsonl").read_bytes() == content


def test_every_version_has_its_step():
    assert set(STEPS) == set(range(1, SCHEMA_VERSION))
