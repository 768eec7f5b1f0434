"""What a search cost, for the report: time and dollars, failed and killed attempts too."""

from __future__ import annotations

import math
from collections.abc import Iterable

from infrarsi.records.estimate import Estimate
from infrarsi.records.plan import Plan
from infrarsi.records.report import Cost
from infrarsi.records.trial import Outcome
from infrarsi.records.verdict import Ruling
from infrarsi.render.checks import calibration_share
from infrarsi.stages.history import Confirmation, History
from infrarsi.stages.spending import bill, spent_s, trial_gpu_s


def cost_of(
    plan: Plan,
    history: History,
    confirmation: Confirmation | None,
    *,
    arms: tuple[Estimate | None, Estimate | None],
) -> Cost:
    """Add up everything since the lock.

    ``arms`` are seconds an update of the reference and the winner in the confirmation.
    """
    trials = list(history.trials.values())
    by_purpose: dict[str, float] = {}
    for trial in trials:
        by_purpose[trial.purpose] = by_purpose.get(trial.purpose, 0.0) + trial.wall_s
    launches_s = sum(by_purpose.values())
    wall_s = max(launches_s, sum(period.wall_s() for period in history.periods.all))
    paid, calls = bill(plan, history), history.asked
    break_even, note = _break_even(wall_s, confirmation, arms)
    return Cost(
        wall_s=wall_s, overhead_s=wall_s - launches_s,
        cpu_s=_total(trial.cpu_s for trial in trials),
        gpu_s=_total(trial_gpu_s(history, trial) for trial in trials), by_purpose_s=by_purpose,
        failed_wall_s=sum(trial.wall_s for trial in trials if trial.outcome is not Outcome.OK),
        calibration_share=calibration_share(history.baseline) if history.baseline else None,
        dollars=paid.usd, dollars_note=paid.note,
        llm_dollars=paid.models_usd if calls and paid.is_whole else None,
        llm_tokens=sum((call.input_tokens or 0) + (call.output_tokens or 0) for call in calls),
        break_even_updates=break_even, break_even_note=note,
        **_against_forecast(plan, history, confirmation),
    )  # fmt: skip


def _against_forecast(
    plan: Plan, history: History, confirmation: Confirmation | None
) -> dict[str, object]:
    """Give what was expected when the budget was last set, and what it came to since the lock."""
    forecasts = history.here.forecasts
    if not forecasts:
        return {}
    last_budget, _ = forecasts[-1]
    expected = next(forecast for budget, forecast in forecasts if budget == last_budget)
    tried = [period for period in history.here.periods if period.command == "apply"]
    confirm_s = tried[-1].wall_s() if tried and confirmation is not None else None
    return {
        "expected": expected,
        "search_wall_s": spent_s(history),
        "search_dollars": bill(plan, history, command="run").machine_usd,
        "confirm_wall_s": confirm_s,
    }


def _break_even(
    wall_s: float,
    confirmation: Confirmation | None,
    arms: tuple[Estimate | None, Estimate | None],
) -> tuple[int | None, str]:
    speedup = confirmation.verdict.speedup if confirmation else None
    before, after = arms
    if confirmation is None or speedup is None or before is None or after is None:
        return None, "not known: nothing was confirmed"
    if confirmation.verdict.ruling is not Ruling.PASS or speedup.low <= 1:
        return None, "none: no speedup was confirmed"
    saved_s = before.point - after.point
    return math.ceil(wall_s / saved_s), (
        f"each update of the winner saves {saved_s:.4g} s; all this took {wall_s:.0f} s by the "
        "clock, failed and killed launches included"
    )


def _total(values: Iterable[float | None]) -> float:
    return sum(value for value in values if value is not None)
