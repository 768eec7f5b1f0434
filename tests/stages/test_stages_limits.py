"""What a confirmation may spend is refused beforehand where it cannot do, and then kept."""

import time
from types import SimpleNamespace

import pytest
from search_world import World, contract, gpus, machine

from infrarsi.errors import UsageError
from infrarsi.stages.confirming.limits import Limits, Meter

PRICES = {"usd_per_gpu_hour": 1800.0}
"""Two of these cost a dollar a second."""


def meter_of(limits, prices=PRICES):
    """Start to count in a world whose confirmation takes 26 launches of 5 s."""
    here = machine(accelerators=gpus(2))
    world = World(contract(prices=prices), machine_=here)
    return limits.meter(SimpleNamespace(contract=world.contract, machine=here), world.history)


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (Limits(max_wall_s=60.0), "60.0 s is allowed"),
        (Limits(max_usd=60.0), r"\$60.00 is allowed"),
        (Limits(max_wall_s=1000.0, max_usd=10.0), r"\$10.00 is allowed"),
    ],
)
def test_blocks_that_need_more_than_is_allowed_are_refused_before_the_first_launch(limits, words):
    with pytest.raises(UsageError, match=words) as refused:
        meter_of(limits)
    assert "6 blocks" in str(refused.value)
    assert "--blocks" in refused.value.hint


def test_dollars_without_a_price_are_refused():
    with pytest.raises(UsageError, match="usd_per_gpu_hour is not known"):
        meter_of(Limits(max_usd=1000.0), prices={})


@pytest.mark.parametrize("limits", [Limits(), Limits(max_wall_s=1000.0), Limits(max_usd=1000.0)])
def test_what_is_enough_is_not_spent_at_once(limits):
    assert not meter_of(limits).is_spent()


@pytest.mark.parametrize(
    ("limits", "spent"),
    [
        (Limits(), False),
        (Limits(max_wall_s=50.0), True),
        (Limits(max_wall_s=500.0), False),
        (Limits(max_usd=50.0), True),
        (Limits(max_usd=500.0), False),
        (Limits(max_wall_s=500.0, max_usd=50.0), True),
    ],
)
def test_a_limit_is_reached_by_time_or_by_what_it_costs(limits, spent):
    meter = Meter(limits, usd_per_s=1.0, started_s=time.monotonic() - 100)
    assert meter.is_spent() is spent


def test_what_was_spent_of_what_was_allowed_is_said():
    meter = Meter(Limits(50.0, 20.0), usd_per_s=0.5, started_s=time.monotonic() - 100)
    assert meter.in_words() == "100 s of 50.0 s, $50.00 of $20.00"
