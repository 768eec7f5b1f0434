"""A training program that swallows the flags that it does not know, as parse_known_args does."""

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=2)
parser.add_argument("--grad-accum", type=int, default=4)
parser.add_argument("--precision", choices=["float32", "bfloat16"], default="float32")
args, _ = parser.parse_known_args()

torch.manual_seed(3)
torch.set_num_threads(1)
rows = torch.Generator().manual_seed(5)
model = nn.Sequential(nn.Embedding(50, 16), nn.Linear(16, 50))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4):
    batch = torch.randint(0, 50, (args.batch_size * args.grad_accum, 9), generator=rows)
    optimizer.zero_grad()
    for part in batch.split(args.batch_size):
        with torch.autocast("cpu", torch.bfloat16, enabled=args.precision == "bfloat16"):
            logits = model(part[:, :-1])
        targets = part[:, 1:].reshape(-1)
        loss = nn.functional.cross_entropy(logits.float().view(-1, 50), targets) / args.grad_accum
        loss.backward()
    optimizer.step()
