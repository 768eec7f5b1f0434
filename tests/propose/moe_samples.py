"""Mixtures of experts as different hands write them: each a module ``make`` of width 8."""

# A Mixtral-like block of the transformers library: a one-hot mask, where, index_add_.
ONE_HOT = """
    import torch
    import torch.nn.functional as F
    from torch import nn

    class Gated(nn.Module):
        def __init__(self, width, inner):
            super().__init__()
            self.gate_proj = nn.Linear(width, inner, bias=False)
            self.up_proj = nn.Linear(width, inner, bias=False)
            self.down_proj = nn.Linear(inner, width, bias=False)

        def forward(self, h):
            return self.down_proj(F.silu(self.gate_proj(h)) * self.up_proj(h))

    class make(nn.Module):
        def __init__(self, width=8, inner=6, num_experts=5, top_k=2):
            super().__init__()
            self.num_experts, self.top_k = num_experts, top_k
            self.gate = nn.Linear(width, num_experts, bias=False)
            self.experts = nn.ModuleList([Gated(width, inner) for _ in range(num_experts)])

        def forward(self, hidden):
            batch, length, width = hidden.shape
            hidden = hidden.view(-1, width)
            routing = F.softmax(self.gate(hidden), dim=1, dtype=torch.float)
            routing, picked = torch.topk(routing, self.top_k, dim=-1)
            routing /= routing.sum(dim=-1, keepdim=True)
            routing = routing.to(hidden.dtype)
            final = torch.zeros((batch * length, width), dtype=hidden.dtype, device=hidden.device)
            # a mask of (experts, slots, tokens)
            expert_mask = torch.nn.functional.one_hot(picked, num_classes=self.num_experts).permute(2, 1, 0)
            for expert_idx in range(self.num_experts):
                layer = self.experts[expert_idx]
                slot, token = torch.where(expert_mask[expert_idx])
                state = hidden[None, token].reshape(-1, width)
                out = layer(state) * routing[token, slot, None]
                final.index_add_(0, token, out.to(hidden.dtype))
            return final.reshape(batch, length, width)
"""

# The same with only the experts that were hit, and their weights stacked in parameters.
HIT = """
    import torch
    import torch.nn as nn
    import torch.nn.functional as F

    class Experts(nn.Module):
        def __init__(self, count, width, inner):
            super().__init__()
            self.count = count
            self.up = nn.Parameter(torch.randn(count, 2 * inner, width) * 0.2)
            self.down = nn.Parameter(torch.randn(count, width, inner) * 0.2)

        def forward(self, states, top_index, top_weights):
            result = torch.zeros_like(states)
            with torch.no_grad():
                mask = F.one_hot(top_index, num_classes=self.count)
                mask = mask.permute(2, 1, 0)
                hit = torch.greater(mask.sum(dim=(-1, -2)), 0).nonzero()
            for number in hit:
                number = number[0]
                position, token = torch.where(mask[number])
                mine = states[token]
                gate, up = F.linear(mine, self.up[number]).chunk(2, dim=-1)
                inner = F.silu(gate) * up
                inner = F.linear(inner, self.down[number])
                inner = inner * top_weights[token, position, None]
                result.index_add_(0, token, inner.to(result.dtype))
            return result

    class make(nn.Module):
        def __init__(self):
            super().__init__()
            self.router = nn.Linear(8, 6)
            self.experts = Experts(6, 8, 5)

        def forward(self, x):
            flat = x.reshape(-1, 8)
            scores = self.router(flat).softmax(-1)
            weights, index = torch.topk(scores, 2, dim=-1)
            return self.experts(flat, index, weights).view_as(x)
"""

