"""Loops that clip gradients by hand use torch's foreach operations."""

from __future__ import annotations

from collections.abc import Mapping

import libcst as cst

from infrarsi.propose.flow import loads, reads, stores
from infrarsi.propose.recipe import DoesNotApply
from infrarsi.propose.rewrite import Rewrite
from infrarsi.propose.source import (
    Source,
    argument,
    keywords,
    literal,
    method_call,
    read_sources,
    sole,
    text_of,
    walk,
)

_CLIPS = ("torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad_norm")
_SCALES = {
    "mul_": "_foreach_mul_", "div_": "_foreach_div_",
    cst.MultiplyAssign: "_foreach_mul_", cst.DivideAssign: "_foreach_div_",
}  # fmt: skip


def transform(sources: Mapping[str, str]) -> dict[str, str]:
    """Rewrite every loop that measures or scales gradients."""
    changed = {}
    for source in read_sources(sources):
        rewrite, found = Rewrite(source), 0
        for loop in source.every(cst.For):
            found += _rewrite_loop(source, rewrite, loop)
        for call in source.every(cst.Call):
            if source.qualified(call.func) in _CLIPS and (
                literal(keywords(call).get("foreach")) is False
            ):
                kept = [
                    each
                    for each in call.args
                    if not each.keyword or each.keyword.value != "foreach"
                ]
                kept[-1] = kept[-1].with_changes(comma=call.args[-1].comma)
                rewrite.replace(call, call.with_changes(args=kept))
                found += 1
        if found:
            changed[source.path] = rewrite.text()
    if not changed:
        raise DoesNotApply("no loop measures or scales gradients one parameter at a time")
    return changed


def _rewrite_loop(source: Source, rewrite: Rewrite, loop: cst.For) -> bool:
    """Rewrite a loop of which all but guards is one measurement or one scaling."""
    statements, last = _work(loop)
    if last is None or loop.orelse is not None:
        return False
    bound = {name.value for name in stores(loop)}
    scaling = _scaling(source, last, bound)
    measured = None if scaling else _measurement(source, statements, last, bound)
    torch_name = rewrite.name_for("torch.no_grad").removesuffix(".no_grad")
    if scaling is not None:
        gradient, operation, factor = scaling
        after = f"if clipped_grads:\n    {torch_name}.{operation}(clipped_grads, {factor})"
    elif measured is not None:
        gradient, total, reads_number, used = measured
        for name in used:
            within = {node for each in (*statements, last) for node in walk(each)}
            if any(use not in within for use in reads(source.scope(loop), name)):
                return False
        whole = (
            f"{torch_name}.stack({torch_name}._foreach_norm(clipped_grads)).double().square().sum()"
        )
        after = f"if clipped_grads:\n    {total} += {whole}{'.item()' if reads_number else ''}"
        for each in statements:
            if used & {name.value for name in stores(each)}:
                rewrite.remove(each)
    else:
        return False
    rewrite.put_before(loop, "clipped_grads = []")
    rewrite.put_statements(last, f"clipped_grads.append({gradient})")
    rewrite.put_after(loop, after)
    return True


def _work(loop: cst.For) -> tuple[list[cst.CSTNode], cst.CSTNode | None]:
    """Give the statements inside a loop's guards, the last one apart."""
    statements = list(loop.body.body)
    while statements:
        last = statements[-1]
        match last:
            case cst.If(orelse=None, body=cst.IndentedBlock(body=inner)) if ".grad" in text_of(
                last.test
            ):
                guards = all(_is_guard(each) for each in statements[:-1])
                if not guards:
                    return [], None
                statements = list(inner)
            case cst.SimpleStatementLine():
                return statements[:-1], last
            case _:
                return [], None
    return [], None


def _is_guard(statement: cst.CSTNode) -> bool:
    match statement:
        case cst.If(body=cst.IndentedBlock(body=[cst.SimpleStatementLine(body=[cst.Continue()])])):
            return True
        case cst.If(body=cst.SimpleStatementSuite(body=[cst.Continue()])):
            return True
    return False


def _gradient(node: cst.CSTNode, bound: set[str]) -> str | None:
    """Give ``p.grad`` for what is a gradient of the loop's parameter, cast or not."""
    text = text_of(node).replace(".grad.data", ".grad").replace(".grad.detach()", ".grad")
    own = bound & {name.value for name in loads(node)}
    return text if own and text.endswith(".grad") else None


