"""What was spent so far, in seconds and dollars, and what a budget leaves."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from infrarsi.errors import UsageError
from infrarsi.records.plan import Contract, Plan
from infrarsi.records.trial import Trial
from infrarsi.stages.history import History
from infrarsi.stages.measured import REDUCED
from infrarsi.stages.periods import Period
from infrarsi.store.contract import CONTRACT_FILE

_MOST_OVERHEAD = 3.0
"""Where launches are so short that the rest takes longer, what is kept back stays in bounds."""


@dataclass(frozen=True)
class Bill:
    """US dollars, as far as they are known."""

    machine_usd: float | None
    """``None``: the machine has no price."""
    models_usd: float = 0.0
    """What is known of the language models' price."""
    note: str = ""
    """What is missing in it, and what to set."""
    is_whole: bool = True
    """Whether every call of a language model has a known price."""

    @property
    def usd(self) -> float | None:
        """The sum, or ``None`` where the machine has no price."""
        return None if self.machine_usd is None else self.machine_usd + self.models_usd


def spent_s(history: History, command: str = "run", *, now: datetime | None = None) -> float:
    """Give the seconds by the clock that a command has been at work for the search on this machine.

    Launches, judging and choosing count, pauses between commands do not. With ``now``, the
    last period is still going on.
    """
    return sum(
        each.wall_s(now if each is history.periods.all[-1] else None)
        for each in history.here.periods
        if each.command == command
    )


def bill(
    plan: Plan, history: History, *, command: str | None = None, now: datetime | None = None
) -> Bill:
    """Add up what everything has cost since the lock, failed and killed launches too.

    With ``command``: what that command has cost for the search on this machine.
    """
    chosen = history.periods.all
    if command is not None:
        chosen = [each for each in history.here.periods if each.command == command]
    last = history.periods.all[-1] if history.periods.all else None
    amounts: list[float] = []
    missing = ""
    for period in chosen:
        seconds = period.wall_s(now if period is last else None)
        price = plan.prices.usd_per_s(_num_accelerators(history, period))
        if price is not None:
            amounts.append(seconds * price)
        elif seconds > 0:
            missing = missing_price(_num_accelerators(history, period))
    calls = history.asked if command is None else history.here.calls if command == "run" else []
    unknown = sorted({call.model for call in calls if call.usd is None})
    notes = [f"not known: set {missing} in {CONTRACT_FILE}"] if missing else []
    if unknown:
        notes.append(f"at least: the price of a call of {', '.join(unknown)} is not known")
    return Bill(
        machine_usd=None if missing else sum(amounts),
        models_usd=sum(call.usd for call in calls if call.usd is not None),
        note="; ".join(notes), is_whole=not unknown,
    )  # fmt: skip


def trial_usd(plan: Plan, history: History, trial: Trial) -> float | None:
    """Give what one launch cost, however it ended; ``None`` where the machine has no price."""
    period = history.periods.of_trial.get(trial.trial_id)
    price = plan.prices.usd_per_s(_num_accelerators(history, period))
    return None if price is None else trial.wall_s * price


def trial_gpu_s(history: History, trial: Trial) -> float:
    """Give the seconds that a launch held accelerators, also where it did not live to name them."""
    period = history.periods.of_trial.get(trial.trial_id)
    return trial.gpu_s or trial.wall_s * _num_accelerators(history, period)


def num_screened(history: History) -> int:
    """Count what ``max_trials`` limits: screenings and repeats, but for what ends an ablation."""
    number, counts = 0, True
    for screening in history.screenings:
        if not screening.is_repeat:
            counts = screening.reason != REDUCED
        number += counts
    return number


@dataclass(frozen=True)
class Purse:
    """What a search has spent, and what its budget leaves: in seconds, or what dollars buy."""

    spent_s: float
    left_s: float
    overhead: float = 1.0
    """Seconds by the clock for one second of launches."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing may be launched any more."""
        return self.left_s <= 0


def purse_of(contract: Contract, history: History, *, now: datetime | None = None) -> Purse:
    """Give what a search may still spend; time stands at the last event where ``now`` is not given.

    A dollar limit counts as the seconds of this machine that the rest of it pays for.
    """
    budget, spent = contract.plan.budget, spent_s(history, now=now)
    periods = [period for period in history.here.periods if period.command == "run"]
    launches_s = sum(period.launches_s for period in periods)
    overhead = min(max(spent / launches_s, 1.0), _MOST_OVERHEAD) if launches_s else 1.0
    left = budget.max_wall_s - spent
    paid = bill(contract.plan, history, command="run", now=now).usd
    if budget.max_usd is not None and paid is not None:
        last = history.periods.all[-1] if history.periods.all else None
        price = contract.plan.prices.usd_per_s(_num_accelerators(history, last)) or 0.0
        usd_left = budget.max_usd - paid
        if usd_left <= 0:
            left = min(left, 0.0)
        elif price > 0:
            left = min(left, usd_left / price)
    return Purse(spent, left, overhead)


def refuse_unknown_price(plan: Plan, *, num_accelerators: int, max_usd: float | None) -> None:
    """Refuse a limit in dollars where something has no price.

    Raises
    ------
    UsageError
        With the price that is missing.
    """
    if max_usd is None:
        return
    if plan.prices.usd_per_s(num_accelerators) is None:
        missing = missing_price(num_accelerators)
        raise UsageError(
            f"a limit of {max_usd:g} dollars cannot be kept: {missing} is not known",
            hint=f"set {missing} in {CONTRACT_FILE} (0 where the machine costs nothing), or "
            "limit the time with --max-wall",
        )
    language = plan.language
    if "language" in plan.proposers and None in (
        language.usd_per_million_input_tokens, language.usd_per_million_output_tokens,
    ):  # fmt: skip
        raise UsageError(
            f"a limit of {max_usd:g} dollars cannot be kept: the price of the language model "
            f"{language.model} is not known",
            hint="set plan.language.usd_per_million_input_tokens and _output_tokens in "
            f"{CONTRACT_FILE} (0 for a server of your own), or limit the time with --max-wall",
        )


def missing_price(num_accelerators: int) -> str:
    """Name the setting that would give a machine its price."""
    return f"plan.prices.usd_per_{'gpu' if num_accelerators else 'machine'}_hour"


def _num_accelerators(history: History, period: Period | None) -> int:
    """Give how many accelerators were paid for: as the command saw them, else as doctor did."""
    if period is not None and period.num_accelerators is not None:
        return period.num_accelerators
    return len(history.machine.accelerators) if history.machine else 0
