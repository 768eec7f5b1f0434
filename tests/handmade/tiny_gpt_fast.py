"""examples/tiny_gpt made fast by hand: the same training, fewer seconds.

Written before any search was run, as the mark that a search is measured against. It trains the
same model on the same batches with the same float32 arithmetic up to rounding, takes the flags of
train.py, and changes:

- attention by `scaled_dot_product_attention`, so no T x T matrix is stored;
- no recomputation (with the line above, the activations fit without it);
- head and loss in one function over chunks of rows, which makes the gradient while it has the
  logits at hand: the full logits never exist, and nothing is computed twice;
- PyTorch's fused AdamW;
- the loss is read only when it is printed.

It stays with what PyTorch ships: a hand-written attention kernel could gain more on a CPU.
`torch.compile` on the blocks was tried and gained nothing here at steady state.

    python tests/handmade/tiny_gpt_fast.py --steps 200
"""

import sys
import time
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "tiny_gpt"
sys.path.insert(0, str(EXAMPLE))

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402, N812
import train as reference  # noqa: E402
from data import Batches, Tokenizer, prepare  # noqa: E402
from model import GPT, CausalSelfAttention, GPTConfig  # noqa: E402

ROWS_PER_CHUNK = 256


class HeadLoss(torch.autograd.Function):
    """Mean cross entropy of `hidden @ weight.T`, a chunk of rows at a time."""

    @staticmethod
    def forward(ctx, hidden, weight, targets):
        num_rows = hidden.size(0)
        grad_hidden = torch.empty_like(hidden)
        grad_weight = torch.zeros_like(weight)
        total = hidden.new_zeros(())
        for start in range(0, num_rows, ROWS_PER_CHUNK):
            h = hidden[start : start + ROWS_PER_CHUNK]
            y = targets[start : start + ROWS_PER_CHUNK, None]
            log_p = F.log_softmax(h @ weight.t(), dim=1)
            picked = log_p.gather(1, y)
            total -= picked.sum()
            grad = log_p.exp_().scatter_add_(1, y, torch.full_like(picked, -1.0))
            torch.mm(grad, weight, out=grad_hidden[start : start + ROWS_PER_CHUNK])
            grad_weight.addmm_(grad.t(), h)
        ctx.save_for_backward(grad_hidden, grad_weight)
        ctx.num_rows = num_rows
        return total / num_rows

    @staticmethod
    def backward(ctx, grad_loss):
        grad_hidden, grad_weight = ctx.saved_tensors
        scale = grad_loss / ctx.num_rows
        return grad_hidden * scale, grad_weight * scale, None


class FastAttention(CausalSelfAttention):
    def forward(self, x):
        B, T, C = x.shape  # noqa: N806
        qkv = self.qkv(x).view(B, T, 3, self.n_head, self.head_dim)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        dropout = self.attn_dropout.p if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)
        return self.resid_dropout(self.proj(y.transpose(1, 2).reshape(B, T, C)))


class FastGPT(GPT):
    def __init__(self, config):
        super().__init__(config)
        for block in self.blocks:
            block.attn.__class__ = FastAttention

    def forward(self, idx, targets=None):
        if targets is None:
            return super().forward(idx)
        x = self.dropout(self.tok_emb(idx) + self.pos_emb.weight[: idx.size(1)])
        for block in self.blocks:
            x = block(x)
        x = self.ln_f(x).view(-1, x.size(-1))
        return None, HeadLoss.apply(x, self.head.weight, targets.view(-1))


def build_optimizer(model, args):
    decay = [p for p in model.parameters() if p.dim() >= 2]
    no_decay = [p for p in model.parameters() if p.dim() < 2]
    groups = [
        {"params": decay, "weight_decay": args.weight_decay},
        {"params": no_decay, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=args.lr, betas=(0.9, 0.95), eps=1e-8, fused=True)


def main():
    args = reference.parse_args()
    torch.manual_seed(args.seed)
    if not (args.data_dir / "train.bin").exists():
        prepare(args.data_dir)
    batches = Batches(
        args.data_dir / "train.bin", args.block_size, args.batch_size, args.grad_accum, args.seed
    )
    model = FastGPT(
        GPTConfig(
            vocab_size=Tokenizer.load(args.data_dir / "vocab.json").vocab_size,
            block_size=args.block_size,
            n_layer=args.n_layer,
            n_head=args.n_head,
            n_embd=args.n_embd,
            dropout=args.dropout,
            recompute_layers=0,
        )
    )
    optimizer = build_optimizer(model, args)

    model.train()
    start = time.perf_counter()
    tokens_per_update = args.batch_size * args.grad_accum * args.block_size
    for step in range(args.steps):
        lr = reference.learning_rate(step, args)
        for group in optimizer.param_groups:
            group["lr"] = lr
        optimizer.zero_grad()
        losses = []
        for x, y in batches.next_update():
            with reference.autocast(args):
                _, loss = model(x, y)
            (loss / args.grad_accum).backward()
            losses.append(loss.detach())
        grad_norm = torch.nn.utils.clip_grad_norm_(model.parameters(), args.grad_clip)
        optimizer.step()

        if step % args.log_every == 0 or step == args.steps - 1:
            rate = tokens_per_update * (step + 1) / (time.perf_counter() - start)
            print(  # noqa: T201
                f"step {step:5d}  loss {torch.stack(losses).mean().item():.6f}  "
                f"grad norm {grad_norm.item():.3f}  lr {lr:.2e}  {rate:,.0f} tokens/s",
                flush=True,
            )


if __name__ == "__main__":
    main()
