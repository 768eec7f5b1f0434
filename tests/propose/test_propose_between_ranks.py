"""Recipes for what ranks say to each other: the same numbers, in fewer messages, on two ranks."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from infrarsi.propose.patchbook import default_book, load_codemod

pytest.importorskip("torch")

DRIVER = Path(__file__).parent / "programs" / "two_ranks.py"

HEAD = """
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel as DDP

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.down = torch.nn.Linear(3, 5), torch.nn.Linear(5, 1)
            self.unused = torch.nn.Linear(2, 2)
        def forward(self, x):
            return self.down(torch.tanh(self.up(x)))

    def batches(rank, n):
        g = torch.Generator().manual_seed(rank)
        return [torch.randn(4, 3, generator=g, dtype=torch.float64) for _ in range(n)]

    def said(model):
        return [p.detach().flatten().tolist() for p in model.parameters()]
"""

TUTORIAL = (
    HEAD
    + """
    def average_gradients(model):
        size = float(dist.get_world_size())
        for param in model.parameters():
            if param.grad is not None:
                dist.all_reduce(param.grad.data, op=dist.ReduceOp.SUM)
                param.grad.data /= size

    def main(rank, world_size):
        torch.manual_seed(0)
        model = Net().double()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
        for x in batches(rank, 5):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            average_gradients(model)
            optimizer.step()
        return said(model)
"""
)

MIXED = (
    HEAD
    + """
    class Trainer:
        def __init__(self, rank, world_size):
            torch.manual_seed(1)
            self.net = Net().double()
            self.net.up.float()
            self.net.down.weight.requires_grad_(False)
            self.world_size, self.log = world_size, []
            self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1)

        def sync(self, group=None):
            for name, p in self.net.named_parameters():
                if not p.requires_grad:
                    continue
                g = p.grad
                if g is not None:
                    g.div_(self.world_size)  # first, so that nothing overflows
                    torch.distributed.all_reduce(g, torch.distributed.ReduceOp.SUM, group)

        def fit(self, data):
            for x in data:
                h = torch.tanh(self.net.up(x.float())).double()
                loss = self.net.down(h).square().mean()
                self.opt.zero_grad()
                loss.backward()
                self.sync()
                self.opt.step()

    def main(rank, world_size):
        trainer = Trainer(rank, world_size)
        trainer.fit(batches(rank, 5))
        return said(trainer.net)
"""
)

INNER = (
    HEAD
    + """
    def main(rank, world_size, accumulation=3):
        torch.manual_seed(0)
        model = Net().double()
        model = DDP(model, find_unused_parameters=True)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
        data = iter(batches(rank, 12))
        for step in range(4):
            for _ in range(accumulation):
                x = next(data)
                out, _ = model(x), None
                loss = out.square().mean() / accumulation
                loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        return said(model)
"""
)

FLAT = (
    HEAD
    + """
    def loss_of(net, x):
        return net(x).pow(2).mean()

    class Loop:
        def __init__(self, net, every):
            self.net, self.every = net, every
            self.optim = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

        def epoch(self, loader):
            for i, x in enumerate(loader):
                loss = loss_of(self.net, x) / self.every
                loss.backward()
                if (i + 1) % self.every == 0 or i + 1 == len(loader):
                    self.optim.step()
                    self.optim.zero_grad()

    def main(rank, world_size):
        torch.manual_seed(0)
        net = torch.nn.parallel.DistributedDataParallel(
            Net().double(),
            find_unused_parameters=True,
        )
        loop = Loop(net, 4)
        for epoch in range(2):
            loop.epoch(batches(rank + 2 * epoch, 10))
        return said(net)
