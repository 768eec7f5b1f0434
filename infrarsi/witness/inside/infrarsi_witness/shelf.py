"""Tensors in a file: one line of JSON that says what lies where, then their bytes.

A file that an untrusted program may have written is read by the reference's launch. So this is
no pickle: nothing in it is ever run, and what does not fit its own header is refused.
"""

from __future__ import annotations

import ctypes
import json
import os

import torch

from .sketch import local

_LONGEST_HEAD = 64 << 20
_PLAIN = (torch.nn.Parameter, torch.Tensor)


def size_of(tensors):
    """Give the bytes that tensors take in a file."""
    return sum(_bytes_of(_stored(each)) for each in tensors)


def write(path, tensors):
    """Write named tensors to a file, one after the other.

    Parameters
    ----------
    path : str
    tensors : dict of (str, ...) to torch.Tensor
        Each is copied from its device as its turn comes, so that no more than one is held.
    """
    entries, at = [], 0
    for name, tensor in tensors.items():
        held = _stored(tensor)
        entries.append({"name": list(name), "dtype": str(held.dtype).rsplit(".", 1)[-1],
                        "shape": list(held.shape), "at": at})  # fmt: skip
        at += _bytes_of(held)
    with open(path, "wb") as file:
        file.write(json.dumps(entries).encode() + b"\n")
        for tensor in tensors.values():
            plain = _stored(tensor).to("cpu").contiguous()
            if plain.numel():
                block = (ctypes.c_char * _bytes_of(plain)).from_address(plain.data_ptr())
                file.write(block)


class Shelf:
    """Reads the tensors of a file, one at a time.

    Parameters
    ----------
    path : str

    Raises
    ------
    ValueError
        The file is not what :func:`write` writes.
    """

    def __init__(self, path):
        self.file = open(path, "rb")  # noqa: SIM115  # it is read from until `close`
        try:
            self.entries = self._listed()
        except (KeyError, TypeError, AttributeError) as error:
            self.file.close()
            raise ValueError("not a file of tensors: %s" % error) from error
        except Exception:
            self.file.close()
            raise

    def _listed(self):
        head = self.file.readline(_LONGEST_HEAD)
        self.start = len(head)
        left = os.fstat(self.file.fileno()).st_size - self.start
        entries = {tuple(map(str, each["name"])): _Entry(each) for each in json.loads(head)}
        for name, entry in entries.items():
            if entry.at < 0 or entry.at + entry.num_bytes > left:
                raise ValueError("%s lies outside its file" % "/".join(name))
        return entries

    def __contains__(self, name):
        return name in self.entries

    def names(self, kind):
        """Give the names of one kind, without the kind."""
        return [name[1:] for name in self.entries if name[0] == kind]

    def shape(self, name):
        """Give a tensor's shape."""
        return self.entries[name].shape

    def read(self, name, rows=None):
        """Give a tensor, or some of its rows (a pair: from, to), on the CPU."""
        entry = self.entries[name]
        at, num_bytes, shape = entry.at, entry.num_bytes, entry.shape
        if rows is not None:
            width = num_bytes // max(shape[0], 1)
            at, num_bytes = at + rows[0] * width, (rows[1] - rows[0]) * width
            shape = (rows[1] - rows[0], *shape[1:])
        if num_bytes == 0:
            return torch.empty(shape, dtype=entry.dtype)
        self.file.seek(self.start + at)
        block = bytearray(num_bytes)
        if self.file.readinto(block) != num_bytes:
            raise ValueError("%s ends too soon" % "/".join(name))
        return torch.frombuffer(block, dtype=entry.dtype).reshape(shape)

    def close(self):
        """Close the file."""
        self.file.close()


class _Entry:
    """Where a tensor lies, checked."""

    def __init__(self, said):
        self.dtype = getattr(torch, str(said["dtype"]), None)
        self.shape = tuple(int(size) for size in said["shape"])
        self.at = int(said["at"])
        if not isinstance(self.dtype, torch.dtype) or any(size < 0 for size in self.shape):
            raise ValueError("not a tensor: %s" % said["name"])
        count = 1
        for size in self.shape:
            count *= size
        self.num_bytes = count * torch.empty(0, dtype=self.dtype).element_size()


def _stored(tensor):
    """Give what this rank holds of a tensor."""
    held = local(tensor)
    if type(held) not in _PLAIN:
        raise TypeError("a tensor of the kind %s cannot be kept" % type(held).__name__)
    return held


def _bytes_of(tensor):
    return tensor.numel() * tensor.element_size()
