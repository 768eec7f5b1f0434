"""One launch of a training command: watched, stopped at a hidden update, and killed whole."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from infrarsi.execute.channel import Channel
from infrarsi.execute.disk import FLOOR_BYTES, free_bytes
from infrarsi.execute.ending import Ending, explain, hung
from infrarsi.execute.keeping import KEPT, Keep, Keeping
from infrarsi.execute.process import (
    MARKER,
    Usage,
    adopt_orphans,
    kill_tree,
    sample_cpu,
    sample_data,
    tree_of_process,
)
from infrarsi.execute.rendezvous import (
    free_port,
    loopback_environment,
    meeting_environment,
    with_own_meeting_place,
)
from infrarsi.execute.sandbox import (
    DOOR,
    Room,
    Tier,
    allowed_environment,
    contain,
    limit_data,
    seen_root,
    seen_scratch,
)
from infrarsi.execute.scratch import short_folder
from infrarsi.records.trial import Outcome

_POLL_S = 0.01
_TREE_S = 0.1
_PULSE_S = 1.0
_LOG_BYTES = 1 << 20
_PATIENCE_UPDATES = 10
"""Updates past the stop that the first rank may make while the others, or late values (read
without a sync), are waited for."""


@dataclass(frozen=True)
class LaunchPlan:
    """All that a launch needs."""

    mark: str
    """Borne by every process of the launch, so that none can hide: ``<checkout>/<trial>/``."""
    argv: tuple[str, ...]
    folder: str
    room: Room
    tier: Tier
    witness: Path
    """The folder that goes on the child's ``PYTHONPATH``."""
    witness_options: Mapping[str, Any]
    stop_update: int
    """The hidden update at which the launch has done its work and is killed."""
    values_until: int
    """The update whose values must have come before it is killed."""
    deadline_s: float
    fault_grace_s: float = 10.0
    """How long a launch may go on after an exception was told of: one rank's end must not wait
    for the others' timeouts."""
    keep: Keep | None = None
    """The state to keep after the stop, before the launch is killed."""
    cap_bytes: int | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    pulse: Path | None = None
    """A file that is touched once a second while the launch lives."""


@dataclass(frozen=True)
class Launch:
    """What one launch came to."""

    outcome: Outcome
    reason: str
    events: bytes
    """The stamped lines of the witness's channel."""
    log: bytes
    """The end of the program's output."""
    wall_s: float
    cpu_s: float
    peak_data_bytes: int
    exit_code: int | None
    """``None`` where the parent ended it."""
    last_update: int
    spoke: bool
    stray_pids: tuple[int, ...] = ()
    """Processes that had left the program's tree and outlived it."""


def launch(plan: LaunchPlan) -> Launch:
    """Start a training command, watch it, and end it and all that it started.

    Never raises for what the program does; a program that cannot be started is a crash.
    """
    with short_folder() as short:
        # A Unix socket's path may not exceed 107 bytes, and a repository's can.
        door, link = plan.room.scratch / DOOR, short / "s"
        door.mkdir(exist_ok=True)
        link.symlink_to(door)
        channel = Channel(link / "channel")
        try:
            return _Watch(plan, channel).run()
        finally:
            channel.close()


