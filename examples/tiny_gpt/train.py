"""Train a small GPT on the source code of Python's standard library.

    python train.py                       # 200 updates on the CPU
    python train.py --steps 1000 --lr 6e-4 --out-dir out
"""

import argparse
import contextlib
import math
import time
from pathlib import Path

import torch

from data import DATA_DIR, Batches, Tokenizer, prepare
from model import GPT, GPTConfig
from optim import AdamW


def parse_args():
    parser = argparse.ArgumentParser(description="Train a small GPT.")
    parser.add_argument("--data-dir", type=Path, default=DATA_DIR)
    parser.add_argument("--out-dir", type=Path, default=None, help="save the final checkpoint here")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch-size", type=int, default=1, help="sequences per micro-batch")
    parser.add_argument("--grad-accum", type=int, default=1, help="micro-batches per update")
    parser.add_argument("--block-size", type=int, default=512)
    parser.add_argument("--n-layer", type=int, default=28)
    parser.add_argument("--n-head", type=int, default=4)
    parser.add_argument("--n-embd", type=int, default=64)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--warmup-steps", type=int, default=20)
    parser.add_argument("--weight-decay", type=float, default=0.1)
    parser.add_argument("--grad-clip", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1337)
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument(
        "--recompute",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="recompute activations in the backward pass to save memory",
    )
    parser.add_argument(
        "--recompute-layers",
        type=int,
        default=None,
        metavar="N",
        help="recompute only the first N layers (default: all)",
    )
    parser.add_argument("--log-every", type=int, default=10)
    parser.add_argument("--eval-every", type=int, default=0, help="0 turns evaluation off")
    parser.add_argument("--eval-batches", type=int, default=8)
    return parser.parse_args()


def learning_rate(step, args):
    if step < args.warmup_steps:
        return args.lr * (step + 1) / args.warmup_steps
    progress = (step - args.warmup_steps) / max(1, args.steps - args.warmup_steps)
    return args.lr * (0.1 + 0.45 * (1 + math.cos(math.pi * progress)))


def build_optimizer(model, args):
    decay = [p for p in model.parameters() if p.dim() >= 2]
    no_decay = [p for p in model.parameters() if p.dim() < 2]
    groups = [
        {"params": decay, "weight_decay": args.weight_decay},
        {"params": no_decay, "weight_decay": 0.0},
    ]
    return AdamW(groups, lr=args.lr)


def autocast(args):
    if args.dtype == "bfloat16":
        return torch.autocast("cpu", dtype=torch.bfloat16)
    return contextlib.nullcontext()


@torch.no_grad()
def evaluate(model, args):
    model.eval()
    batches = Batches(
        args.data_dir / "val.bin", args.block_size, args.batch_size, args.eval_batches, seed=0
    )
    total = 0.0
    for x, y in batches.next_update():
        with autocast(args):
            _, loss = model(x, y)
        total += loss.item()
    model.train()
    return total / args.eval_batches


def main():
    args = parse_args()
    torch.manual_seed(args.seed)

    if not (args.data_dir / "train.bin").exists():
        prepare(args.data_dir)
    tokenizer = Tokenizer.load(args.data_dir / "vocab.json")
    batches = Batches(
        args.data_dir / "train.bin", args.block_size, args.batch_size, args.grad_accum, args.seed
    )

    if not args.recompute:
        recompute_layers = 0
    elif args.recompute_layers is None:
        recompute_layers = args.n_layer
    else:
        recompute_layers = args.recompute_layers
    config = GPTConfig(
        vocab_size=tokenizer.vocab_size,
        block_size=args.block_size,
        n_layer=args.n_layer,
        n_head=args.n_head,
        n_embd=args.n_embd,
        dropout=args.dropout,
        recompute_layers=recompute_layers,
    )
    model = GPT(config)
    optimizer = build_optimizer(model, args)
    print(f"{model.num_params() / 1e6:.2f}M parameters, {torch.get_num_threads()} threads")

    model.train()
    tokens_per_update = args.batch_size * args.grad_accum * args.block_size
    start = time.perf_counter()
    for step in range(args.steps):
        lr = learning_rate(step, args)
        for group in optimizer.param_groups:
            group["lr"] = lr

        optimizer.zero_grad()
        total_loss = 0.0
        for x, y in batches.next_update():
            with autocast(args):
                logits, loss = model(x, y)
            loss = loss / args.grad_accum
            loss.backward()
            total_loss += loss.item()
        grad_norm = torch.nn.utils.clip_grad_norm_(model.parameters(), args.grad_clip)
        optimizer.step()

        if step % args.log_every == 0 or step == args.steps - 1:
            rate = tokens_per_update * (step + 1) / (time.perf_counter() - start)
            print(
                f"step {step:5d}  loss {total_loss:.6f}  grad norm {grad_norm.item():.3f}  "
                f"lr {lr:.2e}  {rate:,.0f} tokens/s",
                flush=True,
            )
        if args.eval_every and (step + 1) % args.eval_every == 0:
            print(f"step {step:5d}  validation loss {evaluate(model, args):.4f}", flush=True)

    if args.out_dir is not None:
        args.out_dir.mkdir(parents=True, exist_ok=True)
        torch.save(
            {"model": model.state_dict(), "config": vars(config), "steps": args.steps},
            args.out_dir / "checkpoint.pt",
        )
        print(f"saved {args.out_dir / 'checkpoint.pt'}")


if __name__ == "__main__":
    main()
