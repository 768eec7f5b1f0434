"""The modules that the program trains, found as it calls them."""

from __future__ import annotations

import time
import weakref

import torch

from .inputs import parameter_names

_WRAPPED = ("module", "_orig_mod", "_fsdp_wrapped_module", "_forward_module")


class Root:
    """An outermost module: its parameters, and the names of its forward's parameters."""

    def __init__(self, module):
        self.module = weakref.ref(module)
        self.params = [each for each in module.parameters() if isinstance(each, torch.Tensor)]
        self.trainable = any(each.requires_grad for each in self.params)
        self.names = parameter_names(_innermost(module).forward)


class Visit:
    """One outermost call on its way."""

    def __init__(self, root, *, training):
        self.root = root
        self.training = training
        self.began = time.perf_counter()
        self.backwards = 0
        self.fed = None


class Roots:
    """Remembers outermost modules, so that a known one costs one look-up."""

    def __init__(self):
        self.known = {}

    def get(self, module):
        """Give what is known of a module, looking closely the first time."""
        root = self.known.get(id(module))
        if root is None or root.module() is not module:
            root = self.known[id(module)] = Root(module)
        elif not root.trainable:  # it may have been unfrozen meanwhile
            root.trainable = any(each.requires_grad for each in root.params)
        return root


class Trained:
    """The parameters under training, each once, in the order of their modules."""

    def __init__(self):
        self.params = []
        self.ids = set()

    def add(self, params):
        """Add parameters that are not known yet; tell whether there were any."""
        new = [each for each in params if id(each) not in self.ids]
        self.params.extend(new)
        self.ids.update(id(each) for each in new)
        return bool(new)

    def covered_by(self, optimizers):
        """Tell whether optimizers hold every parameter that got a gradient."""
        held = {id(each) for optimizer in optimizers for group in optimizer.param_groups
                for each in group["params"]}  # fmt: skip
        return all(id(each) in held for each in self.params
                   if each.requires_grad and each.grad is not None)  # fmt: skip


def _innermost(module):
    for _ in range(8):
        inner = next((getattr(module, name) for name in _WRAPPED
                      if isinstance(module._modules.get(name), torch.nn.Module)), None)  # fmt: skip
        if inner is None or not _passes_on(module):
            return module
        module = inner
    return module


def _passes_on(module):
    """Tell whether a forward takes anything and hands it on, as a wrapper's does."""
    code = getattr(getattr(type(module), "forward", None), "__code__", None)
    return "_orig_mod" in module._modules or (code is not None and bool(code.co_flags & 0x04))
