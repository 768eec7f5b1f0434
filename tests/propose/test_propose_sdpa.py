from __future__ import annotations

import pytest
import torch

GPT = """
    import math
    import torch
    import torch.nn as nn
    from torch.nn import functional as F

    class CausalSelfAttention(nn.Module):
        def __init__(self, n_embd=16, n_head=2, block=12, p=0.0):
            super().__init__()
            self.c_attn = nn.Linear(n_embd, 3 * n_embd)
            self.attn_dropout = nn.Dropout(p)
            self.n_head = n_head
            self.register_buffer("bias", torch.tril(torch.ones(block, block)).view(1, 1, block, block))

        def forward(self, x):
            B, T, C = x.size()  # batch, time, channels
            q, k, v = self.c_attn(x).split(C, dim=2)
            k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
            q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
            v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
            # causal self-attention
            att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
            att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
            att = F.softmax(att, dim=-1)
            att = self.attn_dropout(att)
            y = att @ v  # (B, nh, T, hs)
            return y.transpose(1, 2).contiguous().view(B, T, C)

    make = CausalSelfAttention
"""

NAMES = """
    import torch
    from torch import nn, einsum

    NEG = -1e9

    class Mixer(nn.Module):
        def __init__(self, width=16, heads=4):
            super().__init__()
            self.heads = heads
            self.inner = width // heads
            self.temper = self.inner ** -0.5
            self.q_proj = nn.Linear(width, width, bias=False)
            self.kv = nn.Linear(width, 2 * width, bias=False)
            self.soft = nn.Softmax(dim=-1)

        def forward(self, tokens):
            b, n, _ = tokens.shape
            h = self.heads
            queries = self.q_proj(tokens).view(b, n, h, self.inner)
            keys, values = self.kv(tokens).view(b, n, 2 * h, self.inner).chunk(2, dim=2)
            sim = torch.einsum("bqhd,bkhd->bhqk", queries, keys)
            sim *= self.temper
            pos = torch.arange(n, device=tokens.device)
            future = pos[None, :] > pos[:, None]
            sim.masked_fill_(future, NEG)
            probs = self.soft(sim.float()).type_as(sim)
            mixed = torch.einsum("bhqk,bkhd->bqhd", probs, values)
            return mixed.reshape(b, n, -1)

    make = Mixer
"""

FUNCTIONAL = """
    import math
    import torch
    import torch.nn.functional as F

    def causal(size, device):
        return torch.triu(torch.full((size, size), float("-inf"), device=device), diagonal=1)

    def attend(q, k, v, bias=None, rate: float = 0.0):
        weights = torch.matmul(q, k.mT) / math.sqrt(q.size(-1))
        if bias is not None:
            weights = weights + bias
        weights = torch.softmax(weights, -1)
        return torch.matmul(weights, v)

    def layer(x, w):
        q, k, v = (x @ w).chunk(3, -1)
        return attend(q, k, v, causal(x.shape[-2], x.device))

    class make(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.randn(16, 48) / 4)

        def forward(self, x):
            return layer(x, self.w)
"""

PASSED_DOWN = """
    import torch, math
    from torch import nn
    import torch.nn.functional as F

    class Attn(nn.Module):
        def __init__(self, d):
            super().__init__()
            self.to_qkv = nn.Linear(d, 3 * d)
            self.d = d
        def forward(self, x, mask=None):
            q, k, v = self.to_qkv(x).chunk(3, dim=-1)
            scores = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(self.d)
            if mask is not None:
                scores = scores.masked_fill(mask == 0, -1e9)
            return F.dropout(scores.softmax(dim=-1), 0.0, self.training).bmm(v)

    class Block(nn.Module):
        def __init__(self, d):
            super().__init__()
            self.attn = Attn(d)
        def forward(self, x, mask):
            return x + self.attn(x, mask)

    class make(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList([Block(16) for _ in range(2)])
        def forward(self, x):
            n = x.size(1)
            mask = torch.tril(torch.ones(n, n, device=x.device)).unsqueeze(0)
            for block in self.blocks:
                x = block(x, mask)
            return x
"""

PADDED = """
    import torch
    import torch.nn as nn
    import torch.nn.functional as F

    class make(nn.Module):
        def __init__(self):
            super().__init__()
            self.p = nn.Linear(16, 48)
            self.slopes = nn.Parameter(torch.ones(1, 1))
        def forward(self, x):
            q, k, v = self.p(x).chunk(3, -1)
            n = x.shape[1]
            pad = torch.arange(n) < n - 2
            far = (torch.arange(n)[None] - torch.arange(n)[:, None]).abs() * self.slopes
            s = q @ k.transpose(-2, -1) * 0.3
            s = s - far
            s = torch.where(pad, s, -torch.inf)
            return F.softmax(s, dim=-1) @ v
"""


def _compare(module, before: str, after: str) -> None:
    torch.manual_seed(0)
    old, new = module(before).make(), module(after).make()
    new.load_state_dict(old.state_dict())
    x = torch.randn(3, 10, 16)
    results = []
    for model in (old, new):
        model.train()
        out = model(x)
        out.square().sum().backward()
        results.append((out, [p.grad for p in model.parameters()]))
    torch.testing.assert_close(results[0], results[1], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (GPT, "is_causal=True"),
        (NAMES, "is_causal=True"),
        (FUNCTIONAL, "is_causal=True"),
        (PASSED_DOWN, "is_causal=True"),
        (PADDED, "attn_mask="),
    ],
)
def test_attention_of_many_hands_becomes_sdpa_and_computes_the_same(
    transform, module, source, expected
):
    after = transform("sdpa", source)
    assert "scaled_dot_product_attention" in after
    assert expected in after
    assert "softmax" not in after.replace("nn.Softmax", "").replace("# ", "")
    _compare(module, source, after)


