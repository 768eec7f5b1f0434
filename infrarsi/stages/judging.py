"""Bringing trials before the judge: evidence and facts become cases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from infrarsi.judge.case import Block, Case, Confirmation, Launch, Replay
from infrarsi.judge.decide import judge_screen
from infrarsi.judge.facts import ChangedFile, LaunchFacts
from infrarsi.judge.timing import steady_update_s
from infrarsi.records.baseline import Baseline
from infrarsi.records.candidate import Candidate, Patch
from infrarsi.records.replayed import ReplaySlot
from infrarsi.records.task import Task
from infrarsi.records.trial import Outcome, Trial
from infrarsi.records.verdict import Verdict
from infrarsi.stages.history import History
from infrarsi.stages.launching.trial import Keeper, evidence_of, source_of
from infrarsi.stages.workspace import Workspace


def launch_of(keeper: Keeper, trial: Trial) -> Launch:
    """Give a trial as the judge reads it."""
    facts = LaunchFacts(
        trial_id=trial.trial_id, outcome=trial.outcome, reason=trial.reason,
        stop_update=trial.stop_update, wall_s=trial.wall_s, sandbox=trial.sandbox,
    )  # fmt: skip
    return Launch(evidence_of(keeper, trial), facts, source_of(keeper, trial))


def measured_update_s(workspace: Workspace, trial: Trial) -> float | None:
    """Give the steady seconds an update of a trial, or ``None`` where it ended too soon."""
    if trial.outcome is not Outcome.OK:
        return None
    try:
        return steady_update_s(evidence_of(workspace, trial), workspace.contract.task.window)
    except ValueError:
        return None


def rows_of(
    workspace: Workspace, blocks: Sequence[tuple[str, Sequence[Trial]]], *, session: int | None
) -> list[dict[str, Any]]:
    """Give blocks as a confirmation's event holds them; ``None``: it has no sessions."""
    told = {} if session is None else {"session": session}
    return [
        {
            "order": order,
            "trials": [trial.trial_id for trial in trials],
            "update_s": [measured_update_s(workspace, trial) for trial in trials],
            **told,
        }
        for order, trials in blocks
    ]


def screen(workspace: Workspace, history: History, trial: Trial) -> Verdict | None:
    """Judge one trial against the reference; ``None`` where the launch failed."""
    if trial.outcome is not Outcome.OK:
        return None
    baseline = history.baseline
    assert baseline is not None, "a search starts with a baseline"
    return judge_screen(
        Case(
            subject=trial.candidate.short_id(), task=workspace.contract.task, baseline=baseline,
            candidate=launch_of(workspace, trial),
            reference=reference_of(workspace, history, baseline),
            changed=changes_of(workspace, trial.candidate, history.patches),
        )
    )  # fmt: skip


def reference_of(workspace: Workspace, history: History, baseline: Baseline) -> Launch:
    """Give the launch that candidates are paired with."""
    return launch_of(workspace, history.trials[baseline.reference_trial])


@dataclass(frozen=True)
class Court:
    """What the candidates of one baseline are held against."""

    task: Task
    baseline: Baseline
    reference: Launch


def confirmation_of(
    workspace: Workspace,
    history: History,
    candidate: Candidate,
    blocks: Sequence[tuple[str, Sequence[Trial]]],
    *,
    planned: int,
    attempt: int,
) -> Confirmation:
    """Give a confirmation against the baseline in force, as the judge reads it."""
    baseline = history.baseline
    assert baseline is not None, "a confirmation starts with a baseline"
    reference = reference_of(workspace, history, baseline)
    court = Court(workspace.contract.task, baseline, reference)
    return confirmation_in(
        workspace, court, candidate, blocks, planned=planned, attempt=attempt, history=history,
        patches=history.patches,
    )  # fmt: skip


def confirmation_in(
    keeper: Keeper,
    court: Court,
    candidate: Candidate,
    blocks: Sequence[tuple[str, Sequence[Trial]]],
    *,
    planned: int,
    attempt: int,
    history: History,
    patches: Mapping[str, Patch],
) -> Confirmation:
    """Give a confirmation against any baseline of a search, with the patches as they were then."""
    return Confirmation(
        subject=candidate.short_id(), task=court.task, baseline=court.baseline,
        reference=court.reference,
        blocks=tuple(
            Block(order, tuple(launch_of(keeper, trial) for trial in trials))
            for order, trials in blocks
        ),
        planned_blocks=planned, attempt=attempt, changed=changes_of(keeper, candidate, patches),
        replay=replay_of(keeper, history, *_sitting_of(history, blocks, attempt)),
    )  # fmt: skip


def _sitting_of(
    history: History, blocks: Sequence[tuple[str, Sequence[Trial]]], attempt: int
) -> tuple[int, int]:
    """Give the attempt and the session that blocks were launched in.

    A session may be judged under a later attempt than the one that it was held for.
    """
    first = next((trial.trial_id for _, trials in blocks for trial in trials), "")
    remarks = history.remarks.get(first, {})
    return int(remarks.get("attempt", attempt)), int(remarks.get("session", 1))


def replay_of(keeper: Keeper, history: History, attempt: int, session: int = 1) -> Replay | None:
    """Give what was replayed of a confirmation, from the ledger; ``None`` where nothing was."""
    slots: tuple[ReplaySlot, ...] = ()
    launches: dict[str, Launch] = {}
    for trial in history.trials.values():
        remarks = history.remarks.get(trial.trial_id, {})
        held_in = remarks.get("attempt"), remarks.get("session", 1)
        if trial.purpose == "replay" and held_in == (attempt, session):
            slots = tuple(ReplaySlot.model_validate(each) for each in remarks["slots"])
            launches[trial.arm] = launch_of(keeper, trial)
    if not slots:
        return None
    return Replay(slots, of_winner=launches.get("winner"), of_reference=launches.get("reference"))


def changes_of(
    keeper: Keeper, candidate: Candidate, patches: Mapping[str, Patch]
) -> tuple[ChangedFile, ...]:
    """Give what a candidate's patches change, edit by edit, for the audit."""
    return tuple(
        ChangedFile(path=edit.path, before=edit.search or None, after=edit.replace)
        for name in candidate.patches
        for edit in patches[name].edits
    )
