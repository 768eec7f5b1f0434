"""The fold of a ledger: what has happened since the last lock. It is the only checkpoint."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from infrarsi.records.baseline import Baseline
from infrarsi.records.candidate import Candidate, Patch
from infrarsi.records.event import Event
from infrarsi.records.history import Observation, Prediction
from infrarsi.records.machine import Machine
from infrarsi.records.promotion import Promotion
from infrarsi.records.report import Part
from infrarsi.records.trial import Outcome, Trial
from infrarsi.records.verdict import Ruling, Verdict

AGAIN = "again, since its launch was disturbed"
"""How the reason of a repeated screening begins."""


@dataclass(frozen=True)
class Declined:
    """A recipe that does not apply here, and why."""

    name: str
    because: str


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


@dataclass(frozen=True)
class Confirmation:
    """One back-to-back confirmation."""

    verdict: Verdict
    body: dict[str, Any]
    """Blocks, threshold and spent error rate, as the stage recorded them."""


@dataclass
class History:
    """All that is known since the last lock."""

    events: list[Event] = field(default_factory=list)
    trials: dict[str, Trial] = field(default_factory=dict)
    remarks: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What was remarked when a trial was started, by trial id."""
    baselines: list[Baseline] = field(default_factory=list)
    machine: Machine | None = None
    """The machine that the last baseline was measured on."""
    patches: dict[str, Patch] = field(default_factory=dict)
    declined: list[Declined] = field(default_factory=list)
    incompatible: tuple[tuple[str, str], ...] = ()
    proposed: bool = False
    screenings: list[Screening] = field(default_factory=list)
    ablation_s: dict[str, float | None] = field(default_factory=dict)
    """Steady seconds an update of the ablation's launches, by trial id."""
    choice: Choice | None = None
    confirmations: list[Confirmation] = field(default_factory=list)
    promotion: Promotion | None = None

    @classmethod
    def of(cls, events: Iterable[Event]) -> History:
        """Fold a whole ledger."""
        history = cls()
        for event in events:
            history.fold(event)
        return history

    def fold(self, event: Event) -> None:  # noqa: C901  # one case a kind
        """Take one event in."""
        if event.kind == "locked":
            self.__init__()  # type: ignore[misc]  # a new lock starts a new search
        self.events.append(event)
        body = event.body
        match event.kind:
            case "trial_started":
                self.remarks[body["trial_id"]] = body.get("remarks", {})
            case "trial_ended":
                known = {key: body[key] for key in Trial.model_fields if key in body}
                self.trials[body["trial_id"]] = Trial.model_validate(known)
            case "baseline":
                self.baselines.append(Baseline.model_validate(body["baseline"]))
                self.machine = Machine.model_validate(body["machine"])
            case "proposed":
                self._take_proposals(body)
            case "screened":
                self.screenings.append(self._screening(body))
            case "measured":
                self.ablation_s[body["trial_id"]] = body["update_s"]
            case "chosen":
                parts = tuple(Part.model_validate(part) for part in body["parts"])
                candidate = Candidate.model_validate(body["candidate"])
                self.choice = Choice(candidate, parts, body["reason"])
            case "confirmed":
                verdict = Verdict.model_validate(body["verdict"])
                self.confirmations.append(Confirmation(verdict, body))
            case "promoted":
                self.promotion = Promotion.model_validate(body)
            case "reverted":
                self.promotion = None
            case "locked" | "repaired":
                pass

    def _take_proposals(self, body: dict[str, Any]) -> None:
        self.proposed = True
        self.patches = {row["name"]: Patch.model_validate(row) for row in body["patches"]}
        self.declined = [Declined(row["name"], row["because"]) for row in body["declined"]]
        self.incompatible = tuple((left, right) for left, right in body["incompatible"])

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
    def baseline(self) -> Baseline | None:
        """The last baseline."""
        return self.baselines[-1] if self.baselines else None

    def trials_for(self, purpose: str) -> list[Trial]:
        """Give the trials of a purpose that ended, but for those the harness lost."""
        return [
            trial
            for trial in self.trials.values()
            if trial.purpose == purpose and trial.outcome is not Outcome.PREEMPTED
        ]

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
        # What was launched again since it was disturbed is known by its second launch alone.
        final = [
            each
            for each, after in zip_longest(self.screenings, self.screenings[1:])
            if after is None or not after.is_repeat
        ]
        screened = map(self._observation, final)
        return [*self._reference_observation(), *screened, *exhausted]

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
            candidate=trial.candidate, status=_status(screening), update_s=screening.update_s,
            update_sd=sd, peak_bytes=trial.peak_bytes, cost_s=trial.wall_s,
        )  # fmt: skip

    def accepted(self) -> list[Screening]:
        """Give the screenings that the judge did not refuse, the fastest first."""
        passed = [
            each for each in self.screenings if each.update_s is not None and _status(each) == "ok"
        ]
        return sorted(passed, key=lambda each: each.update_s or float("inf"))


def _status(screening: Screening) -> Any:
    match screening.trial.outcome:
        case Outcome.OOM | Outcome.AMBIGUOUS_MEMORY:
            return "oom"
        case Outcome.OK | Outcome.STOPPED_EARLY if screening.verdict is not None:
            return "ok" if screening.verdict.ruling is Ruling.PASS else "refused"
        case _:
            return "failed"
