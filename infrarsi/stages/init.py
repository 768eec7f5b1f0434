"""init: draft the contract from what is found, rehearse it, and lock it."""

from __future__ import annotations

import contextlib
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from infrarsi.edits.surface import within_surface
from infrarsi.errors import ContractError, ReferenceFailedError, UsageError
from infrarsi.execute.machine import fingerprint, total_memory
from infrarsi.execute.repository import Repository, find_repository
from infrarsi.execute.sandbox import Tier
from infrarsi.frameworks.catalogue import draft_knobs
from infrarsi.frameworks.program import Setting, entry_script, find_settings
from infrarsi.records.candidate import Candidate
from infrarsi.records.evidence import Evidence
from infrarsi.records.plan import Contract, Lock, Plan
from infrarsi.records.task import Memory, Numerics, Surface, Task, Workload
from infrarsi.records.trial import Outcome, Trial
from infrarsi.stages.trial import Request, evidence_of, perform_trial
from infrarsi.stages.workspace import STATE_FOLDER, Workspace
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
    relock: bool = False


@dataclass(frozen=True)
class Locked:
    """What init did, for showing."""

    contract: Contract
    lock: Lock
    rehearsal: Trial
    evidence: Evidence
    drafted: bool
    """Whether the contract file was written by this call."""

    def in_words(self) -> list[str]:
        """Say what the rehearsal saw and what was locked."""
        rows = [row for row in self.evidence.updates if row.forwards is not None]
        last, mark = rows[-1], self.evidence.marks[-1]
        loss = "not seen" if last.loss is None else f"{last.loss:.4f}"
        dtypes = {name: "/".join(sorted(counts)) for name, counts in mark.census.items()}
        peak = self.rehearsal.peak_bytes
        lines = [
            f"Rehearsed {last.update} updates: {last.tokens or 'unknown'} tokens in "
            f"{last.forwards} forward(s) an update, loss {loss}"
            + (f", peak memory {peak / 1e6:,.0f} MB" if peak else ""),
            f"Dtypes: {', '.join(f'{name} {kinds}' for name, kinds in dtypes.items())}",
            f"Contained by: {self.rehearsal.sandbox}",
            f"Locked: commit {self.lock.commit[:12]}, {len(self.lock.protected)} protected files, "
            f"{len(self.lock.inputs)} inputs",
        ]
        if self.lock.dirty:
            lines.append(
                f"Note: {len(self.lock.dirty)} changed file(s) are not in the commit, and trials "
                f"run the commit: {', '.join(self.lock.dirty[:5])}"
            )
        return lines


def lock_task(start: Path, draft: Draft) -> Locked:
    """Draft (or read), rehearse and lock a contract.

    Raises
    ------
    InfraRSIError
        The repository cannot be used, the contract cannot be read, or the command fails,
        hangs or shows no update. Nothing is locked then.
    """
    repository = find_repository(start)
    contract, drafted = _contract(repository, start, draft)
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
        with _rehearsal_room(repository, contract, lock) as workspace:
            trial, evidence = rehearse(workspace)
        if drafted:
            contract = _completed(contract, evidence, repository, lock.commit)
            contract = _with_memory(contract, draft, evidence)
            lock = _lock(repository, contract)
            write_contract(repository.root / CONTRACT_FILE, contract)
        ledger.append("locked", lock.model_dump(mode="json"))
    return Locked(contract, lock, trial, evidence, drafted)


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


def refuse_failed_reference(workspace: Workspace, trial: Trial) -> None:
    """Refuse to go on where a launch of the reference itself did not end well.

    Raises
    ------
    ReferenceFailedError
        With what happened and what to do about it.
    """
    if trial.outcome is Outcome.OK:
        return
    raise ReferenceFailedError(
        f"the reference command did not do its work: {trial.reason}",
        hint=_what_to_do(workspace, trial),
    )


