"""Which step comes next in a search: a pure function of the contract, the history and the time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from infrarsi.judge.findings import HICCUPS
from infrarsi.records.candidate import Candidate
from infrarsi.records.history import Prediction
from infrarsi.records.plan import Budget, Contract
from infrarsi.records.report import Part
from infrarsi.records.trial import Trial
from infrarsi.records.verdict import Ruling
from infrarsi.search import ablation_arms, suggest_next
from infrarsi.stages.history import AGAIN, History
from infrarsi.stages.launching.trial import Request
from infrarsi.stages.measured import REDUCED
from infrarsi.stages.searching.asking import Ask, next_ask, next_setting, reason_of
from infrarsi.stages.searching.parts import UNMEASURED, attribute, next_arm, space_of, without
from infrarsi.stages.spending import Purse, num_screened, purse_of, spent_s


@dataclass(frozen=True)
class Launch:
    """Perform a trial."""

    request: Request


@dataclass(frozen=True)
class Judge:
    """Judge a trial that has ended."""

    trial: Trial


@dataclass(frozen=True)
class Choose:
    """Put a candidate forward."""

    candidate: Candidate
    parts: tuple[Part, ...]
    reason: str
    winner: Candidate
    """The candidate before the parts that add nothing were taken out."""
    budget: Budget
    """What the search that came to it might spend."""


Step: TypeAlias = Launch | Judge | Ask | Choose


def next_step(
    contract: Contract, history: History, *, may_ask: bool = True, now: datetime | None = None
) -> Step | None:
    """Give the next step of a search, or ``None`` when it is over.

    Judge what has ended; else ask a language model, where one is wanted and may be asked; else
    screen what the strategy suggests while the budget lasts; else take the winner apart, round
    by round; else put it forward without what adds nothing. After that nothing comes, unless the
    budget was raised: then the search goes on, and chooses anew.

    Parameters
    ----------
    contract
        Its plan holds the budget.
    history
        All that happened.
    may_ask
        Whether a language model can be asked now.
    now
        The time, where a search is going on; without it, time stands at the last event.
    """
    waiting = history.unjudged()
    if waiting is not None:
        return Judge(waiting)
    if not is_open(contract, history):
        return None
    purse = purse_of(contract, history, now=now)
    return (
        _repeat(contract, history, purse)
        or _ask(contract, history, purse, may_ask=may_ask)
        or _screen(contract, history, purse)
        or _ask(contract, history, purse, may_ask=may_ask, is_last_resort=True)
        or _ablate(contract, history, purse)
        or _choose(contract, history, purse)
    )


def is_open(contract: Contract, history: History) -> bool:
    """Tell whether nothing was put forward yet, or the budget was raised since."""
    choice = history.choice
    if choice is None:
        return True
    spent = Budget(max_trials=max(1, num_screened(history)), max_wall_s=max(1.0, spent_s(history)))
    return contract.plan.budget.allows_more_than(choice.budget or spent)


def _repeat(contract: Contract, history: History, purse: Purse) -> Launch | None:
    """Launch a candidate once more whose launch was disturbed, and nothing else against it."""
    if not history.screenings or purse.is_empty:
        return None
    last = history.screenings[-1]
    reasons = last.verdict.reasons if last.verdict else ()
    disturbed = reasons and all(
        finding.layer == "timing"
        and (finding.ruling is Ruling.INCONCLUSIVE or finding.check in HICCUPS)
        for finding in reasons
    )
    if not disturbed or last.is_repeat:
        return None
    if last.reason != REDUCED and num_screened(history) >= contract.plan.budget.max_trials:
        return None
    return _screening(history, last.trial.candidate, f"{AGAIN}: {reasons[0].reason}")


def _ask(
    contract: Contract,
    history: History,
    purse: Purse,
    *,
    may_ask: bool,
    is_last_resort: bool = False,
) -> Ask | None:
    """Ask a language model, where one is wanted and there is room for what it may propose."""
    ask = next_ask(contract.plan, history, is_last_resort=is_last_resort) if may_ask else None
    return ask if ask is not None and _may_screen(contract, history, purse) else None


def _screen(contract: Contract, history: History, purse: Purse) -> Launch | None:
    """Screen the strategy's next candidate, unless ablation began or the budget is spent."""
    if history.ablation_begun() or not _may_screen(contract, history, purse):
        return None
    former = _former_winner(contract, history)
    if former is not None:
        return _screening(history, former, "put forward on the machine before")
    plan = contract.plan
    setting = next_setting(plan, history)
    if setting is not None:
        return _screening(history, setting.candidate, reason_of(setting))
    suggestion = suggest_next(
        space_of(contract, history), history.observations(), strategy=plan.strategy,
        starts=plan.starts, seed=plan.seed,
        affordable_s=(purse.left_s - reserved_s(contract, history, purse)) / purse.overhead,
        experience=history.here.experience,
    )  # fmt: skip
    if suggestion is None:
        left = next_setting(plan, history, is_last_resort=True)
        return _screening(history, left.candidate, reason_of(left)) if left else None
    return _screening(
        history, suggestion.candidate, suggestion.reason, prediction=suggestion.prediction
    )


