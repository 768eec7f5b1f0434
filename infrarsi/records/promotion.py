"""A Promotion: a confirmed candidate on a branch."""

from __future__ import annotations

from infrarsi.records.base import Record
from infrarsi.records.candidate import Candidate


class Promotion(Record):
    """What apply put where, so that it can be undone."""

    candidate: Candidate
    branch: str
    commit: str
    base_commit: str
    verdict_digest: str
    evidence_digest: str
    """SHA-256 over the evidence digests of all confirmation trials, in order."""
    statement_digest: str | None = None
    """SHA-256 of the statement on the branch. ``None``: promoted before there were any."""
    signed_with: str | None = None
    """The key that signed it, as it was named. ``None``: it is not signed."""
