"""Which step comes next in a search: a pure function of the contract and the history."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from infrarsi.judge.findings import HICCUPS
from infrarsi.judge.speedup import ratio_by_round
from infrarsi.records.candidate import Candidate
from infrarsi.records.history import Space
from infrarsi.records.plan import Contract
from infrarsi.records.report import Part
from infrarsi.records.trial import Outcome, Trial
from infrarsi.records.verdict import Ruling
from infrarsi.search import ablation_arms, suggest_next
from infrarsi.stages.history import AGAIN, History
from infrarsi.stages.trial import Request

WINNER_ARM = "winner"
_REDUCED = "the winner without the parts that add nothing"


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


Step: TypeAlias = Launch | Judge | Choose


def next_step(contract: Contract, history: History) -> Step | None:
    """Give the next step of a search, or ``None`` when it is over.

    Judge what has ended; else screen what the strategy suggests while the budget lasts; else
    take the winner apart, round by round; else put it forward without what adds nothing.
    """
    waiting = history.unjudged()
    if waiting is not None:
        return Judge(waiting)
    if history.choice is not None:
        return None
    return (
        _repeat(history)
        or _screen(contract, history)
        or _ablate(contract, history)
        or _choose(contract, history)
    )


def space_of(contract: Contract, history: History) -> Space:
    """Give the joint space of a contract's knobs and the proposed patches."""
    surface = contract.task.surface
    knobs = surface.knobs
    if "sweep" not in contract.plan.proposers:
        knobs = tuple(knob.model_copy(update={"values": (knob.default,)}) for knob in knobs)
    return Space(
        knobs=knobs, constraints=surface.constraints,
        patches=tuple(history.patches[name] for name in sorted(history.patches)),
        incompatible=history.incompatible, capacity_bytes=contract.task.memory.capacity_bytes,
        default_cost_s=history.baseline.launch_s if history.baseline else 60.0,
    )  # fmt: skip


def _repeat(history: History) -> Launch | None:
    """Launch a candidate once more whose launch was disturbed, and nothing else against it."""
    if not history.screenings:
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
    number = len(history.trials_for("screen"))
    remarks = {"reason": f"{AGAIN}: {reasons[0].reason}"}
    return Launch(Request(last.trial.candidate, "screen", replicate=number, remarks=remarks))


def _screen(contract: Contract, history: History) -> Launch | None:
    """Screen the strategy's next candidate, unless ablation began or the budget is spent."""
    if history.trials_for("ablation") or not _may_screen(contract, history):
        return None
    plan = contract.plan
    suggestion = suggest_next(
        space_of(contract, history), history.observations(), strategy=plan.strategy,
        starts=plan.starts, seed=plan.seed,
    )  # fmt: skip
    if suggestion is None:
        return None
    prediction = suggestion.prediction
    remarks = {
        "reason": suggestion.reason,
        "prediction": prediction.model_dump(mode="json") if prediction else None,
    }
    number = len(history.trials_for("screen"))
    return Launch(Request(suggestion.candidate, "screen", replicate=number, remarks=remarks))


def _may_screen(contract: Contract, history: History) -> bool:
    budget = contract.plan.budget
    left_s = budget.max_wall_s - spent_s(history)
    return len(history.screenings) < budget.max_trials and left_s > _reserved_s(contract, history)


def spent_s(history: History) -> float:
    """Give the wall seconds that a search's launches have taken."""
    return sum(
        trial.wall_s for purpose in ("screen", "ablation") for trial in history.trials_for(purpose)
    )


def _reserved_s(contract: Contract, history: History) -> float:
    """Give the wall seconds kept back to take the best so far apart: 45 % at the most."""
    accepted = history.accepted()
    if not accepted:
        return 0.0
    arms = ablation_arms(space_of(contract, history), accepted[0].trial.candidate)
    needed_s = (len(arms) + 1) * contract.plan.ablation_rounds * accepted[0].trial.wall_s
    return min(needed_s, 0.45 * contract.plan.budget.max_wall_s)


def winner_of(contract: Contract, history: History) -> Candidate | None:
    """Give the candidate that is taken apart, or else the fastest one faster than the reference.

    Once ablation has begun the winner stays, whatever is screened later.
    """
    for trial in history.trials_for("ablation"):
        return Candidate.model_validate(history.remarks[trial.trial_id]["winner"])
    reference = Candidate.of(contract.task.surface.default_knobs())
    limit_s = history.baseline.update_s.point if history.baseline else 0.0
    for each in history.accepted():
        if each.trial.candidate != reference and each.update_s and each.update_s < limit_s:
            return each.trial.candidate
    return None


