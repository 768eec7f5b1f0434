from __future__ import annotations

import pytest
import torch

NANO = """
    import torch
    import torch.nn as nn
    from torch.nn import functional as F

    class GPT(nn.Module):
        def __init__(self, vocab=37, width=16):
            super().__init__()
            self.wte = nn.Embedding(vocab, width)
            self.lm_head = nn.Linear(width, vocab, bias=False)
            self.wte.weight = self.lm_head.weight

        def forward(self, idx, targets=None):
            x = self.wte(idx).tanh()
            if targets is not None:
                # all positions
                logits = self.lm_head(x)
                loss = F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)
            else:
                logits = self.lm_head(x[:, [-1], :])
                loss = None
            return logits, loss

        def generate(self, idx):
            logits, _ = self(idx)
            return logits

    def make():
        return GPT()

    def loss_of(model, x, y):
        _, loss = model(x, y)
        return loss

    def main(x, y):
        model = make()
        loss_of(model, x, y).backward()
"""

LECTURE = """
    import torch
    from torch import nn
    import torch.nn.functional as F

    class Bigram(nn.Module):
        def __init__(self):
            super().__init__()
            self.emb = nn.Embedding(37, 16)
            self.out = nn.Linear(16, 37)

        def forward(self, idx, targets=None):
            h = self.emb(idx)
            logits = self.out(h)
            if targets is None:
                loss = None
            else:
                B, T, C = logits.shape
                logits = logits.view(B * T, C)
                targets = targets.view(B * T)
                loss = F.cross_entropy(logits, targets)
            return logits, loss

    def make():
        return Bigram()

    def loss_of(model, xb, yb):
        logits, loss = model(xb, targets=yb)
        return loss

    bigram = make()
    loss_of(bigram, torch.zeros(2, 3).long(), torch.zeros(2, 3).long()).backward()
"""

SHIFTED = """
    import torch
    from torch import nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Parameter(torch.randn(37, 16) / 4)
            self.criterion = nn.CrossEntropyLoss(ignore_index=3, reduction="sum")

        def forward(self, tokens):
            hidden = self.table[tokens].sin()
            scores = hidden @ self.table.t()
            scores = scores[..., :-1, :].contiguous().float()
            return self.criterion(scores.view(-1, 37), tokens[..., 1:].reshape(-1))

    make = Model

    def loss_of(model, x, y):
        return model(x)
"""

OUTSIDE = """
    import torch
    from torch import nn
    import torch.nn.functional as F

    class LM(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(37, 16)
            self.norm = nn.LayerNorm(16)
            self.head = nn.Linear(16, 37)

        def forward(self, ids):
            x = self.embed(ids).relu()
            return self.head(self.norm(x))

    def make():
        return LM()

    def loss_of(net, x, y):
        out = net(x)
        return F.cross_entropy(out.transpose(1, 2), y)

    def main():
        net = make()
        loss_of(net, torch.zeros(1, 2).long(), torch.zeros(1, 2).long()).backward()

    def sample(net, ids):
        return net(ids)[:, -1].argmax(-1)
"""

SLICED = OUTSIDE.replace(
    "out = net(x)\n        return F.cross_entropy(out.transpose(1, 2), y)",
    "out = net(x)[:, :-1]\n        return F.cross_entropy(out.reshape(-1, 37), x[:, 1:].reshape(-1))",
)


def _gradients(module, text: str, *, rows: int = 6) -> list[torch.Tensor]:
    torch.manual_seed(0)
    specimen = module(text)
    model = specimen.make()
    x, y = torch.randint(37, (rows, 130)), torch.randint(37, (rows, 130))
    loss = specimen.loss_of(model, x, y)
    (loss * 3).backward()
    return [loss.detach(), *(p.grad for p in model.parameters())]


@pytest.mark.parametrize("source", [NANO, LECTURE, SHIFTED, OUTSIDE, SLICED])
def test_a_chunked_loss_gives_the_same_loss_and_gradients(transform, module, source):
    after = transform("chunked_loss", source)
    assert "chunked_cross_entropy(" in after
    torch.testing.assert_close(
        _gradients(module, after), _gradients(module, source), rtol=1e-5, atol=1e-5
    )


