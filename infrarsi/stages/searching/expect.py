"""What a search is expected to take: asked for alone, or recorded as one begins."""

from __future__ import annotations

from collections.abc import Callable

from infrarsi.errors import UsageError
from infrarsi.records.event import Event
from infrarsi.records.forecast import Forecast
from infrarsi.stages.history import History
from infrarsi.stages.searching.forecast import forecast_lines, forecast_of
from infrarsi.stages.workspace import Workspace


def expect(workspace: Workspace) -> Forecast:
    """Give what a search and its confirmation are expected to take, without beginning it.

    Raises
    ------
    UsageError
        The reference was never measured.
    """
    history = History.of(workspace.ledger.events)
    gpus = len(history.machine.accelerators) if history.machine else 0
    forecast = forecast_of(workspace.contract, history, num_accelerators=gpus)
    if forecast is None:
        raise UsageError(
            "what a search takes is not known: the reference has not been measured yet",
            hint="measure it with `infrarsi doctor`",
        )
    return forecast


def estimate(workspace: Workspace, history: History, *, tell: Callable[[str], None]) -> Event:
    """Say what is expected, and record it, so that the report can hold it against what was."""
    gpus = len(workspace.machine.accelerators)
    forecast = forecast_of(workspace.contract, history, num_accelerators=gpus)
    assert forecast is not None, "a search starts with a baseline"
    for line in forecast_lines(forecast):
        tell(line)
    budget = workspace.contract.plan.budget
    return workspace.ledger.append(
        "estimated",
        {"budget": budget.model_dump(mode="json"), "forecast": forecast.model_dump(mode="json")},
    )
