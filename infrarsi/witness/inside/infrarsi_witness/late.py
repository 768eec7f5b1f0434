"""Numbers on their way out: at once from a CPU, some updates late from an accelerator."""

from __future__ import annotations

from collections import deque

import torch

from .channel import finite

_OLDEST = 6
"""Updates that may wait for the device before the oldest is waited for."""
_MASK = (1 << 64) - 1


class LateValues:
    """Sends the values of each update without a device synchronisation of its own.

    Parameters
    ----------
    channel : Channel
    """

    def __init__(self, channel):
        self.channel = channel
        self.waiting = deque()

    def offer(self, event, floats, integers):
        """Take one update's values.

        Parameters
        ----------
        event : dict
            What is plain already.
        floats, integers : dict
            Numbers, 0-dim tensors or ``None``, by field name.
        """
        tensors = [each for each in (*floats.values(), *integers.values())
                   if isinstance(each, torch.Tensor)]  # fmt: skip
        device = next((each.device for each in tensors if each.device.type == "cuda"), None)
        if device is None:
            self._send(event, _plain(floats), _plain(integers))
            return
        self.waiting.append((event, *_copied(floats, integers, device)))
        self.release(force=len(self.waiting) > _OLDEST)

    def release(self, *, force=False, everything=False):
        """Send what has arrived; wait for the oldest, or for everything, where told to."""
        while self.waiting:
            event, names, host_f, host_i, arrived = self.waiting[0]
            if not (force or everything) and not arrived.query():
                return
            arrived.synchronize()
            force = False
            self.waiting.popleft()
            floats, integers = names[0], names[1]
            floats = {name: _pick(value, host_f) for name, value in floats.items()}
            integers = {name: _pick(value, host_i) for name, value in integers.items()}
            self._send(event, floats, integers)

    def _send(self, event, floats, integers):
        fields = dict(event)
        for name, value in floats.items():
            fields[name] = finite(value)
        for name, value in integers.items():
            digest = name in ("batch", "inputs")
            fields[name] = format(value & _MASK, "016x") if digest and value is not None else value
        self.channel.send("values", **fields)


def _plain(values):
    return {name: each.item() if isinstance(each, torch.Tensor) else each
            for name, each in values.items()}  # fmt: skip


class _At(int):
    """A place in the copied block."""


def _pick(value, host):
    return host[value].item() if isinstance(value, _At) else value


def _copied(floats, integers, device):
    """Queue one asynchronous copy of all floats and one of all integers."""
    sides, hosts = [], []
    for values, dtype in ((floats, torch.float64), (integers, torch.int64)):
        side, block = {}, []
        for name, each in values.items():
            if isinstance(each, torch.Tensor):
                side[name] = _At(len(block))
                block.append(each.detach().reshape(()).to(device=device, dtype=dtype))
            else:
                side[name] = each
        host = torch.empty(len(block), dtype=dtype, pin_memory=True)
        if block:
            host.copy_(torch.stack(block), non_blocking=True)
        sides.append(side)
        hosts.append(host)
    arrived = torch.cuda.Event()
    arrived.record(torch.cuda.current_stream(device))
    return sides, hosts[0], hosts[1], arrived
