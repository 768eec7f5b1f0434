from __future__ import annotations

import pytest
import torch

CHECKPOINTED = """
    import torch
    from torch import nn
    from torch.utils.checkpoint import checkpoint

    class make(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(6, 6) for _ in range(3)])

        def forward(self, x):
            for layer in self.layers:
                x = checkpoint(layer, x, use_reentrant=False)  # saves memory
            return x
"""

LAMBDA = """
    import torch.utils.checkpoint as ckpt
    import torch

    class make(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = torch.nn.Linear(6, 6)

        def forward(self, x):
            if self.training:
                return ckpt.checkpoint(
                    lambda y: self.a(y).relu(),
                    x,
                    use_reentrant=False,
                )
            return self.a(x).relu()
"""

QUALIFIED = """
    import torch
    import torch.utils.checkpoint

    class make(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = torch.nn.ModuleList([torch.nn.Linear(6, 6), torch.nn.GELU()])

        def forward(self, x):
            for i in range(2):
                x = torch.utils.checkpoint.checkpoint(self.parts[i], x, preserve_rng_state=False, use_reentrant=True)
            return x
"""


@pytest.mark.parametrize("source", [CHECKPOINTED, LAMBDA, QUALIFIED])
def test_what_is_recomputed_is_kept_and_computes_the_same(transform, module, source):
    after = transform("no_recompute", source)
    assert "use_reentrant" not in after
    results = []
    for text in (source, after):
        torch.manual_seed(0)
        model = module(text).make()
        x = torch.randn(2, 6, requires_grad=True)
        model(x).square().sum().backward()
        results.append((x.grad, [p.grad for p in model.parameters()]))
    torch.testing.assert_close(results[0], results[1])


@pytest.mark.parametrize(
    ("old", "new", "because"),
    [
        ("x = checkpoint(layer, x, use_reentrant=False)",
         "x = checkpoint(layer, x, use_reentrant=False) if self.save else layer(x)", "flag self.save"),
        ("x = checkpoint(layer, x, use_reentrant=False)",
         "x = checkpoint(layer, x, use_reentrant=False, context_fn=policy)", "which operations"),
        ("checkpoint(layer, x, use_reentrant=False)", "layer(x)", "nothing calls"),
        ("from torch.utils.checkpoint import checkpoint", "from saving import checkpoint", "nothing calls"),
    ],
)  # fmt: skip
def test_recomputation_that_somebody_chose_stays(declines, old, new, because):
    assert because in declines("no_recompute", CHECKPOINTED.replace(old, new))


def test_switching_recomputation_on_is_left_out(transform, declines):
    source = "model = build()\nmodel.gradient_checkpointing_enable()\nmodel.train()\n"
    assert transform("no_recompute", source) == "model = build()\nmodel.train()\n"
    guarded = "model = build()\nif args.save:\n    model.gradient_checkpointing_enable()\n"
    assert "flag args.save" in declines("no_recompute", guarded)


MODEL = """
    import torch
    from torch import nn
    import torch.nn.functional as F

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.f = nn.Linear(8, 8)
        def forward(self, x):
            return x + self.f(x).relu()

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.e = nn.Embedding(11, 8)
            self.blocks = nn.ModuleList([Block() for _ in range(2)])
            self.head = nn.Linear(8, 11)
        def forward(self, ids):
            x = self.e(ids)
            for block in self.blocks:
                x = block(x)
            return self.head(x)
"""

SCRIPT = (
    MODEL
    + """
    def main(device="cpu", updates=4):
        torch.manual_seed(0)
        model = Net()
        # to where it trains
        model.to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        losses = []
        for update in range(updates):
            ids = torch.randint(11, (2, 6))
            optimizer.zero_grad()
            # forward
            logits = model(ids)
            # next token
            loss = F.cross_entropy(logits[:, :-1].reshape(-1, 11), ids[:, 1:].reshape(-1))
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses
"""
)

STEP = (
    MODEL
    + """
    class Trainer:
        def __init__(self):
            torch.manual_seed(0)
            net = Net().to("cpu")
            self.net = net
            self.opt = torch.optim.SGD(net.parameters(), lr=0.1)

        def step(self, ids):
            out = self.net(ids)
            loss = F.cross_entropy(out.transpose(1, 2), ids)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            return float(loss.detach())

    def main(updates=4):
        trainer = Trainer()
        return [trainer.step(torch.randint(11, (2, 6))) for _ in range(updates)]
"""
)

