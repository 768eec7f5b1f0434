"""Performing one trial: a candidate becomes a tree, a launch, and evidence in the ledger."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from infrarsi import witness
from infrarsi.edits.combine import combine
from infrarsi.edits.surface import within_surface
from infrarsi.errors import EditError, SpaceError
from infrarsi.execute.choosing import with_interpreter
from infrarsi.execute.disk import FLOOR_BYTES, SPACE_HINT, free_bytes
from infrarsi.execute.git_seen import show_git
from infrarsi.execute.invocation import Invocation, invocation_of
from infrarsi.execute.keeping import Keep, take_kept
from infrarsi.execute.launch import Launch, LaunchPlan, launch
from infrarsi.execute.sandbox import Room, Tier, seen_root, seen_scratch
from infrarsi.execute.scratch import keep_cache, prepare_scratch
from infrarsi.execute.worktree import make_worktree, write_files
from infrarsi.judge.facts import ChangedFile, SourceFacts
from infrarsi.records.base import Scalar
from infrarsi.records.candidate import Candidate, Patch
from infrarsi.records.evidence import Evidence, lines_of, read_evidence
from infrarsi.records.task import ConfigKey, Knob
from infrarsi.records.trial import Outcome, Purpose, Trial
from infrarsi.stages.confirming.starts import Start, lay_out_all, told
from infrarsi.stages.launching.furnishing import provide_inputs, refuse_outside
from infrarsi.stages.launching.packages import package_facts, packages_now
from infrarsi.stages.workspace import Workspace
from infrarsi.store.artifacts import Artifacts
from infrarsi.store.contract import hash_files, stamp_files

_SKETCH_ELEMENTS = 64
LATEST_STOP = 15
"""Updates after the window within which every hidden stop lies."""


@dataclass(frozen=True)
class Request:
    """A trial to perform."""

    candidate: Candidate
    purpose: Purpose
    arm: str = ""
    replicate: int = 0
    perturb_ulps: float | None = None
    """Disturb the initial weights by this many units in the last place: a null launch."""
    stir: bool = False
    """Draw from the program's global generators besides: does anything depend on them?"""
    control: str | None = None
    """Falsify the training on purpose: a control."""
    env: Mapping[str, str] | None = None
    """Variables of a null launch, such as another number of threads."""
    stop_update: int | None = None
    """Overrides the drawn hidden update: a rehearsal stops early."""
    keep: Keep | None = None
    """The state to keep once the stop is reached."""
    starts: tuple[Start, ...] = ()
    """The states to start single updates from: a replay."""
    beyond: tuple[Knob, Scalar] | None = None
    """A setting beyond the surface, and its value: another seed of both arms."""
    capped: bool = True
    """Whether the contract's memory capacity is enforced."""
    remarks: Mapping[str, Any] | None = None
    """What the ledger should remember with it, such as why it was suggested."""


def perform_trial(
    workspace: Workspace,
    request: Request,
    *,
    patches: Mapping[str, Patch],
) -> Trial:
    """Run one launch of a candidate and append how it ended to the ledger.

    Parameters
    ----------
    workspace
        The locked repository.
    request
        What to launch, and for what purpose.
    patches
        Every known patch by name; the candidate's are taken from here.

    Returns
    -------
    Trial
        A crash, an OOM or a refusal is a trial, never an exception.

    Raises
    ------
    SpaceError
        A disk was full. The trial is recorded, and counts neither for nor against the candidate.
    """
    trial = _draft(workspace, request)
    workspace.ledger.append(
        "trial_started", {**trial.model_dump(mode="json"), "remarks": dict(request.remarks or {})}
    )
    ended = _attempt(workspace, request, trial, patches)
    workspace.ledger.append("trial_ended", ended.model_dump(mode="json"))
    if ended.outcome is Outcome.HARNESS_ERROR:
        raise SpaceError(
            f"{ended.trial_id} could not be performed: {ended.reason}", hint=SPACE_HINT
        )
    return ended


def _attempt(
    workspace: Workspace, request: Request, trial: Trial, patches: Mapping[str, Patch]
) -> Trial:
    """Perform a trial; what speaks against the candidate, or for more space, ends it too."""
    started = time.monotonic()
    try:
        files, invocation = _patched(workspace, request, patches)
        return _run(workspace, _Ready(request, trial, files, invocation))
    except EditError as error:
        outcome, reason = Outcome.REFUSED, str(error)
    except SpaceError as error:
        outcome, reason = Outcome.HARNESS_ERROR, str(error)
    except OSError as error:
        if not SpaceError.explains(error):
            raise
        outcome, reason = Outcome.HARNESS_ERROR, f"its files cannot be written: {error}"
    spent_s = time.monotonic() - started
    return trial.model_copy(update={"outcome": outcome, "reason": reason, "wall_s": spent_s})


class Keeper(Protocol):
    """Who holds the evidence of trials: a workspace, or whoever reads one."""

    @property
    def artifacts(self) -> Artifacts:
        """The evidence, by digest."""


