"""The update in the making: losses, gradient norms and batches, summed on the device."""

from __future__ import annotations

import time

import torch

from .sketch import local

PHASES = ("forward", "backward", "optimizer")


class Gathering:
    """Everything seen since the last update ended."""

    def __init__(self):
        self.began = time.perf_counter()
        self.fed = []
        self.forwards = 0
        self.backwards = 0
        self.loss = None
        self.loss_unknown = False
        self.squares = []
        self.measured = set()
        self.stepped = {}
        self.sharded = False
        self.skipped = 0
        self.more_targets = None
        self.phase_s = dict.fromkeys(PHASES, 0.0)

    def add_loss(self, root, weight, scale):
        """Add a backward root: the objective is the sum of all of an update's.

        Parameters
        ----------
        root : torch.Tensor
            One element; a root of more elements leaves the loss unknown.
        weight, scale : torch.Tensor or None
            The gradient that backward starts from, and a gradient scaler's factor.
        """
        if root.numel() != 1 or (weight is not None and weight.numel() != 1):
            self.loss_unknown = True
            return
        with torch.no_grad():
            value = local(root).reshape(()).double()
            if weight is not None:
                value = value * weight.detach().reshape(()).double()
            if scale is not None:
                value = value / scale.to(value.device).reshape(()).double()
            self.loss = value if self.loss is None else self.loss + value.to(self.loss.device)

    def add_targets(self, count):
        """Add targets that a loss was given outside any batch's forward."""
        if count is not None:
            self.more_targets = _sum(self.more_targets, count)

    def measure(self, params, scale=None):
        """Add the squared norm of gradients that were not measured yet in this update.

        Parameters
        ----------
        params : iterable of torch.Tensor
        scale : torch.Tensor or None
            A factor that is still on the gradients.
        """
        groups = {}
        for param in params:
            grad = param.grad
            if grad is None:
                grad = getattr(param, "main_grad", None)
            if grad is None or id(param) in self.measured:
                continue
            self.measured.add(id(param))
            if getattr(grad, "_local_tensor", None) is not None:
                self.sharded = True
            grad = local(grad)
            if grad.is_sparse:
                grad = grad.coalesce().values()
            groups.setdefault((grad.device, grad.dtype), []).append(grad)
        with torch.no_grad():
            for (_, dtype), grads in groups.items():
                square = _square(grads, dtype)
                self.squares.append(square if scale is None else _unscaled(square, scale))

    def unmeasured(self, params):
        """Tell whether gradients are plain float32 tensors, none of them measured yet."""
        grads = [each.grad for each in params if each.grad is not None]
        return (all(type(each) is torch.Tensor and each.dtype == torch.float32 for each in grads)
                and self.measured.isdisjoint(map(id, params)))  # fmt: skip

    def take_norm(self, params, norm):
        """Add gradients by a norm of theirs that is known."""
        self.measured.update(id(each) for each in params if each.grad is not None)
        self.squares.append(norm.detach().double().square())

    def grad_norm(self):
        """Give the global L2 norm, a 0-dim tensor, or ``None`` where no gradient was met."""
        if not self.squares:
            return None
        total = self.squares[0]
        for square in self.squares[1:]:
            total = total + square.to(total.device)
        return total.sqrt()

    def batch_totals(self):
        """Give the summed digests and counts of the micro-batches, by field name."""
        totals = {"batch": None, "inputs": None, "sequences": None, "tokens": None}
        for fed in self.fed:
            if fed.joint is not None:
                totals["batch"] = _sum(totals["batch"], fed.joint)
                totals["inputs"] = _sum(totals["inputs"], fed.ids)
            totals["sequences"] = _sum(totals["sequences"], fed.sequences)
            totals["tokens"] = _sum(totals["tokens"], fed.tokens)
        targets = self.more_targets
        for fed in self.fed:
            targets = _sum(targets, fed.targets)
        totals["target_tokens"] = targets
        return totals


def _square(grads, dtype):
    if dtype in (torch.float32, torch.float64):
        norms = torch.stack(torch._foreach_norm(grads))
    else:  # the norm of a half-precision tensor would be rounded to its own precision
        norms = torch.stack([torch.linalg.vector_norm(each, dtype=torch.float32) for each in grads])
    return norms.double().square_().sum()


def _unscaled(square, scale):
    return square / scale.to(square.device).reshape(()).double().square()


def _sum(left, right):
    if left is None or right is None:
        return right if left is None else left
    if isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor):
        right = right.to(left.device)
    return left + right
