from __future__ import annotations

import pytest
import torch

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
