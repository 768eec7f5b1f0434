"""The ledger: one append-only file of hash-chained events, held by one writer at a time.

A line is ``{"event": {...}, "sha256": "..."}``; the digest is over the event's canonical
bytes, which contain the digest of the event before. A last line without its newline was torn
by a crash or a full disk: it never happened, and is cut off. Any other difference between a
line and its digest is an alteration, and is reported with the line's number.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from infrarsi.errors import BusyError, LedgerError
from infrarsi.records.event import Event, EventKind

_GENESIS = "0" * 64


class Ledger:
    """The events of one repository, in order."""

    def __init__(self, path: Path, events: list[Event], *, end: int, writable: bool) -> None:
        self._path = path
        self._events = events
        self._end = end
        self._writable = writable

    @property
    def events(self) -> tuple[Event, ...]:
        """All events, the oldest first."""
        return tuple(self._events)

    @property
    def head(self) -> str:
        """The digest of the last event: it fixes all of the ledger."""
        return self._events[-1].digest() if self._events else _GENESIS

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
            seq=len(self._events), at=now(), kind=kind, body=dict(body), previous=self.head
        )
        line = b'{"event":' + event.to_bytes() + b',"sha256":"' + event.digest().encode() + b'"}\n'
        self._write(line)
        self._events.append(event)
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
        except OSError as error:
            os.ftruncate(file, self._end)
            raise LedgerError(
                f"the ledger cannot be written: {error.strerror}",
                hint=f"free space or permissions at {self._path.parent}, then repeat the command; "
                "nothing that was recorded is lost",
            ) from error
        finally:
            os.close(file)


def now() -> str:
    """Give the time as it stands in the ledger: UTC, ISO 8601, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@contextmanager
def open_ledger(folder: Path, *, command: str) -> Iterator[Ledger]:
    """Hold the ledger in a folder for writing, alone.

    A torn last line is cut off, and an event ``repaired`` says so.

    Raises
    ------
    BusyError
        Another command holds it.
    LedgerError
        A line was altered.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder / "ledger.lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        _take_lock(lock, command=command)
        ledger, torn = _read(folder / "ledger.jsonl", writable=True)
        if torn:
            ledger.append("repaired", {"torn_bytes": torn})
        yield ledger
    finally:
        os.close(lock)


def read_ledger(folder: Path) -> Ledger:
    """Read the ledger in a folder without holding it; a torn last line is passed over."""
    return _read(folder / "ledger.jsonl", writable=False)[0]


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


def _read(path: Path, *, writable: bool) -> tuple[Ledger, int]:
    """Give the ledger, and how many bytes of a torn last line stand behind it."""
    content = path.read_bytes() if path.exists() else b""
    events: list[Event] = []
    end = 0
    previous = _GENESIS
    for number, line in enumerate(content.split(b"\n")[:-1], start=1):
        event = _parse(line, number=number, path=path)
        if event.previous != previous or event.seq != len(events):
            raise _altered(path, number, "it does not follow the line before it")
        previous = event.digest()
        events.append(event)
        end += len(line) + 1
    return Ledger(path, events, end=end, writable=writable), len(content) - end


def _parse(line: bytes, *, number: int, path: Path) -> Event:
    try:
        stored = json.loads(line)
        event = Event.model_validate(stored["event"])
        digest = stored["sha256"]
    except (ValueError, KeyError, TypeError, ValidationError) as error:
        raise _altered(path, number, "it is not an event") from error
    if event.digest() != digest:
        raise _altered(path, number, "its content does not match its digest")
    return event


def _altered(path: Path, number: int, why: str) -> LedgerError:
    return LedgerError(
        f"line {number} of {path} was altered: {why}",
        hint="restore the ledger from a copy, or move the .infrarsi folder away and start again "
        "with `infrarsi init`; its evidence can no longer be relied on",
    )
