"""What doctor does to a training on purpose: falsified gradients, stirred generators."""

import random

import pytest

torch = pytest.importorskip("torch")

from infrarsi_witness.control import Control  # noqa: E402
from infrarsi_witness.entry import Config  # noqa: E402
from infrarsi_witness.perturb import Nudge  # noqa: E402


def optimizer_of(values=(1.0, 2.0, 3.0)):
    """An optimizer whose parameters have gradients that bfloat16 cannot hold."""
    params = [torch.nn.Parameter(torch.ones(4)) for _ in values]
    for param, value in zip(params, values, strict=True):
        param.grad = torch.full((4,), value + 1e-4)
    return torch.optim.SGD(params, lr=1.0), params


def test_without_a_control_gradients_are_left_alone():
    optimizer, params = optimizer_of()
    before = [param.grad.clone() for param in params]
    assert Control(None).apply(optimizer) is False
    assert all(torch.equal(p.grad, b) for p, b in zip(params, before, strict=True))


def test_coarse_gradients_are_what_bfloat16_holds():
    optimizer, params = optimizer_of()
    assert Control("coarse_gradients").apply(optimizer)
    assert [param.grad[0].item() for param in params] == [1.0, 2.0, 3.0]
    assert params[0].grad.dtype is torch.float32


def test_stale_gradients_are_those_of_the_step_before():
    optimizer, params = optimizer_of()
    control, seen = Control("stale_gradients"), []
    for step in range(4):
        params[0].grad = torch.full((4,), float(step))
        control.apply(optimizer)
        seen.append(params[0].grad[0].item())
    assert seen == [0.0, 0.0, 2.0, 2.0]


def test_a_frozen_tensor_is_one_parameter_in_the_middle():
    optimizer, params = optimizer_of()
    Control("frozen_tensor").apply(optimizer)
    assert [bool(param.grad.any()) for param in params] == [True, False, True]


def test_what_has_no_dense_gradient_is_passed_over():
    optimizer, params = optimizer_of()
    params[1].grad = None
    table = torch.nn.Embedding(4, 2, sparse=True)
    table(torch.tensor([1])).sum().backward()
    optimizer.add_param_group({"params": [table.weight]})
    assert Control("coarse_gradients").apply(optimizer)
    assert table.weight.grad.is_sparse
    empty = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=1.0)
    assert Control("frozen_tensor").apply(empty) is False


def test_stirring_moves_every_global_generator_once():
    numpy = pytest.importorskip("numpy")
    before = torch.get_rng_state(), random.getstate(), numpy.random.get_state()[2]
    nudge = Nudge(0.0, 7, stir=True)
    nudge.apply([])
    after = torch.get_rng_state(), random.getstate(), numpy.random.get_state()[2]
    assert not torch.equal(after[0], before[0])
    assert after[1] != before[1]
    assert after[2] != before[2]
    nudge.apply([])
    assert torch.equal(torch.get_rng_state(), after[0])


def test_both_are_read_from_the_configuration():
    said = '{"schema": 1, "channel": "c", "perturb": {"ulps": 4, "seed": 1, "stir": true}%s}'
    config = Config(said % ', "control": "frozen_tensor"')
    assert (config.stir, config.control) == (True, "frozen_tensor")
    config = Config('{"schema": 1, "channel": "c"}')
    assert (config.stir, config.control) == (False, None)
