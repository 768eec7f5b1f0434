"""What replaying strategies on a measured table gave."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from infrarsi.records.base import Record
from infrarsi.records.estimate import Estimate
from infrarsi.records.table import TableNote


class BenchPlan(Record):
    """How strategies are replayed; whatever changes a result stands in here."""

    trials: int = Field(default=16, ge=1)
    """Trials of each search."""
    batch: int = Field(default=1, ge=1)
    """Trials that are chosen at once, before any of them is known."""
    most_share: float = Field(default=1.0, gt=0, le=1)
    """Of a task's configurations, the largest share that a search may try."""
    formulas: bool = True
    beliefs: Literal["none", "experience", "shuffled", "inverted", "time-inverted"] = "none"
    """``experience``: coefficients start from what the tasks of other model sizes teach, under
    guard. ``shuffled``: dealt out among the coefficients at random; ``inverted``: each with its
    sign turned, in time alone or in memory too."""
    constants: float = Field(default=1.0, gt=0)
    """Factor by which every constant of the formulas is wrong, up or down at random."""
    noise_sd: float = Field(default=0.0, ge=0)
    """Standard deviation of log time that is added to what a trial returns."""
    complete: bool = False
    """Whether what surely runs out of memory, being hungrier than what did, is in the pool too."""


class Step(Record):
    """One trial of a replayed search."""

    status: Literal["ok", "oom", "failed"]
    quality: float | None = None
    """The optimum's time over this configuration's, as the table has them; 1 is the best."""
    returned: float | None = None
    """The time that the trial returned, noise and all."""


class Replay(Record):
    """One search, replayed."""

    strategy: str
    task: str
    seed: int
    steps: tuple[Step, ...]
    wall_s: float
    places: tuple[int, ...] = ()
    """Which row of the pool each trial was."""

    def best_at(self, trials: int) -> float | None:
        """Give the quality of what seemed fastest after so many trials, if any was measured."""
        seen = [
            (step.returned, step.quality)
            for step in self.steps[:trials]
            if step.returned is not None and step.quality is not None
        ]
        return min(seen)[1] if seen else None

    @property
    def oom_share(self) -> float:
        """Give the share of its trials that ran out of memory."""
        return sum(step.status == "oom" for step in self.steps) / max(1, len(self.steps))


class BenchTask(Record):
    """A task that was replayed."""

    name: str
    num_rows: int
    num_ok: int
    formulas: bool
    """Whether the context gives what the formulas need."""


class Standing(Record):
    """How a strategy did over all tasks."""

    strategy: str
    found: dict[int, Estimate]
    """Geometric mean over tasks of the optimum's time over that of the best found, by trials."""
    worst: dict[int, tuple[str, float]]
    """The task on which it did worst, and how well, by trials."""
    oom_share: float
    """Mean over tasks of the share of trials that ran out of memory."""
    ahead: dict[int, Estimate] = {}
    """The first strategy's result over this one's, task by task, by trials."""
    choose_s: float
    """Mean seconds to choose a trial."""


class BenchReport(Record):
    """A whole bench."""

    table: str
    table_digest: str
    plan: BenchPlan
    strategies: tuple[str, ...]
    seeds: int
    tasks: tuple[BenchTask, ...]
    left_out: int
    """Tasks with too few configurations."""
    notes: tuple[TableNote, ...]
    budgets: tuple[int, ...]
    standings: tuple[Standing, ...]
    replays: tuple[Replay, ...]
