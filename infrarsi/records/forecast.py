"""A Forecast: what a search and its confirmation are expected to take, before they begin."""

from __future__ import annotations

from infrarsi.records.base import Record


class Range(Record):
    """An expectation with a low and a high case; not an interval of any level."""

    low: float
    point: float
    high: float

    def times(self, factor: float) -> Range:
        """Give the range in another unit."""
        return Range(low=factor * self.low, point=factor * self.point, high=factor * self.high)


class Forecast(Record):
    """Expected wall time and cost of the whole search, what is done included, and of ``apply``."""

    num_trials: Range
    """Candidates screened, repeats included."""
    num_launches: Range
    """Launches of the search: trials, and those that take the winner apart."""
    search_wall_s: Range
    confirm_wall_s: Range
    search_usd: Range | None = None
    """Of the machine. ``None``: its price is not known."""
    confirm_usd: Range | None = None
    assumptions: tuple[str, ...] = ()
    """What it rests on, in words."""
