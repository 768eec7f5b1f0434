"""show: everything that is known of one trial, from why it was tried to what it cost."""

from __future__ import annotations

from collections.abc import Sequence

from infrarsi.errors import LedgerError, UsageError
from infrarsi.execute.invocation import reached_by
from infrarsi.execute.sandbox import TIER_LIMITS
from infrarsi.judge.decide import judge_launch
from infrarsi.judge.series import rows_of
from infrarsi.judge.timing import cold_start_s, steady_update_s
from infrarsi.records.base import Scalar
from infrarsi.records.evidence import Evidence, MarkSeen
from infrarsi.records.history import Prediction
from infrarsi.records.shown import ArtifactShown, KnobShown, MarkShown, PatchShown, SeenShown, Shown
from infrarsi.records.task import Task, Window
from infrarsi.records.trial import Outcome, Trial
from infrarsi.records.verdict import Finding
from infrarsi.stages.calibrating.controls import KINDS
from infrarsi.stages.doctor import phase_share
from infrarsi.stages.launching.trial import evidence_of
from infrarsi.stages.naming import words_of
from infrarsi.stages.rejudging.anew import Bench
from infrarsi.stages.rejudging.docket import Docket, Filed, Judged
from infrarsi.stages.reporting.candidate_diff import diff_of
from infrarsi.stages.spending import trial_usd
from infrarsi.stages.workspace import Workspace
from infrarsi.store.artifacts import Artifacts

_LISTED = 6
_LEAST_OF_A_CANDIDATE = 4
"""Shorter beginnings of a candidate's id are taken for mistyped trials."""


def show(workspace: Workspace, name: str, *, diff: bool = False) -> Shown:
    """Give everything that is known of a trial.

    Parameters
    ----------
    workspace
        The repository; it is only read.
    name
        The trial's id or an unambiguous beginning of it, or that of a candidate, whose last
        screening is meant then.
    diff
        Whether to give the change of the source too.

    Raises
    ------
    UsageError
        No trial is called so, or several are.
    """
    docket = Docket.of(workspace.ledger.events)
    filed = find_trial(docket, name)
    trial, search = filed.trial, filed.search
    bench, judged = Bench(workspace), docket.verdicts_on(trial.trial_id)
    task, evidence = _task(bench, filed), _evidence(workspace, trial)
    seen = _seen(evidence, task.window if task else None) if evidence else None
    baseline = judged[-1].baseline if judged else filed.baseline or search.history.baseline
    update_s = seen.update_s if seen and trial.outcome is Outcome.OK else None
    prediction = filed.remarks.get("prediction")
    return Shown(
        trial=trial, candidate=trial.candidate.short_id(),
        change=words_of(trial.candidate, _defaults(filed, task)),
        why=_why(filed), started_at=filed.started_at, ended_at=filed.ended_at,
        commit=search.lock.commit, task_digest=search.lock.task_digest,
        is_current=search.lock == workspace.lock,
        knobs=_knobs(filed, task), patches=_patches(filed),
        diff=_diff(workspace, filed) if diff else None,
        prediction=Prediction.model_validate(prediction) if prediction else None,
        reference_update_s=baseline.update_s if baseline else None,
        speedup=baseline.update_s.point / update_s if baseline and update_s else None,
        capacity_bytes=task.memory.capacity_bytes if task else None,
        memory_unit=task.memory.unit if task else None,
        containment=_containment(trial), seen=seen,
        verdicts=tuple(each.verdict for each in judged),
        own_findings=_own_findings(bench, judged, trial),
        artifacts=_artifacts(workspace.artifacts, trial),
        usd=trial_usd(workspace.contract.plan, search.history, trial),
        others=_others(docket, trial),
    )  # fmt: skip


