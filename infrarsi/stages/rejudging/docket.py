"""The docket: every trial and every verdict in a ledger, with what stood when it was judged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from infrarsi.records.baseline import Baseline
from infrarsi.records.candidate import Candidate, Patch
from infrarsi.records.event import Event
from infrarsi.records.plan import Lock
from infrarsi.records.trial import Trial
from infrarsi.records.verdict import Ruling, Verdict
from infrarsi.stages.history import History


@dataclass(frozen=True)
class Search:
    """One lock, and all that was measured under it: a new lock begins another."""

    lock: Lock
    history: History


@dataclass(frozen=True)
class Filed:
    """One trial as the ledger has it."""

    trial: Trial
    """A launch that has not ended stands as preempted."""
    remarks: Mapping[str, Any]
    search: Search
    started_at: str
    ended_at: str | None
    """``None``: it is in flight, or its command was killed and no other has cleared up since."""
    baseline: Baseline | None
    """The baseline that was in force when it was started."""


@dataclass(frozen=True)
class Judged:
    """One verdict as the ledger has it, and what it was judged against."""

    verdict: Verdict
    candidate: Candidate
    trials: tuple[Trial, ...]
    """The launches that it rests on, in order."""
    patches: Mapping[str, Patch]
    """The candidate's, as they were then."""
    baseline: Baseline
    search: Search
    body: Mapping[str, Any]
    """The event that recorded it."""
    promoted: bool = False

    @property
    def reference(self) -> Trial:
        """The launch that the candidate was paired with."""
        return self.search.history.trials[self.baseline.reference_trial]

    @property
    def calibration(self) -> tuple[tuple[Trial, ...], tuple[Trial, ...]]:
        """The equal launches, and the disturbed ones, that the baseline rests on."""
        known, baseline = self.search.history.trials, self.baseline
        equal = tuple(known[name] for name in baseline.trials)
        return equal, tuple(known[name] for name in baseline.null_trials)


@dataclass
class Docket:
    """All trials and verdicts, over every lock and machine."""

    trials: dict[str, Filed] = field(default_factory=dict)
    verdicts: list[Judged] = field(default_factory=list)

    @classmethod
    def of(cls, events: Iterable[Event]) -> Docket:
        """Walk a whole ledger."""
        docket = cls()
        search: Search | None = None
        for event in events:
            if event.kind == "locked":
                search = Search(Lock.model_validate(event.body), History())
            if search is not None:
                search.history.fold(event)
                docket._take(event, search)
        return docket

    def verdicts_on(self, name: str) -> list[Judged]:
        """Give the verdicts that rest on a trial, the oldest first."""
        return [each for each in self.verdicts if any(t.trial_id == name for t in each.trials)]

    def _take(self, event: Event, search: Search) -> None:
        body, history = event.body, search.history
        match event.kind:
            case "trial_started":
                known = {key: body[key] for key in Trial.model_fields if key in body}
                self.trials[body["trial_id"]] = Filed(
                    Trial.model_validate(known), body.get("remarks", {}), search,
                    started_at=event.at, ended_at=None, baseline=history.baseline,
                )  # fmt: skip
            case "trial_ended":
                self._take_end(body["trial_id"], search, event.at)
            case "screened" if body["verdict"] is not None:
                screening = history.screenings[-1]
                assert screening.verdict is not None, "it was judged"
                trial = screening.trial
                self._file(screening.verdict, trial.candidate, (trial,), search, body)
            case "session" | "confirmed":
                verdict = Verdict.model_validate(body["verdict"])
                trials = tuple(history.trials[name] for name in verdict.trials)
                candidate = Candidate.model_validate(body["candidate"])
                self._file(verdict, candidate, trials, search, body)
            case "promoted" | "reverted":
                self._mark(promoted=event.kind == "promoted")

    def _take_end(self, name: str, search: Search, at: str) -> None:
        trial, started = search.history.trials[name], self.trials.get(name)
        if started is None:
            baseline = search.history.baseline
            started = Filed(trial, {}, search, started_at=at, ended_at=at, baseline=baseline)
        self.trials[name] = replace(started, trial=trial, ended_at=at)

    def _file(
        self,
        verdict: Verdict,
        candidate: Candidate,
        trials: tuple[Trial, ...],
        search: Search,
        body: Mapping[str, Any],
    ) -> None:
        history = search.history
        assert history.baseline is not None, "nothing is judged without a baseline"
        patches = {name: history.patches[name] for name in candidate.patches}
        self.verdicts.append(
            Judged(verdict, candidate, trials, patches, history.baseline, search, body)
        )

    def _mark(self, *, promoted: bool) -> None:
        """Note of the last confirmation that passed whether a branch stands on it."""
        for index in range(len(self.verdicts) - 1, -1, -1):
            verdict = self.verdicts[index].verdict
            if verdict.kind == "confirm" and verdict.ruling is Ruling.PASS:
                self.verdicts[index] = replace(self.verdicts[index], promoted=promoted)
                return
