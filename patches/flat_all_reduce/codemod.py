"""Gradients that a loop averages one by one travel in a few large messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import libcst as cst

from infrarsi.propose.flow import loads, stores
from infrarsi.propose.recipe import DoesNotApply
from infrarsi.propose.rewrite import Rewrite
from infrarsi.propose.source import (
    Source,
    argument,
    dotted,
    keywords,
    literal,
    method_call,
    read_sources,
    sole,
    text_of,
    walk,
)

_REDUCES = ("torch.distributed.all_reduce", "torch.distributed.distributed_c10d.all_reduce")
_SIZES = ("torch.distributed.get_world_size",)

_DEFINITION = """
def _all_reduce_in_buckets(gradients, reduce, before=None, after=None):
    \"\"\"Reduce many gradients in few messages: one is packed while another is on its way.\"\"\"
    buckets, filling = [], {}
    for gradient in gradients:
        kind = (gradient.dtype, gradient.device)
        size, bucket = filling.get(kind, (0, None))
        if bucket is None or size >= 1 << 25:
            size, bucket = 0, []
            buckets.append(bucket)
        bucket.append(gradient)
        filling[kind] = (size + gradient.numel() * gradient.element_size(), bucket)

    def unpack(bucket, flat, work):
        if work is not None:
            work.wait()
        if after is not None:
            after(flat)
        parts = flat.split([gradient.numel() for gradient in bucket])
        for gradient, part in zip(bucket, parts):
            gradient.copy_(part.view(gradient.shape))

    with TORCH.no_grad():
        sent = None
        for bucket in buckets:
            flat = TORCH.cat([gradient.reshape(-1) for gradient in bucket])
            if before is not None:
                before(flat)
            work = reduce(flat)
            if sent is not None:
                unpack(*sent)
            sent = (bucket, flat, work)
        if sent is not None:
            unpack(*sent)
"""


def transform(sources: Mapping[str, str]) -> dict[str, str]:
    """Rewrite every loop that reduces gradients one parameter at a time."""
    read = read_sources(sources, "all_reduce")
    for source in read:
        if "sparse=True" in source.text:
            raise DoesNotApply(f"{source.path} makes sparse gradients, which cannot be flattened")
    changed, reasons = {}, []
    for source in read:
        rewrite, found = Rewrite(source), 0
        for loop in source.every(cst.For):
            try:
                found += _rewrite_loop(source, rewrite, loop)
            except DoesNotApply as answer:
                reasons.append(f"{answer.because} ({source.path}, line {source.line(loop)})")
        if found:
            changed[source.path] = rewrite.text()
    if not changed:
        raise DoesNotApply(
            "; ".join(reasons) or "no loop reduces gradients one parameter at a time"
        )
    return changed


@dataclass
class _Work:
    """What a loop does to the gradient of each parameter."""

    reduction: cst.Call | None = None
    before: list[str] = field(default_factory=list)
    """Scalings ahead of the reduction, as methods of the flat gradient."""
    after: list[str] = field(default_factory=list)
    statements: list[cst.CSTNode] = field(default_factory=list)


def _rewrite_loop(source: Source, rewrite: Rewrite, loop: cst.For) -> bool:
    own = [
        call for call in source.every(cst.Call, loop)
        if source.qualified(call.func) in _REDUCES and _is_innermost(source, call, loop)
    ]  # fmt: skip
    bound = {name.value for name in walk(loop.target) if isinstance(name, cst.Name)}
    named = {
        assign.targets[0].target.value: same
        for assign in source.every(cst.Assign, loop)
        if isinstance(assign.targets[0].target, cst.Name)
        and (same := _gradient(assign.value, bound, {}))
    }
    if not any(_gradient(argument(call, 0, "tensor"), bound, named) for call in own):
        return False
    if loop.orelse is not None or loop.asynchronous is not None:
        raise DoesNotApply("the loop that reduces gradients has an else")
    work = _read(source, loop, bound)
    reduction = work.reduction
    if reduction is None:
        raise DoesNotApply("the reduction of a gradient stands in more than plain statements")
    changing = {name.value for name in stores(loop)}
    message = _message(source, reduction, changing)
    torch_name = rewrite.name_for("torch.no_grad").removesuffix(".no_grad")
    rewrite.define(loop, _DEFINITION.replace("TORCH", torch_name))
    first, *rest = work.statements
    gradient = argument(reduction, 0, "tensor")
    assert gradient is not None
    rewrite.put_before(loop, "reduced_gradients = []")
    rewrite.put_statements(first, f"reduced_gradients.append({source.code(gradient)})")
    for each in rest:
        rewrite.remove(each)
    passed = ["reduced_gradients", f"lambda flat: {message}"]
    for name, scalings in (("before", work.before), ("after", work.after)):
        if scalings:
            passed.append(f"{name}=lambda flat: flat{''.join(scalings)}")
    lines = "".join(f"    {each},\n" for each in passed)
    rewrite.put_after(loop, f"_all_reduce_in_buckets(\n{lines})")
    return True


def _is_innermost(source: Source, call: cst.Call, loop: cst.For) -> bool:
    return source.nearest(call, cst.For) is loop and source.nearest(call, cst.While) not in (
        set(walk(loop)) - {loop}
    )


def _read(source: Source, loop: cst.For, bound: set[str]) -> _Work:
    """Read the statements inside a loop's guards.

    Raises
    ------
    DoesNotApply
        One of them is neither guard, nor reduction, nor scaling.
    """
    work, aliases = _Work(), dict[str, str]()
    for statement in _inside_guards(loop):
        small = sole(statement)
        match small:
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name))], value=value):
                if work.reduction is None and (same := _gradient(value, bound, aliases)):
                    aliases[name] = same
                    continue
        call = _reduction(source, small)
        if call is not None and _gradient(argument(call, 0, "tensor"), bound, aliases):
            if work.reduction is not None:
                raise DoesNotApply("a gradient is reduced twice in one loop")
            work.reduction = call
        else:
            scaling = _scaling(source, small, bound, aliases)
            if scaling is None or {each.value for each in loads(scaling[1])} & set(
                name.value for name in stores(loop)
            ):
                raise DoesNotApply("the loop does more to a gradient than reduce and scale it")
            method, factor = scaling
            text = f".{method}({source.code(factor)})"
            (work.before if work.reduction is None else work.after).append(text)
        work.statements.append(statement)
    return work


def _inside_guards(loop: cst.For) -> list[cst.CSTNode]:
    """Give the statements that are no guards, where they all stand in one block."""
    statements, named = list(loop.body.body), list[cst.CSTNode]()
    while True:
        kept = [each for each in statements if not _skips(each)]
        match kept:
            case [*first, cst.If(orelse=None, body=cst.IndentedBlock(body=inner))] if all(
                isinstance(sole(each), cst.Assign) for each in first
            ):
                named += first
                statements = list(inner)
            case _:
                return [*named, *kept]


def _skips(statement: cst.CSTNode) -> bool:
    """Tell whether a statement only passes some parameters over."""
    match statement:
        case cst.If(orelse=None, body=cst.IndentedBlock(body=[only])):
            return isinstance(sole(only), cst.Continue)
        case cst.If(orelse=None, body=cst.SimpleStatementSuite(body=[cst.Continue()])):
            return True
    return False


def _gradient(node: cst.CSTNode | None, bound: set[str], aliases: Mapping[str, str]) -> str | None:
    """Give ``p.grad`` for what is the gradient of the loop's parameter."""
    name = dotted(node)
    if name is None:
        return None
    if name in aliases:
        return aliases[name]
    plain = name.removesuffix(".data")
    return plain if plain.endswith(".grad") and plain.partition(".")[0] in bound else None


