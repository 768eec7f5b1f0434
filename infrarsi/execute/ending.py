"""How a program that ended by itself came to its end, in one sentence."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass

from infrarsi.execute.disk import is_out_of_space
from infrarsi.execute.memory_errors import memory_failure
from infrarsi.records.evidence import is_echo
from infrarsi.records.trial import Outcome

_LAST_BYTES = 20_000
_EXCEPTION = re.compile(
    r"(?:\[rank\d+\]:\s*)?[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit)\b(?::|$)"
)
_LAUNCHERS = re.compile(r"ChildFailedError|CalledProcessError|ProcessRaisedException")
_RANK = re.compile(r"\[rank(\d+)\]:\s*")
_SAID_BY = re.compile(r"^rank \d+: ")
_KILLED = re.compile(
    r"^\s*rank\s*:\s*(?P<rank>\d+)\b.*\n\s*exitcode\s*:\s*-(?P<number>\d+)\b"
    r"|process (?P<process>\d+) terminated with signal (?P<name>SIG[A-Z]+)",
    re.MULTILINE,
)
"""What launchers say of a rank that a signal ended."""


@dataclass(frozen=True)
class Ending:
    """What is known of a program that has ended."""

    exit_code: int | None
    """A negative one is a signal; ``None`` where the parent ended it."""
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
    text, killed_by = _cause(ending, said)
    memory = memory_failure(said, exit_code=code if killed_by is None else -killed_by)
    if ending.fault_memory in {"yes", "ambiguous"} and memory != "yes":
        memory = "yes" if ending.fault_memory == "yes" else "ambiguous"
    how = "its exception" if code is None else f"exit code {code}"
    if code is not None and code < 0:
        how = f"signal {-code}"
    if memory == "yes":
        return Outcome.OOM, f"out of memory after update {last}: {text}"
    if is_out_of_space(f"{ending.fault_text or ''}\n{said}"):
        return Outcome.HARNESS_ERROR, f"a disk was full after update {last}: {text}"
    if memory == "ambiguous":
        return Outcome.AMBIGUOUS_MEMORY, (
            f"perhaps out of memory ({how}) after update {last}: {text}"
        )
    return Outcome.CRASHED, f"it failed with {how} after update {last}: {text}"


def hung(ending: Ending, *, deadline_s: float) -> str:
    """Say how far a launch came by its deadline, with an exception that one of its ranks showed."""
    words = last_words(ending.log[-_LAST_BYTES:].decode(errors="replace"))
    bare = _SAID_BY.sub("", words)
    shown = f"; it had shown {words}" if _EXCEPTION.match(bare) else ""
    return (
        f"it had not reached its stop after {deadline_s:.0f} s; the last update seen was "
        f"{ending.last_update}{shown}"
    )


def _cause(ending: Ending, said: str) -> tuple[str, int | None]:
    """Give what ended it in words, and the signal where that ended one of its ranks.

    Of several ranks the others' exceptions only say that one is gone: those come last.
    """
    fault = ending.fault_text
    if fault is not None and not is_echo(fault):
        return fault, None
    killed, words = _killed_rank(said), last_words(said)
    # A rank that aborts as it leaves has said before why it leaves.
    aborts = killed is not None and killed[1] == signal.SIGABRT
    if killed is not None and not (aborts and _EXCEPTION.search(words) and not is_echo(words)):
        rank, number = killed
        return f"rank {rank} was killed by signal {number}", number
    return (words if fault is None or not is_echo(words) else fault), None


def _killed_rank(said: str) -> tuple[int, int] | None:
    """Give the rank that a signal ended and its number; a launcher ends the others by SIGTERM."""
    for match in _KILLED.finditer(said):
        named = match["name"]
        number = int(match["number"] or getattr(signal, named or "", 0))
        if number not in {0, signal.SIGTERM}:
            return int(match["rank"] or match["process"] or 0), number
    return None


def last_words(said: str) -> str:
    """Give the line that tells most: the last exception, else the last line that was shown.

    Progress bars come after an exception as they are closed, launchers frame their own, and
    other ranks say that one is gone.
    """
    shown = [line.rsplit("\r", 1)[-1].strip() for line in said.splitlines()]
    lines = [line for line in shown if line]
    telling = [
        line for line in reversed(lines) if _EXCEPTION.match(line) and not _LAUNCHERS.search(line)
    ]
    own = [line for line in telling if not is_echo(line)]
    found = next(iter((*own, *telling, *reversed(lines))), "it printed nothing")
    return _RANK.sub(r"rank \1: ", found, count=1)
