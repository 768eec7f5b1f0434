"""Knobs that the program seems to ignore: looked for in what the witness saw, told and no more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from infrarsi.errors import LedgerError
from infrarsi.execute.invocation import reached_by
from infrarsi.frameworks.catalogue import claim_of
from infrarsi.judge.knob_effect import comparisons_of, silent_knobs
from infrarsi.judge.observed import Observed, observe
from infrarsi.judge.timing import steady_update_s
from infrarsi.records.effect import KnobEffect
from infrarsi.records.trial import Outcome, Trial
from infrarsi.stages.history import History
from infrarsi.stages.launching.trial import evidence_of
from infrarsi.stages.workspace import Workspace

_COMPARED = ("screen", "ablation")


def ignored_knobs(workspace: Workspace, history: History) -> tuple[KnobEffect, ...]:
    """Give the knobs that were turned, and nothing that was seen differed."""
    baseline = history.baseline
    if baseline is None:
        return ()
    equal = [name for name in baseline.trials if name in history.trials]
    searched = [each for purpose in _COMPARED for each in history.trials_for(purpose)]
    ended = {
        trial.trial_id: trial
        for trial in (*(history.trials[name] for name in equal), *searched)
        if trial.outcome is Outcome.OK
    }
    surface = workspace.contract.task.surface
    comparisons = comparisons_of(surface, {name: each.candidate for name, each in ended.items()})
    try:
        return silent_knobs(
            surface, comparisons, _Seen(workspace, history), equal=equal,
            claims={knob.name: claim_of(knob) for knob in surface.knobs},
            reached_by={knob.name: reached_by(knob) for knob in surface.knobs},
        )  # fmt: skip
    except LedgerError:  # evidence that is gone says nothing; the ledger's checks tell of it
        return ()


class _Seen(Mapping[str, Observed]):
    """What was seen of each launch, read when it is asked for: most are not."""

    def __init__(self, workspace: Workspace, history: History) -> None:
        self._workspace = workspace
        self._trials = history.trials
        self._known: dict[str, Observed] = {}

    def __getitem__(self, name: str) -> Observed:
        if name not in self._known:
            self._known[name] = _observed(self._workspace, self._trials[name])
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._trials)

    def __len__(self) -> int:
        return len(self._trials)


def _observed(workspace: Workspace, trial: Trial) -> Observed:
    evidence, window = evidence_of(workspace, trial), workspace.contract.task.window
    try:
        update_s = steady_update_s(evidence, window)
    except ValueError:
        update_s = None
    return observe(
        evidence, update_s=update_s, peak_bytes=trial.peak_bytes, last_update=window.last_update
    )


def in_words(effect: KnobEffect) -> str:
    """Say in one sentence that a knob had no visible effect, and what was compared."""
    values = ", ".join(str(value) for value in effect.values)
    together = f" (with {', '.join(effect.together_with)})" if effect.together_with else ""
    return (
        f"no visible effect: {effect.knob}={values}{together} against {effect.default}: "
        f"{effect.compared}"
    )
