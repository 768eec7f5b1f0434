"""What a search and its confirmation are expected to take, told before they begin."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from infrarsi.records.baseline import Baseline
from infrarsi.records.forecast import Forecast, Range
from infrarsi.records.history import Space
from infrarsi.records.plan import Contract
from infrarsi.render import numbers
from infrarsi.stages.history import History
from infrarsi.stages.searching.parts import ablation_of, arms_of, space_of
from infrarsi.stages.searching.steps import is_open, reserved_s, winner_of
from infrarsi.stages.spending import Purse, missing_price, num_screened, purse_of
from infrarsi.store.contract import CONTRACT_FILE

_QUICK, _SLOW = 0.6, 1.25
"""A launch of the search against the reference's: faster settings, and a busy machine."""
_SHARE_COMPILED = 0.5
"""Share of the trials that are thought to carry a given patch."""
_USUAL_PARTS = 4
_REPLAYS = 2
"""Launches of the reference that end a confirmation: one for the states of each arm."""
_PLACES = 10**6


@dataclass(frozen=True)
class _Pace:
    """Seconds of a launch, as far as they are known before."""

    reference_s: float
    between_s: float
    """From the end of one launch to the start of the next: worktrees, judging, choosing."""
    compile_s: float
    """What all patches that compile add to a first launch together."""

    @property
    def trial_s(self) -> Range:
        return Range(
            low=_QUICK * self.reference_s + self.between_s,
            point=self.reference_s + self.between_s + _SHARE_COMPILED * self.compile_s,
            high=_SLOW * self.reference_s + self.between_s + self.compile_s,
        )

    @property
    def of_both_arms_s(self) -> Range:
        """Seconds of a launch in a confirmation, half of which are the reference's own."""
        return Range(
            low=(1 + _QUICK) / 2 * self.reference_s + self.between_s,
            point=self.reference_s + self.between_s,
            high=_SLOW * self.reference_s + self.between_s,
        )

    @property
    def known_s(self) -> Range:
        """Seconds of a launch whose compile cache is filled."""
        return Range(
            low=_QUICK * self.reference_s + self.between_s,
            point=self.reference_s + self.between_s,
            high=_SLOW * self.reference_s + self.between_s,
        )


def forecast_of(contract: Contract, history: History, *, num_accelerators: int) -> Forecast | None:
    """Give what the whole search is expected to take, what is done included, and ``apply``.

    ``None`` before the reference was measured.
    """
    baseline = history.baseline
    if baseline is None:
        return None
    space, purse = space_of(contract, history), purse_of(contract, history)
    pace = _Pace(
        baseline.launch_s, _between_s(history, baseline),
        sum(patch.cold_start_s for patch in space.patches),
    )  # fmt: skip
    trials = _trials_left(contract, history, space)
    for_trials_s = purse.left_s - reserved_s(contract, history, purse)
    trials = _within(trials, pace.trial_s, for_trials_s, least_left=_SLOW)
    apart = _apart_left(contract, history, space, is_chosen=trials.point == 0)
    if not is_open(contract, history):
        trials = apart = Range(low=0, point=0, high=0)
    for_apart_s = purse.left_s - trials.point * pace.trial_s.point
    apart = _within(apart, pace.known_s, for_apart_s, least_left=0.0)
    search_s = _search_s(purse, pace, trials, apart)
    confirm_s = pace.of_both_arms_s.times(4 * contract.plan.confirmation_blocks + _REPLAYS)
    price = contract.plan.prices.usd_per_s(num_accelerators)
    said = _assumptions(contract, history, pace, apart)
    if price is None:
        missing = missing_price(num_accelerators)
        said.append(f"dollars are not known: {missing} is not set in {CONTRACT_FILE}")
    done = num_screened(history)
    launches = [done + len(history.trials_for("ablation")) + t + a
                for t, a in zip(_cases(trials), _cases(apart), strict=True)]  # fmt: skip
    return Forecast(
        num_trials=_ordered([done + each for each in _cases(trials)]),
        num_launches=_ordered(launches), search_wall_s=search_s, confirm_wall_s=confirm_s,
        search_usd=search_s.times(price) if price is not None else None,
        confirm_usd=confirm_s.times(price) if price is not None else None,
        assumptions=tuple(said),
    )  # fmt: skip


def _search_s(purse: Purse, pace: _Pace, trials: Range, apart: Range) -> Range:
    """Give the seconds of the whole search, cut off where its budget cuts it off."""
    more_s = [
        t * trial_s + a * known_s
        for t, a, trial_s, known_s in zip(
            _cases(trials), _cases(apart), _cases(pace.trial_s), _cases(pace.known_s), strict=True
        )
    ]
    in_flight_s = (0.0, 0.0, pace.trial_s.high)
    most_s = [max(0.0, purse.left_s) + each for each in in_flight_s]
    return _ordered([purse.spent_s + min(each) for each in zip(more_s, most_s, strict=True)])


