"""What one update starts from: parameters, buffers, what optimizers keep, and generators."""

from __future__ import annotations

import torch

_WRAPPERS = frozenset({
    "module", "_orig_mod", "_fsdp_wrapped_module", "_forward_module", "_checkpoint_wrapped_module",
})  # fmt: skip
"""What DDP, `torch.compile`, FSDP, DeepSpeed and checkpointing put into a name."""
_DEEPEST = 3
_NOT_STATE = frozenset({"state", "param_groups", "defaults"})


class State:
    """The tensors of a training, under names that do not depend on how its model is wrapped.

    Only what is trained is named: a frozen parameter stays what it is.

    Parameters
    ----------
    modules : iterable of torch.nn.Module
        The outermost modules, in the order in which they were met.
    optimizers : iterable of torch.optim.Optimizer
        Those that step.

    Attributes
    ----------
    params, buffers : dict of str to torch.Tensor
    moments : dict of (str, str) to torch.Tensor
        By parameter and key: what the optimizers keep of each parameter, counters left out.
    left : list of str
        What the optimizers keep in a way that cannot be named, in words.
    """

    def __init__(self, modules, optimizers):
        self.params, self.buffers, self.moments, self.left = {}, {}, {}, []
        self._names = {}
        number = 0
        for module in modules:
            found = self._name(module.named_parameters(), self.params, number, trained=True)
            self._name(module.named_buffers(), self.buffers, number, trained=False)
            number += found
        for number, optimizer in enumerate(optimizers):
            self._name_the_rest(optimizer, number)
            self._take_moments(optimizer)

    def _name(self, named, into, number, *, trained):
        found = False
        for full, tensor in named:
            if id(tensor) in self._names or (trained and not tensor.requires_grad):
                continue
            if tensor.is_meta:
                continue
            name = plain_name(full)
            name = "%d/%s" % (number, name) if number else name
            name = full if name in into else name
            self._names[id(tensor)] = name
            into[name] = tensor
            found = True
        return found

    def _name_the_rest(self, optimizer, number):
        """Name parameters that belong to no module: copies in another precision, bare tensors."""
        for i, group in enumerate(optimizer.param_groups):
            for k, param in enumerate(group["params"]):
                if id(param) not in self._names and not param.is_meta:
                    name = "optimizer %d, group %d, parameter %d" % (number, i, k)
                    self._names[id(param)] = name
                    self.params[name] = param

    def _take_moments(self, optimizer):
        for group in optimizer.param_groups:
            for param in group["params"]:
                kept = optimizer.state.get(param)
                for key, tensor in _tensors_within(kept, ""):
                    name = self._names.get(id(param))
                    if name is not None and not _is_counter(key, tensor, param):
                        self.moments[name, key] = tensor
        known = {id(each) for each in self.moments.values()}
        known.update(id(param) for group in optimizer.param_groups for param in group["params"])
        beside = {key: value for key, value in vars(optimizer).items() if key not in _NOT_STATE}
        for key, tensor in _tensors_within(beside, ""):
            if tensor.numel() > 1 and id(tensor) not in known:
                self.left.append("%s of the optimizer" % key)


def plain_name(full):
    """Give a parameter's name without what wrappers put into it."""
    parts = [part for part in full.split(".") if part not in _WRAPPERS]
    return ".".join(parts) or full


def _is_counter(key, tensor, param):
    """Tell whether a tensor counts steps: the program's own count is as good."""
    return tensor.dim() == 0 and (key == "step" or param.dim() > 0)


def _tensors_within(value, path, depth=0):
    if isinstance(value, torch.Tensor):
        yield path, value
    elif depth < _DEEPEST and isinstance(value, dict):
        for key, each in list(value.items()):
            if isinstance(key, (str, int)):
                yield from _tensors_within(each, _join(path, key), depth + 1)
    elif depth < _DEEPEST and isinstance(value, (list, tuple)):
        for i, each in enumerate(value):
            yield from _tensors_within(each, _join(path, i), depth + 1)


def _join(path, key):
    return "%s.%s" % (path, key) if path else str(key)


def state_of(recorder):
    """Give the state of the program that a recorder watches."""
    modules = [root.module() for root in recorder.roots.known.values() if root.trainable]
    optimizers = list(recorder.closing.optimizers.values())
    return State([each for each in modules if each is not None], optimizers)


def generators(device):
    """Give the states of torch's own generators, by device kind.

    Parameters
    ----------
    device : torch.device or None
        Where the parameters are.
    """
    states = {"cpu": torch.get_rng_state()}
    if device is not None and device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    return states


def set_generator(kind, state, device):
    """Put a generator into a state."""
    if kind == "cpu":
        torch.set_rng_state(state)
    elif kind == "cuda" and device is not None and device.type == "cuda":
        torch.cuda.set_rng_state(state, device)


def device_of(state):
    """Give the device of the first parameter, or ``None``."""
    first = next(iter(state.params.values()), None)
    return None if first is None else first.device
