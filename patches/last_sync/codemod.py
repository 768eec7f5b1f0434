"""Only the last micro-batch of an update has its gradients averaged over the ranks."""

from __future__ import annotations

import re
from collections.abc import Mapping

import libcst as cst

from infrarsi.propose.recipe import DoesNotApply
from infrarsi.propose.repository import Repository
from infrarsi.propose.rewrite import Rewrite
from infrarsi.propose.source import Source, dotted, method_call, read_sources
from infrarsi.propose.training import backward_calls

from .micro_batches import last_of_flat_loop, last_of_inner_loop

_DDP = "DistributedDataParallel"
_ALREADY = re.compile(r"\bno_sync\b|\brequire_backward_grad_sync\b")
_LOSSY = re.compile(
    r"\bregister_comm_hook\b|\bstatic_graph\s*=\s*True|\bBatchNorm\d|\bJoin\(|\.join\(\)"
)
"""With these, averaging once gives other numbers, or is not allowed."""


def transform(sources: Mapping[str, str]) -> dict[str, str]:
    """Say, ahead of every micro-batch, whether its backward is to average."""
    read = read_sources(sources)
    if not any(_DDP in each.text for each in read):
        raise DoesNotApply(f"no source mentions {_DDP}")
    for source in read:
        if match := _ALREADY.search(source.text):
            raise DoesNotApply(f"{source.path} already chooses when to average ({match[0]})")
        if match := _LOSSY.search(source.text):
            raise DoesNotApply(f"{source.path} has {match[0].strip()}, with which that may differ")
    repository = Repository(read)
    held = _held(repository)
    changed, reasons = {}, []
    for source in read:
        rewrite, found = Rewrite(source), 0
        for call in backward_calls(source):
            try:
                found += _rewrite(source, rewrite, call, held)
            except DoesNotApply as answer:
                reasons.append(f"{answer.because} ({source.path}, line {source.line(call)})")
        if found:
            changed[source.path] = rewrite.text()
    if reasons or not changed:
        # A backward that averages, among others that do not, would hide which one is whole.
        raise DoesNotApply("; ".join(reasons) or "no loop accumulates gradients over micro-batches")
    return changed


def _held(repository: Repository) -> set[str]:
    """Give the names that may hold the wrapped model."""
    names = {_DDP}
    for source in repository.sources:
        names |= {a for a, meant in source.imports.items() if meant.endswith(f".{_DDP}")}
    return {each for name in names for each in repository.holders(name)}


def _rewrite(source: Source, rewrite: Rewrite, call: cst.Call, held: set[str]) -> bool:
    function = source.nearest(call, cst.FunctionDef)
    if function is not None and function.name.value == "backward":
        return False
    loop = source.nearest(call, cst.For)
    if loop is None:
        raise DoesNotApply("the backward pass stands in no for loop")
    if source.scope(loop) is not source.scope(call):
        raise DoesNotApply("the loop around the backward pass is in another function")
    last = last_of_inner_loop(source, loop, call) or last_of_flat_loop(source, loop)
    if last is None:
        raise DoesNotApply("every backward pass is followed by its own step")
    model = _model(source, loop, held)
    first = loop.body.body[0]
    rewrite.put_before(
        first,
        f"{model}.require_backward_grad_sync = {last}  # ranks average once an update",
    )
    return True


def _model(source: Source, loop: cst.For, held: set[str]) -> str:
    """Give the expression by which a loop knows the wrapped model."""
    callees = {
        name for call in source.every(cst.Call, loop)
        if (name := dotted(call.func)) and name.rpartition(".")[2] in held
    }  # fmt: skip
    found = callees or {
        name for call in source.every(cst.Call, loop) if not _asks_only(call)
        for each in call.args
        if (name := dotted(each.value)) and name.rpartition(".")[2] in held
    }  # fmt: skip
    if len(found) != 1:
        raise DoesNotApply(
            f"more than one model may be wrapped: {', '.join(sorted(found))}"
            if found else f"the loop does not call what {_DDP} wraps"
        )  # fmt: skip
    return found.pop()


def _asks_only(call: cst.Call) -> bool:
    name = dotted(call.func) or ""
    return name.rpartition(".")[2] in {
        "isinstance",
        "hasattr",
        "getattr",
        "len",
        "print",
        "id",
    } or ((found := method_call(call)) is not None and found[1] == "parameters")
