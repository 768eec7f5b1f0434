"""What a stage works on: a repository, its locked contract, and what is remembered of it."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from infrarsi.edits.surface import within_surface
from infrarsi.errors import UsageError
from infrarsi.execute.choosing import of_contract
from infrarsi.execute.interpreter import Interpreter
from infrarsi.execute.machine import fingerprint
from infrarsi.execute.process import kill_marked
from infrarsi.execute.repository import Repository, find_repository
from infrarsi.execute.sandbox import Tier, probe_tier
from infrarsi.execute.scratch import short_places
from infrarsi.execute.worktree import sweep_worktrees
from infrarsi.records.event import Event
from infrarsi.records.machine import Machine
from infrarsi.records.plan import Contract, Lock
from infrarsi.records.task import ConfigKey, Surface
from infrarsi.stages.periods import time_of
from infrarsi.store.artifacts import Artifacts
from infrarsi.store.contract import CONTRACT_FILE, check_lock, read_contract
from infrarsi.store.ledger import LEDGER_FILE, Ledger, open_ledger, read_ledger

STATE_FOLDER = ".infrarsi"


@dataclass
class Workspace:
    """A repository under a locked contract."""

    repository: Repository
    contract: Contract
    lock: Lock
    ledger: Ledger
    notes: tuple[str, ...] = ()
    """What the user should hear: what was mended or cleared away as it was opened."""
    state: Path | None = None
    """Where everything of ours is kept, where that is not in the checkout."""

    @property
    def root(self) -> Path:
        """The user's checkout."""
        return self.repository.root

    @property
    def folder(self) -> Path:
        """Where everything of ours is kept."""
        return self.state or self.root / STATE_FOLDER

    @cached_property
    def artifacts(self) -> Artifacts:
        """The evidence, by digest."""
        return Artifacts(self.folder / "artifacts")

    @cached_property
    def tier(self) -> Tier:
        """How trials are contained here."""
        return probe_tier()

    @cached_property
    def interpreter(self) -> Interpreter:
        """The training interpreter, seen to be able to train."""
        return of_contract(self.contract.task, self.root).interpreter

    @property
    def python(self) -> str:
        """The training interpreter's path."""
        return str(self.interpreter.executable)

    @cached_property
    def machine(self) -> Machine:
        """The machine, as the training interpreter sees it now."""
        return fingerprint(self.python, self.tier)

    @property
    def pulse(self) -> Path:
        """A file that is touched while a launch lives: what a killed command leaves to tell by."""
        return self.folder / "pulse"

    @property
    def kept(self) -> Path:
        """The states that launches of a confirmation have kept, until they are replayed."""
        return self.folder / "kept"

    def begin(self, command: str) -> Event:
        """Record that a command sets to work: from here on its time and machine are charged."""
        accelerators = len(self.machine.accelerators)
        return self.ledger.append("began", {"command": command, "num_accelerators": accelerators})

    @property
    def mark(self) -> str:
        """The beginning of the mark that every process of this checkout's trials bears."""
        return mark_of(self.root)

    @cached_property
    def tracked(self) -> tuple[str, ...]:
        """All files of the locked commit."""
        return self.repository.tracked(self.lock.commit)

    @cached_property
    def gitlinks(self) -> dict[str, str]:
        """Each submodule of the locked commit, by path, and the commit that it is locked at."""
        return self.repository.gitlinks(self.lock.commit)

    @cached_property
    def editable(self) -> tuple[str, ...]:
        """The files of the locked commit that a patch may edit."""
        surface = self.contract.task.surface
        return tuple(path for path in self.tracked if within_surface(path, surface))

    @cached_property
    def sources(self) -> dict[str, bytes]:
        """Contents, at the locked commit, of editable files and knobs' configuration files."""
        return sources_at(self.repository, self.lock.commit, self.contract.task.surface)

    @property
    def hidden_mark(self) -> int:
        """An update within the window at which the witness takes a mark, drawn by the lock."""
        window = self.contract.task.window
        return (
            window.warmup_updates + 1 + int(self.lock.digest(), 16) % (window.measured_updates - 1)
        )

    def stop_update(self, replicate: int, *, arm: str = "") -> int:
        """Give the hidden update at which a launch is stopped: drawn, yet the same on replay.

        Even and odd replicates stop about ten updates apart, so that over many launches the
        slope of whole-launch time can be told.
        """
        drawn = hashlib.sha256(f"{self.lock.digest()}/{arm}/{replicate}".encode()).digest()[0]
        return self.contract.task.window.last_update + 2 + drawn % 4 + 10 * (replicate % 2)


