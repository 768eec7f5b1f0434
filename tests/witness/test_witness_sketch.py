"""The sample of the parameters, the nudge, and the classifier of faults."""

import base64
import math
import struct

import pytest

torch = pytest.importorskip("torch")

from infrarsi_witness.census import count_gradients, count_parameters, count_state  # noqa: E402
from infrarsi_witness.channel import Channel, finite  # noqa: E402
from infrarsi_witness.entry import Config  # noqa: E402
from infrarsi_witness.faults import is_about_memory  # noqa: E402
from infrarsi_witness.gathering import Gathering  # noqa: E402
from infrarsi_witness.matmuls import walk_graph  # noqa: E402
from infrarsi_witness.perturb import Nudge  # noqa: E402
from infrarsi_witness.sketch import Sampler, distance  # noqa: E402


def decode(text):
    flat = base64.b64decode(text)
    return list(struct.unpack(f"<{len(flat) // 4}f", flat))


def make_params():
    torch.manual_seed(0)
    return [torch.nn.Parameter(torch.randn(size)) for size in [(64, 32), (3,), (1,), (8, 4, 4)]]


def test_the_same_seed_samples_the_same_elements():
    params = make_params()
    one, two = Sampler(params, 5, 16), Sampler(params, 5, 16)
    assert one.counts == [16, 3, 1, 16]
    assert one.encode(one.take()) == two.encode(two.take())
    other = Sampler(params, 6, 16)
    assert other.encode(other.take()) != one.encode(one.take())


def test_sampled_values_are_elements_of_their_tensor():
    params = make_params()
    sampler = Sampler(params, 5, 16)
    values = decode(sampler.encode(sampler.take()))
    for param, count in zip(params, sampler.counts, strict=True):
        part, values = values[:count], values[count:]
        assert set(part) <= set(param.detach().flatten().tolist())
        assert len(set(part)) == count


def test_a_sample_follows_a_tensor_that_moves():
    params = make_params()
    sampler = Sampler(params, 5, 16)
    before = sampler.take()
    params[0].data = params[0].data.clone() + 1.0
    after = sampler.take()
    assert float(distance(after, before)) == pytest.approx(4.0, rel=1e-5)


def test_memory_order_does_not_matter():
    params = make_params()
    plain = Sampler(params, 5, 16)
    turned = [torch.nn.Parameter(params[0].detach().t().contiguous().t()), *params[1:]]
    sampler = Sampler(turned, 5, 16)
    assert sampler.encode(sampler.take()) == plain.encode(plain.take())


def test_dtypes_are_sampled_in_the_order_of_the_parameters():
    params = make_params()
    params[1] = torch.nn.Parameter(torch.tensor([1.0, 2.0, 3.0], dtype=torch.bfloat16))
    sampler = Sampler(params, 5, 4)
    assert decode(sampler.encode(sampler.take()))[4:7] == [1.0, 2.0, 3.0]


def test_the_nudge_moves_weights_by_ulps_and_leaves_the_generator_alone():
    params = make_params()
    before = [param.detach().clone() for param in params]
    state = torch.get_rng_state()
    Nudge(4.0, 7).apply(params)
    assert torch.equal(torch.get_rng_state(), state)
    for param, old in zip(params, before, strict=True):
        ratio = (param.detach() / old - 1).abs().max().item()
        assert ratio <= 5.01 * torch.finfo(torch.float32).eps
    assert any(not torch.equal(param, old) for param, old in zip(params, before, strict=True))


def test_the_nudge_is_a_function_of_its_seed():
    params = [make_params() for _ in range(3)]
    for each, seed in zip(params, (7, 7, 8), strict=True):
        Nudge(4.0, seed).apply(each)
    assert torch.equal(params[0][0], params[1][0])
    assert not torch.equal(params[0][0], params[2][0])


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"), "yes"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to ..."), "yes"),
        (RuntimeError("std::bad_alloc"), "yes"),
        (MemoryError(), "yes"),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate"), "ambiguous"),
        (RuntimeError("CUDNN_STATUS_INTERNAL_ERROR"), "ambiguous"),
        (RuntimeError("NCCL error: ncclSystemError, Failed to CUDA malloc"), "ambiguous"),
        (RuntimeError("NCCL error in x.cpp: out of memory"), "ambiguous"),
        (RuntimeError("DataLoader worker (pid 4) is killed by signal: Bus error"), "ambiguous"),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), "no"),
        (KeyError("memory"), "no"),
    ],
)  # fmt: skip
def test_faults_are_classified(error, verdict):
    assert is_about_memory(error) == verdict


