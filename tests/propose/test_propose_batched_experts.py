"""The loop over experts becomes one sort, and computes the same."""

from __future__ import annotations

import copy

import pytest
import torch
from moe_samples import ALL, ANY, BY_SLOT, COUNTED, HIT, MASKED, ONE_HOT, REPEATED, SHORT, TOP_ONE
from torch.utils._python_dispatch import TorchDispatchMode

RECIPE = "batched_experts"
STACKED = "stacked_experts"
ALIKE = sorted(set(ALL) - {"hit", "tuple"})


def _trained(model, x: torch.Tensor):
    """Give output, input gradient and parameter gradients; None where there is none."""
    x = x.clone().requires_grad_()
    out = model(x)
    (out * torch.linspace(0.5, 1.5, out.numel(), dtype=out.dtype).view_as(out)).sum().backward()
    return out.detach(), x.grad, {name: p.grad for name, p in model.named_parameters()}


def _pair(module, before: str, after: str):
    torch.manual_seed(0)
    old, new = module(before).make().double(), module(after).make().double()
    assert [(n, p.shape) for n, p in old.named_parameters()] == [
        (n, p.shape) for n, p in new.named_parameters()
    ]
    new.load_state_dict(old.state_dict())
    return old, new


def _same(old, new, x: torch.Tensor) -> None:
    torch.manual_seed(1)
    want = _trained(old, x)
    torch.manual_seed(1)
    got = _trained(new, x)
    torch.testing.assert_close(got[:2], want[:2], rtol=1e-12, atol=1e-12)
    assert got[2].keys() == want[2].keys()
    for name, grad in want[2].items():
        assert (grad is None) == (got[2][name] is None), name
        if grad is not None:
            torch.testing.assert_close(got[2][name], grad, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", sorted(ALL))
def test_mixtures_of_many_hands_are_sorted_by_expert_and_compute_the_same(transform, module, name):
    after = transform(RECIPE, ALL[name])
    assert "run_by_expert(\n" in after.partition("class make")[2] + after
    assert " == i" not in after
    assert " == e" not in after
    old, new = _pair(module, ALL[name], after)
    for size in ((2, 9), (1, 1), (3, 2)):  # with few tokens most experts get none
        _same(old, new, torch.randn(*size, 8, dtype=torch.float64))


@pytest.mark.parametrize("name", sorted(ALL))
def test_ties_between_experts_and_experts_without_tokens_change_nothing(transform, module, name):
    old, new = _pair(module, ALL[name], transform(RECIPE, ALL[name]))
    for model in (old, new):
        for part in ("gate", "router", "switch", "router.score"):
            layer = model
            for step in part.split("."):
                layer = getattr(layer, step, None)
            if layer is not None and isinstance(getattr(layer, "weight", None), torch.Tensor):
                torch.nn.init.zeros_(layer.weight)  # all experts are equally good
    _same(old, new, torch.randn(2, 6, 8, dtype=torch.float64))
    _same(old, new, torch.zeros(2, 6, 8, dtype=torch.float64))


class _Products(TorchDispatchMode):
    """Counts matrix products, batched ones apart."""

    def __init__(self):
        super().__init__()
        self.batched, self.single = 0, 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        self.batched += name in {"bmm", "baddbmm"}
        self.single += name in {"mm", "addmm"}
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", ALIKE)
def test_experts_made_alike_run_together_and_compute_the_same(transform, module, name):
    after = transform(STACKED, ALL[name])
    old, new = _pair(module, ALL[name], after)
    for size in ((4, 24), (2, 9), (1, 1)):  # with few tokens some experts get none
        _same(old, new, torch.randn(*size, 8, dtype=torch.float64))
    with _Products() as seen:
        new(torch.randn(4, 24, 8, dtype=torch.float64))
    assert seen.batched > 0
    assert seen.single <= 3  # the router, and what is shared
    for size in (6, 300):  # the same experts get everything: together, then one by one
        _same(old, new, torch.zeros(2, size, 8, dtype=torch.float64))


def test_experts_that_drop_at_random_run_one_by_one_while_they_do(transform, module):
    source = ANY.replace("dropout=0.0", "dropout=0.3")
    old, new = _pair(module, source, transform(STACKED, source))
    _same(old, new, torch.randn(4, 24, 8, dtype=torch.float64))
    old.eval(), new.eval()
    _same(old, new, torch.randn(4, 24, 8, dtype=torch.float64))


@pytest.mark.parametrize(
    ("source", "old", "new", "because"),
    [
        (HIT, "x", "x", "not modules in a list"),
        (SHORT, "nn.ModuleList(nn.Linear(dim, dim) for _ in range(count))",
         "nn.ModuleList([nn.Linear(dim, dim), nn.Linear(dim, dim, bias=False)])", "may differ"),
        (SHORT, "nn.Linear(dim, dim) for", "nn.LSTM(dim, dim) for", "not of linear layers"),
        (COUNTED, "F.gelu(self.w1(x))", "F.gelu(self.w1(x)).cumsum(0)", "does more than apply"),
        (COUNTED, "F.gelu(self.w1(x))", "F.gelu(self.w1(x)) + self.n", "does more than apply"),
        (COUNTED, "return self.w2(", "print(x)\n            return self.w2(", "does more than apply"),
        (COUNTED, "self.start, self.end = 0, n", "self.register_forward_hook(print)",
         "run by itself"),
    ],
)  # fmt: skip
def test_experts_that_need_to_run_by_themselves_are_left_alone(declines, source, old, new, because):
    assert old in source
    assert because in declines(STACKED, source.replace(old, new))


def test_dropout_inside_the_experts_falls_on_the_same_numbers(transform, module):
    source = ANY.replace("dropout=0.0", "dropout=0.3")
    old, new = _pair(module, source, transform(RECIPE, source))
    _same(old, new, torch.randn(2, 9, 8, dtype=torch.float64))


@pytest.mark.parametrize("name", ["one_hot", "short", "counted", "masked"])
def test_under_autocast_the_outputs_agree_to_the_precision_of_bfloat16(transform, module, name):
    torch.manual_seed(0)
    old = module(ALL[name]).make()
    new = module(transform(RECIPE, ALL[name])).make()
    new.load_state_dict(old.state_dict())
    x = torch.randn(2, 9, 8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        want, got = old(x), new(x)
    assert want.dtype == got.dtype
    torch.testing.assert_close(got, want, rtol=0.02, atol=0.02)


def test_training_takes_the_same_path_under_an_optimizer_that_passes_over_unused_experts(
    transform, module
):
    old, new = _pair(module, COUNTED, transform(RECIPE, COUNTED))
    found = []
    for model in (old, new):
        torch.manual_seed(2)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.5)
        for _ in range(4):
            optimizer.zero_grad()
            model(torch.randn(1, 2, 8, dtype=torch.float64)).square().sum().backward()
            optimizer.step()
        found.append(copy.deepcopy(model.state_dict()))
    torch.testing.assert_close(found[1], found[0], rtol=1e-12, atol=1e-12)


def test_the_compiler_sees_no_less_of_the_mixture_than_before(transform, module):
    # It gives up on a function whose loop breaks the graph, so breaks alone cannot be compared.
    compiled = []
    for text in (SHORT, transform(RECIPE, SHORT)):
        torch._dynamo.reset()
        with torch.no_grad():
            explained = torch._dynamo.explain(module(text).make())(torch.randn(2, 4, 8))
        compiled.append(explained.op_count)
    torch._dynamo.reset()
    assert compiled[1] > compiled[0]


def test_masks_that_were_only_made_for_the_loop_go_too(transform):
    after = transform(RECIPE, ONE_HOT)
    assert "one_hot" not in after
    assert "by_slot=True" in after
    assert "skips_empty=False" in after
    assert "hit =" not in transform(RECIPE, HIT)
    assert "bincount" not in transform(RECIPE, COUNTED)


def test_a_mask_that_is_also_used_for_the_balance_stays(transform):
    source = ONE_HOT.replace(
        "return final.reshape", "self.load = expert_mask.sum(-1)\n            return final.reshape"
    )
    assert "expert_mask =" in transform(RECIPE, source)


def test_comments_and_code_elsewhere_are_kept(transform):
    source = SHORT.replace("for i, expert", "# each expert in turn\n            for i, expert")
    after = transform(RECIPE, source)
    assert "# each expert in turn" in after
    assert "weights, selected = torch.topk(logits, self.k)" in after


def test_only_a_computation_of_several_steps_becomes_a_function(transform):
    assert "def one_expert(number, rows):" in transform(RECIPE, HIT)
    assert "lambda i, rows: self.experts[i](rows)" in transform(RECIPE, SHORT)


@pytest.mark.parametrize(
    ("source", "old", "new", "because"),
    [
        # a capacity: what is beyond it is dropped
        (SHORT, "results[batch] +=", "batch, nth = batch[:3], nth[:3]\n                results[batch] +=",
         "cannot be read"),
        (COUNTED, "y[idx] +=", "self.load[i] += idx.numel()\n                y[idx] +=", "also writes"),
        (SHORT, "torch.topk(logits, self.k)", "self.table(logits)", "never names an expert twice"),
        (SHORT, "expert(squashed[batch])", "expert(squashed[batch], inputs[batch])",
         "more than its tokens"),
        (SHORT, "return results.view_as", "self.last = batch\n            return results.view_as",
         "read after the loop"),
        (SHORT, "expert(squashed[batch])", "expert(results[batch])", "read what they write"),
        (SHORT, "results[batch] += ", "results[nth] += ", "also writes"),
        (SHORT, "selected == i", "selected == i + 1", "there is no loop"),
        (COUNTED, "if counts[i] == 0:\n                    continue\n", "if counts[i] == 0:\n                    break\n",
         "also does"),
        (COUNTED, "counts = torch.bincount(indices.flatten(), minlength=self.n_routed).tolist()",
         "counts = torch.bincount(indices.flatten(), minlength=self.n_routed).cumsum(0).tolist()",
         "also does"),
        (HIT, "torch.greater(mask.sum(dim=(-1, -2)), 0).nonzero()", "self.visited()",
         "which experts the loop visits"),
        (ANY, "indices == i", "indices.clamp(max=2) == i", "never names an expert twice"),
        (MASKED, "out = flat.new_zeros(flat.shape)", "out = flat", "read elsewhere"),
        (BY_SLOT, "p[hits, k].unsqueeze(-1) *", "p[hits, k] *", "more than its tokens"),
        (REPEATED, "expert(x[flat == i])", "expert(x)", "no expert is seen"),
        (TOP_ONE, "self.experts[e](x[mine])", "self.experts[e](x[mine] * best[mine].unsqueeze(-1))",
         "cannot be read"),
    ],
)  # fmt: skip
def test_it_declines_what_it_cannot_prove(declines, source, old, new, because):
    assert old in source
    assert because in declines(RECIPE, source.replace(old, new))


def test_code_without_experts_says_so(declines):
    assert "there is no loop over experts" in declines(
        RECIPE, "import torch\nfor i in range(3):\n    print(i)\n"
    )


def test_a_name_that_is_taken_is_respected(declines):
    assert "run_by_expert already" in declines(
        RECIPE, SHORT + "\n    def run_by_expert():\n        pass\n"
    )
