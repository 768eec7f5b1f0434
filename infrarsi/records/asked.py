"""What one call of a language model came to: an event of the ledger."""

from __future__ import annotations

from typing import Literal, TypeAlias

from pydantic import Field

from infrarsi.records.base import Record
from infrarsi.records.candidate import Candidate, Effect, Patch

AskedOutcome: TypeAlias = Literal[
    "ok",  # it gave ideas, or said that it has none
    "refused",  # it would not help
    "truncated",  # its reply was cut off
    "unreadable",  # its reply holds no ideas in the form asked for
    "unreachable",  # no server, a server error, or no reply in time
    "rate_limited",
    "unauthorized",  # the server did not accept the key
    "rejected",  # the server did not accept the call: no such model, a bad request
]

ANSWERED: frozenset[AskedOutcome] = frozenset({"ok", "refused", "truncated", "unreadable"})
"""Outcomes in which a model replied: these count towards ``max_calls``."""


class DeclinedIdea(Record):
    """An idea that was refused whole, and why, in words that its proposer can mend it by."""

    name: str
    because: str


class Setting(Record):
    """A candidate that a proposer wants tried: knob values, with patches that are known."""

    candidate: Candidate
    reason: str
    log_time: Effect = Effect()
    """Its proposer's word on log(update time of it / of the reference)."""
    log_memory: Effect = Effect()


class Asked(Record):
    """One call of a language model."""

    provider: str
    model: str
    host: str
    """Where the prompt went."""
    mending: bool = False
    """Whether it was asked to mend ideas that were declined before."""
    after_trials: int = Field(default=0, ge=0)
    """Trials that had taught something when it was asked."""
    outcome: AskedOutcome
    note: str = ""
    """What a person should know of it, in one sentence."""
    input_tokens: int | None = None
    """As the server reported them; ``None`` where it did not."""
    output_tokens: int | None = None
    usd: float | None = None
    """``None`` where a price or a number of tokens is not known."""
    wall_s: float
    """Retries and pauses included."""
    attempts: int = 1
    patches: tuple[Patch, ...] = ()
    settings: tuple[Setting, ...] = ()
    declined: tuple[DeclinedIdea, ...] = ()
    incompatible: tuple[tuple[str, str], ...] = ()
    """All pairs of patches known after this call that must not stand together."""
    redactions: int = 0
    """Secrets that were taken out of the prompt."""
    left_out: tuple[str, ...] = ()
    """Files that the prompt does not show, each with the reason."""
    prompt_digest: str | None = None
    """SHA-256 of the prompt in the artifact store."""
    reply_digest: str | None = None
    """SHA-256 of the raw reply in the artifact store."""

    @property
    def was_answered(self) -> bool:
        """Whether a model replied, whatever it said."""
        return self.outcome in ANSWERED

    @property
    def can_be_mended(self) -> bool:
        """Whether asking again with the reasons may turn declined ideas into patches."""
        return bool(self.declined) and self.outcome in {"ok", "truncated", "unreadable"}