def test_comments_and_code_elsewhere_are_kept(transform):
    after = transform("sdpa", GPT)
    assert "# batch, time, channels" in after
    assert "# (B, nh, T, hs)" in after
    assert 'self.register_buffer("bias"' in after


def test_dropout_stays_tied_to_training(transform, module):
    after = transform("sdpa", GPT)
    assert "dropout_p=self.attn_dropout.p if self.attn_dropout.training else 0.0" in after
    model = module(after).make(p=0.5).eval()
    x = torch.randn(2, 8, 16)
    torch.testing.assert_close(model(x), model(x))


def test_a_causal_mask_made_for_it_alone_goes_too(transform):
    assert "pos = torch.arange" not in transform("sdpa", NAMES)


def test_a_scale_other_than_the_usual_is_passed(transform):
    assert "scale=self.temper" in transform("sdpa", NAMES)
    assert "scale=" not in transform("sdpa", GPT)


def test_a_mask_of_which_the_origin_is_unknown_is_passed_on(transform, module):
    source = PASSED_DOWN.replace("x = block(x, mask)", "x = block(x, other(mask))")
    source = source.replace("-1e9", "float('-inf')").replace(
        "class make", "import numpy\n    other = numpy.asarray and (lambda m: m)\n\n    class make"
    )
    after = transform("sdpa", source)
    assert "is_causal" not in after
    assert "if mask is not None else None" in after
    _compare(module, source, after)


def test_a_caller_that_cannot_be_seen_spoils_the_proof(transform):
    source = PASSED_DOWN.replace("x = block(x, mask)", "x = run_somewhere(block, x, mask)")
    source = source.replace("-1e9", "float('-inf')")
    assert "is_causal" not in transform("sdpa", source)


def test_a_sliding_window_is_not_taken_for_causal(transform, module):
    source = GPT.replace(
        "torch.tril(torch.ones(block, block))",
        "torch.tril(torch.triu(torch.ones(block, block), -3))",
    )
    after = transform("sdpa", source)
    assert "is_causal" not in after
    assert "attn_mask=(self.bias[:, :, :T, :T] != 0)" in after
    _compare(module, source, after)


def test_a_diagonal_that_hides_the_token_itself_is_not_taken_for_causal(transform):
    source = NAMES.replace("pos[None, :] > pos[:, None]", "pos[None, :] >= pos[:, None]")
    source = source.replace("NEG = -1e9", 'NEG = float("-inf")')
    assert "is_causal" not in transform("sdpa", source)


def test_a_mask_crop_that_does_not_begin_at_zero_is_not_taken_for_causal(transform):
    source = GPT.replace("self.bias[:, :, :T, :T] == 0", "self.bias[:, :, 1:T + 1, :T] == 0")
    assert "is_causal" not in transform("sdpa", source)


@pytest.mark.parametrize(
    ("old", "new", "because"),
    [
        ("return y.transpose(1, 2).contiguous().view(B, T, C)",
         "return y.transpose(1, 2).contiguous().view(B, T, C), att", "used elsewhere"),
        ("y = att @ v", "self.last = att\n            y = att @ v", "used elsewhere"),
        ("float(\"-inf\")", "0.0", "not very negative"),
        ("(1.0 / math.sqrt(k.size(-1)))", "self.temperature", "may be a tensor"),
        ("att = F.softmax(att, dim=-1)", "att = F.softmax(att, dim=-1)\n            v = v * 2\n            v = v + att.mean()", "used elsewhere"),
        ("y = att @ v", "v = v.flip(0)\n            att = att.clone()\n            y = att @ v", "no hand-written"),
        ("att = F.softmax(att, dim=-1)", "k = k + 1\n            att = F.softmax(att, dim=-1)", "'k' changes"),
        ("y = att @ v", "if self.flash:\n                y = F.scaled_dot_product_attention(q, k, v)\n            y = att @ v", "already call"),
    ],
)  # fmt: skip
def test_it_declines_what_sdpa_does_not_do(declines, old, new, because):
    assert old in GPT
    assert because in declines("sdpa", GPT.replace(old, new))


def test_a_learned_temperature_is_declined(declines):
    source = NAMES.replace("self.inner ** -0.5", "nn.Parameter(torch.ones(1))")
    assert "may be a tensor" in declines("sdpa", source)


def test_a_finite_fill_under_an_unknown_mask_is_declined(declines):
    source = PASSED_DOWN.replace(
        "torch.tril(torch.ones(n, n, device=x.device))", "torch.zeros(n, n)"
    )
    assert "masked everywhere" in declines("sdpa", source)


def test_a_gate_over_experts_is_not_attention(declines):
    source = """
        import torch
        def mix(x, router, experts):
            return torch.softmax(x @ router, dim=-1) @ experts
    """
    assert "no hand-written" in declines("sdpa", source)


def test_no_attention_says_so(declines):
    assert "no hand-written" in declines(
        "sdpa", "import torch\nx = torch.softmax(torch.ones(2), 0)\n"
    )
