"""A small training program whose loop is turned by options: JSON in the first argument."""

import json
import os
import sys

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

VOCABULARY, WIDTH, LENGTH, ROWS = 50, 32, 8, 8
CHOSEN = {
    "updates": 4, "micro": 8, "checkpoint": None, "optimizer": "adamw", "scaler": False,
    "clip": None, "autocast": False, "cast": None, "state": None, "permute": False,
    "evaluate": False, "criterion": "inside", "crash": None, "precision": None,
    "closure": False, "two": False, "eval_mode": False, "drop": False, "swap": False,
}  # fmt: skip


class Block(nn.Module):
    def __init__(self, options):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.cast = options["cast"]

    def forward(self, x):
        if self.cast == "explicit":
            up = (x.bfloat16() @ self.up.weight.bfloat16().t()).float() + self.up.bias
        elif self.cast == "function":
            up = Quiet.apply(x, self.up.weight) + self.up.bias
        elif self.cast == "autocast":
            with torch.autocast("cpu", dtype=torch.bfloat16):
                up = self.up(x)
            up = up.float()
        else:
            up = self.up(x)
        return x + self.down(functional.gelu(up))


class Quiet(torch.autograd.Function):
    """A cast that no autograd node shows."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return (x.bfloat16() @ weight.bfloat16().t()).float()

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        return grad @ weight, grad.flatten(0, 1).t() @ x.flatten(0, 1)


class Model(nn.Module):
    def __init__(self, options):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(Block(options) for _ in range(2))
        self.head = nn.Linear(WIDTH, VOCABULARY)
        self.options = options

    def forward(self, idx, targets=None):
        x = self.embed(idx)
        for block in self.blocks:
            if self.options["checkpoint"] is not None and torch.is_grad_enabled():
                x = checkpoint(block, x, use_reentrant=self.options["checkpoint"] == "reentrant")
            else:
                x = block(x)
        logits = self.head(x)
        if targets is None:
            return logits
        return functional.cross_entropy(logits.float().view(-1, VOCABULARY), targets.reshape(-1))


class HalfState(torch.optim.AdamW):
    """Keeps its state in bfloat16 between steps, and shows float32 while it steps."""

    def step(self, closure=None):
        self._cast(torch.float32)
        result = super().step(closure)
        self._cast(torch.bfloat16)
        return result

    def _cast(self, dtype):
        for state in self.state.values():
            for name in ("exp_avg", "exp_avg_sq"):
                if name in state:
                    state[name] = state[name].to(dtype)


class ByHand:
    """An optimizer that torch knows nothing about."""

    def __init__(self, params):
        self.params = list(params)

    def step(self):
        for param in self.params:
            param.data -= 0.01 * param.grad

    def zero_grad(self):
        for param in self.params:
            param.grad = None


def make_optimizers(model, options):
    params = list(model.parameters())
    if options["two"]:
        return [torch.optim.AdamW(params[:3], lr=1e-3), torch.optim.SGD(params[3:], lr=1e-2)]
    match options["optimizer"]:
        case "adamw":
            return [torch.optim.AdamW(params, lr=1e-3)]
        case "foreach":
            return [torch.optim.AdamW(params, lr=1e-3, foreach=True)]
        case "fused":
            return [torch.optim.AdamW(params, lr=1e-3, fused=True)]
        case "half-state":
            return [HalfState(params, lr=1e-3)]
        case _:
            return [ByHand(params)]


def batches(options):
    generator = torch.Generator().manual_seed(7)
    for update in range(options["updates"]):
        ids = torch.randint(0, VOCABULARY, (ROWS, LENGTH + 1), generator=generator)
        x, y = ids[:, :-1].contiguous(), ids[:, 1:].contiguous()
        if options["permute"]:
            order = torch.randperm(ROWS, generator=torch.Generator().manual_seed(update))
            x, y = x[order], y[order]
        if options["swap"]:
            y = y.roll(1, 0)
        yield x, y


def train(options):
    torch.manual_seed(0)
    if options["precision"]:
        torch.set_float32_matmul_precision(options["precision"])
        torch.set_float32_matmul_precision("highest")
    model = Model(options)
    optimizers = make_optimizers(model, options)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0) if options["scaler"] else None
    if options["eval_mode"]:
        model.eval()
    losses = []
    for update, (x, y) in enumerate(batches(options)):
        losses.append(one_update(model, optimizers, scaler, x, y, options=options))
        if options["crash"] == "memory" and update == 1:
            raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory")
        if options["crash"] == "forward" and update == 1:
            model(torch.full((2, LENGTH), VOCABULARY + 1))
        if options["evaluate"]:
            model.eval()
            with torch.no_grad():
                model(x, y)
            model.train()
    return losses


def one_update(model, optimizers, scaler, x, y, *, options):
    total = 0.0
    micro = options["micro"]
    pieces = list(zip(x.split(micro), y.split(micro), strict=True))
    for left, right in pieces[1:] if options["drop"] else pieces:
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=options["autocast"]):
            loss = loss_of(model, left, right, options) / len(pieces)
        (scaler.scale(loss) if scaler else loss).backward()
        total += loss.item()
    if scaler and options["clip"]:
        scaler.unscale_(optimizers[0])
    if options["clip"]:
        nn.utils.clip_grad_norm_(model.parameters(), options["clip"])
    for optimizer in optimizers:
        if scaler:
            scaler.step(optimizer)
        else:
            optimizer.step()
    if scaler:
        scaler.update()
    for optimizer in optimizers:
        optimizer.zero_grad()
    return total


def loss_of(model, left, right, options):
    if options["criterion"] == "inside":
        return model(left, right)
    logits = model(idx=left)
    if options["criterion"] == "module":
        return nn.CrossEntropyLoss()(logits.view(-1, VOCABULARY), right.view(-1))
    return functional.cross_entropy(logits.view(-1, VOCABULARY), right.view(-1))


if __name__ == "__main__":
    chosen = {**CHOSEN, **json.loads(sys.argv[1] if len(sys.argv) > 1 else "{}")}
    result = train(chosen)
    sys.stdout.write(json.dumps([value.hex() for value in result]))
    if chosen["crash"] == "exit":
        sys.stdout.flush()
        os._exit(3)
