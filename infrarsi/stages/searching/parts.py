"""What each part of a winner adds: told from the interleaved rounds of its ablation."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from infrarsi.judge.speedup import ratio_by_round
from infrarsi.records.candidate import Candidate
from infrarsi.records.constraint import first_broken
from infrarsi.records.history import Space
from infrarsi.records.plan import Contract
from infrarsi.records.report import Part
from infrarsi.records.trial import Outcome, Trial
from infrarsi.search import ablation_arms
from infrarsi.stages.history import History
from infrarsi.stages.searching.asking import without_sweep

WINNER_ARM = "winner"
UNMEASURED = "not measured: budget spent"
SINGLE = "the only part: it adds what the whole does"


def space_of(contract: Contract, history: History) -> Space:
    """Give the joint space of a contract's knobs and the proposed patches."""
    surface = contract.task.surface
    knobs = surface.knobs
    if "sweep" not in contract.plan.proposers:
        knobs = tuple(without_sweep(knob, history) for knob in knobs)
    return Space(
        knobs=knobs, constraints=surface.constraints,
        patches=tuple(history.patches[name] for name in sorted(history.patches)),
        incompatible=history.incompatible, capacity_bytes=contract.task.memory.capacity_bytes,
        default_cost_s=history.baseline.launch_s if history.baseline else 60.0,
        context=contract.plan.context, derived=contract.plan.derived,
    )  # fmt: skip


def arms_of(
    contract: Contract, history: History, winner: Candidate
) -> tuple[tuple[str, Candidate], ...]:
    """Give the winner, and the winner without each of its parts, each with its label."""
    return ((WINNER_ARM, winner), *ablation_arms(space_of(contract, history), winner))


def ablation_of(history: History, winner: Candidate) -> list[Trial]:
    """Give the launches that took a winner apart, whenever that was."""
    return [
        trial
        for trial in history.trials_for("ablation")
        if Candidate.model_validate(history.remarks[trial.trial_id]["winner"]) == winner
    ]


def next_arm(
    contract: Contract, history: History, winner: Candidate
) -> tuple[str, Candidate, int] | None:
    """Give the next arm to launch and its round: rounds are complete before the next begins."""
    arms = arms_of(contract, history, winner)
    if len(arms) <= 2:  # one part: taking it out gives the reference
        return None
    done = ablation_of(history, winner)
    failed = {trial.arm for trial in done if trial.outcome is not Outcome.OK}
    for number in range(contract.plan.ablation_rounds):
        present = {trial.arm for trial in done if trial.replicate == number}
        for label, candidate in _shuffled(arms, f"{contract.plan.seed}/{number}"):
            if label not in present and label not in failed:
                return label, candidate, number
    return None


def attribute(contract: Contract, history: History, winner: Candidate) -> tuple[Part, ...]:
    """Give what each part of the winner adds."""
    done = ablation_of(history, winner)
    times = {
        (trial.arm, trial.replicate): update_s
        for trial in done
        if (update_s := history.ablation_s.get(trial.trial_id)) is not None
    }
    parts = []
    for label, _candidate in arms_of(contract, history, winner)[1:]:
        rounds = [
            (times[label, number], times[WINNER_ARM, number])
            for number in range(contract.plan.ablation_rounds)
            if (label, number) in times and (WINNER_ARM, number) in times
        ]
        failed = next((t for t in done if t.arm == label and t.outcome is not Outcome.OK), None)
        parts.append(_part(contract, label, rounds, failed))
    if len(parts) == 1 and parts[0].note == UNMEASURED:
        return (parts[0].model_copy(update={"note": SINGLE}),)
    return tuple(parts)


def without(
    contract: Contract, history: History, winner: Candidate, dropped: Sequence[Part]
) -> Candidate:
    """Take several parts out at once, each as ablation took it out alone.

    A part stays where taking it out beside the others would break a constraint.
    """
    surface = contract.task.surface
    arms = dict(arms_of(contract, history, winner))
    reduced = winner
    for part in dropped:
        alone = arms[part.name]
        knobs = {
            name: value for name, value in alone.knobs.items() if value != winner.knobs.get(name)
        }
        kept = set(reduced.patches) & set(alone.patches)
        fewer = Candidate.of({**reduced.knobs, **knobs}, kept)
        if first_broken(surface.constraints, {**surface.default_knobs(), **fewer.knobs}) is None:
            reduced = fewer
    return reduced


def _shuffled(arms: Sequence[tuple[str, Candidate]], seed: str) -> list[tuple[str, Candidate]]:
    return sorted(arms, key=lambda arm: hashlib.sha256(f"{seed}/{arm[0]}".encode()).digest())


def _part(
    contract: Contract, label: str, rounds: list[tuple[float, float]], failed: Trial | None
) -> Part:
    kind = "patch" if label.startswith("+") else "knob"
    if failed is not None:
        note = f"without it the launch ends as {failed.outcome}: {failed.reason}"
        return Part(name=label, kind=kind, gain=None, kept=True, note=note)
    if len(rounds) < 2:
        return Part(name=label, kind=kind, gain=None, kept=True, note=UNMEASURED)
    gain = ratio_by_round([without for without, _ in rounds], [whole for _, whole in rounds])
    kept = gain.low > 1 or gain.point >= 1 + contract.task.objective.least_effect
    return Part(name=label, kind=kind, gain=gain, kept=kept)
