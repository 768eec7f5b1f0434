"""doctor: measure the reference and how much this machine lets anyone tell."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import median

from infrarsi.errors import UsageError
from infrarsi.execute.machine import measure_peak_flops
from infrarsi.execute.packages import states
from infrarsi.judge.deviations import deviations
from infrarsi.judge.randomness import STIRRED
from infrarsi.judge.speedup import least_detectable
from infrarsi.judge.timing import cold_start_s
from infrarsi.records.baseline import Baseline
from infrarsi.records.candidate import Candidate
from infrarsi.records.evidence import Evidence
from infrarsi.records.machine import Machine, differences
from infrarsi.records.trial import Outcome, Trial
from infrarsi.stages.calibrating.calibration import calibrate
from infrarsi.stages.calibrating.controls import try_controls
from infrarsi.stages.calibrating.reference import refuse_failed_reference, refuse_unseen_metrics
from infrarsi.stages.history import History
from infrarsi.stages.launching.packages import imports_of, packages_changed, packages_now
from infrarsi.stages.launching.trial import Request, evidence_of, perform_trial
from infrarsi.stages.workspace import Workspace

AA_LAUNCHES = 4
"""Launches of the reference against itself."""
NULL_ULPS = (1.0, 4.0, 16.0)
"""Disturbances of the initial weights, one launch each, in units in the last place."""
_STIRRED_ULPS = 4.0
"""The one of them that also stirs the program's generators."""


@dataclass(frozen=True)
class Diagnosis:
    """What doctor found, for showing."""

    baseline: Baseline
    machine: Machine
    cached: bool
    """Whether an earlier measurement on this machine was taken over."""


def diagnose(
    workspace: Workspace,
    *,
    fresh: bool = False,
    controls: bool = False,
    tell: Callable[[str], None] = lambda _: None,
) -> Diagnosis:
    """Give the baseline of this contract on this machine, measuring where there is none.

    Parameters
    ----------
    workspace
        The locked repository.
    fresh
        Measure even where a baseline of this machine is in the ledger.
    controls
        Try known falsifications too, where that was not done: what do the checks see?
    tell
        Told in words what is being done.

    Raises
    ------
    ReferenceFailedError
        The reference does not run through its window, or does not fit its memory capacity.
    """
    history = History.of(workspace.ledger.events)
    machine = workspace.machine
    changed = differences(history.machine, machine) if history.machine else ()
    if changed:
        tell(f"the machine is another one now: {', '.join(changed)}")
    known = _known(history, machine)
    if known is not None and (packages := packages_changed(workspace, known)):
        tell(f"packages that the training imports have changed: {', '.join(packages)}")
        known = None
    if known is not None and not fresh:
        wanted = controls and not known.controls
        if changed or wanted:  # back on a machine that was measured: its search goes on
            workspace.begin("doctor")
            known = try_controls(workspace, known, tell=tell) if wanted else known
            _record(workspace, known, machine)
        return Diagnosis(known, machine, cached=not wanted)
    if changed:  # what another torch or processor compiled is no cache of this one's
        shutil.rmtree(workspace.folder / "caches", ignore_errors=True)
    workspace.begin("doctor")
    baseline = _measure(workspace, history, machine, fresh=fresh, tell=tell)
    if controls:
        baseline = try_controls(workspace, baseline, tell=tell)
    _record(workspace, baseline, machine)
    return Diagnosis(baseline, machine, cached=False)


def _known(history: History, machine: Machine) -> Baseline | None:
    """Give the last baseline that was measured on this machine."""
    searches = (history.here, *reversed(history.elsewhere))
    found = (s for s in searches if s.machine and not differences(s.machine, machine))
    search = next(found, None)
    return search.baseline if search else None


def _record(workspace: Workspace, baseline: Baseline, machine: Machine) -> None:
    """Put a baseline in force: from here on the search is the one on its machine."""
    workspace.ledger.append(
        "baseline",
        {"baseline": baseline.model_dump(mode="json"), "machine": machine.model_dump(mode="json")},
    )


def require_baseline(workspace: Workspace, history: History) -> Baseline:
    """Give the baseline of this machine.

    Raises
    ------
    UsageError
        There is none, or the machine is no longer the one that was measured.
    """
    baseline = history.baseline
    if baseline is None:
        raise UsageError(
            "the reference has not been measured yet", hint="measure it with `infrarsi doctor`"
        )
    changed = differences(history.machine, workspace.machine) if history.machine else ()
    if changed:
        raise UsageError(
            f"the machine has changed since the reference was measured: {', '.join(changed)}",
            hint="measure the reference anew with `infrarsi doctor`; what was measured before "
            "stays on record and in the cost, and counts no more",
        )
    packages = packages_changed(workspace, baseline)
    if packages:
        raise UsageError(
            "packages that the training imports have changed since the reference was measured: "
            f"{', '.join(packages)}",
            hint="put them back, or measure the reference anew with `infrarsi doctor`",
        )
    return baseline


