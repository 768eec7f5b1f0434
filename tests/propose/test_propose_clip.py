from __future__ import annotations

import pytest
import torch

CLASSIC = """
    import torch

    def clip(parameters, limit):
        parameters = list(parameters)
        total_norm = 0.0
        for p in parameters:
            if p.grad is not None:
                param_norm = p.grad.data.norm(2)
                total_norm += param_norm.item() ** 2
        total_norm = total_norm ** 0.5
        scale = limit / (total_norm + 1e-6)
        if scale < 1:
            for p in parameters:
                if p.grad is not None:
                    p.grad.data.mul_(scale)
        return total_norm
"""

TENSORS = """
    import torch

    @torch.no_grad()
    def clip(parameters, limit):
        params = [p for p in parameters]
        squares = 0.0
        for w in params:
            if w.grad is None:
                continue
            squares = squares + (w.grad ** 2).sum()
        norm = torch.as_tensor(squares).sqrt()
        factor = (limit / (norm + 1e-6)).clamp(max=1.0)
        for w in params:
            if w.grad is None:
                continue
            w.grad *= factor
        return float(norm)
"""

NAMED = """
    import torch, math

    def clip(parameters, limit):
        named = [(str(i), p) for i, p in enumerate(parameters)]
        acc = 0.0
        for name, param in named:
            if param.grad is None: continue
            g = param.grad.detach()
            acc += float(torch.linalg.vector_norm(g)) ** 2
        acc = math.sqrt(acc)
        if acc > limit:
            for _, param in named:
                if param.grad is not None:
                    param.grad.div_(acc / limit)
        return acc
"""


@pytest.mark.parametrize("source", [CLASSIC, TENSORS, NAMED])
def test_clipping_by_hand_uses_foreach_and_gives_the_same(transform, module, source):
    after = transform("clip_foreach", source)
    assert "torch._foreach_norm(" in after
    assert "torch._foreach_mul_(" in after or "torch._foreach_div_(" in after
    results = []
    for text in (source, after):
        torch.manual_seed(0)
        params = [torch.nn.Parameter(torch.randn(n + 1, 3)) for n in range(5)]
        for p in params[:-1]:
            p.grad = torch.randn_like(p)
        norm = module(text).clip(params, 1.0)
        results.append([torch.tensor(norm), *(p.grad for p in params[:-1])])
        assert params[-1].grad is None
    torch.testing.assert_close(results[0], results[1], rtol=1e-5, atol=1e-7)


def test_foreach_false_goes(transform):
    after = transform(
        "clip_foreach",
        "import torch\ntorch.nn.utils.clip_grad_norm_(ps, 1.0, foreach=False)\n",
    )
    assert after.endswith("clip_grad_norm_(ps, 1.0)\n")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("total_norm += param_norm.item() ** 2", "total_norm = max(total_norm, param_norm.item())"),
        ("norm(2)", "norm(1)"),
        (
            "total_norm += param_norm.item() ** 2",
            "total_norm += param_norm.item() ** 2\n                print(p)",
        ),
    ],
)
def test_other_norms_and_loops_that_do_more_are_left_alone(declines, old, new):
    assert old in CLASSIC
    source = CLASSIC.replace(old, new).replace("mul_(scale)", "mul_(scale).add_(1)")
    assert "no loop measures" in declines("clip_foreach", source)


def test_a_norm_of_each_parameter_used_later_keeps_the_loop(declines):
    source = CLASSIC.replace("return total_norm", "return param_norm").replace(
        "mul_(scale)", "mul_(p.lr)"
    )
    assert "no loop measures" in declines("clip_foreach", source)