def _screening(
    history: History, candidate: Candidate, reason: str, *, prediction: Prediction | None = None
) -> Launch:
    number = len(history.trials_for("screen"))
    remarks = {
        "reason": reason,
        "prediction": prediction.model_dump(mode="json") if prediction else None,
    }
    return Launch(Request(candidate, "screen", replicate=number, remarks=remarks))


def _may_screen(contract: Contract, history: History, purse: Purse) -> bool:
    return num_screened(history) < contract.plan.budget.max_trials and purse.left_s > reserved_s(
        contract, history, purse
    )


def reserved_s(contract: Contract, history: History, purse: Purse) -> float:
    """Give the seconds kept back to take the best so far apart: 45 % at the most."""
    accepted = history.accepted()
    if not accepted:
        return 0.0
    arms = ablation_arms(space_of(contract, history), accepted[0].trial.candidate)
    launch_s = accepted[0].trial.wall_s * purse.overhead
    needed_s = (len(arms) + 1) * contract.plan.ablation_rounds * launch_s
    return max(0.0, min(needed_s, 0.45 * (purse.spent_s + purse.left_s)))


def _former_winner(contract: Contract, history: History) -> Candidate | None:
    """Give what was put forward on the machine before, where it was not screened on this one."""
    choices = [search.choice for search in history.elsewhere if search.choice]
    if not choices:
        return None
    candidate = choices[-1].candidate
    if any(each.trial.candidate == candidate for each in history.screenings):
        return None
    try:
        ablation_arms(space_of(contract, history), candidate)
    except ValueError:  # it lies outside of what is searched now
        return None
    return candidate


def winner_of(contract: Contract, history: History) -> Candidate | None:
    """Give the candidate that is taken apart, or else the fastest one faster than the reference.

    Once ablation has begun the winner stays, whatever is screened later; and what was put
    forward stays until something screened since is faster.
    """
    for trial in history.ablation_begun():
        return Candidate.model_validate(history.remarks[trial.trial_id]["winner"])
    reference = Candidate.of(contract.task.surface.default_knobs())
    limit_s = history.baseline.update_s.point if history.baseline else 0.0
    faster = (
        each.trial
        for each in history.accepted()
        if each.trial.candidate != reference and each.update_s and each.update_s < limit_s
    )
    best, choice = next(faster, None), history.choice
    if choice is not None and (best is None or best.trial_id in history.here.settled):
        return choice.winner or choice.candidate
    return best.candidate if best else None


def _ablate(contract: Contract, history: History, purse: Purse) -> Launch | None:
    winner = winner_of(contract, history)
    if winner is None or purse.is_empty:
        return None
    arm = next_arm(contract, history, winner)
    if arm is None:
        return None
    label, candidate, number = arm
    remarks = {
        "winner": winner.model_dump(mode="json"),
        "budget": _budget(contract, history).model_dump(mode="json"),
    }
    return Launch(Request(candidate, "ablation", arm=label, replicate=number, remarks=remarks))


def _choose(contract: Contract, history: History, purse: Purse) -> Step | None:
    winner = winner_of(contract, history)
    if winner is None:
        return None
    parts, budget = attribute(contract, history, winner), _budget(contract, history)
    reduced = without(contract, history, winner, [part for part in parts if not part.kept])
    if reduced == winner:
        return Choose(winner, parts, _whole_in_words(parts), winner, budget)
    judged = [each for each in history.screenings if each.trial.candidate == reduced]
    if judged and judged[-1] in history.accepted():
        return Choose(reduced, parts, REDUCED, winner, budget)
    if not judged and not purse.is_empty:
        return _screening(history, reduced, REDUCED)
    kept = tuple(part.model_copy(update={"kept": True}) for part in parts)
    why = "was not accepted" if judged else "could not be tried, the budget being spent"
    return Choose(winner, kept, f"whole: without its small parts it {why}", winner, budget)


def _whole_in_words(parts: Sequence[Part]) -> str:
    """Say why nothing was taken out of a winner."""
    if len(parts) == 1:
        return "it has a single part"
    if any(part.note == UNMEASURED for part in parts):
        return "whole: the budget ended before what each part adds was measured"
    return "every part of it adds something"


def _budget(contract: Contract, history: History) -> Budget:
    """Give the budget of the screening that led here: ablation may go on under a larger one."""
    for trial in history.ablation_begun():
        stored = history.remarks[trial.trial_id].get("budget")
        if stored is not None:
            return Budget.model_validate(stored)
    return contract.plan.budget
