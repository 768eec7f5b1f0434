"""Trains compiled models one after the other; says what dynamo counted, as JSON."""

import json
import sys

import torch
from torch import nn
from torch._dynamo.utils import counters
from torch.nn import functional

COUNTED = ("frames", "stats", "graph_break", "recompiles", "unimplemented", "aot_autograd")
BACKEND = sys.argv[1] if len(sys.argv) > 1 else "eager"


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x):
        return x + self.down(functional.gelu(self.up(x)))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(40, 16), nn.Linear(16, 40)
        self.blocks = nn.ModuleList(Block() for _ in range(2))

    def forward(self, idx, targets=None):
        x = self.embed(idx)
        for block in self.blocks:
            x = block(x)
        logits = self.head(x)
        return functional.cross_entropy(logits.view(-1, 40), targets.view(-1))


def whole(model):
    return torch.compile(model, backend=BACKEND)


def in_place(model):
    model.compile(backend=BACKEND)
    return model


def blocks(model):
    for i, block in enumerate(model.blocks):
        model.blocks[i] = torch.compile(block, backend=BACKEND)
    return model


def blocks_in_place(model):
    for block in model.blocks:
        block.compile(backend=BACKEND)
    return model


def forward(model):
    model.forward = torch.compile(model.forward, backend=BACKEND)
    return model


def nested(model):
    return whole(blocks(model))


def data():
    generator = torch.Generator().manual_seed(3)
    while True:
        yield [torch.randint(0, 40, (4, 8), generator=generator) for _ in range(2)]


def train(model, late=None):
    optimizer, losses, batches = torch.optim.AdamW(model.parameters(), lr=1e-3), [], data()
    for update in range(4):
        if update == 2 and late is not None:
            model = late(model)
        for _ in range(2):
            x, y = next(batches)
            loss = model(x, y) / 2
            loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        model.eval()
        with torch.no_grad():
            model(x, y)
        model.train()
    return losses


def train_functions(model):
    optimizer, losses, batches = torch.optim.AdamW(model.parameters(), lr=1e-3), [], data()
    loss_of = torch.compile(lambda x, y: model(x, y), backend=BACKEND)

    @torch.compile(backend=BACKEND)
    def step():
        optimizer.step()

    for _ in range(4):
        loss = loss_of(*next(batches))
        loss.backward()
        step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def train_step(model):
    optimizer, batches = torch.optim.AdamW(model.parameters(), lr=1e-3), data()

    @torch.compile(backend=BACKEND)
    def step(x, y):
        loss = model(x, y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return [step(*next(batches)).item() for _ in range(4)]


def main():
    cases = {
        each.__name__: each for each in (whole, in_place, blocks, blocks_in_place, forward, nested)
    }
    if BACKEND == "inductor":
        cases = {"whole": whole}
    chosen = {name: lambda model, wrap=wrap: train(wrap(model)) for name, wrap in cases.items()}
    if BACKEND != "inductor":
        chosen |= {f"late {name}": lambda model, wrap=wrap: train(model, wrap)
                   for name, wrap in list(cases.items())[:3]}  # fmt: skip
        chosen |= {"functions": train_functions, "step": train_step}
    said = {}
    for name, run in chosen.items():
        torch._dynamo.reset()
        counters.clear()
        torch.manual_seed(0)
        try:
            losses = [loss.hex() for loss in run(Model())]
        except torch._dynamo.exc.TorchDynamoException as error:  # old ones cannot trace it
            losses = type(error).__name__
        said[name] = {"losses": losses, **{each: dict(counters[each]) for each in COUNTED}}
    sys.stdout.write(json.dumps(said))


if __name__ == "__main__":
    main()