def _scaling(source: Source, last: cst.CSTNode, bound: set[str]) -> tuple[str, str, str] | None:
    match sole(last):
        case cst.Expr(value=value) if (found := method_call(value)) is not None:
            factor = argument(found[2], 0)
            operation = _SCALES.get(found[1])
            target = found[0]
        case cst.AugAssign(target=target, operator=operator, value=factor):
            operation = _SCALES.get(type(operator))
        case _:
            return None
    gradient = _gradient(target, bound)
    if gradient is None or operation is None or factor is None:
        return None
    if bound & {name.value for name in loads(factor)} or not isinstance(
        factor, cst.Name | cst.Attribute | cst.BinaryOperation | cst.Float
    ):
        return None
    return gradient, operation, source.code(factor)


def _measurement(
    source: Source, statements: list[cst.CSTNode], last: cst.CSTNode, bound: set[str]
) -> tuple[str, str, bool, set[str]] | None:
    """Read ``total += p.grad.norm() ** 2`` in its many spellings."""
    small = sole(last)
    match small:
        case cst.AugAssign(target=cst.Name(value=total), operator=cst.AddAssign(), value=value):
            pass
        case cst.Assign(
            targets=[cst.AssignTarget(target=cst.Name(value=total))],
            value=cst.BinaryOperation(left=cst.Name(value=left), operator=cst.Add(), right=value),
        ) if left == total:
            pass
        case _:
            return None
    made: dict[str, cst.BaseExpression] = {}
    for each in statements:
        match sole(each):
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name))], value=given):
                made[name] = given
            case _:
                if not _is_guard(each):
                    return None
    reading = _Squares(source, bound - {total}, made)
    gradient = reading.square(value)
    return None if gradient is None else (gradient, total, reading.item, reading.used)


class _Squares:
    """Recognises the sum of a gradient's squares."""

    def __init__(
        self, source: Source, bound: set[str], made: dict[str, cst.BaseExpression]
    ) -> None:
        self.source, self.bound, self.made = source, bound, made
        self.item = False
        self.used: set[str] = set()

    def square(self, node: cst.CSTNode) -> str | None:
        """Give the gradient of which this is the sum of squares."""
        node = self._plain(node)
        match node:
            case cst.BinaryOperation(left=left, operator=cst.Power(), right=right) if literal(
                right
            ) in (2, 2.0):
                return self.norm(left)
            case cst.BinaryOperation(left=left, operator=cst.Multiply(), right=right):
                return self.norm(left) if text_of(left) == text_of(right) else None
        found = method_call(node)
        if found is None:
            return None
        receiver, name, call = found
        if name == "square" or (name == "pow" and literal(argument(call, 0)) in (2, 2.0)):
            return self.norm(receiver)
        return self._squared(receiver) if name == "sum" and not call.args else None

    def _squared(self, node: cst.CSTNode) -> str | None:
        """Give the gradient of which this holds the squares, element by element."""
        match node:
            case cst.BinaryOperation(left=left, operator=cst.Power(), right=right) if literal(
                right
            ) in (2, 2.0):
                return self._gradient(left)
            case cst.BinaryOperation(left=left, operator=cst.Multiply(), right=right):
                return self._gradient(left) if text_of(left) == text_of(right) else None
        found = method_call(node)
        if found and (
            found[1] == "square"
            or (found[1] == "pow" and literal(argument(found[2], 0)) in (2, 2.0))
        ):
            return self._gradient(found[0])
        return None

    def norm(self, node: cst.CSTNode) -> str | None:
        """Give the gradient of which this is the Euclidean norm."""
        node = self._plain(node)
        full = self.source.qualified(node.func) if isinstance(node, cst.Call) else None
        if full in {"torch.norm", "torch.linalg.norm", "torch.linalg.vector_norm"}:
            assert isinstance(node, cst.Call)
            order = argument(node, 1, "p") or argument(node, None, "ord")
            return (
                self._gradient(node.args[0].value)
                if order is None or literal(order) in (2, 2.0)
                else None
            )
        found = method_call(node)
        if found is None or found[1] != "norm":
            return None
        order = argument(found[2], 0, "p")
        return self._gradient(found[0]) if order is None or literal(order) in (2, 2.0) else None

    def _gradient(self, node: cst.CSTNode) -> str | None:
        return _gradient(self._named(node), self.bound)

    def _named(self, node: cst.CSTNode) -> cst.CSTNode:
        while isinstance(node, cst.Name) and node.value in self.made:
            self.used.add(node.value)
            node = self.made[node.value]
        return node

    def _plain(self, node: cst.CSTNode) -> cst.CSTNode:
        """Look through names, ``.item()`` and ``float``."""
        while True:
            node = self._named(node)
            found = method_call(node)
            if found is not None and found[1] in {"item", "detach"}:
                self.item |= found[1] == "item"
                node = found[0]
            elif isinstance(node, cst.Call) and text_of(node.func) == "float":
                self.item, node = True, node.args[0].value
            else:
                return node
