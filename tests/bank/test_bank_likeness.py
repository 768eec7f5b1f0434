"""How unlike two searches are is a distance over what is known of both."""

import pytest
from pack_samples import context, hardware

from infrarsi.bank.accelerators import data_sheet
from infrarsi.bank.likeness import compare

HERE = (context(), hardware())


def distance(there, here=HERE):
    return compare(here, there).distance


def test_a_search_is_at_no_distance_from_itself_and_distance_is_symmetric():
    there = (context(num_parameters=10**9), hardware(device="cuda", num=8))
    assert distance(HERE) == 0
    assert distance(there) == distance(HERE, here=there) > 0


def test_a_factor_counts_the_same_in_either_direction_and_grows_with_its_logarithm():
    near, far = (distance((context(num_parameters=n), HERE[1])) for n in (6_000_000, 12_000_000))
    assert far == pytest.approx(2 * near)
    assert distance((context(num_parameters=1_500_000), HERE[1])) == pytest.approx(near)


def test_a_factor_of_four_in_every_size_is_about_one():
    there = (
        context(num_parameters=12_000_000, num_tensors=200, width=1024, longest=4 * 4096,
                tokens_per_update=2048, num_ranks=4, memory_share=0.175),
        hardware(num=8, memory_bytes=4 * 850_000_000, peak_flops={"float32": 2e11}),
    )  # fmt: skip
    assert 0.8 < distance(there) <= 1.0


def test_what_is_not_known_on_one_side_is_not_compared():
    unknown = (context(num_parameters=None, memory_share=None), hardware(peak_flops={}))
    found = compare(HERE, unknown)
    assert found.distance == 0
    assert found.num_compared < compare(HERE, HERE).num_compared


def test_another_device_is_farther_than_another_machine_of_the_kind():
    gpu = hardware(device="cuda", cuda="12.8")
    assert distance((HERE[0], gpu)) > distance((HERE[0], hardware(num=4, memory_bytes=2**30)))
    assert distance((HERE[0], hardware(torch="2.12"))) < 0.1


@pytest.mark.parametrize(
    ("name", "bandwidth"),
    [
        ("NVIDIA H100 80GB HBM3", 3.35e12), ("NVIDIA H100 PCIe", 2e12), ("NVIDIA H200", 4.8e12),
        ("NVIDIA A100-SXM4-80GB", 2.039e12), ("NVIDIA A100-SXM4-40GB", 1.555e12),
        ("NVIDIA GeForce RTX 4090", 1.008e12), ("Tesla T4", 3.2e11), ("NVIDIA L4", 3e11),
        ("NVIDIA L40S", 8.64e11), ("NVIDIA A10G", 6e11),
    ],
)  # fmt: skip
def test_accelerators_are_known_by_the_names_that_torch_gives_them(name, bandwidth):
    assert data_sheet(name).bandwidth_bytes_s == bandwidth


def test_of_an_unknown_accelerator_nothing_is_made_up():
    assert data_sheet("Some Other Chip") is None
