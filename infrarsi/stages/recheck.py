"""recheck: every stored verdict, reached anew from its evidence under today's rules."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import TypeAlias

from infrarsi.errors import InconclusiveError, LedgerError, RejectedError
from infrarsi.judge.rules import CHANGES, RULES
from infrarsi.records.recheck import CheckChange, NotJudged, Recheck, Rejudged, RulesGroup
from infrarsi.records.verdict import Finding, Layer, Ruling, Verdict
from infrarsi.stages.naming import words_of
from infrarsi.stages.rejudging.anew import Bench
from infrarsi.stages.rejudging.docket import Docket, Judged
from infrarsi.stages.workspace import Workspace, read_workspace

_Reached: TypeAlias = tuple[Judged, Verdict]
_BY_GRAVITY = (Ruling.PASS, Ruling.INCONCLUSIVE, Ruling.FAIL)
_NAMED = 3
_KEPT_BYTES = 24 << 20
_LEAST_SHARE = 150
"""Launches that are judged sooner than another process is ready for them."""


def recheck(workspace: Workspace, *, least_share: int = _LEAST_SHARE) -> Recheck:
    """Judge again whatever was judged, and say what came out otherwise; nothing is written.

    Screenings and whole confirmations are judged from the stamped events and the facts of their
    source. The bands they are held against are derived anew too, once for each baseline. Where
    there are ``least_share`` launches for each, all processors take part.
    """
    docket = Docket.of(workspace.ledger.events)
    anew, num_calibrations = _judge_all(workspace, docket.verdicts, least_share)
    found = list(zip(docket.verdicts, anew, strict=True))
    reached = [(judged, now) for judged, now in found if isinstance(now, Verdict)]
    lost = [(judged, why) for judged, why in found if isinstance(why, str)]
    versions = sorted({judged.verdict.rules for judged, _ in reached}, reverse=True)
    groups = tuple(
        _group(version, [each for each in reached if each[0].verdict.rules == version])
        for version in versions
    )
    return Recheck(
        rules=RULES, num_trials=len(docket.trials), num_verdicts=len(reached),
        num_judged_again=len(_names(judged for judged, _ in reached)),
        num_calibrations=num_calibrations, groups=groups, lost=_lost(lost),
        notes=tuple(_unannounced(groups)), ledger_head=workspace.ledger.head,
    )  # fmt: skip


def _judge_all(
    workspace: Workspace, verdicts: Sequence[Judged], least_share: int
) -> tuple[list[Verdict | str], int]:
    """Judge all of them in order, on all processors where there are many; and count baselines."""
    first, *others = _shares([len(each.trials) for each in verdicts], least_share)
    if not others:
        anew, bands = _judge(workspace, verdicts)
        return anew, len(bands)
    with ProcessPoolExecutor(len(others), mp_context=get_context("spawn")) as pool:
        asked = [pool.submit(_judge_share, workspace.repository.root, each) for each in others]
        shares = [_judge(workspace, verdicts[first]), *(each.result() for each in asked)]
    return [each for anew, _ in shares for each in anew], len(set().union(*(b for _, b in shares)))


def _shares(launches: Sequence[int], least_share: int) -> list[slice]:
    """Cut verdicts of so many launches each into shares of about as many, one a processor."""
    num = max(1, min(len(os.sched_getaffinity(0)), sum(launches) // least_share))
    ends, so_far = [0], 0
    for place, count in enumerate(launches, start=1):
        so_far += count
        if so_far * num >= len(ends) * sum(launches):
            ends.append(place)
    ends[-1] = len(launches)
    return [slice(begin, end) for begin, end in pairwise(ends)] or [slice(0)]


def _judge(
    workspace: Workspace, verdicts: Sequence[Judged]
) -> tuple[list[Verdict | str], frozenset[str]]:
    bench = Bench(workspace)
    _keep_memory()
    return [bench.again(judged) for judged in verdicts], bench.calibrated


def _judge_share(root: Path, share: slice) -> tuple[list[Verdict | str], frozenset[str]]:
    """Judge a share in a process of its own, which reads the ledger for itself."""
    workspace = read_workspace(root)
    return _judge(workspace, Docket.of(workspace.ledger.events).verdicts[share])


def _keep_memory() -> None:
    """Have the allocator keep what one launch frees for the next one: glibc learns it by example.

    Else it gives megabytes back to the system after each launch, and takes them anew.
    """
    bytes(_KEPT_BYTES)


def refuse_unless_upheld(found: Recheck) -> None:
    """Refuse where something that was accepted would not be accepted today.

    Raises
    ------
    RejectedError
        It would be refused.
    LedgerError
        It, or something else, cannot be judged any more.
    InconclusiveError
        It would be inconclusive.
    """
    refused = [each for each in found.overturned if each.now is Ruling.FAIL]
    if refused:
        raise RejectedError(_overturned(refused, "refused"), hint=_what_to_do(refused))
    if found.lost:
        count = sum(each.num_verdicts for each in found.lost)
        raise LedgerError(
            f"{count} verdict(s) could not be judged again: {found.lost[0].why}",
            hint="restore .infrarsi/artifacts from a copy; until then they rest on their word "
            "alone",
        )
    if found.overturned:
        raise InconclusiveError(
            _overturned(found.overturned, "inconclusive"), hint=_what_to_do(found.overturned)
        )


def _overturned(cases: Sequence[Rejudged], word: str) -> str:
    promoted = [each for each in cases if each.promoted]
    meant = promoted or list(cases)
    named = "; ".join(
        f"{launches_in_words(each.trials)} ({each.change})" for each in meant[:_NAMED]
    )
    more = f" and {len(meant) - _NAMED} more" if len(meant) > _NAMED else ""
    others = len(cases) - len(meant)
    rest = f"; and {others} other accepted verdict(s)" if others else ""
    what = "what was promoted" if promoted else f"{len(cases)} accepted verdict(s)"
    return f"{what} would be {word} by today's rules: {named}{more}{rest}"


def _what_to_do(cases: Sequence[Rejudged]) -> str:
    if any(each.promoted for each in cases):
        return (
            "read why above; take the branch back with `infrarsi apply --revert`, or confirm it "
            "anew"
        )
    return "read why above; `infrarsi apply` judges whatever was put forward anew, by today's rules"


def launches_in_words(trials: Sequence[str]) -> str:
    """Name launches: one, or the first and the last of many."""
    return trials[0] if len(trials) == 1 else f"{trials[0]} to {trials[-1]}"


def _names(cases: Iterable[Judged]) -> set[str]:
    return {trial.trial_id for judged in cases for trial in judged.trials}


def _group(version: int, reached: Sequence[_Reached]) -> RulesGroup:
    pairs = [(judged, now, _differences(judged.verdict, now)) for judged, now in reached]
    return RulesGroup(
        rules=version, what=CHANGES.get(version, "not known to this InfraRSI"),
        num_verdicts=len(reached), num_trials=len(_names(judged for judged, _ in reached)),
        changed=tuple(
            _rejudged(judged, now, checks)
            for judged, now, checks in pairs
            if checks or now.ruling is not judged.verdict.ruling
        ),
    )  # fmt: skip


def _rejudged(judged: Judged, now: Verdict, checks: tuple[CheckChange, ...]) -> Rejudged:
    then = judged.verdict
    reference = judged.reference.candidate
    return Rejudged(
        kind=then.kind, trials=tuple(trial.trial_id for trial in judged.trials),
        candidate=judged.candidate.short_id(),
        change=words_of(judged.candidate, reference.knobs), rules=then.rules,
        then=then.ruling, now=now.ruling, speedup_then=then.speedup, speedup_now=now.speedup,
        promoted=judged.promoted, checks=checks,
    )  # fmt: skip


def _differences(then: Verdict, now: Verdict) -> tuple[CheckChange, ...]:
    """Give the checks that rule otherwise; one that passes is as good as one that is silent."""
    before, after = _gravest(then), _gravest(now)
    changes = []
    for key in dict.fromkeys([*after, *before]):
        old, new = before.get(key), after.get(key)
        rulings = [each.ruling if each else Ruling.PASS for each in (old, new)]
        said = new or old
        if rulings[0] is not rulings[1] and said is not None:
            changes.append(
                CheckChange(
                    layer=said.layer, check=said.check, then=old.ruling if old else None,
                    now=new.ruling if new else None, reason=said.reason,
                )
            )  # fmt: skip
    return tuple(changes)


def _gravest(verdict: Verdict) -> dict[tuple[Layer, str], Finding]:
    """Give the gravest finding of each check."""
    found: dict[tuple[Layer, str], Finding] = {}
    for each in verdict.findings:
        key = (each.layer, each.check)
        known = found.get(key)
        if known is None or _BY_GRAVITY.index(each.ruling) > _BY_GRAVITY.index(known.ruling):
            found[key] = each
    return found


def _lost(lost: Sequence[tuple[Judged, str]]) -> tuple[NotJudged, ...]:
    """Gather what could not be judged by its reason, the first first."""
    return tuple(
        NotJudged(
            trials=tuple(dict.fromkeys(t.trial_id for each in cases for t in each.trials)),
            num_verdicts=len(cases), why=why,
            accepted=any(each.verdict.ruling is Ruling.PASS for each in cases),
        )
        for why in dict.fromkeys(why for _, why in lost)
        if (cases := [judged for judged, said in lost if said == why])
    )  # fmt: skip


def _unannounced(groups: Sequence[RulesGroup]) -> Iterator[str]:
    """Tell of verdicts that differ though the rules are said to be the same."""
    count = sum(len(group.changed) for group in groups if group.rules == RULES)
    if count:
        yield (
            f"{count} verdict(s) of rules version {RULES}, which is today's, came out otherwise: "
            "the judge was changed without a new version, or a library that it reckons with was"
        )
