"""Differences by lines: hunks, and the edits that say the same as search and replace."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from infrarsi.edits.apply import decoded
from infrarsi.records.candidate import Edit


@dataclass(frozen=True, order=True)
class Hunk:
    """Lines ``start`` to ``end`` (excluded) of the base become ``lines``."""

    start: int
    end: int
    lines: tuple[str, ...]


def lines_of(text: str) -> list[str]:
    r"""Split after every ``\n`` and nowhere else, so that joining gives the text back."""
    lines = text.split("\n")
    return [line + "\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def hunks_between(before: list[str], after: list[str]) -> list[Hunk]:
    """Give the hunks that turn one list of lines into the other, in order."""
    head = 0
    shortest = min(len(before), len(after))
    while head < shortest and before[head] == after[head]:
        head += 1
    tail = 0
    while tail < shortest - head and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    old, new = before[head : len(before) - tail], after[head : len(after) - tail]
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    return [
        Hunk(head + old_from, head + old_to, tuple(new[new_from:new_to]))
        for tag, old_from, old_to, new_from, new_to in matcher.get_opcodes()
        if tag != "equal"
    ]


def edits_between(path: str, before: bytes, after: bytes) -> tuple[Edit, ...]:
    """Give the smallest edits, in whole lines, that turn ``before`` into ``after``.

    Each search text stands once in ``before``: lines of context are added until it does.
    An empty ``before`` gives one edit with an empty search text, which makes the file.

    Raises
    ------
    EditError
        One of the two is not UTF-8.
    """
    if before == after:
        return ()
    old_text, new_text = decoded(path, before), decoded(path, after)
    if not old_text:
        return (Edit(path=path, search="", replace=new_text),)
    old = lines_of(old_text)
    hunks = hunks_between(old, lines_of(new_text))
    spans = _joined([_unique_span(old, old_text, hunk) for hunk in hunks])
    edits = []
    for start, end in spans:
        replacement, done = [], start
        for hunk in hunks:
            if start <= hunk.start and hunk.end <= end:
                replacement += [*old[done : hunk.start], *hunk.lines]
                done = hunk.end
        replacement += old[done:end]
        edits.append(Edit(path=path, search="".join(old[start:end]), replace="".join(replacement)))
    return tuple(edits)


def _unique_span(old: list[str], old_text: str, hunk: Hunk) -> tuple[int, int]:
    start, end = hunk.start, hunk.end
    above = True
    while start == end or not _stands_once(old_text, "".join(old[start:end])):
        if (above and start > 0) or end == len(old):
            start -= 1
        else:
            end += 1
        above = not above
    return start, end


def _stands_once(text: str, search: str) -> bool:
    first = text.find(search)
    return text.find(search, first + 1) < 0


def _joined(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join spans that touch: an insertion where two meet would belong to both."""
    joined: list[tuple[int, int]] = []
    for span in spans:
        touching = [span]
        while joined and min(start for start, _ in touching) <= joined[-1][1]:
            touching.append(joined.pop())
        joined.append((min(start for start, _ in touching), max(end for _, end in touching)))
    return joined
