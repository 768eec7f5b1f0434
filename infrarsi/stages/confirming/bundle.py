"""The evidence bundle of a promotion: made out of a ledger, and read back as one."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from infrarsi import __version__
from infrarsi.edits.combine import combine
from infrarsi.execute.invocation import invocation_of
from infrarsi.judge.findings import join
from infrarsi.records.candidate import Candidate, Patch
from infrarsi.records.event import Event
from infrarsi.records.statement import (
    EVIDENCE,
    LAUNCH_FILE,
    STATEMENT,
    ConfirmedBlock,
    LaunchEvidence,
    LaunchSettings,
    LayerResult,
    Promoted,
    Statement,
    Subject,
)
from infrarsi.records.task import Task
from infrarsi.records.trial import Trial
from infrarsi.records.verdict import Layer, Verdict
from infrarsi.stages.history import Confirmation, History
from infrarsi.stages.workspace import Workspace
from infrarsi.store.bundle import pack_evidence


@dataclass(frozen=True)
class PromotedFiles:
    """What a promotion puts upon the reference's tree."""

    ran: dict[str, bytes]
    """Patched sources and configuration files, as the winner's launches ran them."""
    launch: LaunchSettings

    @property
    def all(self) -> dict[str, bytes]:
        """All files, the launch settings too."""
        return {**self.ran, LAUNCH_FILE: self.launch.to_file()}


def promoted_files(
    task: Task,
    candidate: Candidate,
    patches: Sequence[Patch],
    *,
    sources: Mapping[str, bytes],
    environ: Mapping[str, str] | None = None,
) -> PromotedFiles:
    """Give what a candidate puts upon the reference's sources.

    Parameters
    ----------
    task
        The locked task.
    candidate
        Its knobs are the launch.
    patches
        Its patches.
    sources
        Editable files and knobs' configuration files of the reference.
    environ
        What variables of several settings are added to; by default this process's.

    Raises
    ------
    EditError, ContractError
        A patch does not apply, or a knob cannot be set.
    """
    patched = combine(sources, patches)
    invocation = invocation_of(task, candidate.knobs, {**sources, **patched}, environ=environ)
    defaults = task.surface.default_knobs()
    launch = LaunchSettings(
        command=invocation.argv, environment=invocation.env, unset=invocation.unset,
        folder=task.folder,
        knobs={name: v for name, v in candidate.knobs.items() if v != defaults.get(name)},
    )  # fmt: skip
    return PromotedFiles({**patched, **invocation.files}, launch)


@dataclass(frozen=True)
class Place:
    """The trees that a promotion lies between."""

    base: str
    """Git tree id of the reference's source."""
    promoted: str
    """Git tree id of the promoted source, without the bundle."""


def bundle_of(
    workspace: Workspace, history: History, files: PromotedFiles, place: Place
) -> dict[str, bytes]:
    """Give the files of the bundle, unsigned: the statement, and the evidence that it rests on."""
    confirmation = history.confirmations[-1]
    launches = launches_behind(history, confirmation.verdict)
    digests = {
        digest
        for trial in launches
        for digest in (trial.evidence_digest, trial.source_digest)
        if digest is not None
    }
    archive = pack_evidence(
        events_behind(history, confirmation, launches),
        {digest: workspace.artifacts.get(digest) for digest in digests},
    )
    statement = statement_of(
        history, files, place, contract=workspace.lock.task_digest, archive=archive,
        version=__version__, ledger_head=workspace.ledger.head,
    )  # fmt: skip
    return {STATEMENT: statement.to_bytes(), EVIDENCE: archive}


def launches_behind(history: History, verdict: Verdict) -> list[Trial]:
    """Give the launches that a verdict rests on: calibration first, then its own."""
    baseline = history.baseline
    assert baseline is not None, "a confirmation has a baseline"
    names = (*baseline.trials, *baseline.null_trials, baseline.reference_trial, *verdict.trials)
    return [history.trials[name] for name in dict.fromkeys(names)]


