from __future__ import annotations

import pytest
import torch

from infrarsi.propose.recipe import DoesNotApply

ROTARY = """
    import torch
    import torch.nn as nn

    class make(nn.Module):
        def __init__(self, dim=16, base=10000.0):
            super().__init__()
            inv_freq = 1.0 / (base ** (torch.arange(0, dim, 2).float() / dim))
            self.register_buffer("inv_freq", inv_freq, persistent=False)
            self.lin = nn.Linear(dim, dim)

        def forward(self, x):
            B, T, C = x.shape
            h = self.lin(x)
            t = torch.arange(T, device=x.device).float()
            freqs = torch.outer(t, self.inv_freq)
            emb = torch.cat((freqs, freqs), dim=-1)
            half = torch.cat((-h[..., C // 2 :], h[..., : C // 2]), dim=-1)
            return h * emb.cos() + half * emb.sin()
"""

POSITIONS = """
    import torch
    from torch import nn

    class make(nn.Module):
        def __init__(self):
            super().__init__()
            self.wpe = nn.Embedding(64, 16)

        def forward(self, x):
            pos = torch.arange(0, x.size(1), dtype=torch.long, device=x.device).unsqueeze(0)
            return x + self.wpe(pos)
"""

MASK = """
    import torch
    import torch.nn.functional as F

    def future(size: int, device):
        mask = torch.triu(torch.ones(size, size, device=device), diagonal=1).bool()
        return mask

    class make(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Linear(16, 16)

        def forward(self, x):
            n = x.shape[1]
            rows = torch.arange(n, device=x.device)
            keep = rows[None, :] <= rows[:, None]
            scores = self.w(x) @ x.transpose(1, 2)
            scores = scores.masked_fill(future(n, x.device), float("-inf"))
            return torch.where(keep, scores, 0.0).softmax(-1) @ x
"""


def _outputs(module, text: str) -> list[torch.Tensor]:
    torch.manual_seed(0)
    model = module(text).make()
    found = []
    for size in (5, 9, 5):
        x = torch.randn(2, size, 16, requires_grad=True)
        out = model(x)
        out.square().sum().backward()
        found += [out.detach(), x.grad]
    with torch.inference_mode():
        found.append(model(torch.ones(1, 3, 16)))
    out = model(torch.ones(1, 3, 16))
    out.sum().backward()
    return [*found, *(p.grad for p in model.parameters())]


@pytest.mark.parametrize(
    ("recipe", "source", "names"),
    [
        ("cached_rotary", ROTARY, ["t", "freqs", "emb"]),
        ("cached_rotary", POSITIONS, ["pos"]),
        ("cached_mask", MASK, ["keep", "rows"]),
    ],
)
def test_tables_are_built_once_and_compute_the_same(transform, module, recipe, source, names):
    after = transform(recipe, source)
    for name in names:
        assert f"{name} = built_once(" in after
    torch.testing.assert_close(_outputs(module, after), _outputs(module, source))


def test_a_table_is_not_built_again_for_the_same_size(transform, module):
    made = module(transform("cached_rotary", POSITIONS))
    model = made.make()
    for size in (4, 6, 4, 6):
        model(torch.ones(1, size, 16))
    assert len(made._TABLES) == 2


def test_a_changed_buffer_makes_a_new_table(transform, module):
    made = module(transform("cached_rotary", ROTARY))
    model = made.make()
    x = torch.ones(1, 4, 16)
    before = model(x)
    model.inv_freq.mul_(2)
    assert not torch.equal(model(x), before)


@pytest.mark.parametrize(
    ("source", "old", "new"),
    [
        (POSITIONS, "return x", "pos.add_(1)\n            return x"),
        (POSITIONS, "torch.arange(0, x.size(1),", "torch.arange(0, int(x.sum()),"),
        (POSITIONS, "torch.arange(0, x.size(1),", "torch.randint(0, x.size(1), (1, 3),"),
        (POSITIONS, "torch.arange(0, x.size(1),", "torch.arange(self.offset, x.size(1),"),
    ],
)
def test_tables_that_depend_on_more_are_left_alone(declines, source, old, new):
    assert old in source
    assert "no forward pass" in declines("cached_rotary", source.replace(old, new))


def test_a_learned_table_is_left_alone(declines):
    source = POSITIONS.replace(
        "pos = torch.arange(0, x.size(1), dtype=torch.long, device=x.device).unsqueeze(0)",
        "pos = self.wpe.weight.cos()",
    )
    assert "no forward pass" in declines("cached_rotary", source)


def test_masks_and_other_tables_do_not_mix(declines):
    assert "no forward pass" in declines("cached_mask", ROTARY)
    assert "no forward pass" in declines("cached_rotary", MASK)


CALLED = """
    import math
    import torch
    import torch.nn.functional as F
    from torch import nn

    BASE = 10000.0

    def angles(length, width, base, device=None):
        \"\"\"Cosines and sines of every position.\"\"\"
        half = width // 2
        speeds = torch.exp(-math.log(base) * torch.arange(half, device=device).float() / half)
        turned = torch.outer(torch.arange(length, device=device).float(), speeds)
        return torch.cat((turned, turned), -1).cos(), torch.cat((turned, turned), -1).sin()

    def future(length, dtype, device):
        return torch.full((length, length), torch.finfo(dtype).min, device=device).triu(1)

    class Part(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.heads, self.head = heads, width // heads
            self.to_qkv = nn.Linear(width, 3 * width)

        def forward(self, x):
            batch, length, width = x.shape
            q, k, v = self.to_qkv(x).view(batch, length, 3 * self.heads, self.head).transpose(1, 2).chunk(3, 1)
            cos, sin = angles(length, self.head, BASE, x.device)
            q = q * cos + q.flip(-1) * sin
            scores = q @ k.transpose(-2, -1) + future(length, x.dtype, x.device)
            near = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).tril(-3), float("-inf"))
            return (F.softmax(near, -1) @ v).transpose(1, 2).reshape(batch, length, width)

    class make(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = nn.ModuleList([Part(16, 2) for _ in range(2)])

        def forward(self, x):
            for part in self.parts:
                x = x + part(x)
            return x
"""

