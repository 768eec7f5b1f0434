"""Asking with patience: retries, pauses, a shorter prompt, and a breaker for the whole command."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from infrarsi.propose.language.clients import Answer, Form, Unanswered, load_client, send_prompt
from infrarsi.propose.language.endpoint import Endpoint
from infrarsi.propose.language.prompt import Prompt
from infrarsi.records.asked import AskedOutcome
from infrarsi.records.plan import Language

_FAILURES_THAT_OPEN = 2


@dataclass(frozen=True)
class Patience:
    """How long a call that fails is tried again."""

    attempts: int = 3
    first_pause_s: float = 0.5
    """Doubled after each attempt."""
    longest_pause_s: float = 60.0
    """A server that wants to be left alone for longer is."""


@dataclass(frozen=True)
class Consultation:
    """What one call came to."""

    prompt: Prompt
    """As it was sent last."""
    answer: Answer | None
    outcome: AskedOutcome
    note: str
    attempts: int
    wall_s: float


class Consultant:
    """A model that may be asked, until its server fails too often.

    The breaker is open after two failed calls in a row, and at once where another call would
    fail the same: a key that is not accepted, a model that is not there. It closes with the
    next command.
    """

    def __init__(
        self, endpoint: Endpoint, language: Language, *, patience: Patience | None = None
    ) -> None:
        self.endpoint = endpoint
        self._language = language
        self._patience = patience or Patience()
        self._form: Form = "structured"
        self._failures = 0
        self._failed_after = -1
        self.is_open = False

    def is_ready(self, num_trials: int) -> bool:
        """Tell whether it may be asked now; after a failure, not before another trial ended."""
        return not self.is_open and num_trials > self._failed_after

    def ask(self, write: Callable[[int], Prompt], *, num_trials: int) -> Consultation:
        """Ask once, and give what came of it; a failure is an outcome, never an exception.

        Parameters
        ----------
        write
            Writes the prompt for a budget of characters.
        num_trials
            Trials so far.
        """
        load_client(self.endpoint.provider)
        started = time.monotonic()
        attempt = _Attempt(write, self._language.max_prompt_chars)
        deadline = started + self._language.timeout_s
        while True:
            attempt.number += 1
            try:
                answer = self._send(attempt.prompt, deadline)
            except Unanswered as failure:
                if self._may_go_on(failure, attempt, deadline):
                    continue
                self._remember(failure, num_trials)
                outcome = _outcome_of(failure)
                return Consultation(
                    attempt.prompt, None, outcome, self._note(failure), attempt.number,
                    time.monotonic() - started,
                )  # fmt: skip
            self._failures, self._failed_after = 0, -1
            outcome = "refused" if answer.stop == "refusal" else "ok"
            return Consultation(
                attempt.prompt, answer, outcome, "", attempt.number, time.monotonic() - started
            )

    def _send(self, prompt: Prompt, deadline: float) -> Answer:
        left_s = deadline - time.monotonic()
        return send_prompt(
            self.endpoint, prompt, form=self._form, timeout_s=max(left_s, 0.05),
            max_output_tokens=self._language.max_output_tokens,
        )  # fmt: skip

    def _may_go_on(self, failure: Unanswered, attempt: _Attempt, deadline: float) -> bool:
        """Prepare the next attempt, where there is one that may do better."""
        match failure.failure:
            case "overflow":
                return attempt.halve()
            case "rejected" if self._form == "structured":
                self._form = "plain"  # some servers know no schemas
                return True
            case "unreachable" | "rate_limited":
                return self._pause(failure, attempt, deadline)
            case _:
                return False

    def _pause(self, failure: Unanswered, attempt: _Attempt, deadline: float) -> bool:
        attempt.failed += 1
        pause_s = failure.retry_after_s
        if pause_s is None:
            pause_s = self._patience.first_pause_s * 2 ** (attempt.failed - 1)
        too_long = pause_s > self._patience.longest_pause_s
        if attempt.failed >= self._patience.attempts or too_long:
            return False
        if time.monotonic() + pause_s >= deadline:
            return False
        time.sleep(pause_s)
        return True

    def _remember(self, failure: Unanswered, num_trials: int) -> None:
        self._failures += 1
        self._failed_after = num_trials
        lasting = failure.failure in {"unauthorized", "rejected", "overflow"}
        self.is_open = lasting or self._failures >= _FAILURES_THAT_OPEN

    def _note(self, failure: Unanswered) -> str:
        if not self.is_open:
            return failure.note
        mended = "once the key is right" if failure.failure == "unauthorized" else "later"
        return (
            f"{failure.note}; the search goes on without the language proposer, and the same "
            f"command asks again, {mended}"
        )


class _Attempt:
    """The prompt of a call, which is made shorter at most once."""

    def __init__(self, write: Callable[[int], Prompt], budget: int) -> None:
        self._write = write
        self._budget = budget
        self._is_halved = False
        self.prompt = write(budget)
        self.number = 0
        self.failed = 0

    def halve(self) -> bool:
        """Write the prompt for half the budget; ``False`` where that was done before."""
        if self._is_halved:
            return False
        self._is_halved = True
        longest = len(self.prompt.system) + len(self.prompt.user)
        self._budget = min(self._budget, longest) // 2
        self.prompt = self._write(self._budget)
        return True


def _outcome_of(failure: Unanswered) -> AskedOutcome:
    return "rejected" if failure.failure == "overflow" else failure.failure
