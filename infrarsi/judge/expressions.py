"""What Python expressions amount to, as far as that can be told without running them."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Iterator, Mapping


def fold_text(node: ast.AST) -> str | None:
    """Give the text that an expression of constants amounts to, where it can be told."""
    match node:
        case ast.Constant(value=str() as value):
            return value
        case ast.Constant(value=bytes() as value):
            return value.decode("latin-1")
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            parts = [fold_text(left), fold_text(right)]
            return None if None in parts else "".join(part or "" for part in parts)
        case ast.JoinedStr(values=values):
            return "".join(fold_text(value) or "\0" for value in values)
        case ast.Call(func=ast.Attribute(value=glue, attr="join"), args=[ast.List() as each]):
            texts = [fold_text(item) for item in each.elts]
            return None if None in texts else (fold_text(glue) or "").join(t or "" for t in texts)
        case ast.Subscript(value=inner, slice=ast.Slice(lower=None, upper=None, step=step)):
            text = fold_text(inner)
            backwards = isinstance(step, ast.UnaryOp) and isinstance(step.op, ast.USub)
            return text[::-1] if text and backwards else text
    return None


def terms_of(side: ast.AST, numbers: Mapping[str, float]) -> list[ast.AST]:
    """Give what a side of a comparison is reckoned from; of a remainder, only what is divided."""
    if fold_number(side, numbers) is not None:
        return [side]
    match side:
        case ast.BinOp(left=left, op=ast.Mod()):
            return terms_of(left, numbers)
        case ast.BinOp(left=left, right=right):
            return [*terms_of(left, numbers), *terms_of(right, numbers)]
        case ast.UnaryOp(operand=operand):
            return terms_of(operand, numbers)
        case ast.Call(func=ast.Name(id="int" | "float" | "abs" | "round"), args=[inner]):
            return terms_of(inner, numbers)
    return [side]


def meanings(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:  # noqa: C901  # a case a form
    """Give the names that a node gives a meaning to, each with an expression that it stands for."""
    match node:
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                yield from _paired(target, value)
        case ast.AnnAssign(target=target, value=ast.AST() as value):
            yield from _paired(target, value)
        case ast.NamedExpr(target=target, value=value):
            yield from _paired(target, value)
        case ast.For(target=target, iter=ast.List(elts=elts) | ast.Tuple(elts=elts)):
            for each in elts:
                yield from _paired(target, each)
        case ast.comprehension(target=target, iter=ast.List(elts=elts) | ast.Tuple(elts=elts)):
            for each in elts:
                yield from _paired(target, each)
        case ast.arguments(args=args, defaults=defaults) if defaults:
            for arg, default in zip(args[-len(defaults) :], defaults, strict=False):
                yield arg.arg, default


def _paired(target: ast.AST, value: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    match target, value:
        case ast.Name(id=name), _:
            yield name, value
        case (
            ast.Tuple(elts=targets) | ast.List(elts=targets),
            ast.Tuple(elts=values) | ast.List(elts=values),
        ):
            for one, other in zip(targets, values, strict=False):
                yield from _paired(one, other)


_OPERATIONS: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv, ast.Pow: operator.pow,
    ast.LShift: lambda left, right: int(left) << int(right),
}  # fmt: skip
_LARGEST_POWER = 64


def fold_number(node: ast.AST, numbers: Mapping[str, float]) -> float | None:
    """Give the number that an expression of constants amounts to, where it can be told.

    Parameters
    ----------
    numbers
        Names that stand for one number.
    """
    match node:
        case ast.Constant(value=value) if isinstance(value, int | float) and not isinstance(
            value, bool
        ):
            return value if math.isfinite(value) else None
        case ast.Name(id=name):
            return numbers.get(name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            number = fold_number(operand, numbers)
            return None if number is None else -number
        case ast.Call(func=ast.Name(id="int" | "float" | "abs" | "round"), args=[inner]):
            return fold_number(inner, numbers)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATIONS:
            one, other = fold_number(left, numbers), fold_number(right, numbers)
            if one is None or other is None:
                return None
            if isinstance(op, ast.Pow | ast.LShift) and abs(other) > _LARGEST_POWER:
                return None
            try:
                found = _OPERATIONS[type(op)](one, other)
            except (ArithmeticError, ValueError):
                return None
            is_real = isinstance(found, int | float) and math.isfinite(found)
            return found if is_real else None
    return None
