"""Train a byte-level GPT, data-parallel.

    torchrun --standalone --nproc_per_node=2 train.py
    torchrun --standalone --nproc_per_node=4 train.py --steps 2000 --lr 6e-4

Works in a single process too (`python train.py`). Each rank is given its own part of every
global batch; the gradients are averaged over the ranks before each step.
"""

import argparse
import math
import os
import time
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist

from model import ByteGPT
from prepare import CORPUS, prepare


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--corpus", type=Path, default=CORPUS)
    p.add_argument("--steps", type=int, default=300)
    p.add_argument("--batch-size", type=int, default=2, help="sequences per rank and micro-batch")
    p.add_argument("--grad-accum", type=int, default=1, help="micro-batches per step")
    p.add_argument("--context", type=int, default=128)
    p.add_argument("--depth", type=int, default=16)
    p.add_argument("--dim", type=int, default=128)
    p.add_argument("--heads", type=int, default=4)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--warmup", type=int, default=30)
    p.add_argument("--weight-decay", type=float, default=0.1)
    p.add_argument("--clip", type=float, default=1.0)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--log-every", type=int, default=10)
    p.add_argument("--eval-every", type=int, default=0, help="0: never")
    p.add_argument("--eval-batches", type=int, default=4)
    p.add_argument("--save", type=Path, default=None, help="write the trained model here")
    return p.parse_args()


class Windows:
    """Random windows of the corpus. All ranks draw the same ones, and each keeps its share."""

    def __init__(self, path, context, rank, world_size, seed):
        self.data = np.memmap(path, dtype=np.uint8, mode="r")
        self.context = context
        self.rank, self.world_size = rank, world_size
        self.rng = np.random.default_rng(seed)

    def draw(self, per_rank):
        last = len(self.data) - self.context - 1
        starts = self.rng.integers(0, last, size=per_rank * self.world_size)
        windows = [
            self.data[start : start + self.context + 1]
            for start in starts[self.rank :: self.world_size]
        ]
        return torch.from_numpy(np.stack(windows).astype(np.int64))


def learning_rate(step, args):
    if step < args.warmup:
        return args.lr * (step + 1) / args.warmup
    done = (step - args.warmup) / max(1, args.steps - args.warmup)
    return args.lr * (0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * min(1.0, done))))


def average_gradients(model, world_size):
    """Give every rank the mean of all ranks' gradients."""
    for param in model.parameters():
        if param.grad is not None:
            dist.all_reduce(param.grad, op=dist.ReduceOp.SUM)
            param.grad /= world_size


@torch.no_grad()
def validate(model, args):
    model.eval()
    windows = Windows(args.corpus / "valid.bin", args.context, 0, 1, seed=1)
    losses = []
    for _ in range(args.eval_batches):
        batch = windows.draw(args.batch_size)
        losses.append(model(batch[:, :-1], batch[:, 1:]).item())
    model.train()
    return sum(losses) / len(losses)


def main():
    args = get_args()
    rank = int(os.environ.get("RANK", 0))
    world_size = int(os.environ.get("WORLD_SIZE", 1))
    if world_size > 1:
        dist.init_process_group("gloo")

    if rank == 0 and not (args.corpus / "train.bin").exists():
        prepare(args.corpus)
    if world_size > 1:
        dist.barrier()

    torch.manual_seed(args.seed)  # the same weights on every rank
    model = ByteGPT(args.depth, args.dim, args.heads, args.context)
    decayed = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]
    optimizer = torch.optim.AdamW(
        [
            {"params": decayed, "weight_decay": args.weight_decay},
            {"params": others, "weight_decay": 0.0},
        ],
        lr=args.lr,
        betas=(0.9, 0.95),
    )
    windows = Windows(args.corpus / "train.bin", args.context, rank, world_size, args.seed)
    if rank == 0:
        size = sum(p.numel() for p in model.parameters())
        print(f"{size / 1e6:.2f}M parameters, {world_size} ranks", flush=True)

    started = time.time()
    for step in range(args.steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, args)

        step_loss = torch.zeros(())
        batch = windows.draw(args.batch_size * args.grad_accum)
        for micro in batch.split(args.batch_size):
            loss = model(micro[:, :-1], micro[:, 1:]) / args.grad_accum
            loss.backward()
            step_loss += loss.detach()

        if world_size > 1:
            average_gradients(model, world_size)
            dist.all_reduce(step_loss, op=dist.ReduceOp.SUM)
            step_loss /= world_size
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        optimizer.step()
        optimizer.zero_grad()

        if rank == 0 and (step % args.log_every == 0 or step == args.steps - 1):
            per_step = args.batch_size * args.grad_accum * args.context * world_size
            rate = per_step * (step + 1) / (time.time() - started)
            print(
                f"step {step:5d} | loss {step_loss.item():.5f} | grad norm {norm.item():.3f} | "
                f"{rate:,.0f} bytes/s",
                flush=True,
            )
        if rank == 0 and args.eval_every and (step + 1) % args.eval_every == 0:
            print(f"step {step:5d} | validation loss {validate(model, args):.4f}", flush=True)

    if rank == 0 and args.save is not None:
        args.save.parent.mkdir(parents=True, exist_ok=True)
        torch.save({"model": model.state_dict(), "args": vars(args)}, args.save)
    if world_size > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
