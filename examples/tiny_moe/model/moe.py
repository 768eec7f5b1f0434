"""A mixture of experts in place of a feed-forward layer."""

import torch
import torch.nn.functional as F
from torch import nn


class Expert(nn.Module):
    """SwiGLU."""

    def __init__(self, dim, hidden):
        super().__init__()
        self.w1 = nn.Linear(dim, hidden, bias=False)
        self.w2 = nn.Linear(hidden, dim, bias=False)
        self.w3 = nn.Linear(dim, hidden, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class MixtureOfExperts(nn.Module):
    def __init__(self, dim, hidden, n_experts, top_k):
        super().__init__()
        self.n_experts = n_experts
        self.top_k = top_k
        self.router = nn.Linear(dim, n_experts, bias=False)
        self.experts = nn.ModuleList([Expert(dim, hidden) for _ in range(n_experts)])

    def forward(self, x):
        """The mixture's output, and its load-balancing loss."""
        shape = x.shape
        x = x.reshape(-1, shape[-1])
        probs = F.softmax(self.router(x), dim=-1)
        weights, chosen = torch.topk(probs, self.top_k, dim=-1)
        weights = weights / weights.sum(dim=-1, keepdim=True)

        out = torch.zeros_like(x)
        for e in range(self.n_experts):
            token, slot = (chosen == e).nonzero(as_tuple=True)
            if token.numel() == 0:
                continue
            out[token] += weights[token, slot].unsqueeze(-1) * self.experts[e](x[token])

        return out.view(shape), self.balance(probs, chosen)

    def balance(self, probs, chosen):
        """One when every expert gets as many tokens as every other, more when not."""
        share = F.one_hot(chosen, self.n_experts).float().mean(dim=(0, 1))
        return self.n_experts * (share * probs.mean(dim=0)).sum()