def find_trial(docket: Docket, name: str) -> Filed:
    """Find a trial by its id, the beginning of it, its number, or its candidate's id.

    Raises
    ------
    UsageError
        There is none, or several are meant.
    """
    trials = docket.trials
    number = name.removeprefix("t")
    is_number = number.isdecimal() and not number.startswith("0")
    exact = trials.get(name) or (trials.get(f"t{int(number):04d}") if is_number else None)
    if exact is not None:
        return exact
    begun = [each for known, each in trials.items() if name and known.startswith(name)]
    of_candidate = [
        each
        for each in trials.values()
        if len(name) >= _LEAST_OF_A_CANDIDATE and each.trial.candidate.digest().startswith(name)
    ]
    found = begun or of_candidate
    candidates = dict.fromkeys(each.trial.candidate.short_id() for each in of_candidate)
    if not found:
        raise _unknown(docket, name)
    if len(begun) > 1 or (not begun and len(candidates) > 1):
        named = [each.trial.trial_id for each in begun] or list(candidates)
        more = f" and {len(named) - _LISTED} more" if len(named) > _LISTED else ""
        raise UsageError(
            f"{name!r} could be {', '.join(named[:_LISTED])}{more}", hint="type more of it"
        )
    screened = [each for each in found if each.trial.purpose == "screen"]
    return (screened or found)[-1]


def _unknown(docket: Docket, name: str) -> UsageError:
    if not docket.trials:
        return UsageError("no trial was made yet", hint="measure the reference: `infrarsi doctor`")
    first, last = next(iter(docket.trials)), next(reversed(docket.trials))
    return UsageError(
        f"no trial or candidate is called {name!r}",
        hint=f"name one of {first} to {last}, or a candidate by its id; `infrarsi report` lists "
        "them all",
    )


def _task(bench: Bench, filed: Filed) -> Task | None:
    try:
        return bench.task(filed.search.lock.task_digest)
    except LedgerError:
        return None


def _evidence(workspace: Workspace, trial: Trial) -> Evidence | None:
    if trial.evidence_digest is None:
        return None
    try:
        return evidence_of(workspace, trial)
    except LedgerError:  # what became of it is said where the artifacts are listed
        return None


def _seen(evidence: Evidence, window: Window | None) -> SeenShown:
    hello, fault = evidence.hello or {}, evidence.fault
    losses = [row.loss for row in evidence.updates if row.loss is not None]
    try:
        cold_s = cold_start_s(evidence)
    except ValueError:
        cold_s = None
    try:
        update_s = steady_update_s(evidence, window) if window else None
    except ValueError:
        update_s = None
    return SeenShown(
        python=hello.get("python"), torch=hello.get("torch"),
        argv=tuple(map(str, hello.get("argv") or ())), world_size=evidence.world_size,
        num_updates=min(len(rows) for rows in rows_of(evidence)),
        cold_start_s=cold_s, update_s=update_s, phase_share=phase_share([evidence]),
        first_loss=losses[0] if losses else None, last_loss=losses[-1] if losses else None,
        marks=tuple(map(_mark, evidence.marks)),
        fault=f"{fault.type}: {fault.message} (rank {fault.rank})" if fault else None,
        notes=evidence.notes, malformed=evidence.malformed,
    )  # fmt: skip


def _mark(mark: MarkSeen) -> MarkShown:
    return MarkShown(
        update=mark.update, census=mark.census, flags=mark.flags, memory=mark.memory,
        num_threads=mark.num_threads, num_children=mark.num_children,
    )  # fmt: skip


def _why(filed: Filed) -> str:
    """Say why a trial was made."""
    trial, remarks = filed.trial, filed.remarks
    match trial.purpose:
        case "screen":
            return str(remarks.get("reason") or "not on record")
        case "ablation":
            what = "the winner whole" if trial.arm == "winner" else f"without {trial.arm}"
            return f"taking the winner apart, round {trial.replicate + 1}: {what}"
        case "baseline":
            return f"measuring the reference against itself, arm {trial.arm or '-'}"
        case "null":
            return f"learning which differences mean nothing: {trial.arm or '-'}"
        case "control":
            return f"learning what the checks see: {KINDS.get(trial.arm, trial.arm)}"
        case "confirm":
            attempt = remarks.get("attempt", "-")
            return f"confirmation {attempt}, launch {trial.replicate + 1}: the {trial.arm}"
        case "horizon":
            far = f"quality after {remarks.get('horizon', '-')} updates"
            seed = f", seed {remarks['seed']}" if "seed" in remarks else ""
            return f"{far}: {trial.arm}{seed}"
        case "replay":
            attempt = remarks.get("attempt", "-")
            return (
                f"confirmation {attempt}: the reference's code replays updates of the {trial.arm}"
            )
        case _:
            return f"{trial.purpose} {trial.arm}".strip()