def evidence_of(keeper: Keeper, trial: Trial) -> Evidence:
    """Read the evidence that a trial left."""
    if trial.evidence_digest is None:
        return Evidence()
    return read_evidence(lines_of(keeper.artifacts.get(trial.evidence_digest)))


def source_of(keeper: Keeper, trial: Trial) -> SourceFacts | None:
    """Read what was seen of a trial's source before and after it ran."""
    if trial.source_digest is None:
        return None
    return SourceFacts.from_bytes(keeper.artifacts.get(trial.source_digest))


def _changed_files(
    workspace: Workspace, files: Mapping[str, bytes], configured: Mapping[str, bytes]
) -> tuple[ChangedFile, ...]:
    """Give the files that patches change, as they were and as they ran."""
    before = workspace.sources
    return tuple(
        ChangedFile(
            path=path,
            before=before[path].decode(errors="replace") if path in before else None,
            after=after.decode(errors="replace"),
        )
        for path, after in sorted(files.items())
        if path not in configured
    )


def _draft(workspace: Workspace, request: Request) -> Trial:
    number = len(workspace.ledger.of_kind("trial_started")) + 1
    stop = request.stop_update or workspace.stop_update(
        request.replicate, arm=f"{request.purpose}/{request.arm}"
    )
    return Trial(
        trial_id=f"t{number:04d}", candidate=request.candidate, purpose=request.purpose,
        arm=request.arm, replicate=request.replicate, outcome=Outcome.PREEMPTED,
        stop_update=stop, wall_s=0.0, sandbox=workspace.tier.value,
    )  # fmt: skip


def _patched(
    workspace: Workspace, request: Request, patches: Mapping[str, Patch]
) -> tuple[dict[str, bytes], Invocation]:
    candidate = request.candidate
    carried = [patches[name] for name in candidate.patches]
    refuse_outside(workspace, (edit.path for patch in carried for edit in patch.edits))
    files = combine(workspace.sources, carried)
    present = {**workspace.sources, **files}
    task, knobs = workspace.contract.task, candidate.knobs
    if request.beyond is not None:
        knob, value = request.beyond
        surface = task.surface.model_copy(update={"knobs": (*task.surface.knobs, knob)})
        task, knobs = task.model_copy(update={"surface": surface}), {**knobs, knob.name: value}
        if isinstance(knob.reach, ConfigKey) and knob.reach.file not in present:
            present |= workspace.repository.read(workspace.lock.commit, [knob.reach.file])
    invocation = invocation_of(task, knobs, present)
    return {**files, **invocation.files}, invocation


@dataclass(frozen=True)
class _Ready:
    """A trial whose source and launch are known."""

    request: Request
    trial: Trial
    files: Mapping[str, bytes]
    invocation: Invocation


def _run(workspace: Workspace, ready: _Ready) -> Trial:
    """Check out, patch, launch and clear away; give the trial as it ended."""
    trial, files = ready.trial, ready.files
    scratch = workspace.folder / "scratch" / trial.trial_id
    place = workspace.folder / "trees" / trial.trial_id
    cache = workspace.folder / "caches" / trial.candidate.short_id()
    cold = not cache.exists()
    repository, commit = workspace.repository, workspace.lock.commit
    if (left := free_bytes(workspace.folder)) < FLOOR_BYTES:
        raise SpaceError(f"only {left >> 20} MiB are left at {workspace.folder}", hint=SPACE_HINT)
    prepare_scratch(scratch, cache=cache)
    lay_out_all(ready.request.starts, scratch)
    try:
        with make_worktree(repository, commit, place=place) as tree:
            write_files(tree, files)
            ran = repository.tree_of(tree, objects=scratch / "objects")
            provide_inputs(workspace, tree)
            watched = sorted({*workspace.tracked, *files})
            inputs = workspace.contract.task.workload.inputs
            before = hash_files(tree, watched) | stamp_files(workspace.root, inputs)
            packages = packages_now(workspace)
            plan = _plan(workspace, ready, tree, scratch)
            done = launch(plan)
            after = hash_files(tree, watched) | stamp_files(workspace.root, inputs)
        expected = repository.expected_tree(commit, files, objects=scratch / "objects")
        if done.outcome is Outcome.OK:
            keep_cache(scratch, cache)
        if ready.request.keep is not None:
            take_kept(scratch, workspace.kept / trial.trial_id)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    evidence = read_evidence(done.events.splitlines())
    surface, configured = workspace.contract.task.surface, ready.invocation.files
    source = SourceFacts(
        protected_before=before,
        protected_after=after,
        tree_expected=expected,
        tree_ran=ran,
        changed_paths=tuple(sorted(files)),
        changed_files=_changed_files(workspace, files, configured),
        outside_surface=tuple(
            path
            for path in sorted(files)
            if path not in configured and not within_surface(path, surface)
        ),
        allowed_roots=(
            str(seen_root(plan.room, workspace.tier)),
            str(seen_scratch(plan.room, workspace.tier)),
            *_foreign_sources(workspace),
        ),
        leftovers=tuple(f"process {pid}" for pid in done.stray_pids),
        checkout=str(workspace.root) if workspace.tier is Tier.PROCESS_GROUP else None,
        packages=package_facts(workspace, evidence, before=packages),
    )
    return _ended(workspace, ready, done, evidence, source=source, argv=plan.argv, cold=cold)


