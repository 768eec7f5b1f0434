"""A test of long-run quality before it begins: how far, how many seeds, what it will take."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from infrarsi.errors import UsageError
from infrarsi.judge.horizon import FEWEST_SEEDS
from infrarsi.records.candidate import Candidate
from infrarsi.render import numbers
from infrarsi.stages.confirming.limits import Limits
from infrarsi.stages.confirming.seeds import Seeds, seeds_of
from infrarsi.stages.doctor import require_baseline
from infrarsi.stages.history import History
from infrarsi.stages.launching.trial import LATEST_STOP
from infrarsi.stages.workspace import Workspace

SCORES = 4
"""Batches after the horizon that every state is scored on."""
_NOTICE_S = 0.2
_MOST_AHEAD = 40
_BESIDE = 3
"""Launches that score: the winner's states, the reference's, and the first reference's."""


@dataclass(frozen=True)
class Course:
    """A test of long-run quality that is to be made."""

    candidate: Candidate
    updates: int
    seeds: Seeds
    ahead: int
    """Updates before the horizon at which a launch is asked for its state."""

    def slot(self, number: int) -> int:
        """Give the update behind which the states of a seed are scored."""
        return self.updates + 1 + number * (SCORES + 1)

    def batches(self, number: int) -> range:
        """Give the updates whose batches the states of a seed are scored on."""
        return range(self.slot(number) + 1, self.slot(number) + 1 + SCORES)

    @property
    def last(self) -> int:
        """The last update that a scoring launch makes."""
        return self.slot(len(self.seeds.all) - 1) + SCORES


def plan_course(
    workspace: Workspace,
    candidate: Candidate,
    *,
    updates: int,
    seeds: int,
    limits: Limits,
    tell: Callable[[str], None] = lambda _: None,
) -> Course:
    """Say what a test will take, and make it small enough for its limits.

    Raises
    ------
    UsageError
        The horizon lies within what every launch trains anyway, or the limits leave no room for
        the fewest seeds that can tell anything.
    """
    history = History.of(workspace.ledger.events)
    baseline = require_baseline(workspace, history)
    update_s = baseline.update_s.point
    ahead = 2 + min(_MOST_AHEAD, math.ceil(_NOTICE_S / update_s))
    fewest = workspace.contract.task.window.last_update + LATEST_STOP + ahead + 1
    if updates < fewest:
        raise UsageError(
            f"a horizon of {updates} updates lies within what every launch trains; it begins at "
            f"{fewest}",
            hint=f"take a horizon of {fewest} updates or more: thousands tell more than hundreds",
        )
    afforded = _affordable(workspace, history, candidate, updates, seeds=seeds, limits=limits)
    if afforded < min(seeds, FEWEST_SEEDS):
        wall_s = expected_s(history, candidate, updates, seeds=FEWEST_SEEDS)
        raise UsageError(
            f"{FEWEST_SEEDS} seeds of {updates} updates are expected to take "
            f"{numbers.duration(wall_s)}, more than is allowed",
            hint="allow more with --max-wall or --max-usd, or take a nearer horizon",
        )
    wall_s = expected_s(history, candidate, updates, seeds=afforded)
    fewer = f" ({seeds} were asked for)" if afforded < seeds else ""
    tell(
        f"{afforded} seeds{fewer} of {updates} updates, {2 * afforded + _BESIDE} launches: about "
        f"{numbers.duration(wall_s)}"
    )
    return Course(candidate, updates, seeds_of(workspace, afforded), ahead)


def expected_s(history: History, candidate: Candidate, updates: int, *, seeds: int) -> float:
    """Give the seconds that a test is expected to take, launches made before included."""
    baseline = history.baseline
    assert baseline is not None, "it was asked for before"
    confirmed = [
        each.verdict.speedup.point
        for each in history.confirmations
        if each.verdict.speedup and Candidate.model_validate(each.body["candidate"]) == candidate
    ]
    ratio = 1 + 1 / (confirmed[-1] if confirmed else 1.0)
    trained_s = updates * baseline.update_s.point
    scored_s = (updates + (SCORES + 1) * seeds) * baseline.update_s.point
    starts_s = (2 * seeds + _BESIDE) * baseline.cold_start_s
    return seeds * ratio * trained_s + _BESIDE * scored_s + starts_s


def _affordable(
    workspace: Workspace,
    history: History,
    candidate: Candidate,
    updates: int,
    *,
    seeds: int,
    limits: Limits,
) -> int:
    """Give how many seeds, of those asked for, the limits leave room for."""
    per_s = workspace.contract.plan.prices.usd_per_s(len(workspace.machine.accelerators))
    wall_s = limits.max_wall_s if limits.max_wall_s is not None else math.inf
    if limits.max_usd is not None and per_s:
        wall_s = min(wall_s, limits.max_usd / per_s)
    fitting = [
        count
        for count in range(1, seeds + 1)
        if expected_s(history, candidate, updates, seeds=count) <= wall_s
    ]
    return max(fitting, default=0)
