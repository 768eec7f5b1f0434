"""How numbers are written, in every format alike.

Missing is said in words, never written as 0. The bounds of an interval are rounded outwards, so
that rounding never makes a claim stronger than its evidence.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal

from infrarsi.records.base import Scalar
from infrarsi.records.estimate import Estimate
from infrarsi.records.forecast import Range

NOT_MEASURED = "not measured"
NOT_KNOWN = "not known"

_TIME_UNITS = ((1e-6, "µs"), (1e-3, "ms"), (1.0, "s"))
_BYTE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_NEAR_ONE = (0.9, 1.1)
"""Ratios in here are written with a third decimal: it is what they are about."""
_SCALED_UP_TO_S = 120.0
"""Longer times are written in minutes, hours and days."""


def significant(value: float, digits: int = 3) -> str:
    """Write a number to so many significant digits, with its thousands parted."""
    if value == 0:
        return "0"
    rounded = float(f"{value:.{digits - 1}e}")
    exponent = math.floor(math.log10(abs(rounded)))
    if not -5 <= exponent < 12:
        return f"{value:.{digits - 1}e}"
    return f"{value:,.{max(0, digits - 1 - exponent)}f}"


def count(number: int | None) -> str:
    """Write a whole number."""
    return NOT_MEASURED if number is None else f"{number:,}"


def counted(number: int, singular: str, plural: str = "") -> str:
    """Write a whole number with its noun: ``1 trial``, ``26 trials``."""
    noun = singular if number == 1 else plural or f"{singular}s"
    return f"{number:,} {noun}"


def percent(fraction: float | None) -> str:
    """Write a fraction as a percentage."""
    if fraction is None:
        return NOT_MEASURED
    value = 100 * fraction
    if value == 0 or abs(value) >= 1:
        return f"{value:.1f}%"
    return f"{significant(value, 2)}%"


def level(estimate: Estimate) -> str:
    """Write the level of an interval: ``95%``."""
    return f"{100 * estimate.level:.4g}%"


def probability(value: float | None) -> str:
    """Write a probability; near its ends as a bound, since no model knows that well."""
    if value is None:
        return NOT_MEASURED
    if value < 0.01:
        return "<0.01"
    if value > 0.99:
        return ">0.99"
    return f"{value:.2f}"


def dollars(value: float | None) -> str:
    """Write an amount of US dollars."""
    if value is None:
        return NOT_KNOWN
    if 0 < value < 0.01:
        return "<$0.01"
    return f"${value:,.2f}"


def duration_range(span: Range) -> str:
    """Write an expected time with its low and high case: ``12 min (5 min to 21 min)``."""
    return f"{duration(span.point)} ({duration(span.low)} to {duration(span.high)})"


def dollars_range(span: Range | None) -> str:
    """Write an expected amount with its low and high case."""
    if span is None:
        return NOT_KNOWN
    return f"{dollars(span.point)} ({dollars(span.low)} to {dollars(span.high)})"


def count_range(span: Range) -> str:
    """Write an expected number with its low and high case."""
    return f"{span.point:,.0f} ({span.low:,.0f} to {span.high:,.0f})"


def scalar(value: Scalar) -> str:
    """Write the value of a knob as Python would."""
    return value if isinstance(value, str) and value else repr(value)


def ratio(value: float | None, *, decimals: int | None = None) -> str:
    """Write a ratio: ``2.31x``; one near 1 with a third decimal."""
    if value is None:
        return NOT_MEASURED
    if decimals is None:
        decimals = 3 if _NEAR_ONE[0] < value < _NEAR_ONE[1] else 2
    return f"{value:,.{decimals}f}x"


def ratio_estimate(estimate: Estimate | None) -> str:
    """Write a ratio with its interval: ``2.31x [2.24, 2.38]``."""
    if estimate is None:
        return NOT_MEASURED
    low, point, high = _rounded_ratio(estimate)
    return f"{point}x [{low}, {high}]"


def ratio_point(estimate: Estimate) -> str:
    """Write the point of a ratio with the decimals that its interval deserves."""
    return f"{_rounded_ratio(estimate)[1]}x"


def ratio_bounds(estimate: Estimate) -> str:
    """Write the interval of a ratio alone: ``[2.24, 2.38]``."""
    low, _, high = _rounded_ratio(estimate)
    return f"[{low}, {high}]"


def against(value: float, threshold: float) -> tuple[str, str]:
    """Write two ratios that are compared, with decimals enough to tell them apart."""
    for decimals in range(3, 9):
        pair = f"{value:,.{decimals}f}x", f"{threshold:,.{decimals}f}x"
        if value == threshold or pair[0] != pair[1]:
            break
    return pair


def duration(seconds: float | None) -> str:
    """Write a time: ``312 ms``, ``4.21 s``, ``3 min 20 s``, ``2 h 14 min``, ``3 d 4 h``."""
    if seconds is None:
        return NOT_MEASURED
    if seconds < 0:
        return f"-{duration(-seconds)}"
    if seconds >= _SCALED_UP_TO_S:
        return _long_duration(seconds)
    scale, unit = time_unit(seconds)
    return f"{significant(seconds / scale)} {unit}"


def duration_estimate(estimate: Estimate | None) -> str:
    """Write a time with its interval: ``312 ms [308, 316]``."""
    if estimate is None:
        return NOT_MEASURED
    if estimate.point >= _SCALED_UP_TO_S:
        low, high = duration(estimate.low), duration(estimate.high)
        return f"{duration(estimate.point)} [{low}, {high}]"
    scale, unit = time_unit(estimate.point)
    return _with_unit(estimate, scale, unit)


def size(num_bytes: float | None) -> str:
    """Write a number of bytes: ``512 MiB``, ``3.12 GiB``."""
    if num_bytes is None:
        return NOT_MEASURED
    scale, unit = byte_unit(num_bytes)
    return f"{significant(num_bytes / scale)} {unit}"


def size_estimate(estimate: Estimate | None) -> str:
    """Write a number of bytes with its interval: ``3.12 GiB [2.90, 3.41]``."""
    if estimate is None:
        return NOT_MEASURED
    scale, unit = byte_unit(estimate.point)
    return _with_unit(estimate, scale, unit)


def flops(rate: float | None) -> str:
    """Write a rate of floating-point operations: ``312 TFLOP/s``."""
    if rate is None:
        return NOT_MEASURED
    for scale, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M")):
        if rate >= scale:
            return f"{significant(rate / scale)} {prefix}FLOP/s"
    return f"{significant(rate)} FLOP/s"


def time_unit(seconds: float) -> tuple[float, str]:
    """Give the unit that a time below two minutes is written in: its seconds and its name."""
    rounded = float(f"{seconds:.2e}")
    if rounded >= 1 or rounded == 0:
        return _TIME_UNITS[2]
    return _TIME_UNITS[1] if rounded >= 1e-3 else _TIME_UNITS[0]


def byte_unit(num_bytes: float) -> tuple[float, str]:
    """Give the unit that a number of bytes is written in: its bytes and its name."""
    power = 0
    while power < len(_BYTE_UNITS) - 1 and abs(num_bytes) >= 1024 ** (power + 1):
        power += 1
    return float(1024**power), _BYTE_UNITS[power]


def _long_duration(seconds: float) -> str:
    if seconds < 3600 - 0.5:
        minutes, rest = divmod(round(seconds), 60)
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    if seconds < 86400 - 30:
        hours, minutes = divmod(round(seconds / 60), 60)
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(round(seconds / 3600), 24)
    return f"{days:,} d {hours} h" if hours else f"{days:,} d"


def _with_unit(estimate: Estimate, scale: float, unit: str) -> str:
    scaled = Estimate(
        low=estimate.low / scale, point=estimate.point / scale, high=estimate.high / scale
    )
    exponent = math.floor(math.log10(abs(scaled.point))) if scaled.point else 0
    low, point, high = _rounded(scaled, least=max(0, 2 - exponent), most=5)
    return f"{point} {unit} [{low}, {high}]"


def _rounded_ratio(estimate: Estimate) -> tuple[str, str, str]:
    return _rounded(
        estimate, least=3 if _NEAR_ONE[0] < estimate.point < _NEAR_ONE[1] else 2, most=4
    )


def _rounded(estimate: Estimate, *, least: int, most: int) -> tuple[str, str, str]:
    """Round to the first digit that the interval's half width speaks of, bounds outwards."""
    half_width = (estimate.high - estimate.low) / 2
    wanted = -math.floor(math.log10(half_width)) if half_width > 0 else least
    decimals = min(max(wanted, least), most)

    def text(value: float, rounding: str) -> str:
        step = Decimal(1).scaleb(-decimals)
        # Twelve digits first: the last bit of a float must not push a bound one step out.
        return f"{Decimal(f'{value:.12g}').quantize(step, rounding=rounding):,}"

    return (
        text(estimate.low, ROUND_FLOOR),
        text(estimate.point, ROUND_HALF_EVEN),
        text(estimate.high, ROUND_CEILING),
    )
