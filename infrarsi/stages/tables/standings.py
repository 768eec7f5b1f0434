"""How strategies stand after replays on many tasks, with intervals over the tasks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from infrarsi.records.bench import BenchPlan, Replay, Standing
from infrarsi.records.estimate import Estimate
from infrarsi.search.mixture import Floats

NOTHING_FOUND = 0.01
"""What a search counts that has found nothing that fits: a hundredth of the optimum."""
_BUDGETS = (1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64)
_RESAMPLES = 2000


def budgets_of(plan: BenchPlan) -> tuple[int, ...]:
    """Give the numbers of trials that are reported."""
    return tuple(sorted({*(each for each in _BUDGETS if each < plan.trials), plan.trials}))


def standings_of(
    replays: Sequence[Replay], strategies: Sequence[str], budgets: Sequence[int]
) -> tuple[Standing, ...]:
    """Sum up replays: geometric means over tasks, each the mean over its seeds.

    Intervals are of 95 %, by resampling tasks; seeds of one task are not independent of it.
    """
    tasks = list(dict.fromkeys(each.task for each in replays))
    logs = {
        strategy: np.array(
            [[_mean_log(replays, strategy, task, trials) for trials in budgets] for task in tasks]
        )
        for strategy in strategies
    }
    first = logs[strategies[0]]
    found = []
    for strategy in strategies:
        own = [each for each in replays if each.strategy == strategy]
        trials = max(1, sum(len(each.steps) for each in own))
        mine = logs[strategy]
        found.append(
            Standing(
                strategy=strategy,
                found={b: _interval(mine[:, i]) for i, b in enumerate(budgets)},
                worst={
                    b: (tasks[int(np.argmin(mine[:, i]))], float(np.exp(mine[:, i].min())))
                    for i, b in enumerate(budgets)
                },
                oom_share=float(
                    np.mean([np.mean([e.oom_share for e in own if e.task == t]) for t in tasks])
                ),
                ahead={b: _interval(first[:, i] - mine[:, i]) for i, b in enumerate(budgets)}
                if strategy != strategies[0]
                else {},
                choose_s=sum(each.wall_s for each in own) / trials,
            )
        )
    return tuple(found)


def _mean_log(replays: Sequence[Replay], strategy: str, task: str, trials: int) -> float:
    qualities = [
        each.best_at(trials) or NOTHING_FOUND
        for each in replays
        if each.strategy == strategy and each.task == task
    ]
    return float(np.mean(np.log(np.maximum(qualities, NOTHING_FOUND))))


def _interval(logs: Floats) -> Estimate:
    """Give the geometric mean with its interval over resampled tasks."""
    rng = np.random.default_rng(0)
    drawn = rng.integers(len(logs), size=(_RESAMPLES, len(logs)))
    means = logs[drawn].mean(axis=1)
    point = float(np.exp(logs.mean()))
    low, high = (float(np.exp(np.quantile(means, level))) for level in (0.025, 0.975))
    return Estimate(low=min(low, point), point=point, high=max(high, point))
