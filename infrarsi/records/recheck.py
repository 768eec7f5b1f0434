"""A Recheck: stored verdicts against what today's rules say of the same evidence."""

from __future__ import annotations

from typing import Literal

from infrarsi.records.base import Record
from infrarsi.records.estimate import Estimate
from infrarsi.records.verdict import Layer, Ruling


class CheckChange(Record):
    """One check that rules otherwise than it did."""

    layer: Layer
    check: str
    then: Ruling | None
    """``None``: it did not speak."""
    now: Ruling | None
    """``None``: it does not speak any more."""
    reason: str
    """Its reason of today; of a check that is gone, its reason of then."""


class Rejudged(Record):
    """One verdict that is another one today."""

    kind: Literal["screen", "confirm"]
    trials: tuple[str, ...]
    """The launches that it rests on."""
    candidate: str
    """The candidate's short id."""
    change: str
    """What the candidate changes, in words."""
    rules: int
    """The version of the rules that it was judged under."""
    then: Ruling
    now: Ruling
    speedup_then: Estimate | None = None
    speedup_now: Estimate | None = None
    """Of a confirmation."""
    promoted: bool = False
    """Whether a branch stands on it."""
    checks: tuple[CheckChange, ...]

    @property
    def is_overturned(self) -> bool:
        """Whether it was accepted, and would not be today."""
        return self.then is Ruling.PASS and self.now is not Ruling.PASS


class NotJudged(Record):
    """Verdicts that could not be judged again, all for one reason."""

    trials: tuple[str, ...]
    """The launches whose verdicts stay as they are."""
    num_verdicts: int
    accepted: bool
    """Whether one of the verdicts accepted its candidate: that then rests on its word alone."""
    why: str


class RulesGroup(Record):
    """The verdicts of one version of the rules."""

    rules: int
    what: str
    """What that version brought."""
    num_verdicts: int
    """Those that were judged again."""
    num_trials: int
    """The launches that they rest on."""
    changed: tuple[Rejudged, ...]


class Recheck(Record):
    """What judging every stored trial again came to."""

    schema_version: Literal[1] = 1
    rules: int
    """The version of today's rules."""
    num_trials: int
    """Stored trials of every purpose, those that were never judged too."""
    num_judged_again: int
    """Trials that a verdict rests on, and that were judged again."""
    num_verdicts: int
    """Verdicts that were reached anew."""
    num_calibrations: int
    """Baselines whose bands were derived anew from their launches."""
    groups: tuple[RulesGroup, ...]
    """By version of the rules, the newest first."""
    lost: tuple[NotJudged, ...]
    """What could not be judged again, and why."""
    notes: tuple[str, ...] = ()
    ledger_head: str
    """Digest of the last event that was looked at."""

    @property
    def changed(self) -> tuple[Rejudged, ...]:
        """Every verdict that is another one today."""
        return tuple(each for group in self.groups for each in group.changed)

    @property
    def overturned(self) -> tuple[Rejudged, ...]:
        """Those that were accepted, and would not be today."""
        return tuple(each for each in self.changed if each.is_overturned)