GLOBAL = (
    MODEL
    + """
    torch.manual_seed(0)
    gpt = Net()
    gpt = gpt.to("cpu")
    opt = torch.optim.SGD(gpt.parameters(), lr=0.1)

    def main(updates=4):
        found = []
        for _ in range(updates):
            x = torch.randint(11, (2, 6))
            loss = F.cross_entropy(gpt(x).flatten(0, 1), x.flatten()) / 2
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            found.append(loss.detach().item())
        return found
"""
)


@pytest.mark.parametrize(
    ("source", "line"),
    [
        (SCRIPT, "model.to(device)\n    model.compile()\n"),
        (STEP, 'net = Net().to("cpu")\n        net.compile()\n'),
        (GLOBAL, 'gpt = gpt.to("cpu")\ngpt.compile()\n'),
    ],
)
def test_the_trained_model_is_compiled_where_it_is_ready(transform, source, line):
    assert line in transform("compile_model", source)


def test_branches_that_build_the_same_model_share_one_compile(transform):
    source = SCRIPT.replace(
        "model = Net()",
        "if device == 'cpu':\n            model = Net()\n        elif updates:\n            model = Net()",
    )
    after = transform("compile_model", source)
    assert after.count("compile()") == 1
    assert "    model.to(device)\n    model.compile()\n" in after


def test_a_compiled_model_keeps_its_parameters_names_and_losses(transform, module):
    after = transform("compile_model", SCRIPT).replace(
        "model.compile()", 'model.compile(backend="eager")'
    )
    assert module(after).main() == pytest.approx(module(SCRIPT).main(), rel=1e-5)


@pytest.mark.parametrize(
    ("old", "new", "because"),
    [
        (
            "# to where it trains",
            "if flags.compile:\n            model = torch.compile(model)",
            "already",
        ),
        ("# to where it trains", "model = FSDP(model)", "FSDP"),
        ("model = Net()", "model = Net()\n        teacher = Net()", "not certain"),
        ("model = Net()", "model = load('net')", "no assignment"),
        ("loss.backward()", "pass", "no backward"),
    ],
)
def test_it_does_not_compile_where_it_cannot_tell(declines, old, new, because):
    assert because in declines("compile_model", SCRIPT.replace(old, new))


HELPER = (
    MODEL
    + """
    def loss_of(ids, net):
        logits = net(ids)
        return F.cross_entropy(logits.flatten(0, 1), ids.flatten())

    def main(updates=4):
        torch.manual_seed(0)
        model = Net()
        opt = torch.optim.SGD(model.parameters(), lr=0.1)
        found = []
        for _ in range(updates):
            opt.zero_grad()
            loss = loss_of(torch.randint(11, (2, 6)), model)
            loss.backward()
            opt.step()
            found.append(loss.item())
        return found
"""
)


@pytest.mark.parametrize("source", [SCRIPT, GLOBAL, STEP, HELPER])
def test_forward_and_loss_run_under_autocast(transform, module, source):
    after = transform("autocast", source)
    assert "torch.autocast(device_type=" in after
    before, now = module(source).main(), module(after).main()
    assert now == pytest.approx(before, rel=0.05)
    assert now != before


def test_the_backward_pass_and_comments_stay(transform):
    after = transform("autocast", SCRIPT)
    assert "\n        loss.backward()" in after
    assert "# forward" in after
    assert "# next token" in after
    assert "device_type=ids.device.type" in after


@pytest.mark.parametrize(
    ("old", "new", "because"),
    [
        ("model.to(device)", "model.to(device).half()", "already chooses"),
        ("loss.backward()", "(loss * 1).backward(); scaler = GradScaler()", "already chooses"),
        ("loss.backward()", "F.mse_loss(logits, logits).backward()", "statement that calls"),
        ("loss.backward()", "pass", "no backward"),
        ("logits = model(ids)", "logits = model(ids)\n            optimizer.step()", "a step of"),
    ],
)
def test_autocast_is_declined_where_it_cannot_be_placed(declines, old, new, because):
    assert because in declines("autocast", SCRIPT.replace(old, new))