def sources_at(repository: Repository, commit: str, surface: Surface) -> dict[str, bytes]:
    """Give the contents of editable files and knobs' configuration files in a commit or tree."""
    editable = [path for path in repository.tracked(commit) if within_surface(path, surface)]
    configured = {k.reach.file for k in surface.knobs if isinstance(k.reach, ConfigKey)}
    return repository.read(commit, [*editable, *sorted(configured)])


def mark_of(root: Path) -> str:
    """Give the mark of a checkout's trials: short, and its own."""
    return hashlib.sha256(str(root).encode()).hexdigest()[:12] + "/"


@contextlib.contextmanager
def open_workspace(start: Path, *, command: str) -> Iterator[Workspace]:
    """Hold a locked workspace for a stage that writes, and clear up after a killed one.

    Raises
    ------
    InfraRSIError
        No repository, no contract, no lock; something locked has changed; the ledger was
        altered, or another command holds it.
    """
    repository = find_repository(start)
    contract = read_contract(repository.root / CONTRACT_FILE)
    folder = repository.root / STATE_FOLDER
    if not (folder / LEDGER_FILE).exists():
        raise _unlocked(repository.root)
    with open_ledger(folder, command=command) as ledger:
        workspace = Workspace(repository, contract, _lock_in(ledger, repository.root), ledger)
        check_lock(repository.root, contract, workspace.lock)
        notes = [ledger.repaired] if ledger.repaired else []
        workspace.notes = (*notes, *clear_leftovers(workspace))
        yield workspace


def read_workspace(start: Path) -> Workspace:
    """Give a workspace for a stage that only reads: it holds nothing and checks no lock."""
    repository = find_repository(start)
    contract = read_contract(repository.root / CONTRACT_FILE)
    ledger = read_ledger(repository.root / STATE_FOLDER)
    return Workspace(repository, contract, _lock_in(ledger, repository.root), ledger)


def clear_leftovers(workspace: Workspace) -> list[str]:
    """Take away what a killed command left: processes, worktrees, sockets; close its trial.

    Gives a sentence for what the user should hear of.
    """
    orphans = kill_marked(workspace.mark)
    sweep_worktrees(workspace.repository, workspace.folder / "trees")
    shutil.rmtree(workspace.folder / "scratch", ignore_errors=True)
    shutil.rmtree(workspace.kept, ignore_errors=True)
    for place in (each for folder in short_places() for each in folder.glob("infrarsi-*-*")):
        owner = place.name.split("-")[1]
        if (
            owner.isdigit()
            and not Path(f"/proc/{owner}").exists()
            and place.stat().st_uid == os.getuid()
        ):
            shutil.rmtree(place, ignore_errors=True)
    ended = {event.body["trial_id"] for event in workspace.ledger.of_kind("trial_ended")}
    for event in workspace.ledger.of_kind("trial_started"):
        if event.body["trial_id"] not in ended:
            lived_s = _lived_s(workspace, event)
            charged = f"it is charged {lived_s:.1f} s, from its start to the last sign of it"
            why = charged if lived_s else "how long it ran is not known"
            workspace.ledger.append(
                "trial_ended",
                {**event.body, "outcome": "preempted", "wall_s": lived_s,
                 "reason": f"the command that ran it was killed; {why}"},
            )  # fmt: skip
    if not orphans:
        return []
    return [
        f"{len(orphans)} process(es) that a killed command left behind were holding memory and "
        "processors; they are stopped"
    ]


def _lived_s(workspace: Workspace, started: Event) -> float:
    """Give how long a launch lived whose command was killed, to about a second."""
    try:
        last = datetime.fromtimestamp(workspace.pulse.stat().st_mtime, UTC)
    except FileNotFoundError:
        return 0.0
    return max(0.0, (last - time_of(started.at)).total_seconds())


def _lock_in(ledger: Ledger, root: Path) -> Lock:
    """Give the last lock in a ledger; a new lock starts a new search in the same ledger."""
    locks = ledger.of_kind("locked")
    if not locks:
        raise _unlocked(root)
    return Lock.model_validate(locks[-1].body)


def _unlocked(root: Path) -> UsageError:
    return UsageError(
        f"the contract in {root} is not locked yet",
        hint="lock it with `infrarsi init` (it rehearses the command first)",
    )
