"""Which of a call's arguments are ids, targets, mask and positions."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping

import torch

_TARGETS = {"labels", "label", "targets", "target", "tgt", "y", "lm_labels", "target_ids"}
_MASKS = {"attention_mask", "mask", "attn_mask", "input_mask"}
_POSITIONS = {"position_ids", "positions", "pos", "input_pos", "position_id"}
_IDS = {"input_ids", "ids", "idx", "x", "tokens", "inputs", "input", "token_ids", "src", "data"}
_OTHERS = {
    "token_type_ids", "cache_position", "cu_seqlens", "cu_seq_lens_q", "cu_seq_lens_k",
    "padding_mask", "src_key_padding_mask", "seq_idx", "seqlens", "lengths", "document_ids",
    "doc_ids", "sequence_ids",
}  # fmt: skip
_DEEPEST = 4
_PLAIN = (str, bytes, int, float, torch.nn.Module, type)
_INTEGERS = {torch.int64, torch.int32, torch.int16, torch.uint8, torch.int8}


class Found:
    """The roles that were found."""

    def __init__(self):
        self.ids = self.mask = self.positions = None
        self.targets = []
        self.ignored = []
        self.continues = False


def parameter_names(function):
    """Give the names of the positional parameters of a function, ``self`` apart."""
    try:
        names = [
            name
            for name, each in inspect.signature(function).parameters.items()
            if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
        ]
    except (TypeError, ValueError):
        return []
    return names[1:] if names[:1] == ["self"] else names


def find_inputs(args, kwargs, names):
    """Sort the tensors of a call into roles, by name where names speak, else by order.

    The first unnamed integer tensor is the ids; a second one of the same size, the targets.
    A bool tensor is a mask where its name says so.
    """
    found = Found()
    unnamed = []
    for name, tensor in _tensors(args, kwargs, names):
        if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
            found.continues = found.continues or tensor.requires_grad
            if name in _MASKS and tensor.dim() == 2:
                found.mask = tensor
            continue
        if tensor.dim() == 0:
            continue
        if name in _MASKS:
            found.mask = tensor if tensor.dim() <= 2 else found.mask
        elif tensor.dtype not in _INTEGERS or name in _OTHERS:
            found.ignored.append(name)
        elif name in _POSITIONS:
            found.positions = tensor
        elif name in _TARGETS:
            found.targets.append(tensor)
        elif name in _IDS and found.ids is None:
            found.ids = tensor
        else:
            unnamed.append((name, tensor))
    _settle(found, unnamed)
    return found


def _settle(found, unnamed):
    for name, tensor in unnamed:
        if found.continues:
            found.targets.append(tensor)
        elif found.ids is None:
            found.ids = tensor
        elif not found.targets and tensor.numel() == found.ids.numel():
            found.targets.append(tensor)
        else:
            found.ignored.append(name)
    if found.ids is None and not found.continues and len(found.targets) > 1:
        found.ids = found.targets.pop(0)
    if found.positions is not None and found.ids is None:
        found.positions = None


def _tensors(args, kwargs, names):
    pairs = [(names[i] if i < len(names) else "", each) for i, each in enumerate(args)]
    for name, each in pairs + list(kwargs.items()):
        yield from _walk(str(name), each, 0)


def _walk(name, value, depth):
    if isinstance(value, torch.Tensor):
        yield name, value
    elif depth <= _DEEPEST:
        for inner, each in _parts(name, value):
            yield from _walk(inner, each, depth + 1)


def _parts(name, value):
    """Give the named parts of a container; nothing for a plain value or a module."""
    if value is None or isinstance(value, _PLAIN):
        return []
    if isinstance(value, Mapping):
        return [(str(key), each) for key, each in value.items()]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return [(key, getattr(value, key)) for key in value._fields]
    if isinstance(value, (list, tuple)):
        return [(name if len(value) == 1 else "", each) for each in value]
    if dataclasses.is_dataclass(value):
        fields = dataclasses.fields(value)
        return [(field.name, getattr(value, field.name, None)) for field in fields]
    if hasattr(value, "__dict__") and not callable(value):
        return [(key, each) for key, each in list(vars(value).items())
                if isinstance(each, torch.Tensor)]  # fmt: skip
    return []


def any_requires_grad(value, depth=0):
    """Tell whether a call's result holds a tensor that a backward could start from."""
    if isinstance(value, torch.Tensor):
        return value.requires_grad
    if depth > _DEEPEST or value is None:
        return False
    if isinstance(value, Mapping):
        return any(any_requires_grad(each, depth + 1) for each in value.values())
    if isinstance(value, (list, tuple)):
        return any(any_requires_grad(each, depth + 1) for each in value)
    if hasattr(value, "__dict__") and not isinstance(value, (torch.nn.Module, type)):
        return any(isinstance(each, torch.Tensor) and each.requires_grad
                   for each in vars(value).values())  # fmt: skip
    return False
