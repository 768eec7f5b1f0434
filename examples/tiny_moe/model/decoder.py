"""The decoder: embedding, blocks of attention and experts, output layer."""

import torch
import torch.nn.functional as F
from torch import nn

from .attention import Attention
from .moe import MixtureOfExperts


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        scale = torch.rsqrt(x.float().pow(2).mean(dim=-1, keepdim=True) + self.eps)
        return (x.float() * scale).type_as(x) * self.weight


class Block(nn.Module):
    def __init__(self, settings):
        super().__init__()
        self.attention_norm = RMSNorm(settings.dim)
        self.attention = Attention(settings.dim, settings.n_heads, settings.rope_base)
        self.moe_norm = RMSNorm(settings.dim)
        self.moe = MixtureOfExperts(
            settings.dim, settings.expert_hidden, settings.n_experts, settings.top_k
        )

    def forward(self, x):
        x = x + self.attention(self.attention_norm(x))
        out, balance = self.moe(self.moe_norm(x))
        return x + out, balance


class Decoder(nn.Module):
    def __init__(self, settings):
        super().__init__()
        self.aux_loss_weight = settings.aux_loss_weight
        self.embedding = nn.Embedding(settings.vocab_size, settings.dim)
        self.blocks = nn.ModuleList([Block(settings) for _ in range(settings.n_layers)])
        self.norm = RMSNorm(settings.dim)
        self.head = nn.Linear(settings.dim, settings.vocab_size, bias=False)
        self.apply(self._init)

    @staticmethod
    def _init(module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)

    def forward(self, tokens, targets=None):
        """Logits; and with targets the loss, and the share of it that is for balance."""
        x = self.embedding(tokens)
        balance = 0.0
        for block in self.blocks:
            x, each = block(x)
            balance = balance + each
        logits = self.head(self.norm(x))
        if targets is None:
            return logits, None, None
        loss = F.cross_entropy(logits.view(-1, logits.size(-1)).float(), targets.reshape(-1))
        aux = self.aux_loss_weight * balance / len(self.blocks)
        return logits, loss, aux
