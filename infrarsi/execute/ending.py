"""How a program that ended by itself came to its end, in one sentence."""

from __future__ import annotations

import re
from dataclasses import dataclass

from infrarsi.execute.disk import is_out_of_space
from infrarsi.execute.memory_errors import memory_failure
from infrarsi.records.trial import Outcome

_LAST_BYTES = 20_000
_EXCEPTION = re.compile(
    r"(?:\[rank\d+\]:\s*)?[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit)\b(?::|$)"
)
_LAUNCHERS = re.compile(r"ChildFailedError|CalledProcessError|ProcessRaisedException")


@dataclass(frozen=True)
class Ending:
    """What is known of a program that has ended."""

    exit_code: int
    """A negative one is a signal."""
    log: bytes
    """The end of its output."""
    last_update: int
    fault_memory: str | None = None
    """What the witness said of its exception: ``yes``, ``no`` or ``ambiguous``."""
    fault_text: str | None = None


def explain(ending: Ending) -> tuple[Outcome, str]:
    """Give the outcome of a launch whose program ended before its stop, and why."""
    said = ending.log[-_LAST_BYTES:].decode(errors="replace")
    last, code = ending.last_update, ending.exit_code
    if code == 0:
        return Outcome.CRASHED, f"it ended by itself after update {last}, before its hidden stop"
    memory = memory_failure(said, exit_code=code)
    if ending.fault_memory in {"yes", "ambiguous"} and memory != "yes":
        memory = "yes" if ending.fault_memory == "yes" else "ambiguous"
    text = ending.fault_text or last_words(said)
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    if memory == "yes":
        return Outcome.OOM, f"out of memory after update {last}: {text}"
    if is_out_of_space(f"{ending.fault_text or ''}\n{said}"):
        return Outcome.HARNESS_ERROR, f"a disk was full after update {last}: {text}"
    if memory == "ambiguous":
        return Outcome.AMBIGUOUS_MEMORY, (
            f"perhaps out of memory ({how}) after update {last}: {text}"
        )
    return Outcome.CRASHED, f"it failed with {how} after update {last}: {text}"


def last_words(said: str) -> str:
    """Give the line that tells most: the last exception, else the last line that was shown.

    Progress bars come after an exception as they are closed, and launchers frame their own.
    """
    shown = [line.rsplit("\r", 1)[-1].strip() for line in said.splitlines()]
    lines = [line for line in shown if line]
    telling = (
        line for line in reversed(lines) if _EXCEPTION.match(line) and not _LAUNCHERS.search(line)
    )
    return next(telling, lines[-1] if lines else "it printed nothing")
