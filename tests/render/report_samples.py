"""Made-up reports for tests of the voice: none of these numbers was measured."""

import math
import random

from infrarsi.records.estimate import Estimate
from infrarsi.records.forecast import Forecast, Range
from infrarsi.records.report import (
    Confirmed,
    Cost,
    Credit,
    IdeaRow,
    LanguageCall,
    PairRow,
    Part,
    PhaseTime,
    Report,
    TrialRow,
    Trials,
    Winner,
)
from infrarsi.records.verdict import Finding, Ruling

GIB = 1024**3
REFERENCE_S = 0.3124


def around(point: float, spread: float, level: float = 0.95) -> Estimate:
    return Estimate(
        low=point * math.exp(-spread), point=point, high=point * math.exp(spread), level=level
    )


_REFUSED_STEP = (
    "workload / batch_digest: update 12 saw 4 sequences where the reference saw 8; the multiset "
    "of sequences differs in every update from 11 on"
)
_REFUSED_STATE = (
    "precision / dtype_census: optimizer state holds bfloat16 (1,769,472 elements) at update 11; "
    "the contract allows float32"
)
_REFUSED_CAST = (
    "numerics / grad_norm: largest deviation 0.0412 at update 19, allowed 0.00031 (12 null "
    "launches, t rule with Bonferroni over 4 metrics)"
)

# change, reason, outcome, ruling, time, peak GiB, why
_SEARCH = [
    ("reference settings", "start 1 of 3: the reference", "ok", "pass", 0.311, 3.10, ""),
    ("micro_batch=8, grad_accum=4", "start 2 of 3", "ok", "pass", 0.262, 4.02, ""),
    ("+sdpa", "probe of sdpa", "ok", "pass", 0.243, 2.55, ""),
    ("recompute=False", "largest expected improvement", "oom", None, None, None,
     "out of memory in backward of update 1"),
    ("+fused_adamw", "probe of fused_adamw", "ok", "pass", 0.288, 3.11, ""),
    ("+sdpa, recompute=False", "partner for an OOM of recompute=False", "oom", None, None, None,
     "out of memory in forward of update 2"),
    ("+chunked_loss", "probe of chunked_loss", "ok", "pass", 0.309, 2.35, ""),
    ("+half_batch", "probe of half_batch", "ok", "fail", 0.163, 2.60, _REFUSED_STEP),
    ("+compile", "probe of compile", "ok", "pass", 0.226, 3.40, ""),
    ("+sdpa, +chunked_loss, recompute=False", "partner for an OOM of recompute=False", "ok",
     "pass", 0.188, 5.12, ""),
    ("num_workers=2", "largest expected improvement", "ok", "pass", 0.297, 3.12, ""),
    ("+bf16_state", "probe of bf16_state", "ok", "fail", 0.271, 2.71, _REFUSED_STATE),
    ("micro_batch=16, grad_accum=2, recompute=False", "largest expected improvement", "oom", None,
     None, None, "out of memory in forward of update 1"),
    ("+sdpa, +compile, +chunked_loss", "largest expected improvement", "ok", "pass", 0.171, 2.80,
     ""),
    ("+cast_logits", "probe of cast_logits", "ok", "fail", 0.229, 2.52, _REFUSED_CAST),
    ("+prefetch", "probe of prefetch", "crashed", None, None, None,
     "RuntimeError in the data loader: pin memory thread exited unexpectedly"),
    ("+sdpa, +compile, +chunked_loss, recompute=False", "largest expected improvement", "ok",
     "pass", 0.1429, 5.31, ""),
    ("+sdpa, +compile, num_threads=1", "cold expert's pick", "stopped_early", None, 0.355, None,
     "stopped at update 15: it could not win"),
    ("+sdpa, +compile, +chunked_loss, +fused_adamw, recompute=False",
     "largest expected improvement", "ok", "pass", 0.1361, 5.33, ""),
    ("+sdpa, +compile, micro_batch=16, grad_accum=2", "largest expected improvement", "ok",
     "inconclusive", 0.149, 5.80, "numerics / loss: 3 null launches are too few to tell"),
    ("+sdpa, +compile, +chunked_loss, +fused_adamw, micro_batch=8, grad_accum=4, recompute=False",
     "largest expected improvement", "ambiguous_memory", None, None, None,
     "the allocator of a library failed; the capacity was nearly reached"),
    ("+skip_step", "probe of skip_step", "ok", "fail", 0.212, 3.02,
     "timing / slope: the rate of the window and the slope of the whole launch differ by 31%"),
    ("+sdpa, +compile, +chunked_loss, +fused_adamw, num_workers=2, recompute=False",
     "largest expected improvement", "ok", "pass", 0.1352, 5.34, ""),
    ("+edit_loader", "probe of edit_loader", "refused", None, None, None,
     "integrity / surface: the patch edits data/loader.py, which is protected"),
]  # fmt: skip


