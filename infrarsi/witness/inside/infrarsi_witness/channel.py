"""The way out: one JSON object a line to the parent, or silence."""

from __future__ import annotations

import json
import math
import os
import select
import socket
import threading

from . import SCHEMA

_LONGEST_ADDRESS = 100
"""``sun_path`` holds 108 bytes; longer paths are reached through the folder's descriptor."""

_PATIENCE_S = 10.0
"""How long a stalled parent may hold the program up, once."""


def finite(number):
    """Give a float as JSON can say it: ``"nan"``, ``"inf"`` and ``"-inf"`` are strings."""
    if number is None or math.isfinite(number):
        return number
    if math.isnan(number):
        return "nan"
    return "inf" if number > 0 else "-inf"


class Channel:
    """A stream socket that is connected at the first word, and never raises.

    Parameters
    ----------
    path : str
        The parent's AF_UNIX socket.
    """

    def __init__(self, path):
        self.path = path
        self.rank = 0
        self.socket = None
        self.broken = False
        self.spoke = False
        self.partial = b""
        self.lock = threading.Lock()

    def send(self, kind, **fields):
        """Send one event; after the first failure, nothing more is tried."""
        if self.broken:
            return
        event = {"v": SCHEMA, "kind": kind, "rank": self.rank, "pid": os.getpid()}
        event.update(fields)
        try:
            line = json.dumps(event, allow_nan=False, default=str).encode() + b"\n"
        except (TypeError, ValueError):
            return
        with self.lock:
            try:
                if self.socket is None:
                    self.socket = _connect(self.path)
                self.socket.sendall(line)
                self.spoke = True
            except Exception:
                self._give_up()

    def heard(self):
        """Give the lines that the parent has sent meanwhile; this never waits."""
        if self.socket is None or self.broken:
            return []
        try:
            ready = select.poll()
            ready.register(self.socket, select.POLLIN)
            if not ready.poll(0):
                return []
            *lines, self.partial = (self.partial + self.socket.recv(1 << 16)).split(b"\n")
            return lines
        except OSError:
            return []

    def forget(self):
        """Drop the inherited socket in a forked child; the parent's copy stays open."""
        inherited, self.socket = self.socket, None
        self.lock = threading.Lock()
        self.broken = self.spoke = False
        self.partial = b""
        if inherited is not None:
            try:
                inherited.close()
            except OSError:
                pass

    def _give_up(self):
        self.broken = True
        if self.socket is not None:
            try:
                self.socket.close()
            except OSError:
                pass
            self.socket = None


def _connect(path):
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    folder = None
    try:
        link.settimeout(_PATIENCE_S)
        address = path
        if len(os.fsencode(path)) > _LONGEST_ADDRESS:
            folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
            address = "/proc/self/fd/%d/%s" % (folder, os.path.basename(path))
        link.connect(address)
        return link
    except Exception:
        link.close()
        raise
    finally:
        if folder is not None:
            os.close(folder)
