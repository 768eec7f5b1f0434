from __future__ import annotations

import pytest

HEAD = """
    import gc
    import torch

    def batches(n):
        g = torch.Generator().manual_seed(0)
        for _ in range(n):
            yield torch.randn(4, 3, generator=g)
"""

EPOCHS = (
    HEAD
    + """
    def main(log):
        torch.manual_seed(0)
        model = torch.nn.Linear(3, 1)
        opt = torch.optim.SGD(model.parameters(), lr=0.1)
        for epoch in range(3):
            running, seen = 0.0, 0
            for x in batches(7):
                loss = model(x).square().mean()
                opt.zero_grad()
                loss.backward()
                opt.step()
                running += loss.item() * x.size(0)  # weighted
                seen += 4
                torch.cuda.synchronize()
            log.append(f"epoch {epoch} {running / seen:.9f}")
"""
)

STEPS = (
    HEAD
    + """
    def main(log, every=3):
        torch.manual_seed(0)
        model = torch.nn.Linear(3, 1)
        opt = torch.optim.SGD(model.parameters(), lr=0.1)
        for step, x in enumerate(batches(10)):
            loss = model(x).square().mean()
            opt.zero_grad()
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0).item()
            value = float(loss.detach())
            loss *= 0
            opt.step()
            gc.collect()
            if step % every == 0:
                log.append((step, value, norm))
"""
)

HISTORY = (
    HEAD
    + """
    def main(log):
        torch.manual_seed(0)
        net = torch.nn.Linear(3, 1)
        history = []
        for x in batches(9):
            net.zero_grad()
            objective = net(x).square().mean()
            objective.backward()
            with torch.no_grad():
                for w in net.parameters():
                    w -= 0.1 * w.grad
            history.append(objective.item())
            if len(history) % 4 == 0:
                log.append(sum(history[-4:]) / 4)
        log.append(history[-1])
        log.append(max(history))
        return history
"""
)


def _logged(module, text: str) -> list[object]:
    log: list[object] = []
    result = module(text).main(log)
    return [*log, result]


@pytest.mark.parametrize("source", [EPOCHS, STEPS, HISTORY])
def test_the_log_stays_the_same_to_the_last_digit(transform, module, source):
    after = transform("fewer_syncs", source)
    assert after != source
    assert ".item()" not in after
    assert _logged(module, after) == _logged(
        module, source.replace("torch.cuda.synchronize()", "pass")
    )


def test_waits_leave_the_loop(transform):
    assert "synchronize" not in transform("fewer_syncs", EPOCHS)
    assert "gc.collect" not in transform("fewer_syncs", STEPS)


def test_collecting_by_hand_stays_where_the_collector_is_off(transform):
    assert "gc.collect()" in transform(
        "fewer_syncs", STEPS.replace("torch.manual_seed(0)", "gc.disable()")
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("if step % every == 0:\n                log", "log"),
        ("if step % every == 0:", "if value > 10: break\n            if norm > 10: break\n            if step % every == 0:"),
    ],
)  # fmt: skip
def test_numbers_that_every_step_needs_are_read_every_step(declines, old, new):
    source = STEPS.replace("            gc.collect()\n", "")
    assert old in source
    assert "more often than it uses" in declines(
        "fewer_syncs",
        source.replace(old, new).replace(
            "                    log.append", "            log.append"
        ),
    )


def test_a_number_that_is_no_tensor_is_left_alone(declines):
    source = """
        import numpy as np
        def main(data):
            total = 0.0
            for x in data:
                loss = model(x)
                loss.backward()
                total += x["weight"].item()
            return total
    """
    assert "more often" in declines("fewer_syncs", source)


def test_a_sum_that_is_also_changed_otherwise_is_left_alone(declines):
    source = EPOCHS.replace("torch.cuda.synchronize()", "running *= 0.9")
    assert "more often" in declines("fewer_syncs", source)


def test_no_training_loop_says_so(declines):
    assert "no training loop" in declines("fewer_syncs", "import torch\nx = torch.ones(1).item()\n")