def _rows() -> tuple[TrialRow, ...]:
    draw = random.Random(7)
    rows = []
    for index, (change, reason, outcome, ruling, seconds, gib, why) in enumerate(_SEARCH, start=1):
        guessed = outcome != "refused" and index > 1
        spread = 0.45 / math.sqrt(index)
        time = (seconds or 0.2) * math.exp(draw.gauss(0, spread / 2))
        needed = gib if gib is not None else draw.uniform(5.6, 8.5)
        memory = needed * GIB * math.exp(draw.gauss(0, spread / 3))
        rows.append(
            TrialRow(
                index=index,
                trial_id=f"t{index:04d}",
                candidate=f"{draw.getrandbits(48):012x}",
                change=change,
                reason=reason,
                outcome=outcome,
                verdict=None if ruling is None else Ruling(ruling),
                why=why,
                update_s=seconds,
                screening_speedup=None if seconds is None else REFERENCE_S / seconds,
                peak_bytes=None if gib is None else int(gib * GIB),
                predicted_update_s=around(time, spread) if guessed else None,
                predicted_peak_bytes=around(memory, spread / 1.6) if guessed else None,
                p_fits=min(0.995, max(0.004, 1.6 - memory / (6 * GIB))) if guessed else None,
                wall_s=24.0 + 40 * (seconds or 0.1),
                dollars=0.021 if index % 2 else None,
            )
        )
    return tuple(rows)


def _confirmed() -> Confirmed:
    draw = random.Random(11)
    blocks = []
    for block in range(1, 7):
        drift = math.exp(0.012 * block)
        reference = tuple(REFERENCE_S * drift * math.exp(draw.gauss(0, 0.012)) for _ in range(2))
        winner = tuple(0.1352 * drift * math.exp(draw.gauss(0, 0.014)) for _ in range(2))
        log = sum(map(math.log, reference)) / 2 - sum(map(math.log, winner)) / 2
        blocks.append(
            PairRow(
                block=block,
                order="ABBA" if draw.random() < 0.5 else "BAAB",
                reference_s=reference,
                winner_s=winner,
                ratio=math.exp(log),
            )
        )
    logs = [math.log(each.ratio) for each in blocks]
    mean = sum(logs) / 6
    spread = math.sqrt(sum((each - mean) ** 2 for each in logs) / 5 / 6) * 2.571
    findings = [
        Finding(layer="integrity", check="protected_files", ruling=Ruling.PASS,
                reason="31 protected files and 2 locked inputs are unchanged, before and after"),
        Finding(layer="workload", check="batch_digest", ruling=Ruling.PASS,
                reason="the batches of all 30 updates equal the reference's"),
        Finding(layer="workload", check="target_tokens", ruling=Ruling.PASS,
                reason="16,384 target tokens in every update, as in the reference"),
        Finding(layer="timing", check="slope", ruling=Ruling.PASS,
                reason="the slope of whole launches agrees with the window's rate to 0.8%"),
        Finding(layer="numerics", check="loss", ruling=Ruling.PASS,
                reason="largest deviation 2.1e-07 at update 28, allowed 4.0e-06 (12 null launches)"),
        Finding(layer="numerics", check="grad_norm", ruling=Ruling.PASS,
                reason="largest deviation 1.9e-05 at update 30, allowed 3.1e-04 (12 null launches)"),
        Finding(layer="precision", check="dtype_census", ruling=Ruling.PASS,
                reason="parameters, gradients, optimizer state and matmul operands are float32"),
        Finding(layer="replay", check="one_update", ruling=Ruling.PASS,
                reason="the reference code reproduces update 41 from the winner's state"),
        Finding(layer="audit", check="source", ruling=Ruling.PASS,
                reason="4 patches read; nothing touches clocks, frames or the witness",
                hint="read them yourself: infrarsi/winner holds one commit a patch"),
    ]  # fmt: skip
    return Confirmed(
        ruling=Ruling.PASS,
        speedup=around(math.exp(mean), spread),
        threshold=1.03,
        alpha=0.025,
        blocks=tuple(blocks),
        findings=tuple(findings),
        reference_update_s=around(0.3259, 0.011),
        winner_update_s=around(0.1411, 0.013),
        reference_cold_start_s=4.21,
        winner_cold_start_s=6.9,
        winner_first_cold_start_s=21.4,
        verdict_digest="5b" * 32,
        branch="infrarsi/winner",
    )


