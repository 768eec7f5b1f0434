"""status: where a search stands, read without disturbing it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from infrarsi.execute.disk import size_of
from infrarsi.records.effect import KnobEffect
from infrarsi.records.estimate import Estimate
from infrarsi.records.plan import Plan
from infrarsi.render import numbers
from infrarsi.stages.history import History
from infrarsi.stages.naming import words_of
from infrarsi.stages.reporting.knob_effects import ignored_knobs, in_words
from infrarsi.stages.reporting.recurring import sessions_in_words
from infrarsi.stages.spending import bill, num_screened, spent_s
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
    spent_usd: float | None
    """Of the search: the machine and the language models. ``None``: the machine has no price."""
    max_usd: float | None
    total_usd: float | None
    """Of everything since the lock, doctor and apply included."""
    usd_note: str
    """What is missing in the dollars, and what to set."""
    outcomes: dict[str, int]
    best: str | None
    best_speedup: float | None
    """Of one screening launch: it ranks, and decides nothing."""
    in_flight: str | None
    """The trial that was started and has not ended."""
    branch: str | None
    sessions: tuple[str, ...]
    """Which sessions of a confirmation passed, and when the next may be held, in words."""
    quality: str | None
    """What a test of training beyond the window came to, in words."""
    silent_knobs: tuple[KnobEffect, ...]
    """Knobs that had no visible effect wherever they were turned."""
    kept_bytes: dict[str, int]
    """What the state folder takes on the disk, by what it holds; the largest first."""


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
    plan, paid = workspace.contract.plan, bill(workspace.contract.plan, history)
    started = [e.body["trial_id"] for e in history.events if e.kind == "trial_started"]
    waiting = [name for name in started if name not in history.trials]
    return Status(
        contract=workspace.contract.name, commit=workspace.lock.commit, stage=_stage(history),
        reference_update_s=baseline.update_s if baseline else None,
        num_screened=num_screened(history), max_trials=budget.max_trials,
        spent_s=spent_s(history), max_wall_s=budget.max_wall_s,
        spent_usd=bill(plan, history, command="run").usd, max_usd=budget.max_usd,
        total_usd=paid.usd, usd_note=paid.note, outcomes=outcomes,
        best=words_of(best.trial.candidate, defaults) if best else None,
        best_speedup=(
            baseline.update_s.point / best.update_s if baseline and best and best.update_s else None
        ),
        in_flight=waiting[-1] if waiting else None,
        branch=history.promotion.branch if history.promotion else None,
        sessions=tuple(sessions_in_words(plan, history)),
        quality=_quality(history),
        silent_knobs=ignored_knobs(workspace, history), kept_bytes=_kept_bytes(workspace),
    )  # fmt: skip


def _quality(history: History) -> str | None:
    tested = history.horizon
    if tested is None:
        return None
    seeds = numbers.counted(len(tested.seeds), "seed")
    return f"quality after {tested.updates} updates, {seeds}: {tested.ruling.value}"


def _stage(history: History) -> str:
    if history.baseline is None:
        return "doctor"
    if history.choice is None:
        return "run"
    return "apply" if history.promotion is None else "report"


def _kept_bytes(workspace: Workspace) -> dict[str, int]:
    """Measure what each part of the state folder takes: evidence is kept for good, and counted."""
    sizes = {place.name: size_of(place) for place in workspace.folder.iterdir()}
    return dict(sorted(sizes.items(), key=lambda each: (-each[1], each[0])))


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
        + (
            f", {numbers.dollars(status.spent_usd)} of {numbers.dollars(status.max_usd)}"
            if status.max_usd is not None
            else ""
        )
    )
    note = f" ({status.usd_note})" if status.usd_note else ""
    if status.total_usd is not None:
        lines.append(f"spent since the lock: {numbers.dollars(status.total_usd)}{note}")
    elif note:
        lines.append(f"spent since the lock: dollars {status.usd_note}")
    if status.best is not None and status.best_speedup is not None:
        lines.append(f"best so far: {status.best} ({status.best_speedup:.2f}x in one launch)")
    if status.in_flight is not None:
        lines.append(f"in flight: {status.in_flight}")
    if status.branch is not None:
        lines.append(f"promoted: {status.branch}")
    lines += status.sessions
    if status.quality is not None:
        lines.append(status.quality)
    lines += [in_words(each) for each in status.silent_knobs]
    parts = [
        f"{name} {size / 1e6:,.1f} MB" for name, size in status.kept_bytes.items() if size >= 50_000
    ]
    total = sum(status.kept_bytes.values()) / 1e6
    lines.append(
        f"kept in .infrarsi: {total:,.1f} MB" + (f" ({', '.join(parts)})" if parts else "")
    )
    return lines


def outcome_in_words(workspace: Workspace, history: History, *, idle: bool = False) -> str:
    """Say what a search came to, and what comes next.

    ``idle`` tells that the command found nothing to do.
    """
    lines = []
    if idle:
        budget = workspace.contract.plan.budget
        dollars = f", {numbers.dollars(budget.max_usd)}" if budget.max_usd is not None else ""
        lines.append(
            f"nothing to do within this budget ({budget.max_trials} trials, "
            f"{numbers.duration(budget.max_wall_s)}{dollars}), of which {num_screened(history)} "
            f"trials and {numbers.duration(spent_s(history))} are spent; a larger --max-trials, "
            "--max-wall or --max-usd goes on searching"
        )
    if ignored := ignored_knobs(workspace, history):
        names = ", ".join(each.knob for each in ignored)
        lines.append(f"no visible effect: {names} (`infrarsi status` says what was compared)")
    if not history.screenings:
        lines.append(
            "no trial was made: nothing is worth trying, or the budget is too small for one"
        )
        return "\n".join(lines)
    if history.choice is None:
        lines.append(
            f"{len(history.screenings)} trials, and none was accepted and faster than the "
            "reference; read why with `infrarsi report`"
        )
        return "\n".join(lines)
    defaults = workspace.contract.task.surface.default_knobs()
    words = words_of(history.choice.candidate, defaults)
    lines += [f"put forward: {words}", "confirm it with `infrarsi apply`"]
    return "\n".join(lines)


def search_in_short(plan: Plan, history: History) -> dict[str, Any]:
    """Give what a search came to, for programs: the choice, what was spent, what was expected."""
    paid = bill(plan, history, command="run")
    return {
        "choice": history.choice,
        "screened": num_screened(history),
        "spent_s": spent_s(history),
        "spent_usd": paid.usd,
        "usd_note": paid.note,
        "expected": history.here.forecasts[-1][1] if history.here.forecasts else None,
    }