OWN_MODULE = """
    import torch
    from torch import nn

    class Rotary(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.dim = dim
            self.register_buffer("inv_freq", 1.0 / 100 ** (torch.arange(0, dim, 2).float() / dim))

        def forward(self, length):
            t = torch.arange(length, device=self.inv_freq.device, dtype=self.inv_freq.dtype)
            freqs = torch.einsum("i,j->ij", t, self.inv_freq)
            both = torch.cat((freqs, freqs), dim=-1)
            return both.cos()[None], both.sin()[None]

    class make(nn.Module):
        def __init__(self):
            super().__init__()
            self.rotary = Rotary(16)
            self.lin = nn.Linear(16, 16)

        def causal(self, length, like):
            rows = torch.arange(length, device=like.device)
            return rows[:, None] >= rows

        def forward(self, x):
            cos, sin = self.rotary(x.size(1))
            h = self.lin(x)
            h = h * cos + h.flip(-1) * sin
            keep = self.causal(h.shape[1], h)
            return (h @ h.mT).masked_fill(~keep, -1e9).softmax(-1) @ x
"""


def test_a_function_that_only_makes_tables_is_called_once_for_each_size(transform, module):
    after = transform("cached_rotary", CALLED)
    assert "cos, sin = built_once(" in after
    assert "lambda: angles(length, self.head, BASE, x.device)" in after
    assert after.count("built_once(") == 2  # and none inside of what is called once
    torch.testing.assert_close(_outputs(module, after), _outputs(module, CALLED))


def test_masks_within_expressions_are_built_once_too(transform, module):
    after = transform("cached_mask", CALLED)
    assert "lambda: future(length, x.dtype, x.device)" in after
    assert "lambda: torch.ones_like(scores, dtype=torch.bool).tril(-3)" in after
    torch.testing.assert_close(_outputs(module, after), _outputs(module, CALLED))


def test_a_rotary_module_keeps_what_it_returns(transform, module):
    after = transform("cached_rotary", OWN_MODULE)
    assert "lambda: (both.cos()[None], both.sin()[None])" in after
    torch.testing.assert_close(_outputs(module, after), _outputs(module, OWN_MODULE))
    masked = transform("cached_mask", OWN_MODULE)
    assert "rows[:, None] >= rows" in masked.partition("built_once(\n")[2]
    torch.testing.assert_close(_outputs(module, masked), _outputs(module, OWN_MODULE))


def test_both_recipes_together_still_compute_the_same(transform, module):
    both = transform("cached_mask", transform("cached_rotary", CALLED))
    torch.testing.assert_close(_outputs(module, both), _outputs(module, CALLED))


@pytest.mark.parametrize(
    ("recipe", "source", "old", "new"),
    [
        # a length that depends on the data
        ("cached_rotary", CALLED, "angles(length, self.head, BASE, x.device)",
         "angles(int(x.sum()), self.head, BASE, x.device)"),
        # what the caller changes
        ("cached_rotary", CALLED, "q = q * cos", "cos.mul_(2)\n            q = q * cos"),
        # a function that does more than make tables
        ("cached_rotary", CALLED, "half = width // 2", "print(width)\n        half = width // 2 + len(SEEN)"),
        # a table that is learned
        ("cached_rotary", OWN_MODULE, "self.rotary(x.size(1))", "self.rotary(x)"),
    ],
)  # fmt: skip
def test_a_call_that_depends_on_more_is_made_every_time(transform, recipe, source, old, new):
    assert old in source
    text = source.replace(old, new)
    try:
        after = transform(recipe, text)
    except DoesNotApply:
        return
    assert "lambda: angles(" not in after
    assert "torch.arange(length, device=self.inv_freq.device" not in after.partition("lambda: t")[2]


def test_a_mask_that_a_caller_changes_is_left_alone(declines):
    source = """
        import torch
        from torch import nn

        class make(nn.Module):
            def build(self, length):
                mask = torch.ones(length, length).tril()
                return mask

            def forward(self, x):
                mask = self.build(x.size(1))
                mask[:, 0] = 1
                return x * mask
    """
    assert "no forward pass" in declines("cached_mask", source)
    inline = source.replace("mask = torch.ones(length, length).tril()\n", "pass\n").replace(
        "return mask\n", "return torch.ones(length, length).tril()\n"
    )
    assert "no forward pass" in declines("cached_mask", inline)


def test_a_tensor_that_is_handed_to_something_that_fills_it_is_left_alone(declines):
    source = """
        import torch
        from torch import nn

        def fill(table, x):
            table[0] = x.sum()
            return table

        class make(nn.Module):
            def forward(self, x):
                return fill(torch.ones(x.size(1), x.size(1)).tril(), x)
    """
    assert "no forward pass" in declines("cached_mask", source)