def _defaults(filed: Filed, task: Task | None) -> dict[str, Scalar]:
    """Give the knobs of the reference that the trial was held against."""
    if task is not None:
        return task.surface.default_knobs()
    trials, baseline = filed.search.history.trials, filed.search.history.baseline
    return trials[baseline.reference_trial].candidate.knobs if baseline else {}


def _knobs(filed: Filed, task: Task | None) -> tuple[KnobShown, ...]:
    defaults = _defaults(filed, task)
    ways = {knob.name: reached_by(knob) for knob in task.surface.knobs} if task else {}
    return tuple(
        KnobShown(name=name, value=value, default=defaults.get(name), reached_by=ways.get(name, ""))
        for name, value in filed.trial.candidate.knobs.items()
    )


def _patches(filed: Filed) -> tuple[PatchShown, ...]:
    known = filed.search.history.patches
    carried = [known[name] for name in filed.trial.candidate.patches if name in known]
    return tuple(
        PatchShown(
            name=patch.name, proposer=patch.proposer, summary=patch.summary,
            precision=patch.precision, log_time=patch.log_time,
            paths=tuple(sorted({edit.path for edit in patch.edits})),
        )
        for patch in carried
    )  # fmt: skip


def _diff(workspace: Workspace, filed: Filed) -> str:
    known = filed.search.history.patches
    patches = [known[name] for name in filed.trial.candidate.patches if name in known]
    return diff_of(workspace.repository, filed.search.lock.commit, patches)


def _containment(trial: Trial) -> str:
    tiers = {tier.value: limits for tier, limits in TIER_LIMITS.items()}
    if not trial.sandbox:
        return "not on record"
    return f"{trial.sandbox}: {tiers.get(trial.sandbox, 'not known to this InfraRSI')}"


def _own_findings(bench: Bench, judged: Sequence[Judged], trial: Trial) -> tuple[Finding, ...]:
    """Judge a launch of a confirmation alone: the verdict folds all launches into one."""
    confirmations = [each for each in judged if each.verdict.kind == "confirm"]
    if not confirmations or trial.purpose == "replay":
        return ()
    try:
        court = bench.court(confirmations[-1])
        return tuple(judge_launch(bench.case(court, confirmations[-1], trial)))
    except (LedgerError, ValueError):
        return ()


def _artifacts(artifacts: Artifacts, trial: Trial) -> tuple[ArtifactShown, ...]:
    kept = {
        "stamped events": trial.evidence_digest,
        "source before and after": trial.source_digest,
        "the program's output": trial.log_digest,
    }
    return tuple(
        _artifact(artifacts, what, digest) for what, digest in kept.items() if digest is not None
    )


def _artifact(artifacts: Artifacts, what: str, digest: str) -> ArtifactShown:
    try:
        content = artifacts.get(digest)
    except LedgerError:
        there = "altered" if artifacts.has(digest) else "missing"
        return ArtifactShown.model_validate(
            {"what": what, "sha256": digest, "state": there, "num_bytes": None}
        )
    return ArtifactShown(what=what, sha256=digest, state="verified", num_bytes=len(content))


def _others(docket: Docket, trial: Trial) -> tuple[str, ...]:
    return tuple(
        f"{each.trial.trial_id} ({each.trial.purpose}, {each.trial.outcome.value})"
        for each in docket.trials.values()
        if each.trial.candidate == trial.candidate and each.trial.trial_id != trial.trial_id
    )