# A router module that scatters; boolean masks by any(); the experts in an enumerate.
ANY = """
    import torch
    import torch.nn as nn
    from torch.nn import functional as F

    class Expert(nn.Module):
        def __init__(self, n_embd, dropout):
            super().__init__()
            self.net = nn.Sequential(
                nn.Linear(n_embd, 4 * n_embd), nn.ReLU(), nn.Linear(4 * n_embd, n_embd),
                nn.Dropout(dropout),
            )

        def forward(self, x):
            return self.net(x)

    class Router(nn.Module):
        def __init__(self, n_embd, num_experts, k):
            super().__init__()
            self.k = k
            self.score = nn.Linear(n_embd, num_experts)

        def forward(self, x):
            logits = self.score(x)
            top, indices = logits.topk(self.k, dim=-1)
            sparse = torch.full_like(logits, float("-inf")).scatter(-1, indices, top)
            return F.softmax(sparse, dim=-1), indices

    class make(nn.Module):
        def __init__(self, n_embd=8, num_experts=4, k=2, dropout=0.0):
            super().__init__()
            self.router = Router(n_embd, num_experts, k)
            self.experts = nn.ModuleList([Expert(n_embd, dropout) for _ in range(num_experts)])

        def forward(self, x):
            gates, indices = self.router(x)
            total = torch.zeros_like(x)
            flat_x = x.view(-1, x.size(-1))
            flat_gates = gates.view(-1, gates.size(-1))
            for i, expert in enumerate(self.experts):
                mask = (indices == i).any(dim=-1)
                flat_mask = mask.view(-1)
                if flat_mask.any():
                    given = flat_x[flat_mask]
                    made = expert(given)
                    score = flat_gates[flat_mask, i].unsqueeze(1)
                    weighted = made * score
                    total[mask] += weighted.squeeze(1)
            return total
"""

# The shortest form, with where and an in-place sum of indexed rows.
SHORT = """
    import torch
    from torch import nn

    class make(nn.Module):
        def __init__(self, dim=8, count=7, chosen=3):
            super().__init__()
            self.k = chosen
            self.gate = nn.Linear(dim, count, bias=False)
            self.experts = nn.ModuleList(nn.Linear(dim, dim) for _ in range(count))

        def forward(self, inputs):
            squashed = inputs.view(-1, inputs.shape[-1])
            logits = self.gate(squashed)
            weights, selected = torch.topk(logits, self.k)
            weights = nn.functional.softmax(weights, dim=1, dtype=torch.float).type_as(inputs)
            results = torch.zeros_like(squashed)
            for i, expert in enumerate(self.experts):
                batch, nth = torch.where(selected == i)
                results[batch] += weights[batch, nth, None] * expert(squashed[batch])
            return results.view_as(inputs)
"""

# A gate module, counts by bincount, a shared expert; weights after the expert.
COUNTED = """
    import torch
    import torch.nn.functional as F
    from torch import nn

    class MLP(nn.Module):
        def __init__(self, dim, inner):
            super().__init__()
            self.w1, self.w2 = nn.Linear(dim, inner), nn.Linear(inner, dim)

        def forward(self, x):
            return self.w2(F.gelu(self.w1(x)))

    class Gate(nn.Module):
        def __init__(self, dim, n):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(n, dim) * 0.3)

        def forward(self, x):
            scores = F.linear(x, self.weight).sigmoid()
            indices = torch.topk(scores, 2, dim=-1)[1]
            weights = scores.gather(1, indices)
            return weights.type_as(x), indices

    class make(nn.Module):
        def __init__(self, dim=8, n=6):
            super().__init__()
            self.dim, self.n_routed = dim, n
            self.start, self.end = 0, n
            self.gate = Gate(dim, n)
            self.experts = nn.ModuleList([MLP(dim, 5) for _ in range(n)])
            self.shared = MLP(dim, 4)

        def forward(self, x):
            shape = x.size()
            x = x.view(-1, self.dim)
            weights, indices = self.gate(x)
            y = torch.zeros_like(x)
            counts = torch.bincount(indices.flatten(), minlength=self.n_routed).tolist()
            for i in range(self.start, self.end):
                if counts[i] == 0:
                    continue
                expert = self.experts[i]
                idx, top = torch.where(indices == i)
                y[idx] += expert(x[idx]) * weights[idx, top, None]
            return (y + self.shared(x)).view(shape)
"""

# Tokens repeated for each slot, outputs put in place, weights applied afterwards.
REPEATED = """
    import torch
    from torch import nn

    class make(nn.Module):
        def __init__(self, width=8, n=4, k=2):
            super().__init__()
            self.k = k
            self.gate = nn.Linear(width, n, bias=False)
            self.experts = nn.ModuleList([nn.Sequential(nn.Linear(width, width), nn.Tanh()) for _ in range(n)])

        def forward(self, x):
            shape = x.shape
            x = x.view(-1, shape[-1])
            weight, idx = torch.topk(self.gate(x).softmax(dim=-1), k=self.k, dim=-1, sorted=False)
            flat = idx.view(-1)
            x = x.repeat_interleave(self.k, dim=0)
            y = torch.empty_like(x)
            for i, expert in enumerate(self.experts):
                y[flat == i] = expert(x[flat == i]).to(y.dtype)
            y = (y.view(*weight.shape, -1) * weight.unsqueeze(-1)).sum(dim=1)
            return y.view(*shape)
"""

