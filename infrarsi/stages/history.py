"""The fold of a ledger: what has happened since the last lock. It is the only checkpoint."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from infrarsi.records.asked import Asked, Setting
from infrarsi.records.baseline import Baseline
from infrarsi.records.candidate import Candidate, Patch
from infrarsi.records.event import Event
from infrarsi.records.experience import Experience
from infrarsi.records.forecast import Forecast
from infrarsi.records.history import Observation, Prediction
from infrarsi.records.horizon import Horizon
from infrarsi.records.machine import Machine, differences
from infrarsi.records.plan import Budget
from infrarsi.records.promotion import Promotion
from infrarsi.records.report import Part
from infrarsi.records.trial import Outcome, Trial
from infrarsi.records.verdict import Ruling, Verdict
from infrarsi.stages.measured import (
    AGAIN,
    LOST,
    Choice,
    Confirmation,
    Declined,
    HeldSession,
    MachineSearch,
    Screening,
    status_of,
)
from infrarsi.stages.periods import Periods

__all__ = ["AGAIN", "Choice", "Confirmation", "Declined", "HeldSession", "History", "Screening"]


@dataclass
class History:
    """All that is known since the last lock.

    What was measured is that of the machine of the last baseline. Trials of other machines stay
    in ``trials``, for what they cost.
    """

    events: list[Event] = field(default_factory=list)
    trials: dict[str, Trial] = field(default_factory=dict)
    remarks: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What was remarked when a trial was started, by trial id."""
    baselines: list[Baseline] = field(default_factory=list)
    patches: dict[str, Patch] = field(default_factory=dict)
    declined: list[Declined] = field(default_factory=list)
    incompatible: tuple[tuple[str, str], ...] = ()
    proposed: bool = False
    asked: list[Asked] = field(default_factory=list)
    """Every call of a language model, failed ones too."""
    promotion: Promotion | None = None
    here: MachineSearch = field(default_factory=MachineSearch)
    """The search on the machine of the last baseline."""
    elsewhere: list[MachineSearch] = field(default_factory=list)
    """The searches on other machines, the latest last."""
    periods: Periods = field(default_factory=Periods)
    attempts: dict[str, int] = field(default_factory=dict)
    """Confirmations begun, by task digest: a task that is locked again starts no new count."""
    task_digest: str = ""

    @property
    def num_attempts(self) -> int:
        """Confirmations of this task that were begun, in whatever lock of it."""
        return self.attempts.get(self.task_digest, 0)

    @classmethod
    def of(cls, events: Iterable[Event]) -> History:
        """Fold a whole ledger."""
        history = cls()
        for event in events:
            history.fold(event)
        return history

    def fold(self, event: Event) -> None:  # noqa: C901, PLR0912, PLR0915  # one case a kind
        """Take one event in."""
        if event.kind == "locked":
            attempts = self.attempts
            self.__init__()  # type: ignore[misc]  # a new lock starts a new search
            self.attempts, self.task_digest = attempts, event.body["task_digest"]
        self.events.append(event)
        self.periods.fold(event)
        body = event.body
        match event.kind:
            case "began":
                self._work_here()
            case "trial_started":
                self.remarks[body["trial_id"]] = body.get("remarks", {})
                begun = int(self.remarks[body["trial_id"]].get("attempt", 0))
                self.attempts[self.task_digest] = max(self.num_attempts, begun)
                if body["purpose"] in {
                    "screen",
                    "ablation",
                    "confirm",
                    "replay",
                    "horizon",
                    "sweep",
                }:
                    self.here.launched.add(body["trial_id"])
                    self._work_here()
            case "trial_ended":
                known = {key: body[key] for key in Trial.model_fields if key in body}
                self.trials[body["trial_id"]] = Trial.model_validate(known)
            case "baseline":
                self._take_baseline(body)
            case "proposed":
                self._take_proposals(body)
            case "recalled":
                self.here.experience = Experience.model_validate(body)
            case "asked":
                self._take_asked(Asked.model_validate(body))
            case "screened":
                self.here.screenings.append(self._screening(body))
            case "measured":
                self.here.ablation_s[body["trial_id"]] = body["update_s"]
            case "chosen":
                self._take_choice(body)
            case "session":
                held = HeldSession(Verdict.model_validate(body["verdict"]), body)
                if held.verdict.ruling is Ruling.PASS:
                    self.here.sessions.append(held)
            case "confirmed":
                verdict = Verdict.model_validate(body["verdict"])
                self.here.settle(Confirmation(verdict, body))
            case "horizon":
                self.here.horizons.append(Horizon.model_validate(body))
            case "promoted":
                self.promotion = Promotion.model_validate(body)
            case "reverted":
                self.promotion = None
            case "estimated":
                budget = Budget.model_validate(body["budget"])
                self.here.forecasts.append((budget, Forecast.model_validate(body["forecast"])))
            case "locked" | "repaired":
                pass

    def _work_here(self) -> None:
        """Count the last period to the search on this machine, where it is of a search."""
        last = self.periods.all[-1]
        if last.command != "doctor" and all(each is not last for each in self.here.periods):
            self.here.periods.append(last)

    def _take_baseline(self, body: dict[str, Any]) -> None:
        """Take a baseline in; one of another machine sets the search so far aside."""
        machine = Machine.model_validate(body["machine"])
        if self.machine is not None and differences(self.machine, machine):
            known = next((each for each in self.elsewhere if _is_on(each, machine)), None)
            self.elsewhere = [each for each in (*self.elsewhere, self.here) if each is not known]
            self.here = known or MachineSearch()
        self.here.machine = machine
        self.here.baseline = Baseline.model_validate(body["baseline"])
        self.baselines.append(self.here.baseline)

    def _take_choice(self, body: dict[str, Any]) -> None:
        winner, budget = body.get("winner"), body.get("budget")
        self.here.choice = Choice(
            candidate=Candidate.model_validate(body["candidate"]),
            parts=tuple(Part.model_validate(part) for part in body["parts"]),
            reason=body["reason"],
            winner=Candidate.model_validate(winner) if winner else None,
            budget=Budget.model_validate(budget) if budget else None,
        )  # fmt: skip
        self.here.settled = frozenset(self.here.launched)

    def _take_proposals(self, body: dict[str, Any]) -> None:
        self.proposed = True
        self.patches = {row["name"]: Patch.model_validate(row) for row in body["patches"]}
        self.declined = [Declined(row["name"], row["because"]) for row in body["declined"]]
        self.incompatible = tuple((left, right) for left, right in body["incompatible"])

    def _take_asked(self, asked: Asked) -> None:
        self.asked.append(asked)
        self.here.calls.append(asked)
        self.patches |= {patch.name: patch for patch in asked.patches}
        self.declined += [
            Declined(each.name, each.because, proposer="language") for each in asked.declined
        ]
        if asked.patches:
            self.incompatible = asked.incompatible

    def _screening(self, body: dict[str, Any]) -> Screening:
        remarks = self.remarks.get(body["trial_id"], {})
        prediction, verdict = remarks.get("prediction"), body["verdict"]
        return Screening(
            trial=self.trials[body["trial_id"]],
            reason=remarks.get("reason", ""),
            prediction=Prediction.model_validate(prediction) if prediction else None,
            verdict=Verdict.model_validate(verdict) if verdict else None,
            update_s=body["update_s"],
        )

    @property
    def machine(self) -> Machine | None:
        """The machine that the last baseline was measured on."""
        return self.here.machine

    @property
    def baseline(self) -> Baseline | None:
        """The last baseline."""
        return self.here.baseline

    @property
    def screenings(self) -> list[Screening]:
        """What the trials of the search taught, in order."""
        return self.here.screenings

    @property
    def ablation_s(self) -> dict[str, float | None]:
        """Steady seconds an update of the ablation's launches, by trial id."""
        return self.here.ablation_s

    @property
    def choice(self) -> Choice | None:
        """The candidate that was put forward last."""
        return self.here.choice

    @property
    def confirmations(self) -> list[Confirmation]:
        """The confirmations, in order."""
        return self.here.confirmations

    def sessions_of(self, candidate: Candidate) -> list[HeldSession]:
        """Give the sessions of a candidate that passed and are not settled, in order."""
        return [each for each in self.here.sessions if each.candidate == candidate]

    @property
    def horizons(self) -> list[Horizon]:
        """The tests of long-run quality, in order."""
        return self.here.horizons

    @property
    def horizon(self) -> Horizon | None:
        """The last test of what is put forward."""
        chosen = self.choice.candidate if self.choice else None
        return next((each for each in reversed(self.horizons) if each.candidate == chosen), None)

    @property
    def confirmation(self) -> Confirmation | None:
        """The last confirmation of what is put forward."""
        chosen = self.choice.candidate if self.choice else None
        of_choice = [
            each
            for each in self.confirmations
            if Candidate.model_validate(each.body["candidate"]) == chosen
        ]
        return of_choice[-1] if of_choice else None

    def trials_for(self, purpose: str) -> list[Trial]:
        """Give this machine's trials of a purpose that ended, but for those the harness lost.

        Launches of a calibration are given of every machine.
        """
        return [
            trial
            for trial in self.trials.values()
            if trial.purpose == purpose
            and trial.outcome not in LOST
            and (purpose in {"baseline", "null"} or trial.trial_id in self.here.launched)
        ]

    def ablation_begun(self) -> list[Trial]:
        """Give the launches that take a winner apart, of those since the last choice."""
        done = self.trials_for("ablation")
        return [trial for trial in done if trial.trial_id not in self.here.settled]

    @property
    def settings(self) -> list[Setting]:
        """The candidates that language models want tried, the first asked for first."""
        return [each for asked in self.asked for each in asked.settings]

    @property
    def num_taught(self) -> int:
        """How many trials of the search taught something, repeats counted once."""
        statuses = [status_of(each) for each in self.final()]
        return sum(status != "failed" for status in statuses)

    def unjudged(self) -> Trial | None:
        """Give a launch of the search that ended and was not judged yet."""
        judged = {each.trial.trial_id for each in self.screenings} | self.ablation_s.keys()
        launched = [*self.trials_for("screen"), *self.trials_for("ablation")]
        waiting = (
            each
            for each in launched
            if each.trial_id not in judged
            and (each.purpose == "screen" or each.outcome is Outcome.OK)
        )
        return next(waiting, None)

    def observations(self) -> list[Observation]:
        """Give what the search may learn from: the reference first, then each trial.

        Of the ablation's launches, an out-of-memory is learnt from: it is a lower bound too.
        """
        exhausted = [
            Observation(candidate=trial.candidate, status="oom", cost_s=trial.wall_s)
            for trial in self.trials_for("ablation")
            if trial.outcome in {Outcome.OOM, Outcome.AMBIGUOUS_MEMORY}
        ]
        screened = map(self._observation, self.final())
        return [*self._reference_observation(), *screened, *exhausted]

    def final(self) -> list[Screening]:
        """Leave out what was launched again since it was disturbed: its second launch counts."""
        return [
            each
            for each, after in zip_longest(self.screenings, self.screenings[1:])
            if after is None or not after.is_repeat
        ]

    def _reference_observation(self) -> list[Observation]:
        if self.baseline is None:
            return []
        reference = self.trials[self.baseline.reference_trial]
        return [
            Observation(
                candidate=reference.candidate, status="ok", update_s=self.baseline.update_s.point,
                update_sd=max(self.baseline.noise_sd, 1e-3) / len(self.baseline.trials) ** 0.5,
                peak_bytes=self.baseline.peak_bytes, cost_s=self.baseline.launch_s,
            )
        ]  # fmt: skip

    def _observation(self, screening: Screening) -> Observation:
        trial = screening.trial
        sd = None
        if screening.update_s is not None and self.baseline is not None:
            sd = max(self.baseline.noise_sd, 1e-3)
        return Observation(
            candidate=trial.candidate, status=status_of(screening), update_s=screening.update_s,
            update_sd=sd, peak_bytes=trial.peak_bytes, cost_s=trial.wall_s,
        )  # fmt: skip

    @staticmethod
    def passed(screening: Screening) -> bool:
        """Tell whether the judge let a screening pass."""
        return status_of(screening) == "ok"

    def accepted(self) -> list[Screening]:
        """Give the screenings that the judge did not refuse, the fastest first."""
        passed = [
            each
            for each in self.screenings
            if each.update_s is not None and status_of(each) == "ok"
        ]
        return sorted(passed, key=lambda each: each.update_s or float("inf"))


def _is_on(search: MachineSearch, machine: Machine) -> bool:
    return search.machine is not None and not differences(search.machine, machine)