def forecast_lines(forecast: Forecast) -> list[str]:
    """Say a forecast, a fact a line."""
    search, confirm = forecast.search_wall_s, forecast.confirm_wall_s
    return [
        f"expected of the search: {numbers.duration_range(search)}; trials "
        f"{numbers.count_range(forecast.num_trials)}; dollars "
        f"{numbers.dollars_range(forecast.search_usd)}",
        f"expected of the confirmation (infrarsi apply): {numbers.duration_range(confirm)}; "
        f"dollars {numbers.dollars_range(forecast.confirm_usd)}",
        *(f"  {each}" for each in forecast.assumptions),
    ]


def _between_s(history: History, baseline: Baseline) -> float:
    """Give the seconds between launches: of this search, or else of the calibration."""
    for command in ("run", "doctor"):
        known = [each for each in history.periods.of(command) if each.began and each.num_launches]
        if known:
            idle_s = sum(each.wall_s() - each.launches_s for each in known)
            return idle_s / sum(each.num_launches for each in known)
    return 0.1 * baseline.launch_s


def _trials_left(contract: Contract, history: History, space: Space) -> Range:
    """Give how many candidates are yet to be screened: a search may see that nothing is left."""
    places = 1
    for knob in space.knobs:
        places = min(places * len(knob.values), _PLACES)
    places = min(places * 2 ** min(len(space.patches), 20), _PLACES) - 1
    done = num_screened(history)
    most = min(contract.plan.budget.max_trials, places) - done
    least = contract.plan.starts + _num_atoms(space) - done
    return _ordered([max(0, min(least, most)), max(0, most), max(0, most)])


def _apart_left(contract: Contract, history: History, space: Space, *, is_chosen: bool) -> Range:
    """Give how many launches are yet to take the winner apart, its last screening included.

    Where ``is_chosen``, nothing more is likely to be screened: the winner and its parts are known.
    """
    rounds, atoms = contract.plan.ablation_rounds, _num_atoms(space)
    winner = winner_of(contract, history)
    done = len(ablation_of(history, winner)) if winner is not None else 0
    if is_chosen:
        atoms = len(arms_of(contract, history, winner)) - 1 if winner is not None else 0

    def launches(parts: int) -> int:
        return max(0, (parts + 1) * rounds + 1 - done) if parts > 1 else 0

    return _ordered([0, launches(min(_USUAL_PARTS, atoms)), launches(atoms)])


def _num_atoms(space: Space) -> int:
    return sum(len(knob.values) > 1 for knob in space.knobs) + len(space.patches)


def _within(launches: Range, launch_s: Range, left_s: float, *, least_left: float) -> Range:
    """Cut a number of launches to what the time allows.

    The last one begins where ``least_left`` launches would fit: a screening where even a slow
    one does, an ablation as long as there is any time.
    """
    # Smallest number n with left_s - n * launch_s <= least_left * launch_s.
    allowed = [max(0, math.ceil(left_s / each - least_left)) for each in _cases(launch_s)]
    slowest_first = zip(_cases(launches), reversed(allowed), strict=True)
    return _ordered([min(number, most) for number, most in slowest_first])


def _assumptions(contract: Contract, history: History, pace: _Pace, apart: Range) -> list[str]:
    budget, blocks = contract.plan.budget, contract.plan.confirmation_blocks
    dollars = f" or ${budget.max_usd:,.2f}" if budget.max_usd is not None else ""
    said = [
        f"a launch takes {numbers.duration(pace.reference_s)}, as the reference did, and "
        f"{numbers.duration(pace.between_s)} pass before the next",
        f"the search ends after {budget.max_trials} trials, "
        f"{numbers.duration(budget.max_wall_s)}{dollars}, or when nothing is worth trying",
        f"taking the winner apart: {apart.low:.0f} to {apart.high:.0f} launches more",
        f"the confirmation: {4 * blocks} launches, and {_REPLAYS} that replay updates of them",
    ]
    if not history.proposed:
        said.append("patches are not proposed yet: their number and compiling are not in it")
    elif pace.compile_s > 0:
        said.append(
            f"half of the trials compile: {numbers.duration(pace.compile_s)} more in each of them"
        )
    return said


def _cases(span: Range) -> tuple[float, float, float]:
    return span.low, span.point, span.high


def _ordered(values: Sequence[float]) -> Range:
    low, point, high = sorted(values)
    return Range(low=low, point=point, high=high)
