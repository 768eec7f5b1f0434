"""run: ask for the next step, do it, record it, fold it in. Restart is replay of the ledger."""

from __future__ import annotations

from typing import Protocol

from infrarsi.stages.doctor import require_baseline
from infrarsi.stages.history import History
from infrarsi.stages.judging import measured_update_s, screen
from infrarsi.stages.propose import propose
from infrarsi.stages.steps import Choose, Judge, Launch, Step, next_step
from infrarsi.stages.trial import perform_trial
from infrarsi.stages.workspace import Workspace


class View(Protocol):
    """Whoever watches a search."""

    def begin(self, step: Step, history: History) -> None:
        """See that a step begins."""

    def end(self, step: Step, history: History) -> None:
        """See that a step has ended and was folded in."""


def run_search(workspace: Workspace, *, view: View) -> History:
    """Search until the budget is spent or nothing worth trying is left; resume where it was.

    Raises
    ------
    UsageError
        The reference was never measured on this machine.
    """
    history = History.of(workspace.ledger.events)
    require_baseline(workspace, history)
    if not history.proposed:
        history.fold(workspace.ledger.append("proposed", propose(workspace)))
    while (step := next_step(workspace.contract, history)) is not None:
        view.begin(step, history)
        perform(workspace, history, step, view)
        view.end(step, history)
    return history


def perform(workspace: Workspace, history: History, step: Step, view: View) -> None:
    """Do one step; what it came to stands in the ledger before it is folded in."""
    seen = len(workspace.ledger.events)
    match step:
        case Launch(request=request):
            perform_trial(workspace, request, patches=history.patches)
        case Judge(trial=trial) if trial.purpose == "ablation":
            update_s = measured_update_s(workspace, trial)
            workspace.ledger.append("measured", {"trial_id": trial.trial_id, "update_s": update_s})
        case Judge(trial=trial):
            verdict = screen(workspace, history, trial)
            workspace.ledger.append("screened", {
                "trial_id": trial.trial_id,
                "verdict": verdict.model_dump(mode="json") if verdict else None,
                "update_s": measured_update_s(workspace, trial),
            })  # fmt: skip
        case Choose(candidate=candidate, parts=parts, reason=reason):
            workspace.ledger.append("chosen", {
                "candidate": candidate.model_dump(mode="json"),
                "parts": [part.model_dump(mode="json") for part in parts],
                "reason": reason,
            })  # fmt: skip
    for event in workspace.ledger.events[seen:]:
        history.fold(event)
