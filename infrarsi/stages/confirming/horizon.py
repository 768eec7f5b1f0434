"""apply --horizon: train both arms for many updates, and score what they have learnt.

A pair of launches shares a seed. Each keeps its state at the horizon; what it was started from is
of no use here, and the state stands in its place. Then the reference's own code, launched three
times, scores the winner's states, the reference's, and the first seed's reference as a measure of
the batches. States outlive a kill: what was trained is not trained again.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from infrarsi.errors import InconclusiveError, RejectedError
from infrarsi.execute.disk import FLOOR_BYTES, free_bytes
from infrarsi.execute.keeping import Keep
from infrarsi.judge.case import Case
from infrarsi.judge.findings import join, unsure
from infrarsi.judge.horizon import Scores, judge_horizon
from infrarsi.judge.series import series_of
from infrarsi.records.candidate import Candidate
from infrarsi.records.horizon import Horizon, SeedScored
from infrarsi.records.task import Metric
from infrarsi.records.trial import Outcome, Trial
from infrarsi.records.verdict import Finding, Ruling
from infrarsi.stages.confirming.course import SCORES, Course
from infrarsi.stages.confirming.replays import mapping_of
from infrarsi.stages.confirming.seeds import Seed
from infrarsi.stages.confirming.starts import Start
from infrarsi.stages.history import History
from infrarsi.stages.judging import launch_of
from infrarsi.stages.launching.trial import Request, evidence_of, perform_trial
from infrarsi.stages.workspace import Workspace

ARMS = ("reference", "winner")


def run_course(
    workspace: Workspace, course: Course, *, tell: Callable[[str], None] = lambda _: None
) -> Horizon:
    """Train, score, judge and record; what an earlier command trained is taken over."""
    workspace.begin("apply")
    history = History.of(workspace.ledger.events)
    # Another number of updates is another look at the same question.
    attempt = 1 + sum(each.candidate == course.candidate for each in history.horizons)
    trained = {arm: dict[int, Trial]() for arm in ARMS}
    gap: Finding | None = None
    for number, seed in enumerate(course.seeds.all):
        for arm in ARMS:
            if gap is None:
                tell(f"seed {number + 1} of {len(course.seeds.all)}: {arm}")
                trained[arm][number] = _train(workspace, history, course, number, arm=arm)
                gap = _gap(workspace, course, trained[arm][number], seed)
    scored = {} if gap else _score(workspace, history, course, trained, tell=tell)
    gap = gap or _gap_of_scoring(workspace, scored, len(course.seeds.all))
    found = _judged(workspace, course, trained, scored, attempt=attempt, gap=gap)
    workspace.ledger.append("horizon", found.model_dump(mode="json"))
    if found.ruling is not Ruling.INCONCLUSIVE:
        shutil.rmtree(_folder(workspace), ignore_errors=True)
    return found


def _folder(workspace: Workspace) -> Path:
    return workspace.folder / "horizon"


def _request(course: Course, number: int, *, arm: str, reference: Candidate, room: int) -> Request:
    seed = course.seeds.all[number]
    return Request(
        candidate=course.candidate if arm == "winner" else reference,
        purpose="horizon", arm=arm, replicate=number, perturb_ulps=seed.ulps, beyond=seed.knob,
        keep=Keep(course.updates, course.ahead, most_bytes=room),
        remarks={"horizon": course.updates, "seed": seed.words},
    )  # fmt: skip


def _train(
    workspace: Workspace, history: History, course: Course, number: int, *, arm: str
) -> Trial:
    """Give a launch of an arm that trained to the horizon; one of before, where its state is."""
    reference = Candidate.of(workspace.contract.task.surface.default_knobs())
    left = 2 * len(course.seeds.all) + 1
    room = max(0, free_bytes(workspace.folder) - 2 * FLOOR_BYTES) // left
    request = _request(course, number, arm=arm, reference=reference, room=2 * room)
    for trial in history.trials_for("horizon"):
        remarks = history.remarks[trial.trial_id]
        same = (trial.candidate, trial.arm, trial.replicate) == (request.candidate, arm, number)
        is_kept = (_folder(workspace) / trial.trial_id).is_dir()
        if same and is_kept and dict(request.remarks or {}) == remarks:
            return trial
    trial = perform_trial(workspace, request, patches=history.patches)
    kept, place = workspace.kept / trial.trial_id, _folder(workspace) / trial.trial_id
    if kept.is_dir() and trial.outcome is Outcome.OK:
        for before in kept.glob("before.*"):
            before.unlink()
            after = before.with_name(before.name.replace("before", "after"))
            if after.exists():
                before.hardlink_to(after)
        place.parent.mkdir(exist_ok=True)
        kept.replace(place)
    return trial


def _gap(workspace: Workspace, course: Course, trial: Trial, seed: Seed) -> Finding | None:
    """Say why a launch has no state at the horizon; ``None`` where it has."""
    place = _folder(workspace) / trial.trial_id
    if trial.outcome is Outcome.OK and (place / "after.0").is_file():
        return None
    whys = [each.why for each in evidence_of(workspace, trial).kept if each.why]
    seen = len(evidence_of(workspace, trial).updates)
    why = trial.reason or (whys[0] if whys else f"it was seen to make {seen} updates")
    return unsure(
        "numerics", "horizon",
        f"the {trial.arm}'s launch {trial.trial_id} (seed {seed.words}) has no state after "
        f"{course.updates} updates: {why}",
        hint="see to it that the command trains beyond the horizon, and that memory and disk last",
    )  # fmt: skip


def _score(
    workspace: Workspace,
    history: History,
    course: Course,
    trained: Mapping[str, Mapping[int, Trial]],
    *,
    tell: Callable[[str], None],
) -> dict[str, Trial]:
    """Have the reference's own code score the states: every seed's on batches of its own."""
    reference = Candidate.of(workspace.contract.task.surface.default_knobs())
    mapping = mapping_of(course.candidate, history.patches)
    states = {
        "winner": list(trained["winner"].values()),
        "reference": list(trained["reference"].values()),
        "base": [trained["reference"][0]] * len(course.seeds.all),
    }
    scored = {}
    for arm, trials in states.items():
        tell(f"the reference's code scores the states: {arm}")
        starts = tuple(
            Start(
                update=course.slot(number), place=_folder(workspace) / trial.trial_id, ulps=0.0,
                seed=number, scores=SCORES, mapping=mapping if arm == "winner" else {},
            )
            for number, trial in enumerate(trials)
        )  # fmt: skip
        request = Request(
            candidate=reference, purpose="horizon", arm=f"scores of the {arm}", starts=starts,
            capped=False, stop_update=course.last,
            remarks={"horizon": course.updates, "states": [each.trial_id for each in trials]},
        )  # fmt: skip
        scored[arm] = perform_trial(workspace, request, patches={})
    return scored


def _gap_of_scoring(
    workspace: Workspace, scored: Mapping[str, Trial], seeds: int
) -> Finding | None:
    for arm, trial in scored.items():
        told = evidence_of(workspace, trial).replayed
        whys = [each.why for each in told if each.why]
        if trial.outcome is not Outcome.OK or whys or len(told) < seeds:
            why = trial.reason or (whys[0] if whys else f"{len(told)} of {seeds} were replayed")
            return unsure(
                "numerics", "horizon", f"the states of the {arm} could not be scored: {why}",
                hint="have the patch say which parameters of the reference it renames or fuses "
                "(state_mapping), and the command train some updates beyond the horizon",
            )  # fmt: skip
    return None


def _judged(
    workspace: Workspace,
    course: Course,
    trained: Mapping[str, Mapping[int, Trial]],
    scored: Mapping[str, Trial],
    *,
    attempt: int,
    gap: Finding | None,
) -> Horizon:
    count = min(len(each) for each in trained.values())
    losses = {arm: _losses(workspace, course, trial, count) for arm, trial in scored.items()}
    findings, found = [gap] if gap else [], None
    if gap is None:
        pairs = [
            _pair(workspace, course, trained["winner"][n], trained["reference"][n])
            for n in range(count)
        ]
        scores = Scores(*(tuple(losses[arm]) for arm in ("winner", "reference", "base")))
        findings, found = judge_horizon(
            pairs, scores, updates=course.updates, attempt=attempt, varied=course.seeds.words
        )
    return Horizon(
        candidate=course.candidate, updates=course.updates, attempt=attempt,
        varied=course.seeds.varied, num_batches=SCORES,
        scored_by=tuple(each.trial_id for each in scored.values()),
        seeds=tuple(
            SeedScored(
                seed=course.seeds.all[n].words, winner=trained["winner"][n].trial_id,
                reference=trained["reference"][n].trial_id,
                **{f"{arm}_loss": _finite(losses[arm][n]) if arm in losses else None
                   for arm in ("winner", "reference", "base")},
            )
            for n in range(count)
        ),
        ruling=join(findings), findings=tuple(findings),
        excess=found.excess if found else None, spread=found.spread if found else None,
        margin=found.margin if found else None,
        needed=found.needed if found and found.ruling is Ruling.INCONCLUSIVE else None,
    )  # fmt: skip


def _losses(workspace: Workspace, course: Course, trial: Trial, count: int) -> list[float]:
    """Give the mean loss of each seed's state on its batches; ``nan`` where one is missing."""
    column = series_of(evidence_of(workspace, trial)).metric(Metric.LOSS)
    found = []
    for number in range(count):
        values = [float(column[u - 1]) for u in course.batches(number) if u <= len(column)]
        found.append(sum(values) / SCORES if len(values) == SCORES else math.nan)
    return found