# One expert a token, on three axes, out of place.
TOP_ONE = """
    import torch
    from torch import nn

    class make(nn.Module):
        def __init__(self, d=8, n=3):
            super().__init__()
            self.n = n
            self.switch = nn.Linear(d, n)
            self.experts = nn.ModuleList([nn.Linear(d, d) for _ in range(n)])

        def forward(self, x):
            best, routes = self.switch(x).softmax(-1).max(dim=-1)
            out = x.new_zeros(x.shape)
            for e in range(self.n):
                mine = routes == e
                if mine.sum() == 0:
                    continue
                out[mine] = best[mine].unsqueeze(-1) * self.experts[e](x[mine])
            return out
"""

# One slot after the other.
BY_SLOT = """
    import torch
    import torch.nn.functional as F
    from torch import nn

    class make(nn.Module):
        def __init__(self, d=8, n=4, k=2):
            super().__init__()
            self.n, self.k = n, k
            self.router = nn.Linear(d, n)
            self.experts = nn.ModuleList([nn.Linear(d, d) for _ in range(n)])

        def forward(self, x):
            flat = x.reshape(-1, x.shape[-1])
            p, idx = F.softmax(self.router(flat), -1).topk(self.k, -1)
            out = torch.zeros_like(flat)
            for k in range(self.k):
                for e in range(self.n):
                    hits = idx[:, k] == e
                    if not hits.any():
                        continue
                    out[hits] += p[hits, k].unsqueeze(-1) * self.experts[e](flat[hits])
            return out.view(x.shape)
"""

# The weight by a masked sum; index_add out of place.
MASKED = """
    import torch
    from torch import nn

    class make(nn.Module):
        def __init__(self, d=8, n=4, k=2):
            super().__init__()
            self.n, self.k = n, k
            self.router = nn.Linear(d, n)
            self.experts = nn.ModuleList([nn.Linear(d, d) for _ in range(n)])

        def route(self, x):
            p = self.router(x).softmax(-1)
            idx = p.argsort(dim=-1, descending=True)[:, : self.k]
            return p.gather(-1, idx), idx

        def forward(self, x):
            flat = x.flatten(0, 1)
            gate, chosen = self.route(flat)
            out = flat.new_zeros(flat.shape)
            for e in range(len(self.experts)):
                hits = chosen == e
                rows = hits.any(-1).nonzero().squeeze(-1)
                if rows.numel() == 0:
                    continue
                weight = (gate * hits.float()).sum(-1, keepdim=True)[rows]
                out = out.index_add(0, rows, weight * self.experts[e](flat[rows]))
            return out.view_as(x)
"""

# The tuple that nonzero gives as the index; weights by the whole mask.
TUPLE = """
    import torch
    from torch import nn

    class make(nn.Module):
        def __init__(self, d=8, n=4):
            super().__init__()
            self.router = nn.Linear(d, n)
            self.experts = nn.ModuleList([nn.Linear(d, d) for _ in range(n)])

        def forward(self, x):
            flat = x.reshape(-1, 8)
            gate = self.router(flat).softmax(-1)
            best = torch.topk(gate, 2, dim=-1)
            first = gate.argmax(dim=-1)
            out = flat.new_zeros(flat.shape)
            for e in range(len(self.experts)):
                here = torch.where(first == e)
                out[here] = out[here] + 0.5 * self.experts[e](flat[here])
            for e in range(len(self.experts)):
                hits = best.indices == e
                if torch.any(hits):
                    rows = torch.nonzero(hits, as_tuple=True)[0]
                    scale = best.values[hits].view(-1, 1).to(x.dtype)
                    out.index_add_(dim=0, index=rows, source=self.experts[e](flat[rows]) * scale)
            return out.view_as(x)
"""

ALL = {
    "one_hot": ONE_HOT, "hit": HIT, "any": ANY, "short": SHORT, "counted": COUNTED,
    "repeated": REPEATED, "top_one": TOP_ONE, "tuple": TUPLE, "by_slot": BY_SLOT, "masked": MASKED,
}  # fmt: skip
