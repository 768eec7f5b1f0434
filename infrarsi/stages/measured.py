"""What a search measured, kept apart by machine: figures of two machines are never mixed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from infrarsi.records.asked import Asked
from infrarsi.records.baseline import Baseline
from infrarsi.records.candidate import Candidate
from infrarsi.records.experience import Experience
from infrarsi.records.forecast import Forecast
from infrarsi.records.history import Prediction
from infrarsi.records.horizon import Horizon
from infrarsi.records.machine import Machine
from infrarsi.records.plan import Budget
from infrarsi.records.report import Part
from infrarsi.records.trial import Outcome, Trial
from infrarsi.records.verdict import Ruling, Verdict
from infrarsi.stages.periods import Period

AGAIN = "again, since its launch was disturbed"
"""How the reason of a repeated screening begins."""

REDUCED = "the winner without the parts that add nothing"
"""The reason of the screening that ends an ablation."""


LOST = frozenset({Outcome.PREEMPTED, Outcome.HARNESS_ERROR})
"""Outcomes that count neither for nor against a candidate: the harness or a disk failed."""


@dataclass(frozen=True)
class Declined:
    """A recipe that does not apply here, or an idea that was refused; and why."""

    name: str
    because: str
    proposer: str = "patchbook"


@dataclass(frozen=True)
class Screening:
    """What one trial of the search taught."""

    trial: Trial
    reason: str
    """Why the search tried it."""
    prediction: Prediction | None
    verdict: Verdict | None
    """``None`` where the launch did not get far enough to be judged."""
    update_s: float | None

    @property
    def is_repeat(self) -> bool:
        """Whether it repeats the screening before it."""
        return self.reason.startswith(AGAIN)


@dataclass(frozen=True)
class Choice:
    """The candidate that the search put forward, and what its parts add."""

    candidate: Candidate
    parts: tuple[Part, ...]
    reason: str
    winner: Candidate | None = None
    """The candidate before the parts that add nothing were taken out. ``None``: not on record."""
    budget: Budget | None = None
    """What the search that came to it might spend. ``None``: not on record."""


@dataclass(frozen=True)
class Confirmation:
    """One back-to-back confirmation."""

    verdict: Verdict
    body: dict[str, Any]
    """Blocks, threshold and spent error rate, as the stage recorded them."""


@dataclass(frozen=True)
class HeldSession:
    """A session of a confirmation that asks for several, as the ledger has it."""

    verdict: Verdict
    body: dict[str, Any]
    """Like that of a confirmation, with the session's number and how many were planned."""

    @property
    def candidate(self) -> Candidate:
        """The candidate that it confirmed."""
        return Candidate.model_validate(self.body["candidate"])

    @property
    def num_launches(self) -> int:
        """How many launches its blocks had."""
        return sum(len(row["trials"]) for row in self.body["blocks"])


@dataclass
class MachineSearch:
    """The search on one machine."""

    machine: Machine | None = None
    """``None`` until its baseline."""
    baseline: Baseline | None = None
    launched: set[str] = field(default_factory=set)
    """Ids of its trials, but for those of calibration."""
    screenings: list[Screening] = field(default_factory=list)
    ablation_s: dict[str, float | None] = field(default_factory=dict)
    """Steady seconds an update of the ablation's launches, by trial id."""
    choice: Choice | None = None
    settled: frozenset[str] = frozenset()
    """Ids of the trials that the choice rests on."""
    confirmations: list[Confirmation] = field(default_factory=list)
    sessions: list[HeldSession] = field(default_factory=list)
    """Sessions that passed, of confirmations that are not settled; a refusal or a promotion
    settles its candidate's."""
    horizons: list[Horizon] = field(default_factory=list)
    periods: list[Period] = field(default_factory=list)
    """When commands searched or confirmed on it."""
    calls: list[Asked] = field(default_factory=list)
    """Calls of language models in the meantime."""
    forecasts: list[tuple[Budget, Forecast]] = field(default_factory=list)
    """What the search was expected to take, each with the budget that it had."""
    experience: Experience | None = None
    """What was recalled for it, the last time. ``None``: nothing ever was."""

    def settle(self, confirmation: Confirmation) -> None:
        """Take a confirmation in, and let go of the sessions that it settles."""
        self.confirmations.append(confirmation)
        if confirmation.verdict.ruling is not Ruling.INCONCLUSIVE:
            done = Candidate.model_validate(confirmation.body["candidate"])
            self.sessions = [each for each in self.sessions if each.candidate != done]


def status_of(screening: Screening) -> Literal["ok", "oom", "failed", "refused"]:
    """Give what the search may learn from a screening."""
    match screening.trial.outcome:
        case Outcome.OOM | Outcome.AMBIGUOUS_MEMORY:
            return "oom"
        case Outcome.OK | Outcome.STOPPED_EARLY if screening.verdict is not None:
            return "ok" if screening.verdict.ruling is Ruling.PASS else "refused"
        case _:
            return "failed"
