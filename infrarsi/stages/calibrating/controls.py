"""Positive controls: falsifications that doctor makes itself, to learn what the checks can see."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from infrarsi.judge.case import Case
from infrarsi.judge.decide import judge_launch
from infrarsi.records.baseline import Baseline, Control
from infrarsi.records.candidate import Candidate
from infrarsi.records.task import Numerics
from infrarsi.records.trial import Outcome, Trial
from infrarsi.records.verdict import Ruling
from infrarsi.stages.history import History
from infrarsi.stages.judging import launch_of, reference_of
from infrarsi.stages.launching.trial import Request, evidence_of, perform_trial
from infrarsi.stages.workspace import Workspace

KINDS: Mapping[str, str] = {
    "coarse_gradients": "gradients rounded to bfloat16",
    "stale_gradients": "every second step on the gradients of the one before",
    "frozen_tensor": "one parameter that is not trained",
}
"""What each does, in words. The mildest comes first."""

_TELLING = frozenset({"workload", "numerics", "precision"})
"""The layers that speak of what was trained."""


def try_controls(
    workspace: Workspace, baseline: Baseline, *, tell: Callable[[str], None]
) -> Baseline:
    """Launch each falsification once, judge it, and give the baseline with what came of that.

    Parameters
    ----------
    workspace
        The locked repository.
    baseline
        What the launches are judged against.
    tell
        Told in words what is being done.
    """
    history = History.of(workspace.ledger.events)
    reference = Candidate.of(workspace.contract.task.surface.default_knobs())
    kinds = kinds_for(workspace.contract.task.numerics)
    controls = []
    for number, kind in enumerate(kinds, start=1):
        tell(f"control {number} of {len(kinds)}: {KINDS[kind]}")
        request = Request(
            reference, "control", arm=kind, replicate=number, control=kind, capped=False,
            remarks={"machine": workspace.machine.digest()},
        )  # fmt: skip
        trial = perform_trial(workspace, request, patches={})
        controls.append(_control(workspace, history, baseline, trial))
    return baseline.model_copy(update={"controls": tuple(controls)})


def kinds_for(numerics: Numerics) -> tuple[str, ...]:
    """Give the falsifications that are none of the contract's own liberties."""
    coarse_is_allowed = "bfloat16" in (*numerics.gradients, *numerics.matmul)
    return tuple(kind for kind in KINDS if not (kind == "coarse_gradients" and coarse_is_allowed))


def _control(workspace: Workspace, history: History, baseline: Baseline, trial: Trial) -> Control:
    """Judge one falsification as a candidate would be, by what it trained alone."""
    control = Control(kind=trial.arm, what=KINDS[trial.arm], trial_id=trial.trial_id)
    applied = f"control: {trial.arm}" in evidence_of(workspace, trial).notes
    if trial.outcome is not Outcome.OK or not applied:
        return control.model_copy(update={"applied": False})
    case = Case(
        subject=trial.candidate.short_id(), task=workspace.contract.task, baseline=baseline,
        candidate=launch_of(workspace, trial),
        reference=reference_of(workspace, history, baseline),
    )  # fmt: skip
    found = [
        f"{each.layer} {each.check}"
        for each in judge_launch(case)
        if each.ruling is Ruling.FAIL and each.layer in _TELLING
    ]
    return control.model_copy(update={"seen_by": tuple(dict.fromkeys(found))})