"""
)

LOGGED = (
    HEAD
    + """
    def main(rank, world_size, log_every=3, num_steps=8):
        torch.manual_seed(0)
        model = DDP(Net().double(), find_unused_parameters=True)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        log = []
        for step, x in enumerate(batches(rank, num_steps)):
            loss = model(x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if world_size > 1:
                mean_loss = loss.detach().clone()
                dist.all_reduce(mean_loss, op=dist.ReduceOp.SUM)
                mean_loss /= world_size
                if (step % log_every == 0 or step == num_steps - 1) and rank == 0:
                    log.append(mean_loss.item())
        return log
"""
)

SAME = {
    "tutorial": ("flat_all_reduce", TUTORIAL), "mixed": ("flat_all_reduce", MIXED),
    "inner": ("last_sync", INNER), "flat": ("last_sync", FLAT),
    "inner views": ("ddp_views", INNER), "flat views": ("ddp_views", FLAT),
    "logged": ("logged_reduce", LOGGED),
}  # fmt: skip


def changed(recipe, text):
    sources = {"a.py": textwrap.dedent(text)}
    return load_codemod(default_book() / recipe)(sources)["a.py"]


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """What every program gives before and after, on each of two ranks."""
    folder = tmp_path_factory.mktemp("ranks")
    programs = {}
    for name, (recipe, text) in SAME.items():
        programs[name] = textwrap.dedent(text)
        programs[f"{name}, changed"] = changed(recipe, text)
    programs["both"] = changed("ddp_views", changed("last_sync", INNER))
    (folder / "programs.json").write_text(json.dumps(programs))
    command = [sys.executable, str(DRIVER), str(folder)]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    with (folder / "said").open("w") as said:
        ranks = [
            subprocess.Popen([*command, str(rank), "2"], stdout=said, stderr=said, env=env)
            for rank in range(2)
        ]
        try:
            codes = [rank.wait(timeout=150) for rank in ranks]
        finally:
            for rank in ranks:
                rank.kill()
                rank.wait()
    assert codes == [0, 0], (folder / "said").read_text()
    return [json.loads((folder / f"results-{rank}.json").read_text()) for rank in range(2)]


@pytest.mark.training
@pytest.mark.parametrize("name", SAME)
def test_the_numbers_are_those_of_the_original_on_every_rank(results, name):
    for rank in results:
        before, after = rank[name]["result"], rank[f"{name}, changed"]["result"]
        assert before or rank is results[1]
        assert len(before) == len(after)
        for one, two in zip(before, after, strict=True):
            assert two == pytest.approx(one, abs=1e-12, rel=0)


@pytest.mark.training
def test_two_recipes_for_the_wrapper_go_together(results):
    for one, two in zip(results[0]["inner"]["result"], results[0]["both"]["result"], strict=True):
        assert two == pytest.approx(one, abs=1e-12, rel=0)


@pytest.mark.training
def test_ranks_agree_with_each_other(results):
    for name in ("tutorial", "mixed", "inner", "flat"):
        for each in (name, f"{name}, changed"):
            assert results[0][each]["result"] == results[1][each]["result"]


@pytest.mark.training
def test_fewer_messages_are_sent(results):
    rank = results[0]
    assert len(rank["tutorial"]["messages"]) == 20  # four gradients, five updates
    assert rank["tutorial, changed"]["messages"] == [26] * 5
    assert rank["mixed, changed"]["messages"] == [20, 1] * 5  # one for each dtype
    assert len(rank["logged"]["messages"]) == 8
    assert len(rank["logged, changed"]["messages"]) == 4


def test_the_last_micro_batch_is_told_ahead(transform):
    after = transform("last_sync", INNER)
    assert "model.require_backward_grad_sync = _ == accumulation - 1" in after
    after = transform("last_sync", FLAT)
    assert (
        "self.net.require_backward_grad_sync = (i + 1) % self.every == 0 or i + 1 == len(loader)"
        in after
    )


def test_pieces_of_a_batch_are_counted(transform):
    source = INNER.replace(
        "for _ in range(accumulation):\n                x = next(data)",
        "pieces = next(data).chunk(2)\n            for k, x in enumerate(pieces):",
    )
    assert "k == len(pieces) - 1" in transform("last_sync", source)


@pytest.mark.parametrize(
    ("old", "new", "because"),
    [
        ("for _ in range(accumulation):", "for x in data:", "cannot be told before the last"),
        ("x = next(data)\n", "x = next(data)\n                if x is None: break\n",
         "may end before its last round"),
        ("loss.backward()", "loss.backward()\n                print(model.up.weight.grad)",
         "gradients are read before"),
        ("loss.backward()", "loss.backward()\n                accumulation += 1", "may change"),
        ("find_unused_parameters=True", "static_graph=True", "with which that may differ"),
        ("model = DDP(model, find_unused_parameters=True)", "model = DDP(model); other = DDP(Net())",
         None),
        ("out, _ = model(x), None", "out, _ = model.module(x), None", "wrap"),
        ("            for _ in range(accumulation):\n",
         "            with model.no_sync(): pass\n            for _ in range(accumulation):\n",
         "already chooses"),
    ],
)  # fmt: skip
def test_accumulation_that_cannot_be_followed_is_left_alone(declines, transform, old, new, because):
    assert old in INNER
    source = INNER.replace(old, new)
    if because is None:
        assert "model.require_backward_grad_sync" in transform("last_sync", source)
    else:
        assert because in declines("last_sync", source)


@pytest.mark.parametrize(
    ("old", "new", "because"),
    [
        ("if (i + 1) % self.every == 0 or i + 1 == len(loader):", "if True and self.ready(i):",
         "more than arithmetic"),
        ("loss.backward()\n", "loss.backward()\n                self.every = 2\n", "changes before it"),
        ("if (i + 1) % self.every == 0 or i + 1 == len(loader):", "if i % 2:\n                    pass\n                else:",
         "where its condition does not hold"),
    ],
)  # fmt: skip
def test_a_condition_that_may_mean_another_round_is_left_alone(declines, old, new, because):
    assert old in FLAT
    assert because in declines("last_sync", FLAT.replace(old, new))


def test_a_left_over_step_after_the_loop_is_noticed(declines):
    source = FLAT.replace(
        "    def main(rank, world_size):",
        "            self.optim.step()\n\n    def main(rank, world_size):",
    )
    assert "steps where it does not accumulate" in declines("last_sync", source)


def test_a_step_after_every_backward_needs_nothing(declines):
    source = LOGGED.replace("dist.all_reduce", "dist.broadcast")
    assert "its own step" in declines("last_sync", source)


@pytest.mark.parametrize(
    ("old", "new", "because"),
    [
        ("param.grad.data /= size", "param.grad.data /= size\n                param.grad.clamp_(-1, 1)",
         "more to a gradient"),
        ("param.grad.data /= size", "param.grad.data /= param.numel()", "more to a gradient"),
        ("op=dist.ReduceOp.SUM)", "op=dist.ReduceOp.SUM, async_op=True)", "asynchronously already"),
        ("torch.nn.Linear(2, 2)", "torch.nn.Embedding(2, 2, sparse=True)", "sparse"),
        ("dist.all_reduce(param.grad.data, op=dist.ReduceOp.SUM)", "dist.broadcast(param.grad, 0)",
         "no source mentions|one parameter at a time"),
    ],
)  # fmt: skip
def test_gradients_that_more_is_done_to_are_left_alone(declines, old, new, because):
    assert old in TUTORIAL
    assert re.search(because, declines("flat_all_reduce", TUTORIAL.replace(old, new)))


def test_views_are_left_to_whoever_chose(declines):
    chosen = INNER.replace("find_unused_parameters=True", "gradient_as_bucket_view=False")
    assert "chosen already" in declines("ddp_views", chosen)
    assert "make no" in declines("ddp_views", TUTORIAL)
    detached = INNER.replace(
        "loss.backward()", "loss.backward()\n                model.up.weight.grad.detach_()"
    )
    assert "in place" in declines("ddp_views", detached)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("(step % log_every == 0 or step == num_steps - 1) and rank == 0", "rank == 0"),
        ("(step % log_every == 0 or step == num_steps - 1) and rank == 0", "step % rank_every == 0"),
        ("mean_loss /= world_size", "mean_loss /= world_size\n                step = x.sum()"),
        ("mean_loss /= world_size", "mean_loss /= world_size\n                if mean_loss > 10: break"),
        ("mean_loss = loss.detach().clone()", "mean_loss += loss.detach()"),
    ],
)  # fmt: skip
def test_numbers_that_every_step_may_need_are_reduced_every_step(declines, old, new):
    assert old in LOGGED
    assert "read only in some" in declines("logged_reduce", LOGGED.replace(old, new))
