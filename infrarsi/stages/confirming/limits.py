"""What one confirmation may spend: refused beforehand where it cannot do, kept while it runs."""

from __future__ import annotations

import time
from dataclasses import dataclass

from infrarsi.errors import UsageError
from infrarsi.records.forecast import Range
from infrarsi.render import numbers
from infrarsi.stages.history import History
from infrarsi.stages.searching.forecast import forecast_of
from infrarsi.stages.spending import refuse_unknown_price
from infrarsi.stages.workspace import Workspace


@dataclass(frozen=True)
class Limits:
    """The most that one confirmation may spend. ``None``: no limit."""

    max_wall_s: float | None = None
    max_usd: float | None = None

    def after(self, workspace: Workspace, spent_s: float) -> Limits:
        """Give what is left of them after so many seconds."""
        per_s = workspace.contract.plan.prices.usd_per_s(len(workspace.machine.accelerators))
        wall_s, usd = self.max_wall_s, self.max_usd
        return Limits(
            None if wall_s is None else max(0.0, wall_s - spent_s),
            None if usd is None else max(0.0, usd - spent_s * (per_s or 0.0)),
        )

    def meter(self, workspace: Workspace, history: History) -> Meter:
        """Start to count.

        Raises
        ------
        UsageError
            Dollars have no price, or the planned blocks are expected to need more.
        """
        plan, gpus = workspace.contract.plan, len(workspace.machine.accelerators)
        refuse_unknown_price(plan, num_accelerators=gpus, max_usd=self.max_usd)
        forecast = forecast_of(workspace.contract, history, num_accelerators=gpus)
        if forecast is not None:
            self._refuse_too_little(forecast.confirm_wall_s, forecast.confirm_usd, workspace)
        return Meter(self, usd_per_s=plan.prices.usd_per_s(gpus), started_s=time.monotonic())

    def _refuse_too_little(self, wall_s: Range, usd: Range | None, workspace: Workspace) -> None:
        """Refuse before the first launch: a confirmation cut short has spent its error rate."""
        blocks = workspace.contract.plan.confirmation_blocks
        needs = ""
        if self.max_wall_s is not None and wall_s.point > self.max_wall_s:
            needs = f"{numbers.duration(wall_s.point)}, and {numbers.duration(self.max_wall_s)}"
        elif self.max_usd is not None and usd is not None and usd.point > self.max_usd:
            needs = f"{numbers.dollars(usd.point)}, and {numbers.dollars(self.max_usd)}"
        if needs:
            raise UsageError(
                f"a confirmation of {blocks} blocks is expected to take {needs} is allowed",
                hint="allow more with --max-wall or --max-usd, or plan fewer blocks with --blocks",
            )


@dataclass(frozen=True)
class Meter:
    """Counts what a confirmation spends."""

    limits: Limits
    usd_per_s: float | None
    started_s: float
    """By the monotonic clock."""

    def is_spent(self) -> bool:
        """Tell whether a limit is reached: no further launch may begin."""
        spent_s = time.monotonic() - self.started_s
        limits = self.limits
        if limits.max_wall_s is not None and spent_s >= limits.max_wall_s:
            return True
        if limits.max_usd is None or self.usd_per_s is None:
            return False
        return spent_s * self.usd_per_s >= limits.max_usd

    def in_words(self) -> str:
        """Say what was spent of what was allowed."""
        spent_s = time.monotonic() - self.started_s
        said = []
        if self.limits.max_wall_s is not None:
            limit = numbers.duration(self.limits.max_wall_s)
            said.append(f"{numbers.duration(spent_s)} of {limit}")
        if self.limits.max_usd is not None and self.usd_per_s is not None:
            limit = numbers.dollars(self.limits.max_usd)
            said.append(f"{numbers.dollars(spent_s * self.usd_per_s)} of {limit}")
        return ", ".join(said) or "without a limit"