def _ablate(contract: Contract, history: History) -> Launch | None:
    """Launch the next arm of the current round: rounds are complete before the next begins."""
    winner = winner_of(contract, history)
    if winner is None or spent_s(history) >= contract.plan.budget.max_wall_s:
        return None
    arms = _arms(contract, history, winner)
    if len(arms) <= 2:  # one part: taking it out gives the reference
        return None
    done = history.trials_for("ablation")
    failed = {trial.arm for trial in done if trial.outcome is not Outcome.OK}
    for number in range(contract.plan.ablation_rounds):
        present = {trial.arm for trial in done if trial.replicate == number}
        for label, candidate in _shuffled(arms, f"{contract.plan.seed}/{number}"):
            if label not in present and label not in failed:
                remarks = {"winner": winner.model_dump(mode="json")}
                return Launch(
                    Request(candidate, "ablation", arm=label, replicate=number, remarks=remarks)
                )
    return None


def _arms(
    contract: Contract, history: History, winner: Candidate
) -> tuple[tuple[str, Candidate], ...]:
    return ((WINNER_ARM, winner), *ablation_arms(space_of(contract, history), winner))


def _shuffled(arms: Sequence[tuple[str, Candidate]], seed: str) -> list[tuple[str, Candidate]]:
    return sorted(arms, key=lambda arm: hashlib.sha256(f"{seed}/{arm[0]}".encode()).digest())


def _choose(contract: Contract, history: History) -> Step | None:
    winner = winner_of(contract, history)
    if winner is None:
        return None
    parts = attribute(contract, history, winner)
    reduced = _without(contract, history, winner, [part for part in parts if not part.kept])
    if reduced == winner:
        return Choose(winner, parts, "every part of it adds something")
    judged = next((each for each in history.screenings if each.trial.candidate == reduced), None)
    if judged is None:
        number = len(history.trials_for("screen"))
        return Launch(Request(reduced, "screen", replicate=number, remarks={"reason": _REDUCED}))
    if judged in history.accepted():
        return Choose(reduced, parts, _REDUCED)
    kept = tuple(part.model_copy(update={"kept": True}) for part in parts)
    return Choose(winner, kept, "whole: without its small parts it was not accepted")


def attribute(contract: Contract, history: History, winner: Candidate) -> tuple[Part, ...]:
    """Give what each part of the winner adds, from the interleaved rounds."""
    done = history.trials_for("ablation")
    times = {
        (trial.arm, trial.replicate): update_s
        for trial in done
        if (update_s := history.ablation_s.get(trial.trial_id)) is not None
    }
    parts = []
    for label, _candidate in _arms(contract, history, winner)[1:]:
        rounds = [
            (times[label, number], times[WINNER_ARM, number])
            for number in range(contract.plan.ablation_rounds)
            if (label, number) in times and (WINNER_ARM, number) in times
        ]
        failed = next((t for t in done if t.arm == label and t.outcome is not Outcome.OK), None)
        parts.append(_part(contract, label, rounds, failed))
    return tuple(parts)


def _part(
    contract: Contract, label: str, rounds: list[tuple[float, float]], failed: Trial | None
) -> Part:
    kind = "patch" if label.startswith("+") else "knob"
    if failed is not None:
        note = f"without it the launch ends as {failed.outcome}: {failed.reason}"
        return Part(name=label, kind=kind, gain=None, kept=True, note=note)
    if len(rounds) < 2:
        return Part(name=label, kind=kind, gain=None, kept=True, note="not measured: budget spent")
    gain = ratio_by_round([without for without, _ in rounds], [whole for _, whole in rounds])
    kept = gain.low > 1 or gain.point >= 1 + contract.task.objective.least_effect
    return Part(name=label, kind=kind, gain=gain, kept=kept)


def _without(
    contract: Contract, history: History, winner: Candidate, dropped: Sequence[Part]
) -> Candidate:
    """Take several parts out at once, each as ablation took it out alone."""
    arms = dict(_arms(contract, history, winner))
    reduced = winner
    for part in dropped:
        alone = arms[part.name]
        knobs = {
            name: value for name, value in alone.knobs.items() if value != winner.knobs.get(name)
        }
        kept = set(reduced.patches) & set(alone.patches)
        reduced = Candidate.of({**reduced.knobs, **knobs}, kept)
    return reduced
