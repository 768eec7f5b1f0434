"""Programs of odd shapes, one a mode: the first argument."""

import multiprocessing
import os
import subprocess
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Tokens(Dataset):
    def __len__(self):
        return 16

    def __getitem__(self, index):
        with torch.enable_grad():  # a worker that trains something of its own
            helper = nn.Embedding(4, 2)
            helper(torch.tensor([index % 4])).sum().backward()
        return torch.arange(6) + index


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(40, 16), nn.Linear(16, 40)

    def forward(self, idx):
        logits = self.head(self.embed(idx[:, :-1]))
        return nn.functional.cross_entropy(logits.flatten(0, 1), idx[:, 1:].flatten())


def train(model, batches):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in batches:
        model(batch).backward()
        optimizer.step()
        optimizer.zero_grad()


def workers(context):
    loader = DataLoader(Tokens(), batch_size=4, num_workers=2, multiprocessing_context=context)
    train(Model(), loader)


def forked():
    model = Model()
    batch = torch.arange(12).view(2, 6)
    train(model, [batch, batch])
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    train(model, [batch])


def rank(number):
    train(Model(), [torch.arange(12).view(2, 6) + number] * 2)


def children(method):
    context = multiprocessing.get_context(method)
    child = context.Process(target=rank, args=(1,))
    child.start()
    child.join()


def distributed():
    from torch.nn.parallel import DistributedDataParallel

    torch.distributed.init_process_group("gloo")
    number = torch.distributed.get_rank()
    torch.manual_seed(0)
    train(DistributedDataParallel(Model()), [torch.arange(12).view(2, 6) + number] * 3)
    torch.distributed.destroy_process_group()


def pieces():
    """No module holds the others, and the loss is a module."""
    embed, head, criterion = nn.Embedding(40, 16), nn.Linear(16, 40), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD([*embed.parameters(), *head.parameters()], lr=0.1)
    for _ in range(3):
        ids = torch.arange(12).view(2, 6)
        targets = ids.clone()
        targets[0, :2] = -100
        criterion(head(embed(ids)).flatten(0, 1), targets.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()


def closure():
    model, batch = Model(), torch.arange(12).view(2, 6)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def forward_and_backward():
        optimizer.zero_grad()
        loss = model(batch)
        loss.backward()
        return loss

    for _ in range(3):
        optimizer.step(forward_and_backward)


def again():
    """Steps twice on the same gradients."""
    model, batch = Model(), torch.arange(12).view(2, 6)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        model(batch).backward()
        optimizer.step()
        optimizer.step()
        optimizer.zero_grad()


def in_backward():
    """Each parameter has an optimizer, which steps while backward runs."""
    model, batch = Model(), torch.arange(12).view(2, 6)
    for param in model.parameters():
        optimizer = torch.optim.SGD([param], lr=0.1)

        def hook(param, optimizer=optimizer):
            optimizer.step()
            optimizer.zero_grad()

        param.register_post_accumulate_grad_hook(hook)
    for _ in range(3):
        model(batch).backward()


def overflow():
    """A gradient scaler skips the first step."""
    model, batch = Model(), torch.arange(12).view(2, 6)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16)
    for update in range(3):
        loss = model(batch)
        if update == 0:
            loss = loss * float("inf")
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()


def swallowed():
    """Ends by an exception that nobody lets through."""
    model = Model()
    train(model, [torch.arange(12).view(2, 6)])
    try:
        model(torch.full((2, 6), 99))
    except IndexError:
        sys.exit(1)


def launcher():
    subprocess.run([sys.executable, "-c", "raise SystemExit(5)"], check=True)


if __name__ == "__main__":
    torch.manual_seed(0)
    globals()[sys.argv[1]](*sys.argv[2:])
