"""A sample of the parameters: a few fixed pseudo-random elements of each tensor."""

from __future__ import annotations

import array
import base64
import math
import random
import sys

import torch

_PLAIN = (torch.nn.Parameter, torch.Tensor)


def local(tensor):
    """Give the part of a tensor that this rank holds, detached."""
    inner = getattr(tensor, "_local_tensor", None)  # DTensor
    return (tensor if inner is None else inner).detach()


class Sampler:
    """Reads the same elements of the same parameters, cheaply, as often as it is asked.

    Elements lie at ``start + i * stride`` of each flattened tensor, both drawn from the seed;
    the views are cached and rebuilt when a tensor moves.

    Parameters
    ----------
    params : list of torch.Tensor
        In the module's order.
    seed, elements : int
        The sketch's seed, and how many elements of each parameter (fewer where it is small).
    """

    def __init__(self, params, seed, elements):
        self.params = params
        self.shapes = [list(param.shape) for param in params]
        self.plan = [_places(i, param, seed, elements) for i, param in enumerate(params)]
        self.counts = [count for count, _, _ in self.plan]
        self.plain = [each for each in params if type(each) in _PLAIN]
        self.special = [each for each in params if type(each) not in _PLAIN]
        self.pointers = None
        self.groups = []

    def take(self):
        """Copy the sampled elements.

        Returns
        -------
        list of torch.Tensor
            One flat tensor for each device and dtype, as :attr:`groups` says.
        """
        with torch.no_grad():
            pointers = [param.data_ptr() for param in self.plain]
            pointers += [_pointer(param) for param in self.special]
            if pointers != self.pointers:
                self._build()
                self.pointers = pointers
            return [_read(readers) for _, readers in self.groups]

    def encode(self, taken):
        """Give a sample as base64 of little-endian float32, in parameter order."""
        parts = {}
        for (indices, _), flat in zip(self.groups, taken):
            values, at = flat.to(device="cpu", dtype=torch.float32).tolist(), 0
            for index in indices:
                parts[index] = values[at : at + self.counts[index]]
                at += self.counts[index]
        packed = array.array("f")
        for index, count in enumerate(self.counts):
            packed.extend(parts.get(index, [0.0] * count))
        if sys.byteorder == "big":
            packed.byteswap()
        return base64.b64encode(packed.tobytes()).decode()

    def _build(self):
        grouped = {}
        for index, param in enumerate(self.params):
            tensor = local(param)
            reader = self._reader(index, tensor)
            if reader is not None:
                indices, readers = grouped.setdefault((tensor.device, tensor.dtype), ([], []))
                indices.append(index)
                readers.append(reader)
        self.groups = list(grouped.values())

    def _reader(self, index, tensor):
        """Give a cached view of the sampled elements, or a function that reads them."""
        count, start, stride = self.plan[index]
        if count == 0 or tensor.numel() < count or _pointer(tensor) == 0:
            return None
        if tensor.numel() != _size(self.params[index]):
            return None
        if not tensor.is_contiguous():
            return _scattered(tensor, count, start, stride)
        return tensor.as_strided((count,), (stride,), tensor.storage_offset() + start)


def _read(readers):
    parts = [reader() if callable(reader) else reader for reader in readers]
    return torch.cat(parts) if len(parts) > 1 else parts[0].clone()


def _scattered(tensor, count, start, stride):
    """Give a reader of a tensor in another memory order, by its logical indices."""
    flat = torch.arange(count, device=tensor.device) * stride + start
    index = []
    for size in reversed(tensor.shape):
        index.append(flat % size)
        flat = torch.div(flat, size, rounding_mode="floor")
    where = tuple(reversed(index))
    return lambda: tensor[where]


def _pointer(param):
    try:
        return local(param).data_ptr()
    except Exception:
        return 0


def _size(param):
    return local(param).numel()


def _places(index, param, seed, elements):
    size = _size(param)
    count = min(elements, size)
    if count < 2 or count == size:
        return count, 0, 1
    chance = random.Random("%d:%d:%d" % (seed, index, size))
    widest = (size - 1) // (count - 1)
    stride = chance.randint(max(1, widest // 2), widest)
    width = param.shape[-1] if param.dim() else 1
    # A stride that shares a factor with the row's width would visit few columns.
    while stride > 1 and math.gcd(stride, max(1, width)) != 1:
        stride -= 1
    return count, chance.randint(0, size - 1 - stride * (count - 1)), stride


def distance(new, old):
    """Give the L2 norm of the change between two samples, a 0-dim tensor, or ``None``."""
    if old is None or len(new) != len(old) or not new:
        return None
    total = None
    for after, before in zip(new, old):
        if after.shape != before.shape or after.dtype != before.dtype:
            return None
        square = (after - before if after.dtype == torch.float32 else
                  after.double() - before.double()).double().square_().sum()  # fmt: skip
        total = square if total is None else total + square.to(total.device)
    return total.sqrt()
