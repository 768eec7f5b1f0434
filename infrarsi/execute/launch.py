"""One launch of a training command: watched, stopped at a hidden update, and killed whole."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from infrarsi.execute.channel import Channel
from infrarsi.execute.memory_errors import memory_failure
from infrarsi.execute.process import (
    MARKER,
    Usage,
    kill_tree,
    sample_cpu,
    sample_data,
    tree_of_process,
)
from infrarsi.execute.sandbox import (
    Room,
    Tier,
    allowed_environment,
    contain,
    limit_data,
    seen_root,
    seen_scratch,
)
from infrarsi.records.trial import Outcome

_POLL_S = 0.01
_TREE_S = 0.1
_LOG_BYTES = 1 << 20
_VALUES_PATIENCE = 10
"""Updates past the stop within which late values (read without a sync) must arrive."""


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
    cap_bytes: int | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    unset: tuple[str, ...] = ()


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
    with tempfile.TemporaryDirectory(prefix=f"infrarsi-{os.getpid()}-") as short:
        # A Unix socket's path may not exceed 107 bytes, and a repository's can.
        link = Path(short) / "s"
        link.symlink_to(plan.room.scratch)
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
        self.usage = Usage()
        self.log = bytearray()
        self.pids: list[int] = []
        self.stray_pids: tuple[int, ...] = ()

    def run(self) -> Launch:
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
            self.stray_pids = tuple(kill_tree(process.pid, mark=self.plan.mark))
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
                reason = (
                    f"it had not reached its stop after {self.plan.deadline_s:.0f} s; "
                    f"the last update seen was {self.channel.last_update}"
                )
                return self._launch(Outcome.HUNG, reason, wall_s, None)
            case _:
                outcome, reason = self._explain_exit(process.returncode)
                return self._launch(outcome, reason, wall_s, process.returncode)

    def _start(self) -> subprocess.Popen[bytes]:
        plan = self.plan
        argv = limit_data(plan.argv, plan.cap_bytes)
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
        options = {**plan.witness_options, "channel": str(scratch / "channel")}
        if plan.tier is Tier.PROCESS_GROUP:
            options["channel"] = str(self.channel.place)
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
        }

    def _watch(self, process: subprocess.Popen[bytes], started: float) -> str:
        """Wait for the stop, the deadline or the program's own end; say which came first."""
        next_tree = 0.0
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
                sample_data(self.pids, self.usage)
                if self._has_reached_stop():
                    return "stop"
                if process.poll() is not None:
                    return "exit"
                if now - started > self.plan.deadline_s:
                    return "deadline"

    def _has_reached_stop(self) -> bool:
        stop, channel = self.plan.stop_update, self.channel
        if channel.last_update < stop:
            return False
        return channel.last_values >= self.plan.values_until or (
            channel.last_update >= stop + _VALUES_PATIENCE
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

    def _explain_exit(self, exit_code: int) -> tuple[Outcome, str]:
        said = self.log[-20_000:].decode(errors="replace")
        memory = memory_failure(said, exit_code=exit_code)
        if self.channel.fault_memory in {"yes", "ambiguous"} and memory != "yes":
            memory = "yes" if self.channel.fault_memory == "yes" else "ambiguous"
        last = self.channel.last_update
        text = self.channel.fault_text or _last_line(said)
        if exit_code == 0:
            return Outcome.CRASHED, (
                f"it ended by itself after update {last}, before its hidden stop"
            )
        how = f"signal {-exit_code}" if exit_code < 0 else f"exit code {exit_code}"
        match memory:
            case "yes":
                return Outcome.OOM, f"out of memory after update {last}: {text}"
            case "ambiguous":
                return Outcome.AMBIGUOUS_MEMORY, (
                    f"perhaps out of memory ({how}) after update {last}: {text}"
                )
            case _:
                return Outcome.CRASHED, f"it failed with {how} after update {last}: {text}"

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


def _last_line(said: str) -> str:
    """Give the last line that was shown, past any progress bar's carriage returns."""
    lines = [line.rsplit("\r", 1)[-1].strip() for line in said.splitlines()]
    return next((line for line in reversed(lines) if line), "it printed nothing")


def prepare_scratch(scratch: Path, *, cache: Path | None) -> None:
    """Make a trial's own folders, with a private copy of a compile cache where there is one."""
    (scratch / "tmp").mkdir(parents=True, exist_ok=True)
    if cache is not None and cache.exists():
        shutil.copytree(cache, scratch / "cache", symlinks=True)
    (scratch / "cache").mkdir(exist_ok=True)


def keep_cache(scratch: Path, cache: Path) -> None:
    """Keep the compile cache that a cold launch filled, for later launches to copy."""
    if cache.exists() or not any((scratch / "cache").iterdir()):
        return
    cache.parent.mkdir(parents=True, exist_ok=True)
    draft = cache.with_name(f"{cache.name}.{os.getpid()}")
    shutil.rmtree(draft, ignore_errors=True)
    with contextlib.suppress(OSError):
        shutil.copytree(scratch / "cache", draft, symlinks=True)
        draft.replace(cache)


def run_plainly(argv: Sequence[str], *, timeout_s: float) -> subprocess.CompletedProcess[str]:
    """Run a short command outside any trial, with the trials' environment."""
    return subprocess.run(
        list(argv), env=allowed_environment(os.environ), capture_output=True, text=True,
        timeout=timeout_s, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