def test_logits_are_still_there_without_targets(transform, module):
    for source in (NANO, LECTURE):
        torch.manual_seed(0)
        before = module(source).make()
        specimen = module(transform("chunked_loss", source))
        after = specimen.make()
        after.load_state_dict(before.state_dict())
        ids = torch.randint(37, (2, 5))
        torch.testing.assert_close(after(ids)[0], before(ids)[0])


def test_all_logits_never_stand_at_once(transform, module):
    specimen = module(transform("chunked_loss", NANO))
    model = specimen.make()
    largest = []

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            if isinstance(out, torch.Tensor) and out.shape[-1:] == (37,):
                largest.append(out.numel())
            return out

    x = torch.randint(37, (40, 130))
    with Watch():
        specimen.loss_of(model, x, x).backward()
    assert max(largest) <= 40 * 130 * 37 // 10


def test_targets_that_are_ignored_do_not_count(transform, module):
    before, after = module(NANO), module(transform("chunked_loss", NANO))
    torch.manual_seed(0)
    old, new = before.make(), after.make()
    new.load_state_dict(old.state_dict())
    x = torch.randint(37, (3, 9))
    y = torch.where(torch.arange(9) < 4, -1, x)
    torch.testing.assert_close(after.loss_of(new, x, y), before.loss_of(old, x, y))


def test_no_gradient_is_made_under_no_grad(transform, module):
    specimen = module(transform("chunked_loss", NANO))
    model = specimen.make()
    with torch.no_grad():
        loss = specimen.loss_of(model, torch.ones(2, 3).long(), torch.ones(2, 3).long())
    assert not loss.requires_grad


def test_under_autocast_the_products_stay_in_bfloat16(transform, module):
    specimen = module(transform("chunked_loss", NANO))
    results = []
    for kind in (module(NANO), specimen):
        torch.manual_seed(0)
        model = kind.make()
        x = torch.randint(37, (4, 100))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = kind.loss_of(model, x, x)
        loss.backward()
        results.append([loss.detach(), *(p.grad for p in model.parameters())])
    torch.testing.assert_close(results[0], results[1], rtol=2e-2, atol=2e-2)
    assert results[1][1].dtype == torch.float32


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch, about its own tracing
def test_it_can_be_compiled(transform, module):
    specimen = module(transform("chunked_loss", NANO))
    torch.manual_seed(0)
    model = specimen.make()
    x = torch.randint(37, (2, 300))
    plain = specimen.loss_of(model, x, x)
    model.compile(backend="eager")
    torch.testing.assert_close(specimen.loss_of(model, x, x), plain)


def test_what_the_model_is_called_with_stays_the_same(transform):
    assert "net(x, before_head=True)" in transform("chunked_loss", OUTSIDE)


@pytest.mark.parametrize(
    ("source", "old", "new", "because"),
    [
        (NANO, "_, loss = model(x, y)", "out, loss = model(x, y)\n        print(out.argmax())", "may read the logits"),
        (NANO, "_, loss = model(x, y)", "result = model(x, y)\n        loss = result[1]", "may read the logits"),
        (NANO, "_, loss = model(x, y)", "loss = 0", "no caller"),
        (NANO, "return logits, loss", "return {'logits': logits, 'loss': loss}", "used elsewhere"),
        (NANO, "ignore_index=-1", "label_smoothing=0.1", "smoothed"),
        (NANO, "ignore_index=-1", "reduction='none'", "reduced by"),
        (NANO, "ignore_index=-1", "weight=self.w", "weighted"),
        (NANO, "else:\n", "    z = logits.logsumexp(-1).mean()\n                loss = loss + z\n            else:\n", "used elsewhere"),
        (NANO, "logits = self.lm_head(x)\n", "logits = 30 * torch.tanh(self.lm_head(x) / 30)\n", "no linear layer"),
        (OUTSIDE, "out = net(x)", "out = net(x)\n        acc = out.argmax(-1).eq(y).float()", "used elsewhere"),
        (OUTSIDE, "self.head(self.norm(x))", "self.head(self.norm(x)), x", "linear layer"),
        (OUTSIDE, "self.head = nn.Linear(16, 37)", "self.head = MyLinear(16, 37)", "linear layer"),
        (NANO, "F.cross_entropy", "F.mse_loss", "no cross-entropy"),
    ],
)  # fmt: skip
def test_logits_that_somebody_reads_stay(declines, source, old, new, because):
    assert old in source
    assert because in declines("chunked_loss", source.replace(old, new))
