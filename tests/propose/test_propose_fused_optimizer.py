from __future__ import annotations

import pytest
import torch

CLASS = """
    import math
    import torch
    from torch.optim import Optimizer

    class HandAdamW(Optimizer):
        def __init__(self, params, lr=1e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1):
            super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))

        @torch.no_grad()
        def step(self, closure=None):
            loss = None
            for group in self.param_groups:
                beta1, beta2 = group["betas"]
                for p in group["params"]:
                    if p.grad is None:
                        continue
                    grad = p.grad.data
                    state = self.state[p]
                    # lazily
                    if len(state) == 0:
                        state["step"] = 0
                        state["exp_avg"] = torch.zeros_like(p)
                        state["exp_avg_sq"] = torch.zeros_like(p)
                    exp_avg, exp_avg_sq = state["exp_avg"], state["exp_avg_sq"]
                    state["step"] += 1
                    if group["weight_decay"] != 0:
                        p.mul_(1 - group["lr"] * group["weight_decay"])
                    exp_avg.mul_(beta1).add_(grad, alpha=1 - beta1)
                    exp_avg_sq.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
                    bias1 = 1 - beta1 ** state["step"]
                    bias2 = 1 - beta2 ** state["step"]
                    denom = (exp_avg_sq.sqrt() / math.sqrt(bias2)).add_(group["eps"])
                    p.addcdiv_(exp_avg, denom, value=-group["lr"] / bias1)
            return loss

    def make(params):
        params = list(params)
        return HandAdamW([{"params": params[:1]}, {"params": params[1:], "weight_decay": 0.0}])
"""

LISTS = """
    import torch

    class make:
        def __init__(self, params, lr=3e-3):
            self.params = [p for p in params if p.requires_grad]
            self.m = [torch.zeros_like(p) for p in self.params]
            self.v = [torch.zeros_like(p) for p in self.params]
            self.t = 0
            self.lr = lr

        def step(self):
            self.t += 1
            b1, b2 = 0.9, 0.999
            fix1 = 1 - b1 ** self.t
            fix2 = 1 - b2 ** self.t
            with torch.no_grad():
                for i, w in enumerate(self.params):
                    if w.grad is not None:
                        g = w.grad + 0.01 * w
                        self.m[i] = b1 * self.m[i] + (1 - b1) * g
                        self.v[i] = b2 * self.v[i] + (1 - b2) * g * g
                        w -= self.lr * (self.m[i] / fix1) / ((self.v[i] / fix2).sqrt() + 1e-8)
"""

MOMENTUM = """
    import torch

    class make:
        def __init__(self, params):
            self.params = list(params)
            self.velocity = {}

        def step(self, lr=0.1, mu=0.9, wd=1e-2, nesterov=True):
            for p in self.params:
                if p not in self.velocity:
                    self.velocity[p] = torch.zeros_like(p.data)
                d = p.grad.data.add(p.data, alpha=wd)
                v = self.velocity[p]
                v.mul_(mu).add_(d)
                d = d.add(v, alpha=mu)
                p.data.add_(d, alpha=-lr)
"""

PLAIN = """
    import torch

    class make:
        def __init__(self, params):
            self.params = list(params)

        def step(self):
            lr = 0.05
            with torch.no_grad():
                for w in self.params:
                    w -= lr * w.grad
"""


def _train(module, text: str) -> list[torch.Tensor]:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.Tanh(), torch.nn.Linear(7, 3))
    optimizer = module(text).make(model.parameters())
    for _ in range(6):
        for p in model.parameters():
            p.grad = None
        model(torch.randn(4, 5)).square().mean().backward()
        optimizer.step()
    return [p.detach() for p in model.parameters()]


@pytest.mark.parametrize(
    ("source", "kernel"),
    [
        (CLASS, "_fused_adamw_"),
        (LISTS, "_fused_adam_"),
        (MOMENTUM, "_fused_sgd_"),
        (PLAIN, "_fused_sgd_"),
    ],
)
def test_updates_by_hand_become_one_kernel_that_gives_the_same(transform, module, source, kernel):
    after = transform("fused_optimizer", source)
    assert f"torch.{kernel}(" in after
    torch.testing.assert_close(_train(module, after), _train(module, source), rtol=1e-5, atol=1e-7)


