"""The code that the recipe puts into a program."""

from __future__ import annotations

from infrarsi.propose.rewrite import Rewrite

from .sites import Site

NAME = "chunked_cross_entropy"

TEXT = '''
class _ChunkedCrossEntropy({torch}.autograd.Function):
    """A linear layer and the sum of its cross-entropies, some rows at a time.

    The gradients are made in the forward pass, while a chunk's logits are at hand, so that
    neither all logits nor their gradients ever stand in memory at once.
    """

    @staticmethod
    def forward(ctx, hidden, weight, bias, targets, ignore_index, wants_grad):
        rows = max(256, -(-hidden.shape[0] // 16))
        total = 0.0
        grad_hidden = {torch}.empty_like(hidden) if wants_grad else None
        grad_weight = {torch}.zeros_like(weight) if wants_grad else None
        grad_bias = {torch}.zeros_like(bias) if wants_grad and bias is not None else None
        for start in range(0, hidden.shape[0], rows):
            part, target = hidden[start : start + rows], targets[start : start + rows, None]
            raw = {torch}.nn.functional.linear(part, weight, bias)
            logits = raw.to({torch}.promote_types(raw.dtype, {torch}.float32))
            norm = {torch}.logsumexp(logits, dim=-1, keepdim=True)
            counted = target != ignore_index
            index = {torch}.where(counted, target, 0)
            losses = norm - logits.gather(-1, index)
            total = total + {torch}.where(counted, losses, 0.0).sum()
            if wants_grad:
                grad = logits.sub_(norm).exp_()
                grad.scatter_add_(-1, index, -{torch}.ones_like(losses))
                grad = grad.mul_(counted).to(raw.dtype)
                grad_hidden[start : start + rows] = grad @ weight
                if grad.dtype == part.dtype == weight.dtype:
                    grad_weight.addmm_(grad.t(), part)
                else:
                    grad_weight += grad.t() @ part
                if bias is not None:
                    grad_bias += grad.sum(dim=0)
        ctx.save_for_backward(grad_hidden, grad_weight, grad_bias)
        return total

    @staticmethod
    def backward(ctx, grad_output):
        grads = [None if each is None else each * grad_output for each in ctx.saved_tensors]
        return (*grads, None, None, None)


def chunked_cross_entropy(hidden, weight, bias, targets, ignore_index=-100, reduction="mean"):
    """Give the cross-entropy of ``linear(hidden, weight, bias)`` without making all of it."""
    targets = targets.reshape(-1)
    hidden = hidden.reshape(-1, hidden.shape[-1])
    total = _ChunkedCrossEntropy.apply(
        hidden, weight, bias, targets, ignore_index, {torch}.is_grad_enabled()
    )
    return total if reduction == "sum" else total / (targets != ignore_index).sum()
'''


def loss_call(rewrite: Rewrite, site: Site, *parts: str) -> str:
    """Give the text of the chunked loss, and put its definition into the file."""
    torch_name = rewrite.name_for("torch.is_grad_enabled").removesuffix(".is_grad_enabled")
    rewrite.define(site.call, TEXT.replace("{torch}", torch_name))
    targets = site.source.code(site.targets)
    options = [f"{key}={value}" for key, value in site.options.items()]
    return f"{NAME}({', '.join([*parts, targets, *options])})"