def events_behind(
    history: History, confirmation: Confirmation, launches: Sequence[Trial]
) -> list[Event]:
    """Give the part of a ledger that a verdict rests on, with the patches that it is about."""
    names = {trial.trial_id for trial in launches}
    last: dict[str, Event] = {}
    for event in history.events:
        is_it = event.kind != "confirmed" or event.body == confirmation.body
        if event.kind in {"locked", "baseline", "confirmed"} and is_it:
            last[event.kind] = event
    kept = [
        event
        for event in history.events
        if any(event is each for each in last.values())
        or (event.kind in {"trial_started", "trial_ended"} and event.body["trial_id"] in names)
    ]
    candidate = Candidate.model_validate(confirmation.body["candidate"])
    patches = [history.patches[name].model_dump(mode="json") for name in candidate.patches]
    body = {"patches": patches, "declined": [], "incompatible": []}
    proposed = last["locked"].model_copy(update={"kind": "proposed", "body": body})
    return [kept[0], proposed, *kept[1:]]


def statement_of(
    history: History,
    files: PromotedFiles,
    place: Place,
    *,
    contract: str,
    archive: bytes,
    version: str,
    ledger_head: str,
) -> Statement:
    """Say of the last confirmation of a ledger what a bundle states.

    Apply writes what this gives, and the gate asks for it again: a statement that differs in
    anything from what its own evidence gives is refused.
    """
    confirmation = history.confirmations[-1]
    verdict, body = confirmation.verdict, confirmation.body
    candidate = Candidate.model_validate(body["candidate"])
    subjects = [
        Subject(name="tree", digest={"gitTree": place.promoted}),
        Subject(name="contract", digest={"sha256": contract}),
        *(_patch_subject(history.patches[name]) for name in candidate.patches),
        *(_subject(path, content) for path, content in sorted(files.all.items())),
        _subject(EVIDENCE, archive),
    ]
    predicate = Promoted(
        infrarsi=version, contract=contract, base_tree=place.base, candidate=candidate,
        launch=files.launch, attempt=body["attempt"], alpha=body["alpha"],
        threshold=body["threshold"],
        blocks=tuple(
            ConfirmedBlock(
                order=row["order"], trials=tuple(row["trials"]), update_s=tuple(row["update_s"]),
                session=row.get("session", 1),
            )
            for row in body["blocks"]
        ),
        sessions=body.get("sessions", 1), session_gap_s=body.get("session_gap_s", 0.0),
        speedup=verdict.speedup, layers=layers_of(verdict),
        evidence=tuple(map(_evidence_row, launches_behind(history, verdict))),
        verdict=verdict, ledger_head=ledger_head,
    )  # fmt: skip
    return Statement(subject=tuple(subjects), predicate=predicate)


def layers_of(verdict: Verdict) -> tuple[LayerResult, ...]:
    """Give what each layer that spoke concluded."""
    by_layer = {
        layer: [each for each in verdict.findings if each.layer == layer]
        for layer in get_args(Layer)
    }
    return tuple(
        LayerResult(layer=layer, ruling=join(findings), num_findings=len(findings))
        for layer, findings in by_layer.items()
        if findings
    )


def _evidence_row(trial: Trial) -> LaunchEvidence:
    return LaunchEvidence(
        trial_id=trial.trial_id, purpose=trial.purpose, arm=trial.arm, tree=trial.tree_digest,
        events=trial.evidence_digest, source=trial.source_digest, sandbox=trial.sandbox,
    )  # fmt: skip


def _subject(name: str, content: bytes) -> Subject:
    return Subject(name=name, digest={"sha256": hashlib.sha256(content).hexdigest()})


def _patch_subject(patch: Patch) -> Subject:
    return Subject(name=f"patch {patch.name}", digest={"sha256": patch.digest()})