def test_state_and_comments_stay_where_they_were(transform, module):
    after = transform("fused_optimizer", CLASS)
    assert "# lazily" in after
    made = module(after)
    p = torch.nn.Parameter(torch.ones(3))
    optimizer = made.HandAdamW([p])
    p.grad = torch.ones(3)
    optimizer.step()
    assert optimizer.state[p]["step"] == 1
    torch.testing.assert_close(optimizer.state[p]["exp_avg"], torch.full((3,), 0.1))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (".sqrt() / math.sqrt(bias2)).add_(group[\"eps\"])", ".add(group[\"eps\"]).sqrt() / math.sqrt(bias2))"),
        ("value=-group[\"lr\"] / bias1)", "value=-group[\"lr\"])"),
        ("alpha=1 - beta1", "alpha=1 - beta2"),
        ("value=1 - beta2", "value=1"),
        ("p.mul_(1 - group[\"lr\"] * group[\"weight_decay\"])", "p.mul_(1 - group[\"weight_decay\"])"),
        ("value=-group[\"lr\"] / bias1)", "value=-group[\"lr\"] / bias1).clamp_(-1, 1)"),
        ("if group[\"weight_decay\"] != 0:", "if group[\"weight_decay\"] > 0.5:"),
        ("value=-group[\"lr\"] / bias1)", "value=-group[\"lr\"] / bias1)\n                    self.last = denom.mean()"),
    ],
)  # fmt: skip
def test_arithmetic_that_no_kernel_does_is_left_alone(declines, old, new):
    assert old in CLASS
    declines("fused_optimizer", CLASS.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("w -= lr * w.grad", "w -= lr * w.grad.abs()"),
        ("w -= lr * w.grad", "w -= lr * w.grad.sign()"),
        ("w -= lr * w.grad", "w -= lr * w.grad.clamp(-1, 1)"),
        ("w -= lr * w.grad", "w -= self.rates[w] * w.grad"),
        ("w -= lr * w.grad", "if lr < 100:\n                        w -= lr * w.grad"),
        ("w -= lr * w.grad", "if w.dim() > 1:\n                        w -= lr * w.grad"),
        ("w -= lr * w.grad", "rate = lr\n                    if w.dim() > 1:\n                        rate = 2 * lr\n                    w -= rate * w.grad"),
    ],
)  # fmt: skip
def test_steps_that_look_like_descent_for_some_numbers_are_left_alone(declines, old, new):
    assert old in PLAIN
    declines("fused_optimizer", PLAIN.replace(old, new))


def test_options_fetched_inside_the_loop_are_seen_to_be_the_same_for_all(transform, module):
    source = CLASS.replace('                beta1, beta2 = group["betas"]\n', "").replace(
        "                    # lazily\n",
        '                    beta1, beta2 = group["betas"]\n                    # lazily\n',
    )
    after = transform("fused_optimizer", source)
    assert "beta1=beta1" in after
    torch.testing.assert_close(_train(module, after), _train(module, source), rtol=1e-5, atol=1e-7)


def test_a_value_used_after_the_loop_keeps_the_loop(declines):
    source = CLASS.replace("return loss", "return denom")
    assert "'denom'" in declines("fused_optimizer", source)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("torch.optim.AdamW(params, lr=1e-3)", "torch.optim.AdamW(params, lr=1e-3, fused=True)"),
        ("torch.optim.SGD(params, 0.1, foreach=False)", "torch.optim.SGD(params, 0.1, fused=True)"),
        ("torch.optim.Adam(params, fused=False, eps=1e-6)", "torch.optim.Adam(params, eps=1e-6, fused=True)"),
        ("torch.optim.AdamW(\n    params,\n    lr=1e-3,  # peak\n)", "torch.optim.AdamW(\n    params,\n    lr=1e-3,\n    fused=True,  # peak\n)"),
    ],
)  # fmt: skip
def test_torchs_own_optimizers_are_asked_for_their_kernel(transform, before, after):
    changed = transform("fused_optimizer", f"import torch\nopt = {before}\n")
    assert changed.replace("  # peak", "") == f"import torch\nopt = {after}\n".replace(
        "  # peak", ""
    )


@pytest.mark.parametrize(
    ("call", "because"),
    [
        ("torch.optim.AdamW(params, **extra)", "dictionary"),
        ("torch.optim.AdamW(params, fused=use_fused)", "already chooses"),
        ("torch.optim.AdamW(params, capturable=True)", "capturable"),
        ("torch.optim.LBFGS(params)", "no torch.optim"),
    ],
)
def test_it_declines_optimizers_that_choose_themselves(declines, call, because):
    assert because in declines("fused_optimizer", f"import torch\nopt = {call}\n")


def test_sparse_embeddings_are_declined(declines):
    source = "import torch\ne = torch.nn.Embedding(3, 3, sparse=True)\nopt = torch.optim.SGD(e.parameters(), 0.1)\n"
    assert "sparse" in declines("fused_optimizer", source)
