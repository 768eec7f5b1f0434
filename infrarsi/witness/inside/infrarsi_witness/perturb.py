"""A null launch's nudge: initial weights moved by a few units in the last place."""

from __future__ import annotations

import random
import sys

import torch

from .sketch import local


class Nudge:
    """Multiplies each float parameter by ``1 + r * ulps * eps(dtype)``, once.

    ``r`` is uniform in [-1, 1] from a generator of its own; the program's generators are not
    touched. Copies of the weights made before (fp32 masters) are not seen, and undo it.

    Parameters
    ----------
    ulps : float
        How far, in units of the dtype's epsilon; 0 does nothing.
    seed : int
        Seed of the generator.
    stir : bool
        Whether to draw from the program's global generators as well, so that what depends on
        them comes out otherwise.
    """

    def __init__(self, ulps, seed, stir=False):
        self.ulps = ulps
        self.seed = seed
        self.stir = stir
        self.generators = {}
        self.done = set()

    def apply(self, params):
        """Move the parameters that were not moved before."""
        if self.stir:
            self.stir = False
            _stir()
        if not self.ulps:
            return
        with torch.no_grad():
            for param in params:
                if id(param) in self.done:
                    continue
                self.done.add(id(param))
                tensor = local(param).data
                if tensor.is_floating_point() and tensor.numel():
                    self._move(tensor)

    def _move(self, tensor):
        generator = self.generators.get(tensor.device)
        if generator is None:
            generator = torch.Generator(device=tensor.device)
            generator.manual_seed(self.seed)
            self.generators[tensor.device] = generator
        wide = torch.float64 if tensor.dtype == torch.float64 else torch.float32
        chance = torch.rand(tensor.shape, generator=generator, device=tensor.device, dtype=wide)
        factor = chance.mul_(2).sub_(1).mul_(self.ulps * torch.finfo(tensor.dtype).eps).add_(1)
        tensor.copy_(factor.mul_(tensor))


def _stir():
    """Take a number from each global generator that training may draw from."""
    random.random()
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.random()
    torch.rand(1)
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        for device in range(torch.cuda.device_count()):
            torch.rand(1, device="cuda:%d" % device)
