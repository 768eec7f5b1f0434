"""When commands were at work on a ledger, as far as its times tell.

A period begins with the event ``began`` of a command and lasts until the last event of its work.
Pauses between commands lie between periods. What a killed command did after its last event is
known by the launch in flight alone, for which the next command enters the time that it lived.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from infrarsi.records.event import Event
from infrarsi.records.trial import Outcome

_WORK = frozenset({
    "baseline", "trial_started", "trial_ended", "proposed", "asked", "estimated", "screened",
    "measured", "chosen", "session", "confirmed", "horizon", "promoted", "recalled",
})  # fmt: skip
"""Events that a command writes in the course of its work; others may come from outside it."""

_COMMAND_OF = {
    "rehearsal": "init", "baseline": "doctor", "null": "doctor", "control": "doctor",
    "screen": "run", "ablation": "run", "confirm": "apply", "replay": "apply",
    "horizon": "apply", "sweep": "sweep",
}  # fmt: skip
"""Which command launches for which purpose."""


@dataclass
class Period:
    """One command at work."""

    command: str
    began: datetime | None
    """``None``: its beginning is not on record, and only its launches are known."""
    last: datetime | None = None
    num_accelerators: int | None = None
    launches_s: float = 0.0
    num_launches: int = 0

    def wall_s(self, now: datetime | None = None) -> float:
        """Give its seconds by the clock, up to now or to its last event.

        Never less than its launches took: a clock that was set back must not make time.
        """
        until = now or self.last
        by_clock = (until - self.began).total_seconds() if self.began and until else 0.0
        return max(by_clock, self.launches_s)


class Periods:
    """The commands that worked on a ledger, folded from its events."""

    def __init__(self) -> None:
        self.all: list[Period] = []
        self.of_trial: dict[str, Period] = {}
        self._started: dict[str, datetime] = {}

    def fold(self, event: Event) -> None:
        """Take one event in."""
        at, body = time_of(event.at), event.body
        if event.kind == "began":
            self.all.append(Period(body["command"], at, at, body.get("num_accelerators")))
        elif event.kind == "trial_started":
            self._started[body["trial_id"]] = at
            self.of_trial[body["trial_id"]] = self._period_for(body["purpose"])
        elif event.kind == "trial_ended":
            at = self._take_launch(body, at)
        if event.kind in _WORK and self.all and self.all[-1].began is not None:
            current = self.all[-1]
            current.last = max(current.last or at, at)

    def _take_launch(self, body: dict[str, Any], at: datetime) -> datetime:
        """Add a launch to its period; give when it ended, which its event may tell too late."""
        name, wall_s = body["trial_id"], body["wall_s"]
        period = self.of_trial.get(name) or self._period_for(body["purpose"])
        self.of_trial[name] = period
        period.launches_s += wall_s
        period.num_launches += 1
        if body["outcome"] != Outcome.PREEMPTED.value:
            return at
        return self._started.get(name, at) + timedelta(seconds=wall_s)

    def _period_for(self, purpose: str) -> Period:
        command = _COMMAND_OF[purpose]
        if not self.all or self.all[-1].command != command:
            self.all.append(Period(command, None))
        return self.all[-1]

    def of(self, command: str) -> list[Period]:
        """Give the periods of one command."""
        return [each for each in self.all if each.command == command]


def time_of(text: str) -> datetime:
    """Read a time as it stands in the ledger; one without a zone is UTC."""
    at = datetime.fromisoformat(text)
    return at if at.tzinfo else at.replace(tzinfo=UTC)
