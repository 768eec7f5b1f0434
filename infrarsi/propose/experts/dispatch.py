"""Puts one sort of all tokens by expert in the place of a loop that looks for each expert's."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeAlias

import libcst as cst

from infrarsi.propose.constants import only_computes
from infrarsi.propose.experts.inserted import NAME
from infrarsi.propose.experts.loops import LoopReader, read_head
from infrarsi.propose.experts.values import Dispatch, Round
from infrarsi.propose.flow import loads, only_value, read_later, reads, stores
from infrarsi.propose.recipe import DoesNotApply
from infrarsi.propose.repository import Repository
from infrarsi.propose.rewrite import Rewrite
from infrarsi.propose.source import Source, read_sources, walk

_EXPERTS = re.compile(r"expert|moe\b|router", re.IGNORECASE)


Insertion: TypeAlias = Callable[[Repository, Rewrite, Dispatch], str]
"""Gives the statements that do a loop's work, and defines what they need."""


def rewrite_loops(sources: Mapping[str, str], insertion: Insertion) -> dict[str, str]:
    """Rewrite every loop over experts that can be rewritten safely.

    Raises
    ------
    DoesNotApply
        There is none.
    """
    read = read_sources(sources)
    repository = Repository(read)
    changed, reasons = {}, []
    for source in read:
        rewrite, found = Rewrite(source), 0
        for loop in source.every(cst.For):
            if not isinstance(source.scope(loop), cst.FunctionDef):
                continue
            head = read_head(source, loop)
            if head is None or not _looks_like_dispatch(repository, source, loop):
                continue
            try:
                dispatch = LoopReader(repository, source, loop, head).read()
                _check(source, dispatch)
                text = insertion(repository, rewrite, dispatch)
                rewrite.put_statements(loop, text)
                _retire(rewrite, loop, text)
                found += 1
            except DoesNotApply as answer:
                if _EXPERTS.search(source.text):
                    reasons.append(f"{answer.because} ({source.path}, line {source.line(loop)})")
        if found:
            changed[source.path] = rewrite.text()
    if not changed:
        raise DoesNotApply(
            "; ".join(reasons) or "there is no loop over experts that looks for their tokens"
        )
    return changed


def _looks_like_dispatch(repository: Repository, source: Source, loop: cst.For) -> bool:
    """Tell whether a loop compares a tensor with the number of its round, to pick tokens."""
    head = read_head(source, loop)
    assert head is not None
    reader = LoopReader(repository, source, loop, head)
    reader.reader.names = {head.number: Round()}
    inner = [each for each in walk(loop.body) if isinstance(each, cst.For)]
    within = {node for each in inner for node in walk(each)}
    return any(
        node not in within and reader.reader.known(node) is not None
        for node in walk(loop.body)
        if isinstance(node, cst.Comparison | cst.Subscript)
    )


def _check(source: Source, found: Dispatch) -> None:
    """Make sure that nothing else needs what the loop leaves behind."""
    own = {each.value for each in stores(found.loop)}
    for name in own - {found.out}:
        if read_later(source, name, found.loop) is not None:
            raise DoesNotApply(f"{name!r} is read after the loop over experts")
    if _reads(found.out, found.code.text, found.choice.chosen, *found.steps):
        raise DoesNotApply("the experts read what they write to")
    if any(each.value == NAME for each in stores(source.module)):
        raise DoesNotApply(f"the file has a {NAME} already")
    if any(isinstance(node, cst.Yield | cst.Return | cst.Await) for node in walk(found.loop.body)):
        raise DoesNotApply("the loop over experts leaves the function")


def _reads(out: str, *texts: str) -> bool:
    """Tell whether code reads what a tensor holds, and not only its shape or dtype."""
    pattern = re.compile(rf"(?<![\w.]){re.escape(out)}\b(?!\.(dtype|device|shape)\b)")
    return any(pattern.search(text) for text in texts)


def _retire(rewrite: Rewrite, loop: cst.For, text: str) -> None:
    """Take out what was only made for the loop: masks, counts and lists of visited experts."""
    source = rewrite.source
    scope = source.scope(loop)
    gone = set(walk(loop))
    kept = {name.value for name in loads(cst.parse_module(text))}
    wanted = {each.value for each in loads(loop)} - kept
    while wanted:
        name = wanted.pop()
        single = only_value(source, name, loop)
        if single is None or source.scope(single[1]) is not scope:
            continue
        value, statement = single
        if any(use not in gone for use in reads(scope, name)) or not only_computes(source, value):
            continue
        rewrite.remove(statement)
        gone |= set(walk(statement))
        wanted |= {each.value for each in loads(value)} - kept
