"""The parent's end of the witness's channel: a Unix socket whose lines are stamped on receipt."""

from __future__ import annotations

import contextlib
import json
import selectors
import socket
import time
from pathlib import Path
from typing import Any

from infrarsi.records.evidence import is_echo


class Channel:
    """Receives events, stamps each with nanoseconds since the launch, and keeps them raw."""

    def __init__(self, place: Path) -> None:
        self.lines: list[bytes] = []
        """Stamped lines, as they go into the artifact store."""
        self.world_size = 1
        """How many ranks there are, by the largest number that one of them named."""
        self.ended: dict[int, int] = {}
        """The last update that each rank has ended."""
        self.valued: dict[int, int] = {}
        """The last update of each rank whose values have come."""
        self.fault_memory: str | None = None
        """What the witness said of an exception: ``yes``, ``no`` or ``ambiguous``."""
        self.fault_text: str | None = None
        self.fault_s: float | None = None
        """When an exception of a process that trains was first told of, by the monotonic clock."""
        self.kept: set[int] = set()
        """The ranks that have answered a request to keep their state."""
        self._training: set[object] = set()
        """The processes that said hello: a helper's end is no end of the training."""
        self._echoed = False
        self.spoke = False
        self.origin_ns = time.monotonic_ns()
        self._partial: dict[socket.socket, bytes] = {}
        self.place = place
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.setblocking(False)
        self._listener.bind(str(place))
        self._listener.listen(64)

    @property
    def last_update(self) -> int:
        """The last update that every rank that spoke of any has ended."""
        return min(self.ended.values(), default=0)

    def all_have(self, update: int, *, values: int) -> bool:
        """Tell whether every rank has ended an update, and said the values of another."""
        return (
            len(self.ended) >= self.world_size
            and min(self.ended.values()) >= update
            and all(self.valued.get(rank, 0) >= values for rank in self.ended)
        )

    def tell(self, line: bytes) -> None:
        """Send a line to every process on the channel; one that does not listen misses it."""
        for connection in self._partial:
            with contextlib.suppress(OSError):
                connection.send(line)

    def register(self, selector: selectors.BaseSelector) -> None:
        """Wait for this channel's connections in a selector."""
        self._selector = selector
        selector.register(self._listener, selectors.EVENT_READ, self._accept)

    def start_clock(self) -> None:
        """Count stamps from now."""
        self.origin_ns = time.monotonic_ns()

    def close(self) -> None:
        """Close every connection and take the socket away."""
        for connection in self._partial:
            connection.close()
        self._partial.clear()
        self._listener.close()
        self.place.unlink(missing_ok=True)

    def drain(self) -> None:
        """Take what dead processes left in the connections."""
        for connection in list(self._partial):
            while connection in self._partial and self._receive(connection):
                pass

    def _accept(self, _: object) -> None:
        with contextlib.suppress(OSError):
            connection, _address = self._listener.accept()
            connection.setblocking(False)
            self._partial[connection] = b""
            self._selector.register(connection, selectors.EVENT_READ, self._receive)

    def _receive(self, connection: Any) -> bool:
        """Take what has come; tell whether there may be more."""
        try:
            received = connection.recv(1 << 20)
        except BlockingIOError:
            return False
        except OSError:
            received = b""
        stamp = time.monotonic_ns() - self.origin_ns
        if not received:
            self._forget(connection)
            return False
        *lines, rest = (self._partial[connection] + received).split(b"\n")
        self._partial[connection] = rest if len(rest) < 1 << 24 else b""
        for line in lines:
            self._take(stamp, line)
        return True

    def _forget(self, connection: socket.socket) -> None:
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(connection)
        self._partial.pop(connection, None)
        connection.close()

    def _take(self, stamp: int, line: bytes) -> None:
        try:
            event = json.loads(line, parse_constant=_refuse_constant)
            kind, rank = event["kind"], int(event.get("rank", 0))
        except (ValueError, KeyError, TypeError, AttributeError):
            text = json.dumps({"malformed": line[:2000].decode(errors="replace")})
            self.lines.append(b'{"t_ns":%d,"event":%s}' % (stamp, text.encode()))
            return
        self.lines.append(b'{"t_ns":%d,"event":%s}' % (stamp, line))
        self.spoke = True
        match kind:
            case "hello":
                self.world_size = max(self.world_size, _number(event, "world_size"))
                self._training.add(event.get("pid"))
            case "update":
                self.ended[rank] = max(self.ended.get(rank, 0), _number(event, "update"))
            case "values":
                self.valued[rank] = max(self.valued.get(rank, 0), _number(event, "update"))
            case "kept":
                self.kept.add(rank)
            case "fault":
                self._take_fault(rank, event)

    def _take_fault(self, rank: int, event: dict[str, Any]) -> None:
        """Keep the first exception that is no echo of another rank's end, else the first."""
        text = f"{event.get('type')}: {event.get('message')}"
        echo = is_echo(text)
        if self.fault_text is None or (self._echoed and not echo):
            self._echoed = echo
            self.fault_memory = str(event.get("memory", "no"))
            self.fault_text = f"rank {rank}: {text}" if self.world_size > 1 else text
        if self.fault_s is None and event.get("pid") in self._training:
            self.fault_s = time.monotonic()


def _number(event: dict[str, Any], name: str) -> int:
    number = event.get(name)
    return number if isinstance(number, int) else 0


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
