"""Making findings, and joining them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from infrarsi.records.verdict import Finding, Layer, Ruling

HICCUPS = frozenset({"tail", "halves", "unfinished"})
"""Checks that a moment's disturbance of the machine can trip."""
_SEVERITY = {Ruling.PASS: 0, Ruling.INCONCLUSIVE: 1, Ruling.FAIL: 2}


def passes(layer: Layer, check: str, reason: str) -> Finding:
    """Make a finding that lets the candidate pass."""
    return Finding(layer=layer, check=check, ruling=Ruling.PASS, reason=reason)


def fails(layer: Layer, check: str, reason: str, *, hint: str = "") -> Finding:
    """Make a finding that refuses the candidate."""
    return Finding(layer=layer, check=check, ruling=Ruling.FAIL, reason=reason, hint=hint)


def unsure(layer: Layer, check: str, reason: str, *, hint: str) -> Finding:
    """Make a finding that cannot tell, with what would settle it."""
    return Finding(layer=layer, check=check, ruling=Ruling.INCONCLUSIVE, reason=reason, hint=hint)


def join(findings: Iterable[Finding]) -> Ruling:
    """Give the conjunction: any failure fails, else any doubt is inconclusive, else a pass.

    No finding at all is inconclusive: nothing was looked at.
    """
    rulings = {each.ruling for each in findings}
    if not rulings:
        return Ruling.INCONCLUSIVE
    return max(rulings, key=_SEVERITY.__getitem__)


def gravest(findings: Sequence[Finding]) -> Finding:
    """Give the finding that weighs most; of equals the first."""
    return max(findings, key=lambda each: _SEVERITY[each.ruling])


def soften(findings: Iterable[Finding], *, hint: str) -> list[Finding]:
    """Turn failures into doubts: for what does not speak against the candidate."""
    return [
        each
        if each.ruling is not Ruling.FAIL
        else each.model_copy(update={"ruling": Ruling.INCONCLUSIVE, "hint": each.hint or hint})
        for each in findings
    ]


def gather(of_launches: Sequence[Sequence[Finding]], *, arm: str) -> list[Finding]:
    """Fold the findings of many launches into the worst one of each check.

    Parameters
    ----------
    of_launches : sequence of sequences of Finding
        One sequence a launch, in order.
    arm : str
        Named in the reasons: ``winner`` or ``reference``.

    Notes
    -----
    What a hiccup of the machine can cause (:data:`HICCUPS`) is let be where it struck at most
    a quarter of the launches, and is a doubt where it struck at most half of them. Anything
    else counts in one launch.
    """
    worst: dict[tuple[str, str], list[tuple[int, Finding]]] = {}
    for index, findings in enumerate(of_launches, start=1):
        for each in findings:
            worst.setdefault((each.layer, each.check), []).append((index, each))
    return [_fold(seen, len(of_launches), arm) for seen in worst.values()]


def _fold(seen: Sequence[tuple[int, Finding]], num_launches: int, arm: str) -> Finding:
    index, worst = max(seen, key=lambda pair: _SEVERITY[pair[1].ruling])
    struck = len({i for i, each in seen if each.ruling is not Ruling.PASS})
    where = f"{struck} of {num_launches} {arm} launches; launch {index}"
    ruling = worst.ruling
    if ruling is Ruling.PASS:
        where = f"all {num_launches} {arm} launches; the first"
    elif worst.check in HICCUPS and struck <= num_launches / 4:
        ruling = Ruling.PASS
    elif worst.check in HICCUPS and struck <= num_launches / 2:
        ruling = Ruling.INCONCLUSIVE
    return worst.model_copy(update={"reason": f"{where}: {worst.reason}", "ruling": ruling})
