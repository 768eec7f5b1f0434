"""run: ask for the next step, do it, record it, fold it in. Restart is replay of the ledger."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Protocol

from infrarsi.propose.language.consultant import Consultant
from infrarsi.stages.doctor import require_baseline
from infrarsi.stages.experience.recall import NO_BANKS, Banks, recall, remember
from infrarsi.stages.history import History
from infrarsi.stages.judging import measured_update_s, screen
from infrarsi.stages.launching.trial import perform_trial
from infrarsi.stages.searching.ask import ask, open_consultant
from infrarsi.stages.searching.asking import Ask
from infrarsi.stages.searching.expect import estimate
from infrarsi.stages.searching.propose import propose
from infrarsi.stages.searching.steps import Choose, Judge, Launch, Step, next_step
from infrarsi.stages.spending import refuse_unknown_price
from infrarsi.stages.workspace import Workspace


class View(Protocol):
    """Whoever watches a search."""

    def say(self, text: str) -> None:
        """Take in a sentence about the search as a whole."""

    def begin(self, step: Step, history: History) -> None:
        """See that a step begins."""

    def end(self, step: Step, history: History) -> None:
        """See that a step has ended and was folded in."""


def run_search(
    workspace: Workspace, *, view: View, typed_url: str | None = None, banks: Banks = NO_BANKS
) -> History:
    """Search until the budget is spent or nothing worth trying is left; resume where it was.

    Where a budget leaves nothing to do, the ledger stays as it is; a larger one goes on.

    Parameters
    ----------
    workspace
        The locked repository.
    view
        Shown every step.
    typed_url
        Address of a language model's server, where the user typed one.
    banks
        Where experience comes from, and where what was learnt is kept.

    Raises
    ------
    UsageError
        The reference was never measured on this machine; dollars are limited and have no price;
        or a language model is wanted, and its name, its key or the consent to send source is
        missing.
    BankError
        A bank that the user named cannot be used.
    """
    consultant = open_consultant(workspace.contract, typed_url=typed_url)
    history = History.of(workspace.ledger.events)
    require_baseline(workspace, history)
    plan, gpus = workspace.contract.plan, len(workspace.machine.accelerators)
    refuse_unknown_price(plan, num_accelerators=gpus, max_usd=plan.budget.max_usd)
    if history.proposed and _next(workspace, history, consultant, now=None) is None:
        remember(workspace, banks, tell=view.say)
        return history
    history.fold(workspace.begin("run"))
    if not history.proposed:
        history.fold(workspace.ledger.append("proposed", propose(workspace)))
    history.fold(estimate(workspace, history, tell=view.say))
    recall(workspace, history, banks, tell=view.say)
    while (step := _next(workspace, history, consultant, now=datetime.now(UTC))) is not None:
        view.begin(step, history)
        perform(workspace, history, step, view, consultant)
        view.end(step, history)
    remember(workspace, banks, tell=view.say)
    return history


def _next(
    workspace: Workspace,
    history: History,
    consultant: Consultant | None,
    *,
    now: datetime | None,
) -> Step | None:
    may_ask = consultant is not None and consultant.is_ready(len(history.screenings))
    return next_step(workspace.contract, history, may_ask=may_ask, now=now)


def perform(
    workspace: Workspace,
    history: History,
    step: Step,
    view: View,
    consultant: Consultant | None = None,
) -> None:
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
        case Ask(mending=mending) if consultant is not None:
            asked = ask(workspace, history, consultant, mending=mending)
            workspace.ledger.append("asked", asked.model_dump(mode="json"))
        case Choose():
            workspace.ledger.append("chosen", {
                "candidate": step.candidate.model_dump(mode="json"),
                "parts": [part.model_dump(mode="json") for part in step.parts],
                "reason": step.reason,
                "winner": step.winner.model_dump(mode="json"),
                "budget": step.budget.model_dump(mode="json"),
            })  # fmt: skip
    for event in workspace.ledger.events[seen:]:
        history.fold(event)
