"""Train the mixture of experts.

    python train.py --config config/base.yaml
    python train.py --config config/base.yaml train.steps=1000 model.n_experts=32
"""

import argparse
import contextlib
import math
import time
from dataclasses import asdict
from pathlib import Path

import torch

from config.settings import load_settings
from data import Corpus, prepare
from model import Decoder

HERE = Path(__file__).resolve().parent


def learning_rate(step, train):
    if step < train.warmup_steps:
        return train.lr * (step + 1) / train.warmup_steps
    done = (step - train.warmup_steps) / max(1, train.steps - train.warmup_steps)
    return train.lr * (0.1 + 0.45 * (1 + math.cos(math.pi * min(1.0, done))))


def precision(train):
    if train.dtype == "float32":
        return contextlib.nullcontext()
    return torch.autocast("cpu", dtype=getattr(torch, train.dtype))


@torch.no_grad()
def evaluate(model, folder, settings):
    model.eval()
    corpus = Corpus(folder / "val.bin", settings.data.seq_len, seed=0)
    total = 0.0
    for x, y in corpus.micro_batches(settings.train.micro_batch_size, settings.train.eval_batches):
        with precision(settings.train):
            total += model(x, y)[1].item()
    model.train()
    return total / settings.train.eval_batches


def main():
    parser = argparse.ArgumentParser(description="Train the mixture of experts.")
    parser.add_argument("--config", default=HERE / "config" / "base.yaml")
    parser.add_argument("overrides", nargs="*", help="section.key=value")
    args = parser.parse_args()
    settings = load_settings(args.config, args.overrides)
    train = settings.train
    torch.manual_seed(train.seed)

    folder = HERE / settings.data.dir
    if not (folder / "train.bin").exists():
        prepare(folder, settings.data.max_bytes)
    corpus = Corpus(folder / "train.bin", settings.data.seq_len, train.seed)

    model = Decoder(settings.model)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=train.lr, betas=(0.9, 0.95), weight_decay=train.weight_decay
    )
    total = sum(p.numel() for p in model.parameters())
    print(f"{total / 1e6:.2f}M parameters, {settings.model.n_experts} experts a layer")

    model.train()
    start = time.perf_counter()
    for step in range(train.steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, train)

        optimizer.zero_grad()
        step_loss, step_aux = 0.0, 0.0
        for x, y in corpus.micro_batches(train.micro_batch_size, train.grad_accum_steps):
            with precision(train):
                _, loss, aux = model(x, y)
            ((loss + aux) / train.grad_accum_steps).backward()
            step_loss += loss.item() / train.grad_accum_steps
            step_aux += aux.item() / train.grad_accum_steps
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), train.grad_clip)
        optimizer.step()

        if step % train.log_every == 0 or step == train.steps - 1:
            seconds = time.perf_counter() - start
            print(
                f"{step:6d} | loss {step_loss:.6f} | balance {step_aux:.6f} | "
                f"grad {norm.item():.3f} | {seconds:.1f} s",
                flush=True,
            )
        if train.eval_every and (step + 1) % train.eval_every == 0:
            print(f"{step:6d} | held out {evaluate(model, folder, settings):.4f}", flush=True)

    if train.checkpoint:
        path = HERE / train.checkpoint
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save({"model": model.state_dict(), "settings": asdict(settings)}, path)
        print(f"saved {path}")


if __name__ == "__main__":
    main()