def _what_to_do(workspace: Workspace, trial: Trial) -> str:
    memory, updates = workspace.contract.task.memory, len(evidence_of(workspace, trial).updates)
    match trial.outcome:
        case Outcome.OOM | Outcome.AMBIGUOUS_MEMORY:
            return (
                f"the capacity of {memory.capacity_bytes:,} bytes is below what the reference "
                "needs: raise it with `--memory` (or task.memory.capacity_bytes)"
            )
        case Outcome.HUNG if updates == 0:
            return (
                "no optimizer update of torch was seen: see that the command trains, and raise "
                "plan.budget.trial_deadline_s if it only starts slowly"
            )
        case Outcome.HUNG:
            return "raise plan.budget.trial_deadline_s, or make the window shorter"
        case Outcome.CRASHED if "ended by itself" in trial.reason:
            window = workspace.contract.task.window.last_update
            return (
                f"let the command train for at least {window + 20} updates with a torch "
                "optimizer, in this process or its children"
            )
        case _:
            return "run the command by hand in a fresh clone, mend it, commit, then repeat"


def _contract(repository: Repository, start: Path, draft: Draft) -> tuple[Contract, bool]:
    place = repository.root / CONTRACT_FILE
    if not draft.command:
        return read_contract(place), False
    if place.exists() and not draft.relock:
        raise UsageError(
            f"there is a {CONTRACT_FILE} already",
            hint="lock it as it is with `infrarsi init`, or draft it anew with `--relock`",
        )
    return _drafted(repository, start, draft), True


def _drafted(repository: Repository, start: Path, draft: Draft) -> Contract:
    folder = draft.folder or str(start.resolve().relative_to(repository.root))
    commit = repository.commit()
    script = entry_script(draft.command, folder)
    settings: tuple[Setting, ...] = ()
    if script is not None:
        source = repository.read(commit, [script]).get(script)
        if source is None:
            raise ContractError(
                f"{script} is not in the last commit",
                hint="commit the training script, or correct the command",
            )
        settings = find_settings(source.decode("utf-8", "replace"))
    machine = fingerprint(draft.python or sys.executable, Tier.PROCESS_GROUP)
    device = "cuda" if machine.accelerators else "cpu"
    knobs, constraints = draft_knobs(settings, draft.command, device=device)
    surface = Surface(
        editable=draft.editable or ("**/*.py",), protected=draft.protected,
        knobs=knobs, constraints=constraints,
    )  # fmt: skip
    seed = re.search(r"--seed[= ](\d+)", " ".join(draft.command))
    default_seed = next((s.default for s in settings if s.name == "seed"), None)
    task = Task(
        command=draft.command, folder=folder, python=draft.python, surface=surface,
        workload=Workload(
            seed=int(seed.group(1)) if seed else default_seed,
            inputs=draft.inputs or _find_inputs(repository),
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
                    "surface": task.surface.model_copy(update={"editable": editable}),
                }
            )
        }
    )


def _with_memory(contract: Contract, draft: Draft, evidence: Evidence) -> Contract:
    """Measure memory on the accelerators where the rehearsal used them, else by process data."""
    used = any(mark.memory.get("max_allocated", 0) > 0 for mark in evidence.marks)
    if not used:
        return contract
    machine = fingerprint(contract.task.python or sys.executable, Tier.PROCESS_GROUP)
    smallest = min(gpu.memory_bytes for gpu in machine.accelerators)
    memory = Memory(capacity_bytes=draft.memory_bytes or smallest, unit="cuda_allocated")
    return contract.model_copy(update={"task": contract.task.model_copy(update={"memory": memory})})


def _dtypes(census: dict[str, dict[str, int]], group: str) -> tuple[str, ...]:
    return tuple(sorted(census.get(group, {}))) or ("float32",)


def _in_tree(file: str, tracked: Sequence[str]) -> str | None:
    """Give the tracked path that a loaded file is, whatever folder its tree was seen in."""
    matches = [path for path in tracked if file.endswith("/" + path)]
    return max(matches, key=len, default=None)


def _lock(repository: Repository, contract: Contract) -> Lock:
    commit = repository.commit()
    surface, inputs = contract.task.surface, contract.task.workload.inputs
    protected = [path for path in repository.tracked(commit) if not within_surface(path, surface)]
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
