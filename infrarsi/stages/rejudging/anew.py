"""Reaching a stored verdict anew, from what was kept of its launches."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

from infrarsi.errors import LedgerError
from infrarsi.judge.case import Case
from infrarsi.judge.decide import judge_screen
from infrarsi.records.baseline import Baseline
from infrarsi.records.task import Task
from infrarsi.records.trial import Trial
from infrarsi.records.verdict import Ruling, Verdict
from infrarsi.stages.calibrating.calibration import calibrate
from infrarsi.stages.confirming.sessions import judge_rows, sitting_in
from infrarsi.stages.judging import Court, changes_of, launch_of
from infrarsi.stages.launching.trial import evidence_of
from infrarsi.stages.rejudging.docket import Judged
from infrarsi.stages.workspace import Workspace
from infrarsi.store.artifacts import Artifacts
from infrarsi.store.contract import CONTRACT_FILE

_Launches: TypeAlias = tuple[tuple[str, ...], tuple[str, ...]]
"""The equal and the disturbed launches of a baseline, by id: what it is derived from."""


class Bench:
    """Judges again; what a baseline gives is derived once."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._courts: dict[_Launches, Court | LedgerError | ValueError] = {}

    @property
    def artifacts(self) -> Artifacts:
        """The evidence, by digest."""
        return self._workspace.artifacts

    @property
    def calibrated(self) -> frozenset[str]:
        """The reference launches of the baselines that were derived anew."""
        return frozenset(
            equal[0] for (equal, _), each in self._courts.items() if isinstance(each, Court)
        )

    def again(self, judged: Judged) -> Verdict | str:
        """Give the verdict of today, or say why there is none."""
        try:
            court = self.court(judged)
            if judged.verdict.kind == "screen":
                return judge_screen(self.case(court, judged, judged.trials[0]))
            return self._confirmation(court, judged)
        except (LedgerError, ValueError) as error:
            return _why(judged, error)

    def _confirmation(self, court: Court, judged: Judged) -> Verdict:
        """Judge a confirmation again: all of its sessions, or one that was recorded by itself."""
        sitting = sitting_in(judged.body, planned=_planned_blocks(self._workspace, judged))
        if "session" in judged.body:
            sitting = replace(sitting, sessions=1)
        known = {trial.trial_id: trial for trial in judged.trials}
        rows = [
            (int(row.get("session", 1)), row["order"], [known[name] for name in row["trials"]])
            for row in judged.body["blocks"]
        ]
        return judge_rows(
            self, court, judged.candidate, rows, sitting=sitting, history=judged.search.history,
            patches=judged.patches,
        )[0]  # fmt: skip

    def case(self, court: Court, judged: Judged, trial: Trial) -> Case:
        """Give one launch as a case."""
        return Case(
            subject=judged.candidate.short_id(), task=court.task, baseline=court.baseline,
            candidate=launch_of(self, trial), reference=court.reference,
            changed=changes_of(self, judged.candidate, judged.patches),
        )  # fmt: skip

    def court(self, judged: Judged) -> Court:
        """Give what a verdict is held against.

        Raises
        ------
        LedgerError
            Something that it was derived from is gone, or was altered.
        ValueError
            Its launches give no bands by today's rules.
        """
        key = _launches_of(judged.baseline)
        if key not in self._courts:
            try:
                self._courts[key] = self._convene(judged)
            except (LedgerError, ValueError) as error:
                self._courts[key] = error
        found = self._courts[key]
        if not isinstance(found, Court):
            raise found
        return found

    def _convene(self, judged: Judged) -> Court:
        task = self.task(judged.search.lock.task_digest)
        reference = launch_of(self, judged.reference)
        equal, disturbed = judged.calibration
        derived = calibrate(
            task,
            [reference.evidence, *(evidence_of(self, trial) for trial in equal[1:])],
            [(trial.arm, evidence_of(self, trial)) for trial in disturbed],
        )
        anew = {
            "update_s": derived.update_s, "noise_sd": derived.noise_sd, "bias": derived.bias,
            "bands": derived.bands, "randomness": derived.randomness,
        }  # fmt: skip
        return Court(task, judged.baseline.model_copy(update=anew), reference)

    def task(self, digest: str) -> Task:
        """Give a locked task by its digest.

        Raises
        ------
        LedgerError
            It is not on record, and the contract file holds another.
        """
        task = self._workspace.contract.task
        if task.digest() == digest:
            return task
        try:
            return Task.from_bytes(self.artifacts.get(digest))
        except LedgerError as error:
            raise LedgerError(
                f"the task that was locked ({digest[:12]}) is not on record, and {CONTRACT_FILE} "
                "holds another",
                hint=f"put the {CONTRACT_FILE} of then back",
            ) from error


def _launches_of(baseline: Baseline) -> _Launches:
    return baseline.trials, baseline.null_trials


def _planned_blocks(workspace: Workspace, judged: Judged) -> int:
    """Give how many blocks were fixed in advance; of old ledgers, what their verdict says of it."""
    if "planned_blocks" in judged.body:
        return int(judged.body["planned_blocks"])
    ran = len(judged.body["blocks"])
    design = [each for each in judged.verdict.findings if each.check == "design"]
    if all(each.ruling is Ruling.PASS for each in design):
        return ran
    return max(workspace.contract.plan.confirmation_blocks, ran + 1)


def _why(judged: Judged, error: Exception) -> str:
    """Say what is missing, and of which launch."""
    said = " ".join(str(error).split())[:300]
    equal, disturbed = judged.calibration
    for trial in (*judged.trials, *equal, *disturbed):
        for what, digest in (
            ("the evidence", trial.evidence_digest),
            ("what was seen of the source", trial.source_digest),
        ):
            if digest is not None and digest[:12] in said:
                return f"{what} of {trial.trial_id}: {said}"
    return said
