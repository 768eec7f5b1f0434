"""The ledger: one append-only file of hash-chained events, held by one writer at a time.

A line is ``{"event": {...}, "sha256": "..."}``; the digest is over the event's canonical
bytes, which contain the digest of the event before. A last line without its newline, or one that
is no JSON at all, was torn by a crash or a full disk: it never happened, and is cut off. Any other
difference between a line and its digest is an alteration, and is reported with the line's number.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from infrarsi.errors import BusyError, LedgerError, SpaceError
from infrarsi.records.base import canonical_json
from infrarsi.records.event import Event, EventKind
from infrarsi.store.upcast import upcast

LEDGER_FILE = "ledger.jsonl"
"""The name of a ledger's file in its folder."""
_GENESIS = "0" * 64


@dataclass(frozen=True)
class _Content:
    """What a ledger's file holds."""

    events: list[Event]
    head: str
    """The stored digest of the last event."""
    end: int
    """Where the last whole line ends."""
    torn: bytes
    """What stands behind it: a last line that was torn."""


class Ledger:
    """The events of one repository, in order."""

    def __init__(self, path: Path, content: _Content, *, writable: bool) -> None:
        self._path = path
        self._events = content.events
        self._head = content.head
        self._end = content.end
        self._writable = writable
        self.repaired: str | None = None
        """What was mended when it was opened, in words."""

    @property
    def events(self) -> tuple[Event, ...]:
        """All events, the oldest first."""
        return tuple(self._events)

    @property
    def head(self) -> str:
        """The digest of the last event: it fixes all of the ledger."""
        return self._head

    def of_kind(self, kind: EventKind) -> tuple[Event, ...]:
        """Give the events of one kind, the oldest first."""
        return tuple(event for event in self._events if event.kind == kind)

    def append(self, kind: EventKind, body: Mapping[str, Any]) -> Event:
        """Write one event and force it to the disk before returning.

        Raises
        ------
        LedgerError
            The event could not be written whole; the ledger is as it was before.
        """
        if not self._writable:
            raise ValueError("this ledger was opened for reading")
        event = Event(
            seq=len(self._events), at=now(), kind=kind, body=dict(body), previous=self._head
        )
        digest = event.digest()
        line = _line_of(event, digest)
        try:
            self._write(line)
        except OSError as error:
            raise _unwritable(self._path.parent, error) from error
        self._events.append(event)
        self._head = digest
        self._end += len(line)
        return event

    def _write(self, line: bytes) -> None:
        file = os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            os.lseek(file, self._end, os.SEEK_SET)
            os.ftruncate(file, self._end)
            written = 0
            while written < len(line):
                written += os.write(file, line[written:])
            os.fsync(file)
        except OSError:
            os.ftruncate(file, self._end)
            raise
        finally:
            os.close(file)


def chained(events: Iterable[Event]) -> bytes:
    """Give the file of a ledger that holds these events alone, numbered and chained anew."""
    lines: list[bytes] = []
    previous = _GENESIS
    for number, event in enumerate(events):
        moved = event.model_copy(update={"seq": number, "previous": previous})
        previous = moved.digest()
        lines.append(_line_of(moved, previous))
    return b"".join(lines)


def _line_of(event: Event, digest: str) -> bytes:
    return b'{"event":' + event.to_bytes() + b',"sha256":"' + digest.encode() + b'"}\n'


def now() -> str:
    """Give the time as it stands in the ledger: UTC, ISO 8601, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@contextmanager
def open_ledger(folder: Path, *, command: str) -> Iterator[Ledger]:
    """Hold the ledger in a folder for writing, alone.

    A torn last line is cut off and kept aside; an event ``repaired`` says so.

    Raises
    ------
    BusyError
        Another command holds it.
    LedgerError
        A line was altered, or nothing can be written there.
    """
    path = folder / LEDGER_FILE
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / "ledger.lock", os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise _unwritable(folder, error) from error
    try:
        _take_lock(lock, command=command)
        content = _read(path)
        ledger = Ledger(path, content, writable=True)
        if content.torn:
            _repair(ledger, folder, content.torn)
        yield ledger
    finally:
        os.close(lock)


def read_ledger(folder: Path) -> Ledger:
    """Read the ledger in a folder without holding it; a torn last line is passed over."""
    path = folder / LEDGER_FILE
    return Ledger(path, _read(path), writable=False)


def _take_lock(lock: int, *, command: str) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = os.pread(lock, 200, 0).decode(errors="replace").strip() or "another command"
        raise BusyError(
            f"{holder} is at work on this contract",
            hint="wait until it has finished, or stop it, then repeat the command",
        ) from error
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"infrarsi {command} (process {os.getpid()})\n".encode(), 0)


def _read(path: Path) -> _Content:
    content = path.read_bytes() if path.exists() else b""
    *lines, rest = content.split(b"\n")
    if lines and not rest and not _is_json(lines[-1]):
        lines.pop()  # a crash of the machine can leave a last line of zeros
    events: list[Event] = []
    end = 0
    previous = _GENESIS
    for number, line in enumerate(lines, start=1):
        event, digest = _parse(line, number=number, path=path)
        if event.previous != previous or event.seq != len(events):
            raise _altered(path, number, "it does not follow the line before it")
        previous = digest
        events.append(event)
        end += len(line) + 1
    return _Content(events, head=previous, end=end, torn=content[end:])


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def _parse(line: bytes, *, number: int, path: Path) -> tuple[Event, str]:
    """Give a line's event as one of the present version, and its digest as it was stored."""
    try:
        stored = json.loads(line)
        raw, digest = stored["event"], stored["sha256"]
        if hashlib.sha256(canonical_json(raw)).hexdigest() != digest:
            raise _altered(path, number, "its content does not match its digest")
        return Event.model_validate(upcast(raw)), digest
    except (ValueError, KeyError, TypeError, ValidationError) as error:
        raise _altered(path, number, "it is not an event") from error


def _repair(ledger: Ledger, folder: Path, torn: bytes) -> None:
    """Cut a torn last line off, keeping its bytes aside, and record that it was done."""
    kept = folder / f"ledger.torn.{len(ledger.events)}"
    try:
        kept.write_bytes(torn)
    except OSError as error:
        raise _unwritable(folder, error) from error
    ledger.append("repaired", {"cut_bytes": len(torn), "kept_as": kept.name})
    ledger.repaired = (
        f"the ledger's last line was torn ({len(torn)} bytes, kept in {kept}) and was cut off; "
        "all before it stands"
    )


def _unwritable(folder: Path, error: OSError) -> LedgerError:
    full = SpaceError.explains(error)
    kind = SpaceError if full else LedgerError
    todo = "free space" if full else "see to the permissions"
    return kind(
        f"the ledger cannot be written: {error.strerror}",
        hint=f"{todo} at {folder}, then repeat the command; nothing that was recorded is lost",
    )


def _altered(path: Path, number: int, why: str) -> LedgerError:
    return LedgerError(
        f"line {number} of {path} was altered: {why}",
        hint="restore the ledger from a copy, or move the .infrarsi folder away and start again "
        "with `infrarsi init`; its evidence can no longer be relied on",
    )
