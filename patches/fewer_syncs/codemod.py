"""Numbers are read off the device when they are used, and not in every step."""

from __future__ import annotations

from collections.abc import Mapping

import libcst as cst

from infrarsi.propose.recipe import DoesNotApply
from infrarsi.propose.repository import Class, Repository
from infrarsi.propose.rewrite import Rewrite
from infrarsi.propose.source import Source, read_sources, walk
from infrarsi.propose.training import training_loops

from .numbers import LoopNumbers

_WAITS = frozenset(
    {"torch.cuda.synchronize", "torch.cuda.empty_cache", "torch.cuda.ipc_collect",
     "torch.cuda.current_stream().synchronize", "torch.xpu.synchronize", "torch.mps.synchronize"}
)  # fmt: skip

_LIBRARIES = frozenset({"transformers", "trl", "lightning", "pytorch_lightning"})
_STEPS = frozenset(
    {"training_step", "compute_loss", "optimizer_step", "on_step_begin", "on_substep_end",
     "on_step_end", "on_train_batch_start", "on_train_batch_end", "on_before_backward",
     "on_after_backward", "on_before_zero_grad"}
)  # fmt: skip


def transform(sources: Mapping[str, str]) -> dict[str, str]:
    """Take waiting out of every training loop."""
    read = read_sources(sources)
    repository = Repository(read)
    # Where collection is switched off, collecting by hand is what frees memory.
    by_hand = any("gc.disable" in each.text or "gc.freeze" in each.text for each in read)
    changed = {}
    places = 0
    for source in read:
        rewrite, found = Rewrite(source), 0
        numbers = LoopNumbers(source, rewrite)
        for loop in training_loops(repository, source):
            places += 1
            found += _drop_waits(source, rewrite, loop, by_hand=by_hand)
            found += numbers.defer(loop)
        for method in _step_methods(repository, source):
            places += 1
            found += _drop_waits(source, rewrite, method.body, by_hand=by_hand)
        if found:
            changed[source.path] = rewrite.text()
    if not changed:
        raise DoesNotApply(
            "the training loop reads no number off the device more often than it uses it"
            if places else "there is no training loop in the sources"
        )  # fmt: skip
    return changed


def _step_methods(repository: Repository, source: Source) -> list[cst.FunctionDef]:
    """Give the methods that the loop of a library calls in every step."""
    return [
        statement
        for node in source.every(cst.ClassDef)
        if _is_of_library(repository, Class(source, node))
        for statement in node.body.body
        if isinstance(statement, cst.FunctionDef) and statement.name.value in _STEPS
    ]


def _is_of_library(repository: Repository, each: Class, depth: int = 4) -> bool:
    for base in each.bases:
        parent = repository.class_named(base)
        if base.partition(".")[0] in _LIBRARIES:
            return True
        if parent is not None and depth and _is_of_library(repository, parent, depth - 1):
            return True
    return False


def _drop_waits(source: Source, rewrite: Rewrite, loop: cst.CSTNode, *, by_hand: bool) -> int:
    waits = _WAITS if by_hand else _WAITS | {"gc.collect"}
    found = 0
    for node in walk(loop):
        match node:
            case cst.SimpleStatementLine(body=[cst.Expr(value=cst.Call(func=func))]) if (
                source.qualified(func) in waits
            ):
                rewrite.remove(node)
                found += 1
    return found
