import pytest
from hypothesis import given
from hypothesis import strategies as st

from infrarsi.records.estimate import Estimate
from infrarsi.render import numbers

positive = st.floats(min_value=1e-4, max_value=1e4)


def estimate(low: float, point: float, high: float) -> Estimate:
    return Estimate(low=low, point=point, high=high)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, "not measured"),
        (0.0, "0 s"),
        (5.32e-4, "532 µs"),
        (0.3124, "312 ms"),
        (0.9999, "1.00 s"),
        (12.34, "12.3 s"),
        (119.0, "119 s"),
        (200.0, "3 min 20 s"),
        (3599.9, "1 h"),
        (8040.0, "2 h 14 min"),
        (86399.0, "1 d"),
        (273600.0, "3 d 4 h"),
        (-0.5, "-500 ms"),
    ],
)
def test_a_time_is_written_in_the_unit_a_person_would_choose(seconds, words):
    assert numbers.duration(seconds) == words


@pytest.mark.parametrize(
    ("num_bytes", "words"),
    [
        (None, "not measured"),
        (0, "0 B"),
        (512, "512 B"),
        (512 * 1024**2, "512 MiB"),
        (3.1 * 1024**3, "3.10 GiB"),
        (1023 * 1024**2, "1,023 MiB"),
        (2 * 1024**4, "2.00 TiB"),
    ],
)
def test_bytes_are_written_in_binary_units(num_bytes, words):
    assert numbers.size(num_bytes) == words


def test_a_ratio_carries_its_interval():
    assert numbers.ratio_estimate(estimate(2.24, 2.31, 2.38)) == "2.31x [2.24, 2.38]"
    assert numbers.ratio_estimate(None) == "not measured"


def test_a_ratio_near_one_gets_a_third_decimal():
    assert numbers.ratio_estimate(estimate(0.992, 1.001, 1.0105)) == "1.001x [0.992, 1.011]"
    assert numbers.ratio(1.034) == "1.034x"


def test_a_tight_interval_gets_the_decimals_that_it_deserves():
    assert numbers.ratio_estimate(estimate(1.5011, 1.5023, 1.5035)) == "1.502x [1.501, 1.504]"


def test_an_interval_of_no_width_is_written():
    assert numbers.ratio_estimate(estimate(2.0, 2.0, 2.0)) == "2.00x [2.00, 2.00]"
    assert numbers.duration_estimate(estimate(0.0, 0.0, 0.0)) == "0.00 s [0.00, 0.00]"


@given(positive, positive, positive)
def test_rounding_never_narrows_an_interval(first, second, third):
    low, point, high = sorted((first, second, third))
    written = numbers.ratio_estimate(estimate(low, point, high))
    shown_low, shown_high = written.split("[")[1].rstrip("]").split(", ")
    slack = 1e-9 * high
    assert float(shown_low.replace(",", "")) <= low + slack
    assert float(shown_high.replace(",", "")) >= high - slack


@given(positive, positive, positive)
def test_an_interval_keeps_one_unit(first, second, third):
    low, point, high = sorted((first / 1e4, second / 1e4, third / 1e4))
    written = numbers.duration_estimate(estimate(low, point, high))
    assert sum(written.count(unit) for unit in ("µs", "ms", " s")) == 1


def test_a_time_with_its_interval():
    assert numbers.duration_estimate(estimate(0.3080, 0.3124, 0.3161)) == "312 ms [308, 317]"
    assert numbers.duration_estimate(estimate(180, 200, 240)) == "3 min 20 s [3 min, 4 min]"


def test_two_ratios_that_differ_never_read_alike():
    assert numbers.against(1.03004, 1.03) == ("1.03004x", "1.03000x")
    assert numbers.against(2.24, 1.03) == ("2.240x", "1.030x")
    assert numbers.against(1.03, 1.03) == ("1.030x", "1.030x")


def test_a_probability_at_its_end_is_written_as_a_bound():
    assert [numbers.probability(p) for p in (0.0, 0.5, 1.0)] == ["<0.01", "0.50", ">0.99"]


def test_small_amounts_of_money_are_not_nothing():
    assert [numbers.dollars(x) for x in (None, 0.0, 0.002, 1234.5)] == [
        "not known",
        "$0.00",
        "<$0.01",
        "$1,234.50",
    ]


def test_small_percentages_keep_two_digits():
    assert [numbers.percent(x) for x in (None, 0.0, 0.174, 0.00031)] == [
        "not measured",
        "0.0%",
        "17.4%",
        "0.031%",
    ]


def test_values_of_knobs_are_written_as_python_would():
    assert [numbers.scalar(x) for x in (True, 8, 0.5, None, "bf16", "")] == [
        "True",
        "8",
        "0.5",
        "None",
        "bf16",
        "''",
    ]


def test_flops_have_a_prefix():
    assert [numbers.flops(x) for x in (None, 3.12e14, 5e8, 12.0)] == [
        "not measured",
        "312 TFLOP/s",
        "500 MFLOP/s",
        "12.0 FLOP/s",
    ]
