"""What this workload's checks see, and what in it is drawn by chance, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infrarsi.render import numbers

if TYPE_CHECKING:
    from infrarsi.records.baseline import Baseline

_SEARCH = 30
"""Trials of the search that calibration's cost is held against."""


def checks_see(baseline: Baseline) -> str:
    """Say which of the falsifications that doctor made the checks saw, and which not."""
    controls = baseline.controls
    if not controls:
        return "not tried: see `infrarsi doctor --controls`"
    seen = [f"{each.what} (by {', '.join(each.seen_by)})" for each in controls if each.seen_by]
    blind = [each.what for each in controls if each.applied and not each.seen_by]
    beyond = [each.what for each in controls if not each.applied]
    said = [f"they see {'; '.join(seen)}" if seen else "they see none of what was tried"]
    if blind:
        said.append(f"they CANNOT see {'; '.join(blind)}")
    if beyond:
        said.append(f"out of doctor's reach here: {'; '.join(beyond)}")
    return ". ".join(said)


def drawn_by_chance(baseline: Baseline) -> str:
    """Say what in the training depends on its global generators."""
    randomness = baseline.randomness
    if randomness is None:
        return "not looked at"
    if randomness.data_from is not None:
        return (
            f"the data, from update {randomness.data_from} on, come from the global generator: a "
            "change that draws other numbers can only be inconclusive"
        )
    if randomness.redraw:
        moved = ", ".join(
            f"{metric.replace('_', ' ')} by {numbers.significant(far, 2)}"
            for metric, far in randomness.redraw.items()
        )
        return (
            f"the model draws numbers of its own (dropout); another draw moves {moved}: a change "
            "that draws otherwise can only be inconclusive"
        )
    return "nothing that is compared"


def calibration_share(baseline: Baseline) -> float:
    """Give calibration's share of a search of 30 trials as long as the reference's launch."""
    return baseline.wall_s / (baseline.wall_s + _SEARCH * baseline.launch_s)


def what_it_cost(baseline: Baseline) -> str:
    """Say what calibration's cost is a share of."""
    share = numbers.percent(calibration_share(baseline))
    return f"what all this cost: {share} of a search of {_SEARCH} trials"


def told_of(baseline: Baseline | None) -> str:
    """Say all of it, for the report; nothing where nothing is on record."""
    if baseline is None or (baseline.randomness is None and not baseline.controls):
        return ""
    return (
        f"What the checks see on this workload: {checks_see(baseline)}. Drawn by chance: "
        f"{drawn_by_chance(baseline)}."
    )
