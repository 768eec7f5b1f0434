"""status: where a search stands, read without disturbing it."""

from __future__ import annotations

from dataclasses import dataclass

from infrarsi.records.estimate import Estimate
from infrarsi.stages.history import History
from infrarsi.stages.report import words_of
from infrarsi.stages.steps import spent_s
from infrarsi.stages.workspace import Workspace


@dataclass(frozen=True)
class Status:
    """Where a search stands."""

    contract: str
    commit: str
    stage: str
    """The stage that comes next: ``doctor``, ``run``, ``apply`` or ``report``."""
    reference_update_s: Estimate | None
    num_screened: int
    max_trials: int
    spent_s: float
    max_wall_s: float
    outcomes: dict[str, int]
    best: str | None
    best_speedup: float | None
    """Of one screening launch: it ranks, and decides nothing."""
    in_flight: str | None
    """The trial that was started and has not ended."""
    branch: str | None


def read_status(workspace: Workspace) -> Status:
    """Fold the ledger into a few lines."""
    history = History.of(workspace.ledger.events)
    budget, baseline = workspace.contract.plan.budget, history.baseline
    defaults = workspace.contract.task.surface.default_knobs()
    best = next(iter(history.accepted()), None)
    outcomes: dict[str, int] = {}
    for screening in history.screenings:
        name = screening.trial.outcome.value
        outcomes[name] = outcomes.get(name, 0) + 1
    started = [e.body["trial_id"] for e in history.events if e.kind == "trial_started"]
    waiting = [name for name in started if name not in history.trials]
    return Status(
        contract=workspace.contract.name, commit=workspace.lock.commit, stage=_stage(history),
        reference_update_s=baseline.update_s if baseline else None,
        num_screened=len(history.screenings), max_trials=budget.max_trials,
        spent_s=spent_s(history), max_wall_s=budget.max_wall_s, outcomes=outcomes,
        best=words_of(best.trial.candidate, defaults) if best else None,
        best_speedup=(
            baseline.update_s.point / best.update_s if baseline and best and best.update_s else None
        ),
        in_flight=waiting[-1] if waiting else None,
        branch=history.promotion.branch if history.promotion else None,
    )  # fmt: skip


def _stage(history: History) -> str:
    if history.baseline is None:
        return "doctor"
    if history.choice is None:
        return "run"
    return "apply" if history.promotion is None else "report"


def status_in_words(status: Status) -> list[str]:
    """Say where a search stands, a fact a line."""
    lines = [
        f"contract {status.contract}, commit {status.commit[:12]}",
        f"next: infrarsi {status.stage}",
    ]
    if status.reference_update_s is not None:
        lines.append(f"reference: {status.reference_update_s.point:.4g} s an update")
    outcomes = ", ".join(f"{count} {name}" for name, count in sorted(status.outcomes.items()))
    lines.append(
        f"screened {status.num_screened} of {status.max_trials} trials"
        + (f" ({outcomes})" if outcomes else "")
        + f", {status.spent_s:.0f} of {status.max_wall_s:.0f} s"
    )
    if status.best is not None and status.best_speedup is not None:
        lines.append(f"best so far: {status.best} ({status.best_speedup:.2f}x in one launch)")
    if status.in_flight is not None:
        lines.append(f"in flight: {status.in_flight}")
    if status.branch is not None:
        lines.append(f"promoted: {status.branch}")
    return lines


def outcome_in_words(workspace: Workspace, history: History) -> str:
    """Say what a search came to, and what comes next."""
    if history.choice is None:
        return (
            f"{len(history.screenings)} trials, and none was accepted and faster than the "
            "reference; read why with `infrarsi report`"
        )
    defaults = workspace.contract.task.surface.default_knobs()
    words = words_of(history.choice.candidate, defaults)
    return f"put forward: {words}\nconfirm it with `infrarsi apply`"