def _reduction(source: Source, small: cst.CSTNode | None) -> cst.Call | None:
    match small:
        case cst.Expr(value=cst.Call() as call) if source.qualified(call.func) in _REDUCES:
            return call
    return None


def _message(source: Source, call: cst.Call, changing: set[str]) -> str:
    """Give the same reduction of a flat tensor, begun and not waited for."""
    if literal(keywords(call).get("async_op")) not in (False, ...) or "*" in keywords(call):
        raise DoesNotApply("the gradients are reduced asynchronously already")
    if keywords(call).get("async_op") is not None and literal(keywords(call)["async_op"]) is ...:
        raise DoesNotApply("whether the reduction is asynchronous is not known before it runs")
    plain = [each for each in call.args if each.keyword is None]
    if len(plain) > 3 or any(each.star for each in call.args):
        raise DoesNotApply("the arguments of the reduction cannot be told apart")
    tensor = argument(call, 0, "tensor")
    kept = []
    for each in call.args:
        if each.value is tensor or (each.keyword and each.keyword.value == "async_op"):
            continue
        if changing & {name.value for name in loads(each.value)}:
            raise DoesNotApply("the arguments of the reduction change from parameter to parameter")
        name = f"{each.keyword.value}=" if each.keyword else ""
        kept.append(name + source.code(each.value))
    return f"{source.code(call.func)}({', '.join(['flat', *kept, 'async_op=True'])})"


_METHODS = {"mul_": "mul_", "div_": "div_"}
_ASSIGNS: dict[type[cst.BaseAugOp], str] = {
    cst.MultiplyAssign: "mul_", cst.DivideAssign: "div_"
}  # fmt: skip
_OPERATIONS: dict[type[cst.BaseBinaryOp], str] = {cst.Multiply: "mul_", cst.Divide: "div_"}


def _scaling(
    source: Source, small: cst.CSTNode | None, bound: set[str], aliases: Mapping[str, str]
) -> tuple[str, cst.BaseExpression] | None:
    """Read ``p.grad /= n`` in its spellings; the factor must be plain and the same for all."""
    method: str | None = None
    factor: cst.BaseExpression | None = None
    target: cst.CSTNode | None = None
    match small:
        case cst.Expr(value=value) if (found := method_call(value)) is not None:
            target, name, call = found
            method, factor = _METHODS.get(name), argument(call, 0)
            if len(call.args) != 1:
                return None
        case cst.AugAssign(target=target, operator=operator, value=factor):
            method = _ASSIGNS.get(type(operator))
        case cst.Assign(
            targets=[cst.AssignTarget(target=target)],
            value=cst.BinaryOperation(left=left, operator=operation, right=factor),
        ):
            same = _gradient(left, bound, aliases)
            if same is None or same != _gradient(target, bound, {}):
                return None
            method = _OPERATIONS.get(type(operation))
    if method is None or factor is None or _gradient(target, bound, aliases) is None:
        return None
    return (method, factor) if _is_plain(source, factor) else None


def _is_plain(source: Source, node: cst.BaseExpression) -> bool:
    match node:
        case cst.Name() | cst.Attribute() | cst.Integer() | cst.Float():
            return dotted(node) is not None or not isinstance(node, cst.Attribute)
        case cst.BinaryOperation(left=left, right=right):
            return all(_is_plain(source, each) for each in (left, right))
        case cst.Call(func=cst.Name(value="float" | "int"), args=[only]):
            return _is_plain(source, only.value)
        case cst.Call(func=func, args=args):
            return source.qualified(func) in _SIZES and all(
                _is_plain(source, each.value) for each in args
            )
    return text_of(node) == ""
