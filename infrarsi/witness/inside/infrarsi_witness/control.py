"""A control: a known falsification, made on purpose, that says what the checks can see."""

from __future__ import annotations

import torch

from .sketch import local


class Control:
    """Falsifies the gradients that an optimizer's step is about to take, after they were read.

    ``coarse_gradients``: rounded to bfloat16. ``stale_gradients``: every second step takes those of
    the step before. ``frozen_tensor``: those of one parameter, the middle one, are zero.

    Parameters
    ----------
    kind : str or None
        ``None`` does nothing.
    """

    def __init__(self, kind):
        self.falsify_one = {
            "coarse_gradients": self._coarse,
            "stale_gradients": self._stale,
            "frozen_tensor": self._frozen,
        }.get(kind)
        self.kind = kind
        self.kept = {}
        self.steps = {}

    def apply(self, optimizer):
        """Falsify what one step takes; tell whether anything was there to be falsified."""
        if self.falsify_one is None:
            return False
        params = [each for group in optimizer.param_groups for each in group["params"]]
        params = [each for each in params if each.grad is not None]
        step = self.steps[id(optimizer)] = self.steps.get(id(optimizer), 0) + 1
        with torch.no_grad():
            for place, param in enumerate(params):
                grad = local(param.grad)
                if grad.layout == torch.strided and grad.is_floating_point():
                    self.falsify_one(grad, id(param), step, place == len(params) // 2)
        return bool(params)

    def _coarse(self, grad, key, step, chosen):
        grad.copy_(grad.to(torch.bfloat16))

    def _stale(self, grad, key, step, chosen):
        if step % 2:
            self.kept[key] = grad.clone()
        elif key in self.kept:
            grad.copy_(self.kept[key])

    def _frozen(self, grad, key, step, chosen):
        if chosen:
            grad.zero_()
