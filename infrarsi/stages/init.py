"""init: draft the contract from what is found, rehearse it, and lock it."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from infrarsi.edits.surface import within_surface
from infrarsi.errors import ContractError, UsageError
from infrarsi.execute.choosing import Choice, choose, of_contract
from infrarsi.execute.invocation import check_reference
from infrarsi.execute.machine import fingerprint, total_memory
from infrarsi.execute.repository import Repository, find_repository
from infrarsi.execute.sandbox import Tier, allowed_environment
from infrarsi.records.candidate import Candidate
from infrarsi.records.evidence import Evidence
from infrarsi.records.plan import Contract, Lock, Plan
from infrarsi.records.task import ConfigKey, Memory, Numerics, Surface, Task, Window, Workload
from infrarsi.records.trial import Trial
from infrarsi.stages.calibrating.reference import (
    metrics_seen,
    refuse_failed_reference,
    refuse_unseen_metrics,
)
from infrarsi.stages.drafting.batch import seen_batch
from infrarsi.stages.drafting.caveats import (
    caveats,
    named_inputs,
    refuse_machines,
    refuse_notebooks,
    script_of,
)
from infrarsi.stages.drafting.settings import draft_settings, read_program
from infrarsi.stages.launching.trial import Request, evidence_of, perform_trial
from infrarsi.stages.workspace import STATE_FOLDER, Workspace
from infrarsi.store.artifacts import Artifacts
from infrarsi.store.contract import CONTRACT_FILE, hash_files, read_contract, write_contract
from infrarsi.store.ledger import open_ledger

_REHEARSED_UPDATES = 4
_DATA_FOLDER = re.compile(r"data(sets?|_?bin|_?cache)?|inputs?|corpus|corpora")
_NOT_FOR_PATCHES = re.compile(
    r"(^|[/_])(data(set|loader)?s?|tokeni[sz]er?|eval\w*|prepare\w*|tests?|conftest|setup)([/_.]|$)"
)
"""Files that a draft keeps from patches: what feeds or measures the training."""


@dataclass(frozen=True)
class Draft:
    """What the user said at init; everything else is found."""

    command: tuple[str, ...] = ()
    name: str | None = None
    folder: str | None = None
    python: str | None = None
    memory_bytes: int | None = None
    inputs: tuple[str, ...] = ()
    editable: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    warmup_updates: int | None = None
    measured_updates: int | None = None
    relock: bool = False

    @property
    def window(self) -> Window:
        """The timed updates, where they are not the usual ones."""
        said = {
            "warmup_updates": self.warmup_updates,
            "measured_updates": self.measured_updates,
        }
        return Window(**{name: value for name, value in said.items() if value is not None})


@dataclass(frozen=True)
class Locked:
    """What init did, for showing."""

    contract: Contract
    lock: Lock
    rehearsal: Trial
    evidence: Evidence
    drafted: bool
    """Whether the contract file was written by this call."""
    interpreter: Choice
    """Which interpreter trains, and why."""
    caveats: tuple[str, ...] = ()
    """What trials see otherwise than the owner does."""

    def in_words(self) -> list[str]:
        """Say what the rehearsal saw and what was locked."""
        rows = [row for row in self.evidence.updates if row.forwards is not None]
        last, mark = rows[-1], self.evidence.marks[-1]
        loss = "not seen" if last.loss is None else f"{last.loss:.4f}"
        dtypes = {name: "/".join(sorted(counts)) for name, counts in mark.census.items()}
        peak = self.rehearsal.peak_bytes
        tokens = self.evidence.tokens_per_update or "unknown"
        world_size = self.evidence.world_size or 1
        ranks = f" on {world_size} ranks," if world_size > 1 else ""
        lines = [
            self.interpreter.in_words(),
            f"Rehearsed {last.update} updates: {tokens} tokens{ranks} in {last.forwards} "
            f"forward(s) an update, loss {loss}"
            + (f", peak memory {peak / 1e6:,.0f} MB" if peak else ""),
            f"Dtypes: {', '.join(f'{name} {kinds}' for name, kinds in dtypes.items())}",
            f"Contained by: {self.rehearsal.sandbox}",
            f"Locked: commit {self.lock.commit[:12]}, {len(self.lock.protected)} protected files, "
            f"{len(self.lock.inputs)} inputs",
        ]
        return [*lines, *self.caveats]


def lock_task(start: Path, draft: Draft) -> Locked:
    """Draft (or read), rehearse and lock a contract.

    Raises
    ------
    InfraRSIError
        The repository cannot be used, the contract cannot be read, or the command fails,
        hangs or shows no update. Nothing is locked then.
    """
    repository = find_repository(start)
    contract, choice, drafted = _contract(repository, start, draft)
    state = repository.root / STATE_FOLDER
    repository.ignore_locally(f"/{STATE_FOLDER}/")
    with open_ledger(state, command="init") as ledger:
        if ledger.of_kind("locked") and not draft.relock:
            raise UsageError(
                "this contract is locked already",
                hint=f"go on with `infrarsi doctor`, or lock {CONTRACT_FILE} as it is now with "
                "`infrarsi init --relock` (measurements start anew)",
            )
        lock = _lock(repository, contract)
        check_reference(contract.task, _configured(repository, contract, lock.commit))
        with _rehearsal_room(repository, contract, lock) as workspace:
            trial, evidence = rehearse(workspace)
        if not drafted:
            refuse_unseen_metrics(workspace, evidence)
        else:
            contract = _completed(contract, evidence, repository, lock.commit)
            contract = _with_memory(contract, draft, evidence, choice)
            lock = _lock(repository, contract)
            write_contract(repository.root / CONTRACT_FILE, contract)
        Artifacts(state / "artifacts").put(contract.task.to_bytes())  # by the digest in the lock
        ledger.append("locked", lock.model_dump(mode="json"))
        shutil.rmtree(state / "caches", ignore_errors=True)  # of candidates of another lock
    mended = (f"Note: {ledger.repaired}",) if ledger.repaired else ()
    notes = (*mended, *caveats(repository, lock, evidence))
    return Locked(contract, lock, trial, evidence, drafted, choice, notes)


def rehearse(workspace: Workspace) -> tuple[Trial, Evidence]:
    """Run a few updates of the reference and see that it can be seen.

    Raises
    ------
    ReferenceFailedError
        It crashes, hangs, runs out of memory, or shows no update.
    """
    request = Request(
        candidate=Candidate.of(workspace.contract.task.surface.default_knobs()),
        purpose="rehearsal", stop_update=_REHEARSED_UPDATES,
    )  # fmt: skip
    trial = perform_trial(workspace, request, patches={})
    refuse_failed_reference(workspace, trial)
    return trial, evidence_of(workspace, trial)


def _contract(repository: Repository, start: Path, draft: Draft) -> tuple[Contract, Choice, bool]:
    place = repository.root / CONTRACT_FILE
    if not draft.command:
        if draft.python is not None:
            raise UsageError(
                "--python counts where a contract is drafted from a command",
                hint=f"set task.python in {CONTRACT_FILE}, or give the command too",
            )
        contract = read_contract(place)
        refuse_machines(contract.task.command)
        return contract, of_contract(contract.task, repository.root), False
    refuse_notebooks(draft.command)
    refuse_machines(draft.command)
    if place.exists() and not draft.relock:
        raise UsageError(
            f"there is a {CONTRACT_FILE} already",
            hint="lock it as it is with `infrarsi init`, or draft it anew with `--relock`",
        )
    choice = choose(draft.python, draft.command, start=start, root=repository.root)
    return _drafted(repository, start, draft, choice), choice, True


def _drafted(repository: Repository, start: Path, draft: Draft, choice: Choice) -> Contract:
    folder = draft.folder or str(start.resolve().relative_to(repository.root))
    commit = repository.commit()
    script = script_of(repository, draft.command, folder)
    program = read_program(repository, commit, draft.command, folder=folder, script=script)
    machine = fingerprint(str(choice.interpreter.executable), Tier.PROCESS_GROUP)
    device = "cuda" if machine.accelerators else "cpu"
    environ = allowed_environment(os.environ)
    knobs, constraints = draft_settings(
        program, draft.command, folder=folder, device=device, torch=machine.torch, environ=environ
    )
    surface = Surface(
        editable=draft.editable or ("**/*.py",), protected=draft.protected,
        knobs=knobs, constraints=constraints,
    )  # fmt: skip
    seed = re.search(r"--seed[= ](\d+)", " ".join(draft.command))
    seeds = [s.default for s in program.settings if s.known_as == "seed"]
    default_seed = next((each for each in seeds if type(each) is int), None)
    task = Task(
        command=draft.command, folder=folder, python=choice.recorded, surface=surface,
        window=draft.window,
        workload=Workload(
            seed=int(seed.group(1)) if seed else default_seed,
            inputs=named_inputs(repository.root, start, draft.inputs)
            or _find_inputs(repository),
        ),
        memory=Memory(capacity_bytes=draft.memory_bytes or total_memory() * 9 // 10),
    )  # fmt: skip
    name = draft.name or re.sub(r"[^A-Za-z0-9._-]+", "-", repository.root.name).strip("-._")
    return Contract(name=name or "training", task=task, plan=Plan())


def _find_inputs(repository: Repository) -> tuple[str, ...]:
    """Find prepared data that git ignores, by the names of their folders."""
    listed = repository.git(
        "ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z"
    )
    found = [path.rstrip("/") for path in listed.split("\0") if path]
    return tuple(
        sorted(path for path in found if any(map(_DATA_FOLDER.fullmatch, Path(path).parts)))
    )


def _completed(
    contract: Contract, evidence: Evidence, repository: Repository, commit: str
) -> Contract:
    """Fill a draft with what the rehearsal showed: tokens, dtypes, and the files that ran."""
    task = contract.task
    census = evidence.marks[-1].census if evidence.marks else {}
    numerics = Numerics(
        metrics=metrics_seen(evidence),
        parameters=_dtypes(census, "parameters"), gradients=_dtypes(census, "gradients"),
        optimizer_state=_dtypes(census, "optimizer_state"), matmul=_dtypes(census, "matmul"),
    )  # fmt: skip
    tracked = repository.tracked(commit)
    ran = {_in_tree(file, tracked) for file in evidence.loaded_files} - {None}
    editable = task.surface.editable
    if editable == ("**/*.py",):
        named = [path for path in sorted(map(str, ran)) if not _NOT_FOR_PATCHES.search(path)]
        editable = tuple(named) or editable
    return contract.model_copy(
        update={
            "task": task.model_copy(
                update={
                    "numerics": numerics,
                    "workload": task.workload.model_copy(
                        update={"tokens_per_update": evidence.tokens_per_update}
                    ),
                    "surface": seen_batch(
                        task.surface.model_copy(update={"editable": editable}), evidence
                    ),
                }
            )
        }
    )


def _with_memory(contract: Contract, draft: Draft, evidence: Evidence, choice: Choice) -> Contract:
    """Measure memory on the accelerators where the rehearsal used them, else by process data."""
    used = any(mark.memory.get("max_allocated", 0) > 0 for mark in evidence.marks)
    if not used:
        return contract
    machine = fingerprint(str(choice.interpreter.executable), Tier.PROCESS_GROUP)
    smallest = min(gpu.memory_bytes for gpu in machine.accelerators)
    memory = Memory(capacity_bytes=draft.memory_bytes or smallest, unit="cuda_allocated")
    return contract.model_copy(update={"task": contract.task.model_copy(update={"memory": memory})})


def _dtypes(census: dict[str, dict[str, int]], group: str) -> tuple[str, ...]:
    return tuple(sorted(census.get(group, {}))) or ("float32",)


def _in_tree(file: str, tracked: Sequence[str]) -> str | None:
    """Give the tracked path that a loaded file is, whatever folder its tree was seen in."""
    matches = [path for path in tracked if file.endswith("/" + path)]
    return max(matches, key=len, default=None)


def _configured(repository: Repository, contract: Contract, commit: str) -> dict[str, bytes]:
    """Read the configuration files that knobs name."""
    reaches = [knob.reach for knob in contract.task.surface.knobs]
    return repository.read(commit, {each.file for each in reaches if isinstance(each, ConfigKey)})


def _lock(repository: Repository, contract: Contract) -> Lock:
    commit = repository.commit()
    surface, inputs = contract.task.surface, contract.task.workload.inputs
    # What a submodule holds in a trial is fixed by the commit, whatever the checkout has there.
    links = repository.gitlinks(commit)
    files = [path for path in repository.tracked(commit) if path not in links]
    protected = [path for path in files if not within_surface(path, surface)]
    locked_inputs = hash_files(repository.root, inputs)
    missing = [path for path, digest in locked_inputs.items() if digest == "missing"]
    if missing:
        raise ContractError(
            f"the input {missing[0]} does not exist",
            hint="prepare it, or take it out of task.workload.inputs",
        )
    return Lock(
        name=contract.name, task_digest=contract.task.digest(), commit=commit,
        protected=hash_files(repository.root, protected), inputs=locked_inputs,
        dirty=repository.dirty(),
    )  # fmt: skip


@contextlib.contextmanager
def _rehearsal_room(repository: Repository, contract: Contract, lock: Lock) -> Iterator[Workspace]:
    """Give a workspace whose ledger is thrown away: a rehearsal proves nothing."""
    folder = repository.root / STATE_FOLDER / "rehearsal"
    shutil.rmtree(folder, ignore_errors=True)
    with open_ledger(folder, command="init") as ledger:
        yield Workspace(repository, contract, lock, ledger)
    shutil.rmtree(folder, ignore_errors=True)
