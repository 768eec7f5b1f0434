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
