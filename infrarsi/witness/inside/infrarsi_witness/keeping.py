"""Keeping the state around one update, where the parent asks for it once the window is over.

The request comes through the channel, and only after the last timed update: until then a launch
whose state will be kept is like any other, seen from within too.
"""

from __future__ import annotations

import json
import os
import time

from . import shelf
from .marks import wait_for
from .state import device_of, generators, state_of


class Keeper:
    """Waits for a request, and writes what one update started from and what it came to.

    Parameters
    ----------
    recorder : Recorder
    """

    def __init__(self, recorder):
        self.recorder = recorder
        self.asked = None
        self.num_bytes = 0

    def begins(self, update):
        """Look, before the first training forward of an update, whether it is to be kept."""
        if self.asked is None:
            self.asked = self._request()
        if self.asked is None or self.asked.answered or update < self.asked.update:
            return
        try:
            why = self._keep(update)
        except Exception as error:
            why = "it could not be kept: %s: %s" % (type(error).__name__, str(error)[:300])
        if why is not None or update > self.asked.update:
            self.recorder.closing.late.release(everything=True)  # the launch ends with the answer
            self.asked.answered = True
            self.recorder.channel.send(
                "kept", update=self.asked.update, bytes=self.num_bytes, why=why
            )
        # Writing is no part of the update that begins now.
        self.recorder.now.began = time.perf_counter()

    def _keep(self, update):
        """Write one of the two halves; give what stands in the way, in words."""
        if update == self.asked.update:
            return self._write("before", moments=True)
        if update == self.asked.update + 1 and self.num_bytes:
            return self._write("after", moments=False)
        return "the request was read before update %d, too late" % update

    def _write(self, name, *, moments):
        state = state_of(self.recorder)
        if not state.params:
            return "no parameter is known that the program trains"
        device = device_of(state)
        wait_for(device)
        tensors = {("parameter", key): each for key, each in state.params.items()}
        tensors.update({("buffer", key): each for key, each in state.buffers.items()})
        if moments:
            tensors.update({("moment", *key): each for key, each in state.moments.items()})
        tensors.update({("generator", k): each for k, each in generators(device).items()})
        self.num_bytes += shelf.size_of(tensors.values())
        if self.num_bytes > self.asked.most_bytes:
            return "it takes more than %s bytes, and there is room for %s" % (
                format(self.num_bytes, ","), format(self.asked.most_bytes, ","))  # fmt: skip
        channel = self.recorder.channel
        os.makedirs(self.asked.folder, exist_ok=True)
        shelf.write(os.path.join(self.asked.folder, "%s.%d" % (name, channel.rank)), tensors)
        return None

    def _request(self):
        for line in self.recorder.channel.heard():
            try:
                return _Request(json.loads(line))
            except (ValueError, KeyError, TypeError):
                continue
        return None


class _Request:
    """What the parent asks to be kept: one JSON object.

    ``{"kind": "keep", "update": int, "folder": path, "most_bytes": int}``
    """

    def __init__(self, said):
        if said["kind"] != "keep":
            raise ValueError("not a request")
        self.update = int(said["update"])
        self.folder = str(said["folder"])
        self.most_bytes = int(said["most_bytes"])
        self.answered = False
