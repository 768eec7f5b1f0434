"""Element counts by dtype: parameters, gradients, and what optimizers keep between updates."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from .sketch import local

_DEEPEST = 4


def dtype_name(dtype):
    """Give a dtype's name as records say it: ``bfloat16``."""
    return str(dtype).rsplit(".", 1)[-1]


def count_parameters(params):
    """Count the elements of parameters by dtype."""
    counts = {}
    for param in params:
        _add(counts, param)
    return counts


def count_gradients(params):
    """Count the elements of gradients by dtype, those kept beside ``grad`` too."""
    counts = {}
    for param in params:
        for grad in (param.grad, getattr(param, "main_grad", None)):
            if isinstance(grad, torch.Tensor):
                _add(counts, grad)
    return counts


def count_state(optimizers):
    """Count the elements that optimizers keep, by dtype.

    Everything reachable from the optimizer counts, not only its ``state``: a copy hidden in
    an attribute is state too. Left out are the parameters themselves, their gradients, and
    single elements (step counters). Quantised state counts under its stored dtype.

    Parameters
    ----------
    optimizers : iterable of torch.optim.Optimizer

    Returns
    -------
    dict of str to int
    """
    counts, seen = {}, set()
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            for param in group["params"]:
                seen.add(id(param))
                if param.grad is not None:
                    seen.add(id(param.grad))
    for optimizer in optimizers:
        _count_within(dict(vars(optimizer)), counts, seen, 0)
    return counts


def _count_within(value, counts, seen, depth):
    if isinstance(value, torch.Tensor):
        _count_tensor(value, counts, seen)
        return
    if depth > _DEEPEST or id(value) in seen:
        return
    if isinstance(value, Mapping):
        seen.add(id(value))
        for each in list(value.values()):
            _count_within(each, counts, seen, depth + 1)
    elif isinstance(value, (list, tuple, set)):
        seen.add(id(value))
        for each in list(value):
            _count_within(each, counts, seen, depth + 1)
    elif isinstance(value, torch.optim.Optimizer):
        seen.add(id(value))
        _count_within(dict(vars(value)), counts, seen, depth + 1)


def _count_tensor(tensor, counts, seen):
    if id(tensor) in seen or tensor.numel() <= 1:
        return
    seen.add(id(tensor))
    flatten = getattr(tensor, "__tensor_flatten__", None)
    if flatten is not None and getattr(tensor, "_local_tensor", None) is None:
        for name in flatten()[0]:  # a quantised state's parts, as stored
            _count_tensor(getattr(tensor, name), counts, seen)
        return
    _add(counts, tensor)


def _add(counts, tensor):
    tensor = local(tensor)
    name = dtype_name(tensor.dtype)
    counts[name] = counts.get(name, 0) + tensor.numel()
