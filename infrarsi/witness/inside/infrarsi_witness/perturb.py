"""A null launch's nudge: initial weights moved by a few units in the last place."""

from __future__ import annotations

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
    """

    def __init__(self, ulps, seed):
        self.ulps = ulps
        self.seed = seed
        self.generators = {}
        self.done = set()

    def apply(self, params):
        """Move the parameters that were not moved before."""
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
