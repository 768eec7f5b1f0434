"""Processes of a trial: who belongs to it, how much memory they hold, and their end."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path

MARKER = "INFRARSI_TRIAL"
"""The environment variable that marks every process of a trial."""


@dataclass
class Usage:
    """What a process tree has used so far, sampled from ``/proc``."""

    peak_data_bytes: int = 0
    """Largest VmData of any one process: the unit that RLIMIT_DATA caps."""
    cpu_s_by_pid: dict[int, float] = field(default_factory=dict)

    @property
    def cpu_s(self) -> float:
        """CPU seconds of all processes seen, as of their last sample."""
        return sum(self.cpu_s_by_pid.values())


_SET_CHILD_SUBREAPER = 36
"""Of ``linux/prctl.h``."""
_GENERATIONS = 50
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def tree_of_process(pid: int) -> list[int]:
    """Give a process and all its living descendants."""
    found, queue = [], [pid]
    while queue:
        each = queue.pop()
        found.append(each)
        try:
            tasks = list(Path(f"/proc/{each}/task").iterdir())
        except OSError:
            continue
        for task in tasks:
            with contextlib.suppress(OSError):
                queue += map(int, (task / "children").read_text().split())
    return found


def sample_data(pids: list[int], usage: Usage) -> None:
    """Raise the peak of process data where a process now holds more."""
    for pid in pids:
        try:
            content = Path(f"/proc/{pid}/status").read_bytes()
        except OSError:
            continue
        start = content.find(b"VmData:")
        if start >= 0:
            held = int(content[start + 7 : content.index(b"kB", start)]) * 1024
            usage.peak_data_bytes = max(usage.peak_data_bytes, held)


def sample_cpu(pids: list[int], usage: Usage) -> None:
    """Note the CPU seconds of each process."""
    for pid in pids:
        with contextlib.suppress(OSError, IndexError, ValueError):
            fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            usage.cpu_s_by_pid[pid] = (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def adopt_orphans() -> frozenset[int]:
    """Have the kernel make orphans of our descendants our children; give those that we have now.

    An orphan that cleared its environment bears no mark; it is known by whose child it became.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    return frozenset(tree_of_process(os.getpid()))


def kill_tree(pid: int, *, mark: str, before: frozenset[int] | None = None) -> list[int]:
    """Kill a process, all its descendants, and whatever else belongs to the trial.

    That is what bears its mark, and what became our child since ``before``. Gives the processes
    that had left the tree.
    """
    tree = tree_of_process(pid)
    for each in reversed(tree):
        _kill(each)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    left = set(kill_marked(mark))
    if before is not None:
        left |= _kill_adopted(before | {pid})
    return sorted(left.difference(tree))


def _kill_adopted(before: frozenset[int]) -> set[int]:
    """Kill and reap what became our child or a descendant of one; give what it was."""
    found: set[int] = set()
    for _ in range(_GENERATIONS):  # the children of what is killed become ours in turn
        adopted = set(tree_of_process(os.getpid())) - before
        if not adopted:
            break
        for each in adopted:
            _kill(each)
        for each in adopted:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(each, 0)
        found |= adopted
    return found


def kill_marked(mark: str, *, patience_s: float = 5.0) -> list[int]:
    """Kill every process whose mark begins so, wherever it went; give which there were.

    Waits until they are gone, or for ``patience_s`` seconds.
    """
    deadline = time.monotonic() + patience_s
    seen: set[int] = set()
    while True:
        marked = _marked(mark)
        for pid in marked:
            _kill(pid)
        seen.update(marked)
        if not marked or time.monotonic() > deadline:
            return sorted(seen)
        time.sleep(0.02)


def _marked(mark: str) -> list[int]:
    wanted = f"{MARKER}={mark}".encode()
    found = []
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            variables = Path(f"/proc/{entry.name}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if any(each.startswith(wanted) for each in variables):
            found.append(int(entry.name))
    return found


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)
