"""A recheck on a terminal: what was looked at, what is otherwise, what could not be told."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from infrarsi.records.recheck import CheckChange, NotJudged, Recheck, Rejudged, RulesGroup
from infrarsi.records.verdict import Ruling
from infrarsi.render import numbers
from infrarsi.render.document import printable
from infrarsi.render.wrapping import wrapped


def recheck_lines(found: Recheck, *, width: int | None = None) -> list[str]:
    """Say what judging again came to, a fact a line; with a width, none is wider."""
    lines = [
        f"{numbers.counted(found.num_trials, 'stored trial')}, of which verdicts rest on "
        f"{_rested_on(found):,}; judged again by today's rules (version {found.rules}): "
        f"{numbers.counted(found.num_judged_again, 'trial')} in "
        f"{numbers.counted(found.num_verdicts, 'verdict')}, against "
        f"{numbers.counted(found.num_calibrations, 'baseline')} derived anew"
    ]
    for group in found.groups:
        lines += _group(group)
    lines += [line for each in found.lost for line in _not_judged(each)]
    lines += [f"note: {each}" for each in found.notes]
    if not found.num_verdicts and not found.lost:
        lines.append("nothing was judged yet: search with `infrarsi run`")
    elif not found.changed and not found.lost:
        lines.append("every verdict is what it was")
    return wrapped(lines, width)


def _rested_on(found: Recheck) -> int:
    return found.num_judged_again + len({name for each in found.lost for name in each.trials})


def _group(group: RulesGroup) -> Iterator[str]:
    same = group.num_verdicts - len(group.changed)
    yield (
        f"judged then by version {group.rules} ({group.what}): "
        f"{numbers.counted(group.num_verdicts, 'verdict')} on "
        f"{numbers.counted(group.num_trials, 'trial')}, {same:,} as they were, "
        f"{len(group.changed):,} otherwise"
    )
    # What was accepted and would not be comes first.
    for each in sorted(group.changed, key=lambda each: (not each.promoted, not each.is_overturned)):
        yield from _rejudged(each)


def _rejudged(each: Rejudged) -> Iterator[str]:
    mark = "promoted, " if each.promoted else ""
    kind = "confirmation on" if each.kind == "confirm" else "screening of"
    yield (
        f"  {kind} {_launches(each.trials)}, candidate {each.candidate} "
        f"({printable(each.change)}): {mark}{each.then.value} -> {each.now.value}"
    )
    before, after = each.speedup_then, each.speedup_now
    if each.kind == "confirm" and before != after:
        yield f"    speedup: {numbers.ratio_estimate(before)} -> {numbers.ratio_estimate(after)}"
    for change in each.checks:
        yield f"    {_check(change)}"


def _check(change: CheckChange) -> str:
    words = [_ruling(change.then), _ruling(change.now)]
    return f"{change.layer}, {change.check}: {' -> '.join(words)}: {printable(change.reason)}"


def _ruling(ruling: Ruling | None) -> str:
    return ruling.value if ruling is not None else "not asked"


def _not_judged(each: NotJudged) -> Iterator[str]:
    accepted = ", an accepted one among them" if each.accepted else ""
    yield (
        f"could not be judged again: {numbers.counted(each.num_verdicts, 'verdict')} on "
        f"{_launches(each.trials)}{accepted}: {printable(each.why)}"
    )


def _launches(names: Sequence[str]) -> str:
    if len(names) <= 2:
        return ", ".join(names)
    return f"{names[0]} to {names[-1]} ({len(names):,} launches)"
