"""Which micro-batch of an update is its last, as an expression that holds as it begins."""

from __future__ import annotations

import re

import libcst as cst

from infrarsi.propose.flow import binds, loads, only_value, stores
from infrarsi.propose.recipe import DoesNotApply
from infrarsi.propose.source import Source, children_of, dotted, literal, method_call, walk

_NO_OPTIMIZER = re.compile(r"sched|prof|timer|pbar|bar$|early|warmup|^lr|meter|env$", re.IGNORECASE)
_READS_GRADIENTS = re.compile(r"clip_grad|grad_norm|get_total_norm|unscale_")


def last_of_inner_loop(source: Source, loop: cst.For, backward: cst.Call) -> str | None:
    """Give the test for a loop over the micro-batches of one update, its step after it.

    Raises
    ------
    DoesNotApply
        There is such a loop, but which round is its last, or that all rounds run, is not known.
    """
    if steps_in(source, loop) or not _step_follows(source, loop):
        return None
    _refuse_early_ends(source, loop)
    _refuse_readers(source, loop, outside_of=None)
    return _last_round(source, loop)


def last_of_flat_loop(source: Source, loop: cst.For) -> str | None:
    """Give the test for a loop over batches in which some rounds step and others do not."""
    scope = source.scope(loop)
    inside = steps_in(source, loop)
    if not inside:
        raise DoesNotApply("the optimizer's step is in another function than the backward pass")
    guard = _guard(source, loop, inside[0])
    if guard is None:
        return None
    within = set(walk(guard))
    if any(each not in within for each in steps_in(source, scope)):
        raise DoesNotApply("the optimizer also steps where it does not accumulate")
    if guard.orelse is not None and steps_in(source, guard.orelse):
        raise DoesNotApply("the optimizer steps where its condition does not hold")
    _refuse_readers(source, loop, outside_of=guard)
    _refuse_changed(source, loop, guard)
    return source.code(guard.test)


def steps_in(source: Source, node: cst.CSTNode) -> list[cst.Call]:
    """Give the calls of an optimizer's, or of a gradient scaler's, step."""
    return [
        call for call in source.every(cst.Call, node)
        if (found := method_call(call)) is not None and found[1] == "step"
        and not _NO_OPTIMIZER.search((dotted(found[0]) or "").rpartition(".")[2])
    ]  # fmt: skip


def _step_follows(source: Source, loop: cst.For) -> bool:
    """Tell whether a step comes after a loop, before what is around it begins anew."""
    node: cst.CSTNode = loop
    while True:
        block = list(source.block(node))
        if node in block and any(steps_in(source, each) for each in block[block.index(node) + 1 :]):
            return True
        owner = source.parents.get(source.parents.get(node, node))
        if not isinstance(owner, cst.If | cst.With | cst.Else | cst.Try):
            return False
        node = owner


def _refuse_early_ends(source: Source, loop: cst.For) -> None:
    for node in walk(loop.body):
        ends = isinstance(node, cst.Break | cst.Continue | cst.Return | cst.Yield)
        if ends and source.nearest(node, cst.FunctionDef) is source.nearest(loop, cst.FunctionDef):
            raise DoesNotApply("the loop over micro-batches may end before its last round")


def _refuse_readers(source: Source, loop: cst.For, *, outside_of: cst.If | None) -> None:
    """Refuse a loop that reads gradients which are not yet averaged."""
    within = set(walk(outside_of)) if outside_of is not None else set()
    for node in walk(loop.body):
        if node in within:
            continue
        name = dotted(node) if isinstance(node, cst.Attribute) else None
        called = dotted(node.func) or "" if isinstance(node, cst.Call) else ""
        if (name or "").endswith(".grad") or _READS_GRADIENTS.search(called.rpartition(".")[2]):
            raise DoesNotApply("gradients are read before the last micro-batch")


