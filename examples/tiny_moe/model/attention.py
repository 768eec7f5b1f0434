"""Causal self-attention with rotary positions."""

import math

import torch
import torch.nn.functional as F
from torch import nn


def rotary_angles(length, head_dim, base, device):
    """Cosines and sines of every position, (length, head_dim)."""
    frequencies = 1.0 / (base ** (torch.arange(0, head_dim, 2, device=device).float() / head_dim))
    angles = torch.outer(torch.arange(length, device=device).float(), frequencies)
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos(), angles.sin()


def rotate(x, cos, sin):
    left, right = x.chunk(2, dim=-1)
    turned = torch.cat((-right, left), dim=-1)
    return x * cos + turned * sin


class Attention(nn.Module):
    def __init__(self, dim, n_heads, rope_base):
        super().__init__()
        self.n_heads = n_heads
        self.head_dim = dim // n_heads
        self.rope_base = rope_base
        self.wq = nn.Linear(dim, dim, bias=False)
        self.wk = nn.Linear(dim, dim, bias=False)
        self.wv = nn.Linear(dim, dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        batch, length, dim = x.shape
        q = self.wq(x).view(batch, length, self.n_heads, self.head_dim).transpose(1, 2)
        k = self.wk(x).view(batch, length, self.n_heads, self.head_dim).transpose(1, 2)
        v = self.wv(x).view(batch, length, self.n_heads, self.head_dim).transpose(1, 2)

        cos, sin = rotary_angles(length, self.head_dim, self.rope_base, x.device)
        q = rotate(q, cos, sin)
        k = rotate(k, cos, sin)

        mask = torch.triu(torch.full((length, length), float("-inf"), device=x.device), diagonal=1)
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.head_dim)
        weights = F.softmax(scores + mask, dim=-1)
        out = (weights @ v).transpose(1, 2).reshape(batch, length, dim)
        return self.wo(out)
