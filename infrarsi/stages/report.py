"""report: everything that was found, refused and spent, in one record and three formats."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from infrarsi.execute.sandbox import TIER_LIMITS, Tier
from infrarsi.judge.speedup import interval_of_times
from infrarsi.judge.timing import cold_start_s
from infrarsi.records.baseline import Baseline
from infrarsi.records.candidate import Candidate
from infrarsi.records.estimate import Estimate
from infrarsi.records.machine import differences
from infrarsi.records.plan import Contract
from infrarsi.records.report import (
    Confirmed,
    PairRow,
    PhaseTime,
    Report,
    TrialRow,
    Trials,
    Winner,
)
from infrarsi.records.trial import Outcome, Trial
from infrarsi.records.verdict import Ruling, Verdict
from infrarsi.render.checks import told_of
from infrarsi.render.html import render_html
from infrarsi.render.markdown import render_markdown
from infrarsi.stages.doctor import phase_share
from infrarsi.stages.experience.recall import experience_used
from infrarsi.stages.history import Confirmation, History, Screening
from infrarsi.stages.launching.trial import evidence_of
from infrarsi.stages.naming import words_of
from infrarsi.stages.reporting.cost import cost_of
from infrarsi.stages.reporting.credit import credits_of, idea_rows, language_calls
from infrarsi.stages.reporting.knob_effects import ignored_knobs
from infrarsi.stages.reporting.recurring import session_rows, sessions_in_words
from infrarsi.stages.spending import trial_usd
from infrarsi.stages.workspace import Workspace
from infrarsi.store.ledger import now

_LIMITS = (
    "The speedup holds for this machine, this workload and this window; another GPU, batch or "
    "sequence length needs its own confirmation.",
    "A short window does not show unchanged convergence: it shows the same loss, gradient norm, "
    "update norm and parameters, update by update, within the bands below.",
    "A program owns its own memory and could lie to the witness inside it; what is stamped, "
    "hashed and capped is seen from outside.",
)


@dataclass(frozen=True)
class Files:
    """Where a report was written."""

    html: Path
    markdown: Path
    json: Path


def write_report(workspace: Workspace, folder: Path | None = None) -> tuple[Report, Files]:
    """Build the report and write it as HTML, Markdown and JSON; give both."""
    report = build_report(workspace, History.of(workspace.ledger.events))
    folder = folder or workspace.folder / "report"
    folder.mkdir(parents=True, exist_ok=True)
    files = Files(folder / "report.html", folder / "report.md", folder / "report.json")
    files.html.write_text(render_html(report), encoding="utf-8")
    files.markdown.write_text(render_markdown(report), encoding="utf-8")
    files.json.write_text(report.model_dump_json(indent=2) + "\n", encoding="utf-8")
    return report, files


def build_report(workspace: Workspace, history: History) -> Report:
    """Gather every number of a search from the ledger and the evidence."""
    contract, lock, baseline = workspace.contract, workspace.lock, history.baseline
    task, window = contract.task, contract.task.window
    confirmation = history.confirmation
    arms = (_arm_estimate(confirmation, "A"), _arm_estimate(confirmation, "B"))
    ideas = idea_rows(history, task.surface.default_knobs())
    return Report(
        contract=contract.name, task_digest=lock.task_digest, commit=lock.commit,
        generated_at=now(), command=task.command, machine=_machine(history),
        sandbox=_sandbox(history),
        window=f"updates {window.warmup_updates + 1} to {window.last_update}",
        reference_update_s=baseline.update_s if baseline else None,
        reference_peak_bytes=baseline.peak_bytes if baseline else None,
        capacity_bytes=task.memory.capacity_bytes, memory_unit=task.memory.unit,
        mfu=baseline.mfu if baseline else None, winner_mfu=_winner_mfu(baseline, confirmation),
        noise_sd=baseline.noise_sd if baseline else None,
        least_detectable=baseline.least_detectable if baseline else None,
        bands=_bands(baseline), checks=told_of(baseline),
        phases=_phases(workspace, history, confirmation),
        trials=_trials(contract, history),
        winner=_winner(workspace, history),
        confirmed=_confirmed(workspace, history, confirmation),
        ideas=ideas, credits=credits_of(history, ideas), language_calls=language_calls(history),
        experience=experience_used(history),
        silent_knobs=ignored_knobs(workspace, history),
        cost=cost_of(contract.plan, history, confirmation, arms=arms),
        quality=_quality(workspace, history),
        limits=(*_LIMITS, *_apart(history), *sessions_in_words(contract.plan, history)),
        history_digest=workspace.ledger.head,
    )  # fmt: skip


def _apart(history: History) -> list[str]:
    """Say what stands in the cost and not in the results."""
    said = []
    for search in history.elsewhere:
        if search.machine and history.machine and search.launched:
            changed = ", ".join(differences(search.machine, history.machine))
            said.append(
                f"{len(search.launched)} launches were made on another machine ({changed}): they "
                "stand in the cost, and in no other figure of this report."
            )
    promotion, confirmation = history.promotion, history.confirmation
    verdict = confirmation.verdict.digest() if confirmation else None
    if promotion is not None and promotion.verdict_digest != verdict:
        said.append(
            f"The branch {promotion.branch} holds a candidate that was confirmed before, and not "
            "what this report puts forward."
        )
    return said


def _machine(history: History) -> dict[str, str]:
    machine = history.machine
    if machine is None:
        return {}
    gpus = [f"{gpu.name}, {gpu.memory_bytes / 2**30:.0f} GiB" for gpu in machine.accelerators]
    facts = {
        "processor": f"{machine.cpu}, {machine.num_cpus} CPUs",
        "memory": f"{machine.memory_bytes / 2**30:.1f} GiB",
        "accelerators": "; ".join(gpus) or "none",
        "kernel": machine.kernel,
        "python": machine.python,
        "torch": machine.torch,
        "cuda": machine.cuda or "none",
        "driver": machine.driver or "none",
        "containment": machine.sandbox,
    }
    return {name: fact for name, fact in facts.items() if fact != "none"}


def _sandbox(history: History) -> str:
    tiers = sorted({trial.sandbox for trial in history.trials.values() if trial.sandbox})
    return "; ".join(f"{tier}: {TIER_LIMITS[Tier(tier)]}" for tier in tiers) or "no trial ran"


def _bands(baseline: Baseline | None) -> dict[str, str]:
    bands = baseline.bands if baseline else ()
    return {band.metric: f"{band.limit:.3g} ({band.source})" for band in bands}


def _winner_mfu(baseline: Baseline | None, confirmation: Confirmation | None) -> float | None:
    speedup = confirmation.verdict.speedup if confirmation else None
    if baseline is None or baseline.mfu is None or speedup is None:
        return None
    return baseline.mfu * speedup.point


def _arm_trials(history: History, confirmation: Confirmation, arm: str) -> list[Trial]:
    trials = [history.trials[name] for row in confirmation.body["blocks"] for name in row["trials"]]
    return [trial for trial in trials if trial.arm == arm and trial.outcome is Outcome.OK]


def _phases(
    workspace: Workspace, history: History, confirmation: Confirmation | None
) -> tuple[PhaseTime, ...]:
    if history.baseline is None:
        return ()
    after: dict[str, float] = {}
    if confirmation is not None:
        winners = _arm_trials(history, confirmation, "winner")
        shares = phase_share(evidence_of(workspace, trial) for trial in winners)
        update_s = _arm_estimate(confirmation, "B")
        after = {k: v * update_s.point for k, v in shares.items()} if update_s else {}
    reference = {
        k: v * history.baseline.update_s.point for k, v in history.baseline.phase_share.items()
    }
    return tuple(
        PhaseTime(phase=phase, reference_s=seconds, winner_s=after.get(phase))
        for phase, seconds in reference.items()
    )


def _arm_estimate(confirmation: Confirmation | None, letter: str) -> Estimate | None:
    times = _arm_times(confirmation, letter) if confirmation else []
    return interval_of_times(times) if len(times) > 1 else None


def _arm_times(confirmation: Confirmation, letter: str) -> list[float]:
    return [
        seconds
        for row in confirmation.body["blocks"]
        for each, seconds in zip(row["order"], row["update_s"], strict=True)
        if each == letter and seconds is not None
    ]


def _trials(contract: Contract, history: History) -> Trials:
    screened = {each.trial.trial_id: each for each in history.screenings}
    listed = [
        screened.get(trial.trial_id) or _unscreened(history, trial)
        for trial in history.trials.values()
        if trial.trial_id in screened or _is_listed(history, trial)
    ]
    rows = tuple(
        _trial_row(index, screening, contract, history)
        for index, screening in enumerate(listed, start=1)
    )
    outcomes = Counter(row.outcome for row in rows)
    verdicts = Counter(row.verdict.value for row in rows if row.verdict)
    ended = sum(count for name, count in outcomes.items() if name != "preempted")
    failed = ended - outcomes["ok"] - outcomes["stopped_early"]
    return Trials(
        outcomes=dict(outcomes), verdicts=dict(verdicts),
        failed_share=failed / ended if ended else 0.0, rows=rows,
    )  # fmt: skip


def _is_listed(history: History, trial: Trial) -> bool:
    """Tell whether a launch that was not screened is a trial of this search: killed ones are."""
    killed = trial.purpose == "screen" and trial.outcome is Outcome.PREEMPTED
    return trial.trial_id in history.here.launched and (killed or trial.purpose == "ablation")


def _unscreened(history: History, trial: Trial) -> Screening:
    """Give a launch of the ablation, or one that was killed, as a trial of the search."""
    reason = str(history.remarks.get(trial.trial_id, {}).get("reason", ""))
    if trial.purpose == "ablation":
        what = "the winner" if trial.arm == "winner" else f"the winner without {trial.arm}"
        reason = f"ablation, round {trial.replicate + 1}: {what}"
    return Screening(
        trial=trial,
        reason=reason,
        prediction=None,
        verdict=None,
        update_s=history.ablation_s.get(trial.trial_id),
    )


def _trial_row(index: int, screening: Screening, contract: Contract, history: History) -> TrialRow:
    baseline, defaults = history.baseline, contract.task.surface.default_knobs()
    trial, verdict, prediction = screening.trial, screening.verdict, screening.prediction
    speedup = None
    if baseline is not None and screening.update_s is not None:
        speedup = baseline.update_s.point / screening.update_s
    why = trial.reason
    if verdict is not None:
        why = "; ".join(f"{f.layer}: {f.reason}" for f in verdict.reasons)
    return TrialRow(
        index=index, trial_id=trial.trial_id, candidate=trial.candidate.short_id(),
        change=words_of(trial.candidate, defaults), reason=screening.reason,
        outcome=trial.outcome.value, verdict=verdict.ruling if verdict else None, why=why,
        update_s=screening.update_s, screening_speedup=speedup, peak_bytes=trial.peak_bytes,
        predicted_update_s=prediction.update_s if prediction else None,
        predicted_peak_bytes=prediction.peak_bytes if prediction else None,
        p_fits=prediction.p_fits if prediction else None, wall_s=trial.wall_s,
        dollars=trial_usd(contract.plan, history, trial),
    )  # fmt: skip


def _winner(workspace: Workspace, history: History) -> Winner | None:
    if history.choice is None:
        return None
    candidate = history.choice.candidate
    defaults = workspace.contract.task.surface.default_knobs()
    return Winner(
        candidate=candidate.short_id(),
        knobs={k: v for k, v in candidate.knobs.items() if v != defaults.get(k)},
        patches=candidate.patches,
        summaries={name: history.patches[name].summary for name in candidate.patches},
        parts=history.choice.parts,
    )


def _confirmed(
    workspace: Workspace, history: History, confirmation: Confirmation | None
) -> Confirmed | None:
    if confirmation is None:
        return None
    verdict, body = confirmation.verdict, confirmation.body
    starts = {
        arm: [
            cold_start_s(evidence_of(workspace, trial))
            for trial in _arm_trials(history, confirmation, arm)
            if not trial.cold_cache or arm == "reference"
        ]
        for arm in ("reference", "winner")
    }
    return Confirmed(
        ruling=verdict.ruling, speedup=verdict.speedup, threshold=body["threshold"],
        alpha=body["alpha"], blocks=_pair_rows(confirmation), findings=verdict.findings,
        sessions=session_rows(history, confirmation),
        reference_update_s=_arm_estimate(confirmation, "A"),
        winner_update_s=_arm_estimate(confirmation, "B"),
        reference_cold_start_s=median(starts["reference"]) if starts["reference"] else None,
        winner_cold_start_s=median(starts["winner"]) if starts["winner"] else None,
        winner_first_cold_start_s=_first_cold_start(workspace, history, body["candidate"]),
        verdict_digest=verdict.digest(),
        branch=_branch(history, verdict),
    )  # fmt: skip


def _branch(history: History, verdict: Verdict) -> str | None:
    """Give the branch that a verdict put the winner on."""
    promotion = history.promotion
    return promotion.branch if promotion and promotion.verdict_digest == verdict.digest() else None


def _first_cold_start(
    workspace: Workspace, history: History, candidate: dict[str, Any]
) -> float | None:
    wanted = Candidate.model_validate(candidate)
    cold = (
        trial
        for trial in history.trials.values()
        if trial.candidate == wanted and trial.cold_cache and trial.outcome is Outcome.OK
    )
    first = next(cold, None)
    return cold_start_s(evidence_of(workspace, first)) if first else None


def _pair_rows(confirmation: Confirmation) -> tuple[PairRow, ...]:
    rows = []
    for number, row in enumerate(confirmation.body["blocks"], start=1):
        arms: dict[str, list[float]] = {"A": [], "B": []}
        for letter, seconds in zip(row["order"], row["update_s"], strict=True):
            if seconds is not None:
                arms[letter].append(seconds)
        if not arms["A"] or not arms["B"]:
            continue
        logs = {k: sum(map(math.log, v)) / len(v) for k, v in arms.items()}
        rows.append(
            PairRow(
                block=number, order=row["order"], reference_s=tuple(arms["A"]),
                winner_s=tuple(arms["B"]), ratio=math.exp(logs["A"] - logs["B"]),
            )
        )  # fmt: skip
    return tuple(rows)


def _beyond(history: History) -> str:
    """Say how far training was tested beyond the window."""
    tested = history.horizon
    if tested is None:
        return "Training beyond that was not tested."
    said = max(
        tested.findings,
        key=lambda each: (each.ruling is tested.ruling, each.check == "horizon"),
    )
    reason = f"{said.reason[0].upper()}{said.reason[1:]}"
    match tested.ruling:
        case Ruling.PASS:
            return f"{reason}. Training beyond {tested.updates} updates was not tested."
        case Ruling.FAIL:
            return f"Refused beyond the window: {reason}."
        case Ruling.INCONCLUSIVE:
            return f"Training beyond that was tested, and could not be told: {reason}."


def _quality(workspace: Workspace, history: History) -> str:
    window = workspace.contract.task.window.last_update
    metrics = ", ".join(metric.value for metric in workspace.contract.task.numerics.metrics)
    launches = len(history.trials_for("confirm"))
    confirmation = history.confirmation
    findings = confirmation.verdict.findings if confirmation else ()
    replayed = "".join(
        f"{each.reason[0].upper()}{each.reason[1:]}. "
        for each in findings
        if each.check == "replayed" and each.ruling is Ruling.PASS
    )
    return (
        f"{metrics} were compared with the original reference at each of the first {window} "
        f"updates of every launch judged ({launches} of them in confirmation), on the same seed "
        f"and data. {replayed}{_beyond(history)}"
    )
