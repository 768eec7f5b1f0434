"""A reason says what differed, at which update, by how much, what was allowed and why that much."""

from dataclasses import replace

import numpy as np
import pytest
from synthetic_training import (
    STOP,
    WINDOW,
    Clock,
    Recipe,
    baseline_of,
    changed_launch,
    edited,
    evidence_of,
    facts_of,
    launch_of,
    source_of,
)

from infrarsi.judge.decide import judge_screen

LAST = WINDOW.last_update


def case_of(bench, recipe=None, clock=None, **launch):
    clock = clock or Clock(update_s=0.08, seed=3)
    return bench.case(launch_of(recipe or Recipe(), clock, **launch))


def stamped(bench, change):
    """A case whose stamps are changed; marks stand where they stood."""
    case = case_of(bench, clock=Clock(update_s=0.08, spread=0.0))
    evidence = case.candidate.evidence
    stamps = change(np.array([row.t_ns for row in evidence.updates], dtype=np.float64))
    rows = tuple(
        row.model_copy(update={"t_ns": int(t)})
        for row, t in zip(evidence.updates, stamps, strict=True)
    )
    changed = evidence.model_copy(update={"updates": rows, "ranks": {0: rows}})
    return replace(case, candidate=changed_launch(case.candidate, changed))


def with_marks(bench, update, **changes):
    case = case_of(bench)
    evidence = case.candidate.evidence
    marks = tuple(
        mark.model_copy(update=changes) if mark.update == update else mark
        for mark in evidence.marks
    )
    changed = evidence.model_copy(update={"marks": marks})
    return replace(case, candidate=changed_launch(case.candidate, changed))


def backwards(stamps):
    stamps[9] = stamps[8] - 2e7
    return stamps


def announced(stamps):
    stamps[6:16] = stamps[5] + 1e3 * np.arange(10)
    stamps[16:] = stamps[15] + 8e7 * np.arange(1, 7)
    return stamps


def late_mark(bench):
    case = case_of(bench, clock=Clock(update_s=0.08, spread=0.0))
    evidence = case.candidate.evidence
    marks = tuple(
        mark.model_copy(update={"t_ns": mark.t_ns + 10**9}) if mark.update == LAST else mark
        for mark in evidence.marks
    )
    changed = evidence.model_copy(update={"marks": marks})
    return replace(case, candidate=changed_launch(case.candidate, changed))


def too_fast(bench):
    baseline = baseline_of(bench.bands, flops_per_update=1e12, peak_flops=1e12)
    return bench.case(launch_of(Recipe(), Clock(update_s=0.08, seed=3)), baseline=baseline)


def other_batch(bench):
    case = case_of(bench)
    evidence = edited(case.candidate.evidence, 9, batch="f" * 16)
    return replace(case, candidate=changed_launch(case.candidate, evidence))


REASONS = {
    "batch_digest": (other_batch, (
        "update 9", "1 of", "none may", "hash to ffffffffffffffff, the reference's to ",
    )),
    "tokens": (lambda b: case_of(b, Recipe(half_batch=True)), (
        "update 1 had 72 tokens, the reference 144", "none may",
    )),
    "movement": (lambda b: case_of(b, Recipe(frozen=(0,))), (
        f"between updates 0 and {LAST}", "number 0", "48 x 16", "float32 epsilons",
    )),
    "grad_norm": (lambda b: case_of(b, Recipe(late_hack_from=9)), (
        "after update 9", "at most by", "allowed", "null launches",
    )),
    "start": (lambda b: case_of(b, Recipe(other_weights=True)), (
        "before update 1", "differ by", "allowed", "8 float32 epsilons",
    )),
    "optimizer_state": (
        lambda b: with_marks(b, LAST, census={"optimizer_state": {"bfloat16": 4096}}), (
            f"after update {LAST} held 4,096 bfloat16", "numerics.optimizer_state", "float32",
        )
    ),
    "switches": (
        lambda b: with_marks(b, LAST, flags={"cuda.matmul.allow_tf32": True}), (
            f"cuda.matmul.allow_tf32 = True at the mark after update {LAST}",
            "the reference: False", "numerics.tf32 is off",
        )
    ),
    "autocast": (
        lambda b: with_marks(b, LAST, flags={"autocast_dtypes": "bfloat16"}), (
            f"entered with bfloat16 by the mark after update {LAST}", "numerics.matmul", "float32",
        )
    ),
    "tail": (lambda b: case_of(b, clock=Clock(update_s=0.08, tail_factor=2.0)), (
        f"updates {LAST + 1} to {STOP}", "of the window", "allowed", "the least effect",
    )),
    "unfinished": (late_mark, (
        f"after update {LAST}", "of the window later", "allowed", "one and a half updates",
    )),
    "stamps": (lambda b: stamped(b, backwards), ("update 10", "0.02 s before update 9", "must")),
    "stamps at once": (lambda b: stamped(b, announced), (
        "10 of 12", "the first is update 7", "the window's mean is", "below 2%", "more than 1",
    )),
    "flop_floor": (too_fast, (
        f"updates {WINDOW.warmup_updates + 1} to {LAST}", "of the float32 peak", "allowed",
    )),
    "protected": (
        lambda b: case_of(b, source=source_of(protected_after={"data.py": "cc", "eval.py": "bb"})),
        ("data.py (aa -> cc)", "must be the same"),
    ),
    "outcome": (
        lambda b: case_of(b, facts=facts_of(outcome="crashed", reason="it fell over")),
        ("crashed", "it fell over"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("check", REASONS)
def test_a_reason_says_what_where_how_much_and_what_was_allowed(bench, check):
    make, needles = REASONS[check]
    verdict = judge_screen(make(bench))
    reasons = [each.reason for each in verdict.reasons if each.check == check.split(" at ")[0]]
    assert reasons, [(each.check, each.reason) for each in verdict.reasons]
    for needle in needles:
        assert needle in reasons[0], (needle, reasons[0])


def test_a_launch_too_short_says_whose_and_by_how_much(bench):
    short = evidence_of(Recipe(updates=LAST - 1), Clock(update_s=0.08))
    verdict = judge_screen(bench.case(launch_of(evidence=short)))
    assert any(
        f"{LAST - 1} updates" in each.reason and f"update {LAST}" in each.reason
        for each in verdict.reasons
    )
