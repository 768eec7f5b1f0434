"""Joining the layers into a verdict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import get_args

from infrarsi.judge.audit import judge_audit
from infrarsi.judge.case import Case, Confirmation, Launch
from infrarsi.judge.facts import ChangedFile
from infrarsi.judge.findings import fails, gather, join, passes, soften, unsure
from infrarsi.judge.integrity import judge_channel, judge_integrity
from infrarsi.judge.numerics import judge_numerics
from infrarsi.judge.precision import judge_precision
from infrarsi.judge.replay import judge_replay
from infrarsi.judge.rules import RULES
from infrarsi.judge.slope import judge_ahead, judge_slope, judge_tails
from infrarsi.judge.speedup import alpha_for_attempt, confirm_speedup
from infrarsi.judge.timing import judge_timing, steady_update_s, tail_of
from infrarsi.judge.workload import judge_presence, judge_workload
from infrarsi.records.estimate import Estimate
from infrarsi.records.verdict import Finding, Layer, Verdict

_REFERENCE_DRIFT = 1.5
"""A reference slower than its own baseline by this factor is not the reference any more."""
_LAYERS: dict[str, Callable[[Case], list[Finding]]] = {
    "integrity": judge_integrity,
    "workload": judge_workload,
    "timing": judge_timing,
    "numerics": judge_numerics,
    "precision": judge_precision,
}
"""The layers that judge a launch. Audit judges the source, once a candidate."""


def judge_screen(case: Case) -> Verdict:
    """Judge one launch of a candidate against the launch of the reference.

    A pass ranks: it says that nothing was found against the candidate. It never confirms a
    speedup, which takes :func:`judge_confirmation`.

    Parameters
    ----------
    case : Case
        The two launches, the contract's task, the baseline and the changed source.

    Returns
    -------
    Verdict
        The conjunction of integrity, audit, workload, timing, numerics and precision.
    """
    reach = len(case.candidate.series) or None
    audit = judge_audit(
        case.changed,
        whole=_whole([case.candidate]),
        reach=reach,
        installed=_installed([case.candidate]),
    )
    findings = [*audit, *judge_launch(case)]
    return _verdict(case.subject, "screen", findings, launches=[case.candidate])


def judge_launch(case: Case) -> list[Finding]:
    """Put one launch through every layer but the audit.

    Where the witness never spoke, or counted too few updates, the layers that compare updates
    have nothing to say, and the verdict rests on that one finding.
    """
    if judge_presence(case):
        return [*judge_integrity(case), *judge_workload(case), *judge_timing(case)]
    return [finding for layer in _LAYERS.values() for finding in layer(case)]


def acceptance_threshold(confirmation: Confirmation) -> float:
    """Give what the lower bound must exceed: ``1 + max(least effect, |A/A bias|)``."""
    least = confirmation.task.objective.least_effect
    return 1 + max(least, abs(confirmation.baseline.bias))


def judge_confirmation(confirmation: Confirmation) -> Verdict:
    """Judge a confirmation: every launch of both arms, and the interval of the speedup.

    Parameters
    ----------
    confirmation : Confirmation
        All blocks, in the order in which they ran.

    Returns
    -------
    Verdict
        ``pass`` where every layer passes and the interval's lower bound exceeds
        :func:`acceptance_threshold`; ``fail`` where a layer fails or the upper bound is below
        it; else ``inconclusive``. A reference launch that does not repeat the original
        reference is inconclusive: it does not speak against the candidate.
    """
    whole = [each for each in confirmation.blocks if len(each.launches) == len(each.order)]
    winners = [launch for block in whole for launch in block.arm("B")]
    references = [launch for block in whole for launch in block.arm("A")]
    cases = [_case(confirmation, launch) for launch in winners]
    findings = [
        *judge_audit(
            confirmation.changed,
            whole=_whole(winners),
            reach=_most_updates(winners) or None,
            installed=_installed(winners),
        ),
        *gather([judge_launch(case) for case in cases], arm="winner"),
        *gather(
            [_judge_reference(_case(confirmation, each)) for each in references], arm="reference"
        ),
        _judge_design(confirmation),
    ]
    launches = [each for block in confirmation.blocks for each in block.launches]
    launches += confirmation.replay.launches if confirmation.replay else []
    speedup = _speedup(confirmation)
    if speedup is None:
        findings.append(
            unsure(
                "timing", "speedup", "not every launch has a steady rate",
                hint="redo the blocks whose launches failed, for the fault, not for the figure",
            )
        )  # fmt: skip
    else:
        findings += _judge_speedup(speedup, confirmation, winners, references)
        findings += _pool_tails(cases)
    findings += judge_replay(confirmation)  # made last, so that its absence follows from the rest
    return _verdict(confirmation.subject, "confirm", findings, launches=launches, speedup=speedup)


def _case(confirmation: Confirmation, launch: Launch) -> Case:
    return Case(
        subject=confirmation.subject, task=confirmation.task, baseline=confirmation.baseline,
        candidate=launch, reference=confirmation.reference, changed=confirmation.changed,
    )  # fmt: skip


def _judge_reference(case: Case) -> list[Finding]:
    """Check that a reference launch repeats the original reference."""
    silent = judge_presence(case)
    layers = [judge_workload, judge_timing, judge_numerics, judge_precision]
    findings = silent or [finding for layer in layers for finding in layer(case)]
    source = [*judge_channel(case), *(judge_integrity(case) if case.candidate.source else [])]
    return soften(
        [*source, *findings],
        hint="the reference itself does not repeat: run doctor again on a quiet machine",
    )


def _judge_design(confirmation: Confirmation) -> Finding:
    """Check that the blocks are the ones that were fixed in advance."""
    blocks, planned = confirmation.blocks, confirmation.planned_blocks
    odd = [block.order for block in blocks if block.order not in {"ABBA", "BAAB"}]
    if odd or any(len(block.launches) != len(block.order) for block in blocks):
        return unsure(
            "timing", "design", f"blocks must be ABBA or BAAB, not {', '.join(odd) or 'partial'}",
            hint="redo the confirmation by its schedule",
        )  # fmt: skip
    if len(blocks) != planned:
        return unsure(
            "timing", "design", f"{len(blocks)} blocks ran; {planned} were fixed in advance",
            hint="finish the blocks that were planned, no fewer and no more",
        )  # fmt: skip
    return passes("timing", "design", f"{planned} blocks, fixed in advance, ran to the end")


def _steady(confirmation: Confirmation, launches: Sequence[Launch]) -> list[float]:
    window = confirmation.task.window
    return [steady_update_s(launch.evidence, window) for launch in launches]


def _speedup(confirmation: Confirmation) -> Estimate | None:
    try:
        pairs = [
            (_steady(confirmation, block.arm("A")), _steady(confirmation, block.arm("B")))
            for block in confirmation.blocks
        ]
        return confirm_speedup(pairs, alpha=alpha_for_attempt(confirmation.attempt))
    except ValueError:
        return None


def _judge_speedup(
    speedup: Estimate,
    confirmation: Confirmation,
    winners: Sequence[Launch],
    references: Sequence[Launch],
) -> list[Finding]:
    threshold = acceptance_threshold(confirmation)
    words = (
        f"the speedup is {speedup.point:.4f} ({speedup.low:.4f} to {speedup.high:.4f} at "
        f"{speedup.level:.2%}, {len(confirmation.blocks)} blocks); its lower bound must exceed "
        f"{threshold:.4f}: 1 plus {_what_sets_it(confirmation)}"
    )
    if speedup.low > threshold:
        finding = passes("timing", "speedup", words)
    elif speedup.high < threshold:
        finding = fails("timing", "speedup", words)
    else:
        finding = unsure(
            "timing", "speedup", words, hint="plan more blocks, or accept a smaller least effect"
        )
    return [finding, *_judge_arms(confirmation, winners, references)]


def _what_sets_it(confirmation: Confirmation) -> str:
    """Say where the threshold came from."""
    least, bias = confirmation.task.objective.least_effect, abs(confirmation.baseline.bias)
    if bias > least:
        return f"the bias of {bias:.2%} that doctor measured between equal launches"
    return f"the contract's least effect of {least:.2%}"


def _judge_arms(
    confirmation: Confirmation, winners: Sequence[Launch], references: Sequence[Launch]
) -> list[Finding]:
    """Check the arms as wholes: slope, cold start, and the reference against its baseline."""
    least = confirmation.task.objective.least_effect
    mine = _steady(confirmation, winners)
    middle = sum(mine) / len(mine)
    # A launch cannot know its hidden stop while it starts up, so that the cold start has nothing
    # to say about it; left in, a loaded machine's start-up noise drowns the slope.
    stops = [
        (
            each.facts.stop_update,
            float(each.series.t_s[each.facts.stop_update - 1] - each.series.t_s[0]),
        )
        for each in winners
        if each.facts.stop_update is not None and each.facts.stop_update <= len(each.series)
    ]
    findings = [
        judge_slope(stops, middle, least_effect=least),
        judge_ahead(
            [float(each.series.t_s[0]) for each in winners],
            [float(each.series.t_s[0]) for each in references],
            (middle, sum(_steady(confirmation, references)) / len(references)),
            num_seen=_most_updates(winners),
            compiles=_compiles(winners) and not _compiles(references),
        ),
    ]
    theirs = sorted(_steady(confirmation, references))[len(references) // 2]
    measured = confirmation.baseline.update_s.point
    if theirs > _REFERENCE_DRIFT * measured:
        findings.append(
            unsure(
                "timing", "reference_rate",
                f"over the window the reference took {theirs:.4g} s an update, "
                f"{theirs / measured:.2f} times the {measured:.4g} s that doctor measured; up to "
                f"{_REFERENCE_DRIFT:g} times are allowed",
                hint="the machine changed, or something held the reference back: run doctor again",
            )
        )  # fmt: skip
    return findings


def _compiles(launches: Sequence[Launch]) -> bool:
    """Tell whether a launch compiled or captured code, which takes its time at the start."""
    notes = [note for each in launches for note in each.evidence.notes]
    return any("compiled" in note or "captured" in note for note in notes)


def _whole(launches: Sequence[Launch]) -> tuple[ChangedFile, ...] | None:
    """Give the changed files, whole, of the first launch that tells of them."""
    told = [each.source.changed_files for each in launches if each.source is not None]
    return next((each for each in told if each is not None), None)


def _installed(launches: Sequence[Launch]) -> frozenset[str]:
    """Give the names that packages were installed under when these were launched."""
    facts = [each.source.packages for each in launches if each.source is not None]
    return frozenset(name for each in facts if each is not None for name in each.installed)


def _most_updates(launches: Sequence[Launch]) -> int:
    return max((len(each.series) for each in launches), default=0)


def _pool_tails(cases: Sequence[Case]) -> list[Finding]:
    """Let the launches of a confirmation speak together about the updates after the window."""
    tails = [tail for case in cases if (tail := tail_of(case)) is not None]
    pooled = judge_tails(tails, least_effect=cases[0].task.objective.least_effect)
    return [pooled] if pooled is not None else []


def _verdict(
    subject: str,
    kind: str,
    findings: Sequence[Finding],
    *,
    launches: Sequence[Launch],
    speedup: Estimate | None = None,
) -> Verdict:
    said = [*findings, *_missing_layers(findings)]
    return Verdict(
        subject=subject, kind="confirm" if kind == "confirm" else "screen", ruling=join(said),
        findings=tuple(said), speedup=speedup, rules=RULES,
        trials=tuple(each.facts.trial_id for each in launches),
        sandbox=tuple(sorted({each.facts.sandbox for each in launches} - {""})),
    )  # fmt: skip


def _missing_layers(findings: Sequence[Finding]) -> list[Finding]:
    """Say which layers had nothing to say: silence is no pass.

    Replay is asked for at confirmation only, and says so itself.
    """
    spoken = {each.layer for each in findings}
    wanted: list[Layer] = [each for each in get_args(Layer) if each != "replay"]
    return [
        unsure(layer, "silent", f"{layer} could not be judged", hint="settle the other findings")
        for layer in wanted
        if layer not in spoken
    ]