def test_a_cause_is_read_too():
    error = RuntimeError("the batch failed")
    error.__cause__ = MemoryError()
    assert is_about_memory(error) == "yes"


def test_state_hidden_in_an_attribute_is_counted():
    params = make_params()
    optimizer = torch.optim.AdamW(params)
    for param in params:
        param.grad = torch.ones_like(param)
    optimizer.step()
    size = sum(param.numel() for param in params) - 1  # single elements do not count
    assert count_state([optimizer]) == {"float32": 2 * size}
    optimizer.hidden = {"copies": [[torch.zeros(10, dtype=torch.bfloat16)]]}
    assert count_state([optimizer])["bfloat16"] == 10


def test_quantised_state_is_counted():
    params = make_params()
    optimizer = torch.optim.SGD(params, lr=0.1)
    optimizer.state[params[0]]["codes"] = torch.zeros(100, dtype=torch.uint8)
    assert count_state([optimizer]) == {"uint8": 100}


def test_parameters_and_gradients_are_counted_by_dtype():
    params = [torch.nn.Parameter(torch.ones(4)), torch.nn.Parameter(torch.ones(2).bfloat16())]
    params[0].grad = torch.ones(4)
    assert count_parameters(params) == {"float32": 4, "bfloat16": 2}
    assert count_gradients(params) == {"float32": 4}


def test_a_walk_never_unpacks_a_saved_tensor():
    def unpack(tensor):
        raise AssertionError("a saved tensor was unpacked")

    x, w = torch.randn(4, 4), torch.randn(4, 4, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, unpack):
        loss = ((x @ w).bfloat16() @ w.bfloat16()).float().sum()
    assert walk_graph([loss]).calls == {"float32": 1, "bfloat16": 1}


def test_half_precision_gradients_are_summed_in_full():
    param = torch.nn.Parameter(torch.zeros(4097, dtype=torch.bfloat16))
    param.grad = torch.full((4097,), 1.0, dtype=torch.bfloat16)
    now = Gathering()
    now.measure([param])
    now.measure([param])  # once in an update
    assert float(now.grad_norm()) == pytest.approx(math.sqrt(4097), rel=1e-6)


def test_gradients_under_a_scale_are_divided():
    param = torch.nn.Parameter(torch.zeros(4))
    param.grad = torch.full((4,), 8.0)
    now = Gathering()
    now.measure([param], torch.tensor(4.0))
    assert float(now.grad_norm()) == pytest.approx(4.0)


def test_numbers_that_are_not_finite_are_strings():
    assert [finite(each) for each in (1.5, None, math.nan, math.inf, -math.inf)] == [
        1.5, None, "nan", "inf", "-inf",
    ]  # fmt: skip


def test_a_channel_that_is_not_there_is_silent(tmp_path):
    channel = Channel(str(tmp_path / "nobody.sock"))
    channel.send("hello")
    channel.send("bye")
    assert channel.broken
    assert not channel.spoke


@pytest.mark.parametrize("text", ["", "[]", '{"schema": 2, "channel": "x"}', "nonsense"])
def test_a_configuration_of_another_schema_is_refused(text):
    with pytest.raises(ValueError):  # noqa: PT011
        Config(text)


def test_a_norm_that_a_clip_told_is_not_measured_again():
    param = torch.nn.Parameter(torch.zeros(4))
    param.grad = torch.full((4,), 3.0)
    now = Gathering()
    assert now.unmeasured([param])
    now.take_norm([param], torch.tensor(6.0))
    now.measure([param])
    assert not now.unmeasured([param])
    assert float(now.grad_norm()) == 6.0