def _measure(
    workspace: Workspace,
    history: History,
    machine: Machine,
    *,
    fresh: bool,
    tell: Callable[[str], None],
) -> Baseline:
    done = [] if fresh else _taken_before(history, machine)
    trials: list[Trial] = []
    requests = _requests(workspace, machine)
    for number, request in enumerate(requests, start=1):
        earlier = next((each for each in done if _is_for(each, request)), None)
        tell(f"launch {number} of {len(requests)}: {request.arm}")
        trial = earlier or perform_trial(workspace, request, patches={})
        refuse_failed_reference(workspace, trial)
        refuse_unseen_metrics(workspace, evidence_of(workspace, trial))
        trials.append(trial)
    tell("measuring the peak of matrix multiplication")
    peak = measure_peak_flops(workspace.python)
    tell("calibrating what counts as the same")
    aa = [trial for trial in trials if trial.purpose == "baseline"]
    nulls = [trial for trial in trials if trial.purpose == "null"]
    baseline = baseline_of(workspace, machine, aa, nulls, peak_flops=peak)
    return baseline.model_copy(update={"packages": states(packages_now(workspace))})


def _requests(workspace: Workspace, machine: Machine) -> list[Request]:
    reference = Candidate.of(workspace.contract.task.surface.default_knobs())
    remarks = {"machine": machine.digest()}
    requests = [
        Request(
            reference,
            "baseline",
            arm="A" if i % 4 in {0, 3} else "A'",
            replicate=i,
            remarks=remarks,
        )
        for i in range(AA_LAUNCHES)
    ]
    requests += [
        Request(
            reference, "null", replicate=i, perturb_ulps=ulps, stir=ulps == _STIRRED_ULPS,
            arm=f"weights disturbed by {ulps:g} ulp"
            + (f", {STIRRED}" if ulps == _STIRRED_ULPS else ""),
            remarks=remarks,
        )
        for i, ulps in enumerate(NULL_ULPS)
    ]  # fmt: skip
    if machine.num_cpus > 1:
        threads = max(1, machine.num_cpus // 2)
        requests.append(
            Request(
                reference, "null", arm=f"{threads} thread(s)", replicate=len(NULL_ULPS),
                env={"OMP_NUM_THREADS": str(threads)}, remarks=remarks,
            )
        )  # fmt: skip
    return requests


def _taken_before(history: History, machine: Machine) -> list[Trial]:
    """Give launches of a calibration that was killed, on this very machine."""
    used = {name for each in history.baselines for name in (*each.trials, *each.null_trials)}
    return [
        trial
        for trial in (*history.trials_for("baseline"), *history.trials_for("null"))
        if trial.outcome is Outcome.OK
        and trial.trial_id not in used
        and history.remarks[trial.trial_id].get("machine") == machine.digest()
    ]


def _is_for(trial: Trial, request: Request) -> bool:
    return (trial.purpose, trial.arm, trial.replicate) == (
        request.purpose, request.arm, request.replicate,
    )  # fmt: skip


def baseline_of(
    workspace: Workspace,
    machine: Machine,
    aa: list[Trial],
    nulls: list[Trial],
    *,
    peak_flops: float,
) -> Baseline:
    """Derive the baseline from the launches of a calibration: equal ones, and disturbed ones."""
    task, plan = workspace.contract.task, workspace.contract.plan
    seen = {trial.trial_id: evidence_of(workspace, trial) for trial in (*aa, *nulls)}
    reference = seen[aa[0].trial_id]
    found = calibrate(
        task, [seen[t.trial_id] for t in aa], [(t.arm, seen[t.trial_id]) for t in nulls]
    )
    parameters = sum(math.prod(shape) for shape in reference.marks[0].shapes)
    tokens = reference.tokens_per_update
    flops = 6.0 * parameters * tokens if parameters and tokens else None
    return Baseline(
        task_digest=task.digest(), machine_digest=machine.digest(),
        trials=tuple(t.trial_id for t in aa), null_trials=tuple(t.trial_id for t in nulls),
        update_s=found.update_s,
        cold_start_s=median(cold_start_s(seen[t.trial_id]) for t in aa),
        launch_s=median(t.wall_s for t in aa),
        peak_bytes=max(t.peak_bytes or 0 for t in aa),
        phase_share=phase_share(seen[t.trial_id] for t in aa),
        mfu=flops / found.update_s.point / peak_flops if flops else None,
        flops_per_update=flops, peak_flops=peak_flops, num_parameters=parameters or None,
        noise_sd=found.noise_sd, bias=found.bias,
        least_detectable=least_detectable(found.noise_sd, plan.confirmation_blocks),
        bands=found.bands, randomness=found.randomness, imports=imports_of(reference),
        nondeterministic=_differs(workspace, reference, [seen[t.trial_id] for t in aa[1:]]),
        reference_trial=aa[0].trial_id,
        wall_s=sum(t.wall_s for t in (*aa, *nulls)),
    )  # fmt: skip


def _differs(workspace: Workspace, reference: Evidence, others: Iterable[Evidence]) -> bool:
    """Tell whether identical launches differ in any number that is compared."""
    window = workspace.contract.task.window
    return any(
        bool((deviation.values > 0).any())
        for other in others
        for deviation in deviations(other, reference, window).values()
    )


def phase_share(launches: Iterable[Evidence]) -> dict[str, float]:
    """Give the share of each phase in the program's own time, averaged; empty if not seen."""
    totals: dict[str, float] = {}
    for evidence in launches:
        for update in evidence.updates[1:]:
            for phase, seconds in update.phase_s.items():
                totals[phase] = totals.get(phase, 0.0) + max(seconds, 0.0)
    whole = sum(totals.values())
    return {phase: total / whole for phase, total in totals.items()} if whole > 0 else {}