def _plan(workspace: Workspace, ready: _Ready, tree: Path, scratch: Path) -> LaunchPlan:
    contract, request, invocation = workspace.contract, ready.request, ready.invocation
    memory, stop = contract.task.memory, ready.trial.stop_update
    assert stop is not None, "a drafted trial has its stop"
    last = min(contract.task.window.last_update, stop)
    capped = request.capped and memory.unit == "process_data"
    interpreter = workspace.interpreter
    active, inactive = interpreter.environment(os.environ)
    room = Room(
        tree=tree,
        root=workspace.root,
        scratch=scratch,
        readable=(*interpreter.readable(workspace.root), witness.ENTRY),
        inputs=contract.task.workload.inputs,
        git_objects=show_git(workspace.repository, tree, workspace.lock.commit, scratch=scratch)
        if workspace.tier is Tier.BUBBLEWRAP
        else None,
    )
    options = _witness_options(workspace, request, last=last, stop=stop)
    options["replay"] = told(request.starts, seen_scratch(room, workspace.tier))
    return LaunchPlan(
        mark=f"{workspace.mark}{ready.trial.trial_id}/",
        argv=tuple(with_interpreter(invocation.argv, interpreter)),
        folder=contract.task.folder,
        room=room,
        tier=workspace.tier,
        witness=witness.ENTRY,
        witness_options=options,
        stop_update=stop,
        values_until=stop if request.starts else last,
        keep=request.keep,
        deadline_s=_deadline_s(workspace, request, stop),
        cap_bytes=memory.capacity_bytes if capped else None,
        env={**active, **invocation.env, **(request.env or {})},
        unset=(*inactive, *invocation.unset),
        pulse=workspace.pulse,
    )


def _deadline_s(workspace: Workspace, request: Request, stop: int) -> float:
    """Give the deadline of a launch; one that goes on beyond the usual stops gets more time."""
    last = max(stop, request.keep.update + 1 if request.keep else 0)
    usual = workspace.contract.task.window.last_update + LATEST_STOP
    return workspace.contract.plan.budget.trial_deadline_s * max(1.0, last / usual)


def _foreign_sources(workspace: Workspace) -> tuple[str, ...]:
    """Give the folders that the interpreter imports from besides its own and the repository."""
    sources = workspace.interpreter.sources
    return tuple(str(each) for each in sources if not each.is_relative_to(workspace.root))


def _witness_options(
    workspace: Workspace, request: Request, *, last: int, stop: int
) -> dict[str, Any]:
    window = workspace.contract.task.window
    marks = {0, window.warmup_updates, workspace.hidden_mark, window.last_update}
    if stop < window.last_update:
        # A rehearsal sees the optimizer's state too; what is due at its stop would be lost with it.
        marks = {mark for mark in marks if mark < last} | {last - 1}
    perturb = None
    if request.perturb_ulps is not None:
        perturb = {
            "ulps": request.perturb_ulps, "seed": 1000 + request.replicate, "stir": request.stir,
        }  # fmt: skip
    return {
        "schema": witness.SCHEMA,
        "marks": sorted(mark for mark in marks if mark <= last),
        "sketch_seed": 1,
        "sketch_elements": _SKETCH_ELEMENTS,
        "perturb": perturb,
        "control": request.control,
    }


def _ended(
    workspace: Workspace,
    ready: _Ready,
    done: Launch,
    evidence: Evidence,
    *,
    source: SourceFacts,
    argv: tuple[str, ...],
    cold: bool,
) -> Trial:
    gpus = len((evidence.hello or {}).get("devices") or ())
    return ready.trial.model_copy(
        update={
            "outcome": done.outcome,
            "reason": done.reason,
            "argv": argv,
            "tree_digest": source.tree_ran,
            "evidence_digest": workspace.artifacts.put(done.events),
            "source_digest": workspace.artifacts.put(source.to_bytes()),
            "log_digest": workspace.artifacts.put(done.log),
            "wall_s": done.wall_s,
            "cpu_s": done.cpu_s,
            "gpu_s": done.wall_s * gpus,
            "peak_bytes": _peak_bytes(workspace, done, evidence),
            "cold_cache": cold,
        }
    )


def _peak_bytes(workspace: Workspace, done: Launch, evidence: Evidence) -> int | None:
    """Give the peak in the contract's unit; an out-of-memory has none, only a lower bound."""
    if done.outcome in {Outcome.OOM, Outcome.AMBIGUOUS_MEMORY}:
        return None
    match workspace.contract.task.memory.unit:
        case "process_data":
            return done.peak_data_bytes or None
        case "cuda_allocated":
            peaks = [mark.memory.get("max_allocated", 0) for mark in evidence.marks]
            return max(peaks, default=0) or None
