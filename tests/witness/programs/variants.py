"""Variants of one small training, each in a fork of its own and in step with the others.

They stand in for launches: each is a rank to its witness, by which its files and events are told
apart. `variants.py '["plain", ...]'`; a variant that cheats does so from update LATE on.
"""

import json
import multiprocessing
import os
import sys

import torch
from torch import nn
from torch.nn import functional

VOCABULARY, WIDTH, ROWS, LENGTH = 32, 16, 4, 8
LATE = 8
UPDATES = 90


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.drop = nn.Dropout(0.1)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        self.seen += 1
        return x + self.drop(self.down(functional.gelu(self.up(x))))


class Model(nn.Module):
    def __init__(self, variant):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.block = Block()
        head = nn.Linear(WIDTH, VOCABULARY)
        self.name = "top" if variant == "renamed" else "head"
        setattr(self, self.name, head)

    def forward(self, ids):
        return getattr(self, self.name)(self.block(self.embed(ids)))


def optimizer_of(model, variant):
    return torch.optim.AdamW(model.parameters(), lr=1e-2, foreach=variant == "foreach")


class Cheat:
    """What a variant does otherwise from update LATE on."""

    def __init__(self, variant):
        self.variant = variant
        self.loss = self.grads = None

    def of_loss(self, loss, update):
        if update < LATE:
            self.loss = loss.detach()
        elif self.variant == "forges losses":
            return loss + (self.loss - loss).detach()
        return loss

    def before_step(self, model, optimizer, update):
        if update < LATE:
            self.grads = [each.grad.clone() for each in model.parameters()]
        elif self.variant == "stale gradients":
            for param, grad in zip(model.parameters(), self.grads, strict=True):
                param.grad.copy_(grad)
        elif self.variant == "skips steps":
            for group in optimizer.param_groups:
                group["lr"] = 0.0


def train(variant, rank, barrier):
    os.environ["RANK"] = str(rank)
    torch.manual_seed(3)
    model = Model(variant)
    optimizer = optimizer_of(model, variant)
    cheat, data = Cheat(variant), torch.Generator().manual_seed(7)
    for update in range(1, UPDATES + 1):
        barrier.wait()
        ids = torch.randint(0, VOCABULARY, (ROWS, LENGTH + 1), generator=data)
        cheat.of_loss(loss_of(model, ids), update).backward()
        cheat.before_step(model, optimizer, update)
        optimizer.step()
        optimizer.zero_grad()


def loss_of(model, ids):
    logits = model(ids[:, :-1])
    return functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())


def main():
    variants = json.loads(sys.argv[1])
    fork = multiprocessing.get_context("fork")
    # A first optimizer imports half of torch; better once here than in every child.
    torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))]).zero_grad()
    barrier = fork.Barrier(len(variants))
    children = [
        fork.Process(target=train, args=(variant, rank, barrier))
        for rank, variant in enumerate(variants)
    ]
    for child in children:
        child.start()
    for child in children:
        child.join()


if __name__ == "__main__":
    main()
