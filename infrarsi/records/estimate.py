"""A number with its interval."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from infrarsi.records.base import Record


class Estimate(Record):
    """A point with a two-sided interval at a stated level."""

    low: float
    point: float
    high: float
    level: float = Field(default=0.95, gt=0, lt=1)
    """Coverage of the interval, as a fraction."""

    @model_validator(mode="after")
    def _is_ordered(self) -> Self:
        if not self.low <= self.point <= self.high:
            raise ValueError(f"not low <= point <= high: {self.low}, {self.point}, {self.high}")
        return self