def _last_round(source: Source, loop: cst.For) -> str:
    """Give ``i == n - 1`` for ``for i in range(n)``, and for what is as plain."""
    match loop.target, loop.iter:
        case cst.Name(value=index), cst.Call(func=cst.Name(value="range"), args=[only]):
            count = only.value
        case cst.Name(value=index), cst.Call(
            func=cst.Name(value="range"), args=[cst.Arg(value=cst.Integer(value="0")), second]
        ):
            count = second.value
        case (
            cst.Tuple(elements=[cst.Element(value=cst.Name(value=index)), _]),
            cst.Call(func=cst.Name(value="enumerate"), args=[listed]),
        ) if (length := _length(source, listed.value)) is not None:
            return f"{index} == {length} - 1"
        case _:
            raise DoesNotApply("the number of micro-batches cannot be told before the last one")
    if not _is_pure(count) or {each.value for each in loads(count)} & {
        each.value for each in stores(loop)
    }:
        raise DoesNotApply("the number of micro-batches may change from round to round")
    text = source.code(count)
    return f"{index} == {text if _is_atom(count) else f'({text})'} - 1"


def _length(source: Source, node: cst.BaseExpression) -> str | None:
    """Give the length of what is a list for certain: the pieces of a tensor."""
    if not isinstance(node, cst.Name):
        return None
    found = only_value(source, node.value, node)
    if found is None:
        return None
    call = method_call(found[0])
    pieces = call is not None and call[1] in {"split", "chunk"}
    literal_list = isinstance(found[0], cst.List | cst.ListComp | cst.Tuple)
    made = isinstance(found[0], cst.Call) and dotted(found[0].func) in {"list", "tuple"}
    return f"len({node.value})" if pieces or literal_list or made else None


def _guard(source: Source, loop: cst.For, step: cst.Call) -> cst.If | None:
    """Give the condition, right in the loop's body, that a step stands under."""
    around = [each for each in source.ancestors(step) if isinstance(each, cst.If)]
    own = [each for each in around if each in set(loop.body.body)]
    if own:
        guard = own[0]
        in_test = set(walk(guard.test))
        return guard if step not in in_test else None
    if around and source.nearest(around[-1], cst.For) is loop:
        raise DoesNotApply("the condition of the optimizer's step stands within another block")
    return None


def _refuse_changed(source: Source, loop: cst.For, guard: cst.If) -> None:
    """Refuse a condition that may mean another thing at the top of the round than in its place."""
    if not _is_pure(guard.test):
        raise DoesNotApply("the condition of the optimizer's step is more than arithmetic")
    names = {each.value for each in loads(guard.test)}
    attributes = {
        name for node in walk(guard.test)
        if isinstance(node, cst.Attribute) and (name := dotted(node)) is not None
    }  # fmt: skip
    block = list(loop.body.body)
    for statement in block[: block.index(guard)]:
        if any(binds(statement, name) for name in names):
            raise DoesNotApply("what the condition of the optimizer's step reads changes before it")
        for node in walk(statement):
            target = node.target if isinstance(node, cst.AssignTarget | cst.AugAssign) else None
            if target is not None and dotted(target) in attributes:
                raise DoesNotApply(
                    "what the condition of the optimizer's step reads changes before it"
                )


_PURE = (
    cst.Name, cst.Attribute, cst.Integer, cst.BinaryOperation, cst.BooleanOperation, cst.Comparison,
    cst.ComparisonTarget, cst.UnaryOperation, cst.BaseBinaryOp, cst.BaseBooleanOp, cst.BaseCompOp,
    cst.BaseUnaryOp,
)  # fmt: skip


def _is_pure(node: cst.CSTNode) -> bool:
    """Tell whether an expression is arithmetic on names, settings and lengths."""
    match node:
        case cst.Call(func=cst.Name(value="len"), args=[only]):
            return _is_pure(only.value)
        case cst.Attribute():
            return dotted(node) is not None
        case cst.Name():
            return True
    if literal(node) is not ...:
        return True
    return isinstance(node, _PURE) and all(_is_pure(each) for each in children_of(node))


def _is_atom(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Name | cst.Attribute | cst.Integer | cst.Call)