def _ideas() -> dict[str, tuple]:
    """Give ideas of two proposers, what each was credited with, and the calls of a model."""
    ideas = (
        IdeaRow(name="+sdpa", proposer="patchbook", kind="patch", fate="kept", predicted=0.8,
                measured=0.763, summary="Replaces the explicit softmax attention."),
        IdeaRow(name="+prefetch", proposer="patchbook", kind="patch", fate="tried", predicted=0.97,
                because="RuntimeError in the data loader"),
        IdeaRow(name="+fused_adamw", proposer="language", kind="patch", fate="kept", predicted=0.93,
                measured=0.951, summary="Steps all parameters in one kernel."),
        IdeaRow(name="recompute=False", proposer="language", kind="setting", fate="untried",
                predicted=0.82),
        IdeaRow(name="cache_masks", proposer="language", kind="patch", fate="declined",
                because="the search text stands more than once in model.py, at lines 41 and 77"),
    )  # fmt: skip
    credits = (
        Credit(proposer="patchbook", proposed=14, declined=9, tried=5, accepted=3,
               parts=("+chunked_loss", "+compile", "+sdpa"), num_scored=4,
               rank_correlation=0.8, mean_log_error=0.061),
        Credit(proposer="language", proposed=3, declined=1, tried=1, accepted=1,
               parts=("+fused_adamw",), num_scored=1,
               note="too few to score: 1 measured alone or by ablation, of 3"),
        Credit(proposer="sweep", proposed=None, tried=6, accepted=4, parts=("recompute=False",),
               note="it predicts nothing: it turns the knobs as the models suggest"),
    )  # fmt: skip
    calls = (
        LanguageCall(index=1, provider="openai", model="stand-in", host="127.0.0.1", outcome="ok",
                     input_tokens=14_021, output_tokens=1_102, usd=0.039, wall_s=11.2, num_ideas=2,
                     num_declined=1, redactions=2, prompt_digest="1d" * 32,
                     reply_digest="2e" * 32),
        LanguageCall(index=2, provider="openai", model="stand-in", host="127.0.0.1", mending=True,
                     outcome="unreachable", note="127.0.0.1 gave no reply within 180 s",
                     wall_s=180.0, prompt_digest="3f" * 32),
    )  # fmt: skip
    return {"ideas": ideas, "credits": credits, "language_calls": calls}