def _pair(workspace: Workspace, course: Course, winner: Trial, reference: Trial) -> Case:
    history = History.of(workspace.ledger.events)
    return Case(
        subject=course.candidate.short_id(), task=workspace.contract.task,
        baseline=history.baseline, candidate=launch_of(workspace, winner),
        reference=launch_of(workspace, reference),
    )  # fmt: skip


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def refuse_unless_no_worse(found: Horizon, *, promoted: str | None) -> None:
    """Raise what a test came to, where the winner was not shown to learn as well.

    Raises
    ------
    RejectedError, InconclusiveError
        With the reasons, and what would settle it.
    """
    if found.ruling is Ruling.PASS:
        return
    open_findings: Sequence[Finding] = [
        each for each in found.findings if each.ruling is not Ruling.PASS
    ]
    said = "; ".join(each.reason for each in open_findings)
    hint = " ".join(each.hint for each in open_findings if each.hint)
    if found.ruling is Ruling.FAIL:
        undo = f"take {promoted} back with `infrarsi apply --revert`" if promoted else hint
        raise RejectedError(
            f"the winner does not learn as well: {said}",
            hint=undo or "nothing was promoted; search on with `infrarsi run`",
        )
    raise InconclusiveError(
        f"the horizon could not tell: {said}", hint=hint or "read why with `infrarsi report`"
    )