class _Watch:
    """The state of one launch while it runs."""

    def __init__(self, plan: LaunchPlan, channel: Channel) -> None:
        self.plan = plan
        self.channel = channel
        # A contained launch has a network, and with it all ports, of its own.
        self.port = free_port() if plan.tier is Tier.PROCESS_GROUP else None
        self.usage = Usage()
        self.log = bytearray()
        self.pids: list[int] = []
        self.stray_pids: tuple[int, ...] = ()
        self.keeping = Keeping(plan.keep, folder=seen_scratch(plan.room, plan.tier) / KEPT)
        self.reached = False

    def run(self) -> Launch:
        before = adopt_orphans()
        started = time.monotonic()
        self.channel.start_clock()
        try:
            process = self._start()
        except OSError as error:
            return self._launch(Outcome.CRASHED, f"it could not be started: {error}", 0.0, None)
        try:
            with _watchful():
                ended_by = self._watch(process, started)
            if ended_by == "exit":
                process.wait()
        finally:
            sample_cpu(self.pids, self.usage)
            self.stray_pids = tuple(kill_tree(process.pid, mark=self.plan.mark, before=before))
            process.wait()
            if process.stdout is not None:
                self._read_log(process.stdout)
                process.stdout.close()
            self.channel.drain()
        wall_s = time.monotonic() - started
        match ended_by:
            case "stop":
                return self._launch(Outcome.OK, "", wall_s, None)
            case "deadline":
                reason = hung(self._ending(None), deadline_s=self.plan.deadline_s)
                return self._launch(Outcome.HUNG, reason, wall_s, None)
            case "space":
                reason = (
                    f"the disk was nearly full after update {self.channel.last_update}, and it was "
                    f"ended while {FLOOR_BYTES >> 20} MiB were left"
                )
                return self._launch(Outcome.HARNESS_ERROR, reason, wall_s, None)
            case "fault":
                outcome, reason = explain(self._ending(None))
                return self._launch(outcome, reason, wall_s, None)
            case _:
                outcome, reason = explain(self._ending(process.returncode))
                return self._launch(outcome, reason, wall_s, process.returncode)

    def _start(self) -> subprocess.Popen[bytes]:
        plan = self.plan
        argv = with_own_meeting_place(plan.argv, port=self.port)
        argv = limit_data(argv, plan.cap_bytes)
        process = subprocess.Popen(
            contain(argv, plan.room, tier=plan.tier, folder=plan.folder),
            cwd=plan.room.tree / plan.folder, env=self._environment(), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, process_group=0,
        )  # fmt: skip
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        return process

    def _environment(self) -> dict[str, str]:
        plan = self.plan
        env = allowed_environment(os.environ) | dict(plan.env)
        for name in plan.unset:
            env.pop(name, None)
        scratch = seen_scratch(plan.room, plan.tier)
        paths = [str(plan.witness), *filter(None, [env.get("PYTHONPATH")])]
        options = {**plan.witness_options, "channel": str(scratch / DOOR / "channel")}
        if plan.tier is Tier.PROCESS_GROUP:
            options["channel"] = str(self.channel.place)
            options["moved"] = [str(plan.room.tree), str(plan.room.root)]
        return env | {
            "PYTHONPATH": os.pathsep.join(paths),
            "PYTHONUNBUFFERED": "1",
            "INFRARSI_WITNESS": json.dumps(options),
            MARKER: plan.mark,
            "TMPDIR": str(scratch / "tmp"),
            "TORCHINDUCTOR_CACHE_DIR": str(scratch / "cache" / "inductor"),
            "TRITON_CACHE_DIR": str(scratch / "cache" / "triton"),
            "TORCH_EXTENSIONS_DIR": str(scratch / "cache" / "extensions"),
            "PWD": str(seen_root(plan.room, plan.tier) / plan.folder),
            **meeting_environment(os.environ, port=self.port),
            **(loopback_environment() if plan.tier is Tier.BUBBLEWRAP else {}),
        }

    def _watch(self, process: subprocess.Popen[bytes], started: float) -> str:
        """Wait for the stop, the deadline, a full disk or the end; say which came first."""
        next_tree = next_pulse = 0.0
        with selectors.DefaultSelector() as selector:
            self.channel.register(selector)
            selector.register(process.stdout, selectors.EVENT_READ, self._read_log)  # type: ignore[arg-type]
            while True:
                for key, _ in selector.select(_POLL_S):
                    if key.data(key.fileobj) is None and key.fileobj is process.stdout:
                        selector.unregister(key.fileobj)
                now = time.monotonic()
                if now >= next_tree:
                    self.pids = tree_of_process(process.pid)
                    sample_cpu(self.pids, self.usage)
                    next_tree = now + _TREE_S
                if self.plan.pulse is not None and now >= next_pulse:
                    with contextlib.suppress(OSError):  # a full disk must not end a launch
                        self.plan.pulse.touch()
                    next_pulse = now + _PULSE_S
                    if free_bytes(self.plan.room.scratch) < FLOOR_BYTES:
                        return "space"
                sample_data(self.pids, self.usage)
                ended_by = self._ended_by(process, now=now, started=started)
                if ended_by is not None:
                    return ended_by

    def _ended_by(
        self, process: subprocess.Popen[bytes], *, now: float, started: float
    ) -> str | None:
        ended = process.poll() is not None
        self.reached = self.reached or self._has_reached_stop()
        if self.reached:
            # All that was timed is done; only the keeping of a state may be waited for.
            late = now - started > self.plan.deadline_s
            return "stop" if self.keeping.is_over(self.channel) or ended or late else None
        if ended:
            return "exit"
        fault_s = self.channel.fault_s
        if fault_s is not None and now - fault_s > self.plan.fault_grace_s:
            return "fault"
        return "deadline" if now - started > self.plan.deadline_s else None

    def _has_reached_stop(self) -> bool:
        stop, channel = self.plan.stop_update, self.channel
        leading = max(channel.ended.values(), default=0)
        if leading < stop:
            return False
        return channel.all_have(stop, values=self.plan.values_until) or (
            leading >= stop + _PATIENCE_UPDATES
        )

    def _read_log(self, stdout: Any) -> bool | None:
        """Take what the program printed; ``None`` once it has closed its output."""
        received = b"-"
        while received:
            try:
                received = os.read(stdout.fileno(), 1 << 16)
            except BlockingIOError:
                return True
            except (OSError, ValueError):
                return None
            self.log += received
            if len(self.log) > 2 * _LOG_BYTES:
                del self.log[:-_LOG_BYTES]
        return None

    def _ending(self, exit_code: int | None) -> Ending:
        channel = self.channel
        return Ending(
            exit_code=exit_code, log=bytes(self.log), last_update=channel.last_update,
            fault_memory=channel.fault_memory, fault_text=channel.fault_text,
        )  # fmt: skip

    def _launch(
        self, outcome: Outcome, reason: str, wall_s: float, exit_code: int | None
    ) -> Launch:
        return Launch(
            outcome=outcome, reason=reason[:500], events=b"\n".join(self.channel.lines) + b"\n",
            log=bytes(self.log[-_LOG_BYTES:]), wall_s=wall_s, cpu_s=self.usage.cpu_s,
            peak_data_bytes=self.usage.peak_data_bytes, exit_code=exit_code,
            last_update=self.channel.last_update, spoke=self.channel.spoke,
            stray_pids=self.stray_pids,
        )  # fmt: skip


@contextlib.contextmanager
def _watchful() -> Iterator[None]:
    """Let the parent wake up promptly where it may, so that stamps are not late under load."""
    before = os.getpriority(os.PRIO_PROCESS, 0)
    with contextlib.suppress(PermissionError, OSError):
        os.setpriority(os.PRIO_PROCESS, 0, min(before, -10))
    try:
        yield
    finally:
        with contextlib.suppress(PermissionError, OSError):
            os.setpriority(os.PRIO_PROCESS, 0, before)
