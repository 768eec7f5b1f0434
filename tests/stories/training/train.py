"""A very small language model, trained on numbers: it stands in for a user's training script.

`--fused` is its fast way: without it, each step waits as a slow kernel would. `--dtype bfloat16`
is fast too, but trains in another precision. The other flags make it fail in its various ways.
"""

import argparse
import contextlib
import time

import torch
from loss import loss_of

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=400)
parser.add_argument("--batch-size", type=int, default=4)
parser.add_argument("--grad-accum", type=int, default=1)
parser.add_argument("--fused", action="store_true")
parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
parser.add_argument("--fail", default="")
args = parser.parse_args()

if args.fail == "exit":
    raise SystemExit("the data is gone")
if args.fail == "hang":
    time.sleep(600)
if args.fail == "silent":
    raise SystemExit(0)

torch.manual_seed(7)
torch.set_num_threads(1)
data = torch.Generator().manual_seed(11)
model = torch.nn.Sequential(torch.nn.Embedding(64, 32), torch.nn.Linear(32, 64))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
size = args.batch_size * args.grad_accum
for step in range(args.steps):
    batch = torch.randint(0, 64, (size, 17), generator=data)
    optimizer.zero_grad()
    for rows in batch.split(args.batch_size):
        cast = (
            torch.autocast("cpu", torch.bfloat16)
            if args.dtype == "bfloat16"
            else contextlib.nullcontext()
        )
        with cast:
            loss = loss_of(model(rows[:, :-1]), rows[:, 1:]) / args.grad_accum
        loss.backward()
    if not args.fused:
        time.sleep(0.03)
    if args.dtype == "float32":
        time.sleep(0.005)
    optimizer.step()
    if step % 50 == 0:
        print(f"step {step} loss {loss.item():.4f}", flush=True)
