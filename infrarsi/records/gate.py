"""What the gate found: one check a question, each with its reason."""

from __future__ import annotations

from typing import Literal

from infrarsi.records.base import Record
from infrarsi.records.estimate import Estimate
from infrarsi.records.verdict import Ruling, Verdict


class GateCheck(Record):
    """One question that the gate put, and what came of it."""

    check: str
    """``tree``, ``signature``, ``verdict`` and so on; see docs/gate.md."""
    ruling: Ruling
    reason: str
    hint: str = ""
    """What to do, where it is no pass."""


class GateReport(Record):
    """All that the gate says of one change, or of what stands."""

    kind: Literal["none", "withdrawn", "promotion", "standing"]
    """``none``: the change is no promotion. ``withdrawn``: it takes one away. ``promotion``: it
    brings one. ``standing``: nothing changes, and the tree holds one."""
    base: str
    """The commit that contract, rules and signers were taken from."""
    head: str
    subject: str = ""
    """Short id of the promoted candidate."""
    ruling: Ruling
    checks: tuple[GateCheck, ...] = ()
    speedup: Estimate | None = None
    """As the bundle's evidence gives it under today's rules."""
    rerun: Verdict | None = None
    """What a confirmation on this machine came to, where one was asked for."""
    revert_branch: str | None = None
    """The local branch that takes back a promotion that no longer holds."""

    @property
    def refusals(self) -> tuple[GateCheck, ...]:
        """The checks that kept it from passing, the worst first."""
        return tuple(
            each
            for ruling in (Ruling.FAIL, Ruling.INCONCLUSIVE)
            for each in self.checks
            if each.ruling is ruling
        )