def full_report() -> Report:
    """Give a report in which every field is filled."""
    rows = _rows()
    outcomes: dict[str, int] = {}
    verdicts: dict[str, int] = {}
    for row in rows:
        outcomes[row.outcome] = outcomes.get(row.outcome, 0) + 1
        if row.verdict is not None:
            verdicts[row.verdict.value] = verdicts.get(row.verdict.value, 0) + 1
    failed = sum(n for name, n in outcomes.items() if name not in ("ok", "stopped_early"))
    parts = (
        Part(name="+sdpa", kind="patch", gain=around(1.31, 0.02), kept=True),
        Part(name="+compile", kind="patch", gain=around(1.29, 0.025), kept=True,
             note="adds 14.5 s to the first launch"),
        Part(name="+chunked_loss", kind="patch", gain=around(1.012, 0.01), kept=True,
             note="without it the launch runs out of memory"),
        Part(name="recompute=False", kind="knob", gain=around(1.22, 0.018), kept=True),
        Part(name="+fused_adamw", kind="patch", gain=around(1.052, 0.012), kept=True),
        Part(name="num_workers=2", kind="knob", gain=around(1.001, 0.009), kept=False,
             note="adds nothing that can be told from none"),
    )  # fmt: skip
    phases = (
        PhaseTime(phase="data", reference_s=0.0187, winner_s=0.0171),
        PhaseTime(phase="forward", reference_s=0.1012, winner_s=0.0434),
        PhaseTime(phase="backward", reference_s=0.1538, winner_s=0.0651),
        PhaseTime(phase="optimizer", reference_s=0.0431, winner_s=0.0127),
        PhaseTime(phase="other", reference_s=0.0091, winner_s=0.0028),
    )
    return Report(
        contract="tiny-gpt",
        task_digest="3f" * 32,
        commit="628f0b3c41d8a9e7f5061122334455667788990a",
        generated_at="2026-11-29T15:02:11Z",
        command=("python", "train.py", "--config", "configs/tiny gpt.yaml", "--steps", "2000"),
        machine={
            "cpu": "Example CPU, 2 cores", "memory": "16 GiB", "kernel": "6.1", "python": "3.11.9",
            "torch": "2.13.0", "accelerators": "none",
        },
        sandbox="bubblewrap: it does not stop a program from using all processor time, and does "
        "not hide the kernel",
        window="updates 11 to 30, after 10 of warm-up",
        reference_update_s=around(REFERENCE_S, 0.009),
        reference_peak_bytes=int(3.1 * GIB),
        capacity_bytes=6 * GIB,
        memory_unit="process_data",
        mfu=0.174,
        winner_mfu=0.402,
        noise_sd=0.0113,
        least_detectable=0.021,
        bands={
            "loss": "log ratio up to 4.0e-06: 12 null launches, t rule, Bonferroni over 4 metrics",
            "grad_norm": "log ratio up to 3.1e-04: 12 null launches, t rule",
            "update_norm": "log ratio up to 5.2e-04: 12 null launches, t rule",
            "sketch": "relative L2 up to 1.4e-03: 12 null launches, t rule",
        },
        phases=phases,
        trials=Trials(
            outcomes=outcomes, verdicts=verdicts, failed_share=failed / len(rows), rows=rows
        ),
        winner=Winner(
            candidate=rows[22].candidate,
            knobs={"recompute": False},
            patches=("chunked_loss", "compile", "fused_adamw", "sdpa"),
            summaries={
                "chunked_loss": "Computes the cross-entropy in chunks of 1,024 tokens.",
                "compile": "Compiles the model's forward.",
                "fused_adamw": "Steps all parameters in one kernel.",
                "sdpa": "Replaces the explicit softmax attention by scaled_dot_product_attention.",
            },
            parts=parts,
        ),
        confirmed=_confirmed(),
        **_ideas(),
        cost=Cost(
            wall_s=2874.0,
            cpu_s=5310.0,
            gpu_s=0.0,
            by_purpose_s={
                "baseline": 402.0, "null": 388.0, "screen": 811.0, "ablation": 560.0,
                "confirm": 540.0,
            },
            failed_wall_s=171.0,
            dollars=0.48,
            llm_dollars=0.03,
            llm_tokens=18_233,
            overhead_s=173.0,
            expected=Forecast(
                num_trials=Range(low=12, point=30, high=30),
                num_launches=Range(low=12, point=46, high=58),
                search_wall_s=Range(low=420.0, point=1300.0, high=1900.0),
                confirm_wall_s=Range(low=330.0, point=550.0, high=690.0),
                search_usd=Range(low=0.07, point=0.21, high=0.31),
            ),
            search_wall_s=1544.0,
            search_dollars=0.25,
            confirm_wall_s=552.0,
            break_even_updates=15_601,
            break_even_note="the cold start of the winner is charged",
        ),
        quality="Paired with the reference over 30 updates on the same seed and data; one further "
        "update replayed by the reference's code. Convergence beyond that was not tested.",
        limits=(
            "One machine on one day: another GPU may gain less, or nothing.",
            "Convergence beyond 30 updates was not tested.",
        ),
        history_digest="9c" * 32,
    )  # fmt: skip


def bare_report() -> Report:
    """Give a report of a search that has not begun: every optional field is missing."""
    return Report(
        contract="tiny-gpt",
        task_digest="3f" * 32,
        commit="628f0b3c41d8a9e7f5061122334455667788990a",
        generated_at="2026-11-29T15:02:11Z",
        command=("python", "train.py"),
        machine={},
        sandbox="",
        window="",
        capacity_bytes=6 * GIB,
        memory_unit="process_data",
        trials=Trials(outcomes={}, verdicts={}, failed_share=0.0, rows=()),
        cost=Cost(wall_s=0.0, cpu_s=0.0, gpu_s=0.0, by_purpose_s={}, failed_wall_s=0.0),
        quality="",
        history_digest="9c" * 32,
    )


def refused_report() -> Report:
    """Give a report whose confirmed candidate the judge refused."""
    report = full_report()
    confirmed = report.confirmed
    assert confirmed is not None
    finding = Finding(
        layer="numerics", check="update_norm", ruling=Ruling.FAIL, reason=_REFUSED_CAST,
        hint="allow bfloat16 in the contract if that is what you want",
    )  # fmt: skip
    changed = {"ruling": Ruling.FAIL, "findings": (*confirmed.findings, finding), "branch": None}
    return report.model_copy(
        update={"confirmed": confirmed.model_copy(update=changed), "phases": report.phases[:3]}
    )


def winnerless_report() -> Report:
    """Give a report of a search that found nothing."""
    report = full_report()
    rows = report.trials.rows[3:8]
    trials = Trials(
        outcomes={"ok": 3, "oom": 2}, verdicts={"fail": 1, "pass": 2}, failed_share=0.4, rows=rows
    )
    return report.model_copy(update={"winner": None, "confirmed": None, "trials": trials})
