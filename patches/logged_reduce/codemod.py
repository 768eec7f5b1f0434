"""A number that is only logged is averaged over the ranks when it is logged."""

from __future__ import annotations

import re
from collections.abc import Mapping

import libcst as cst

from infrarsi.propose.flow import binds, loads, reads
from infrarsi.propose.recipe import DoesNotApply
from infrarsi.propose.repository import Repository
from infrarsi.propose.rewrite import Rewrite
from infrarsi.propose.source import (
    Source,
    argument,
    children_of,
    dotted,
    keywords,
    literal,
    read_sources,
    sole,
    walk,
)
from infrarsi.propose.training import training_loops

_REDUCES = ("torch.distributed.all_reduce", "torch.distributed.reduce")
_STEP = re.compile(
    r"(^|_)(steps?|iter|iters|iteration|it|i|n|idx|batch_idx|num_updates?|update)(_|$)"
)
"""Names that count: every rank counts the same."""
_SETTING = re.compile(
    r"(^|[._])(log|print|report|eval|save|display|verbose|\w*_(every|freq|interval|steps|iters))"
)
_OF_A_RANK = re.compile(
    r"rank|master|main|primary|leader|is_|local|node|host|device", re.IGNORECASE
)


def transform(sources: Mapping[str, str]) -> dict[str, str]:
    """Put the reduction of every number that is only logged under the condition of its log."""
    read = read_sources(sources, "all_reduce", "dist.reduce")
    repository = Repository(read)
    changed, seen = {}, 0
    for source in read:
        rewrite, found = Rewrite(source), 0
        for loop in training_loops(repository, source):
            for statement in source.every(cst.SimpleStatementLine, loop):
                name = _reduced(source, statement)
                if name is None:
                    continue
                seen += 1
                condition = _condition(source, loop, statement, name)
                if condition is not None:
                    text = source.code(statement)
                    rewrite.put_statements(statement, f"if {condition}:\n    {text}")
                    found += 1
        if found:
            changed[source.path] = rewrite.text()
    if not changed:
        raise DoesNotApply(
            "no number that the training loop reduces is read only in some of its steps"
            if seen else "the training loop reduces no number over the ranks"
        )  # fmt: skip
    return changed


def _reduced(source: Source, statement: cst.SimpleStatementLine) -> str | None:
    """Give the name of a number that a statement reduces in place, and waits for."""
    match sole(statement):
        case cst.Expr(value=cst.Call() as call) if source.qualified(call.func) in _REDUCES:
            if literal(keywords(call).get("async_op")) not in (False, ...):
                return None
            if "async_op" in keywords(call) and literal(keywords(call)["async_op"]) is ...:
                return None
            tensor = argument(call, 0, "tensor")
            return tensor.value if isinstance(tensor, cst.Name) else None
    return None


def _condition(
    source: Source, loop: cst.For | cst.While, statement: cst.SimpleStatementLine, name: str
) -> str | None:
    """Give the part of the reader's condition that is the same on every rank."""
    last = max(source.order[node] for node in walk(statement))
    within = set(walk(statement))
    uses = [use for use in reads(source.scope(statement), name) if use not in within]
    later = [use for use in uses if source.order[use] > last and not _only_scales(source, use)]
    levels = _levels(source, loop, statement)
    if not later or not any(_makes(each, name) for before, _ in levels for each in before):
        return None
    readers = {_reader(source, levels, use) for use in later}
    reader = readers.pop() if len(readers) == 1 else None
    if reader is None:
        return None
    for part in _conjuncts(reader.test):
        if _is_of_the_step(part) and _holds_already(levels, reader, part):
            return source.code(part.with_changes(lpar=(), rpar=()))
    return None


def _levels(
    source: Source, loop: cst.For | cst.While, statement: cst.CSTNode
) -> list[tuple[list[cst.CSTNode], list[cst.CSTNode]]]:
    """Give what stands before and after a statement, block by block, out to the loop's own."""
    levels = []
    node = statement
    while True:
        block = list(source.block(node))
        if node not in block:
            return levels
        at = block.index(node)
        levels.append((block[:at], block[at + 1 :]))
        owner = source.parents.get(source.parents[node])
        if not isinstance(owner, cst.If | cst.With) or owner is loop:
            return levels
        node = owner


def _makes(statement: cst.CSTNode, name: str) -> bool:
    """Tell whether a statement gives a name a new value."""
    match sole(statement):
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=target))]):
            return target == name
    return False


def _only_scales(source: Source, use: cst.Name) -> bool:
    """Tell whether a use is ``x /= n``: it does no harm to what is not read."""
    match sole(source.statement(use)):
        case cst.AugAssign(target=cst.Name(value=name), value=value):
            return name == use.value and not reads(value, name)
        case cst.Assign(
            targets=[cst.AssignTarget(target=cst.Name(value=name))],
            value=cst.BinaryOperation(left=cst.Name(value=left), operator=cst.Divide()),
        ):
            return name == left == use.value
    return False


def _reader(
    source: Source, levels: list[tuple[list[cst.CSTNode], list[cst.CSTNode]]], use: cst.Name
) -> cst.If | None:
    """Give the condition, after the reduction, whose body a use stands in."""
    around = set(source.ancestors(use))
    for _, after in levels:
        for each in after:
            if each in around:
                return each if isinstance(each, cst.If) and each.body in around else None
    return None


def _holds_already(
    levels: list[tuple[list[cst.CSTNode], list[cst.CSTNode]]],
    reader: cst.If,
    part: cst.BaseExpression,
) -> bool:
    """Tell whether a condition means the same at the reduction as where it is read."""
    names = {each.value for each in loads(part)}
    for _, after in levels:
        between = after[: after.index(reader)] if reader in after else after
        if any(binds(each, name) for each in between for name in names):
            return False
        if reader in after:
            return True
    return False


def _conjuncts(node: cst.BaseExpression) -> list[cst.BaseExpression]:
    match node:
        case cst.BooleanOperation(left=left, operator=cst.And(), right=right):
            return [*_conjuncts(left), *_conjuncts(right)]
    return [node]


def _is_of_the_step(node: cst.BaseExpression) -> bool:
    """Tell whether a condition counts steps, by names that mean the same on every rank."""
    names = {dotted(each) or "" for each in _whole_names(node)}
    if any(isinstance(each, cst.Call | cst.Subscript | cst.Lambda) for each in walk(node)):
        return False
    if not names or any(_OF_A_RANK.search(name) for name in names):
        return False
    counted = [name for name in names if _STEP.search(name.rpartition(".")[2])]
    return bool(counted) and all(
        name in counted or "." in name or _SETTING.search(name) for name in names
    )


def _whole_names(node: cst.CSTNode) -> list[cst.CSTNode]:
    """Give dotted names whole, not their parts."""
    if isinstance(node, cst.Name | cst.Attribute):
        return [node]
    return [each for child in children_of(node) for each in _whole_names(child)]
