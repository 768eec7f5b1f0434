"""Constraints between knobs: expressions that are read, never run."""

from __future__ import annotations

import ast
import difflib
import operator
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from infrarsi.records.base import Scalar


def constraint_holds(expression: str, knobs: Mapping[str, Scalar]) -> bool:
    """Tell whether a constraint between knobs holds for these values.

    The expression may use knob names, literals, arithmetic, comparisons, ``in`` a tuple of
    literals, ``and``, ``or`` and ``not``; nothing is executed. An implication is written
    ``not compile or attention == 'sdpa'``.

    Raises
    ------
    ValueError
        The expression uses anything else, or a name that is no knob, wherever it stands.
    """
    check_names(expression, knobs)
    try:
        return bool(_Reader(expression, knobs).value_of(_parsed(expression)))
    except (TypeError, ZeroDivisionError) as error:
        raise ValueError(f"cannot evaluate the constraint {expression!r}: {error}") from error


class _Reader:
    """Gives the value of a constraint, part by part."""

    def __init__(self, expression: str, knobs: Mapping[str, Scalar]) -> None:
        self.expression = expression
        self.knobs = knobs

    def value_of(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=bool() | int() | float() | str() | None as literal):
                return literal
            case ast.Name(id=name):
                return self.knobs[name]
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                return _OPERATORS[type(op)](self.value_of(left), self.value_of(right))
            case ast.UnaryOp(op=op, operand=operand) if type(op) in _OPERATORS:
                return _OPERATORS[type(op)](self.value_of(operand))
            case ast.BoolOp(op=ast.And(), values=values):
                return _all(self.value_of(each) for each in values)
            case ast.BoolOp(op=ast.Or(), values=values):
                return _not(_all(_not(self.value_of(each)) for each in values))
            case ast.Compare():
                return self._comparison(node)
            case _:
                raise self._unreadable(node)

    def _comparison(self, node: ast.Compare) -> Any:
        terms = [self.value_of(node.left)]
        for op, right in zip(node.ops, node.comparators, strict=True):
            if type(op) not in _OPERATORS:
                raise self._unreadable(node)
            is_member = isinstance(op, ast.In | ast.NotIn)
            terms.append(self._members(right) if is_member else self.value_of(right))
        operators = [_OPERATORS[type(op)] for op in node.ops]
        return _all(holds(terms[i], terms[i + 1]) for i, holds in enumerate(operators))

    def _members(self, node: ast.expr) -> list[Any]:
        if not isinstance(node, ast.Tuple | ast.List | ast.Set):
            raise self._unreadable(node)
        return [self.value_of(each) for each in node.elts]

    def _unreadable(self, node: ast.expr) -> ValueError:
        return ValueError(
            f"cannot read {ast.unparse(node)!r} in the constraint {self.expression!r}; it may use "
            "knob names, literals, arithmetic, comparisons, `in`, `and`, `or` and `not`"
        )


def _not(value: Any) -> Any:
    """Negate one value, or an array of them element by element."""
    return value == 0 if hasattr(value, "dtype") else not value


def _all(values: Iterable[Any]) -> Any:
    """Tell whether all hold, element by element where some are arrays; stops at what does not."""
    found: Any = True
    for value in values:
        if not hasattr(value, "dtype"):
            if not value:
                return False
        else:
            found = (value != 0) & found
    return found


def _is_member(value: Any, members: list[Any]) -> Any:
    """Tell whether a value, or each of an array, is among some."""
    if not hasattr(value, "dtype"):
        return value in members
    return _not(_all(value != each for each in members))


_OPERATORS: dict[type[ast.AST], Any] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Not: _not, ast.USub: operator.neg,
    ast.In: _is_member,
    ast.NotIn: lambda left, right: _not(_is_member(left, right)),
}  # fmt: skip


def first_broken(constraints: Iterable[str], knobs: Mapping[str, Scalar]) -> str | None:
    """Give the first constraint that these values break, or for which it cannot be computed."""
    for each in constraints:
        try:
            holds = constraint_holds(each, knobs)
        except ValueError:  # it can be read, as the contract was, but not for these: None * 2
            holds = False
        if not holds:
            return each
    return None


def check_names(expression: str, names: Iterable[str]) -> None:
    """Refuse a constraint over something that is no knob, also where it would not be reached.

    Raises
    ------
    ValueError
        The expression cannot be read, or names no knob; the message gives the nearest one.
    """
    known = list(names)
    for name in names_in(expression):
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            listed = ", ".join(known) or "none"
            instead = f"did you mean {near[0]}?" if near else f"knobs are: {listed}"
            raise ValueError(
                f"cannot read {name!r} in the constraint {expression!r}: there is no knob of "
                f"that name; {instead}"
            )


def names_in(expression: str) -> tuple[str, ...]:
    """Give the knob names that a constraint uses, in the order in which they stand.

    Raises
    ------
    ValueError
        The expression cannot be read.
    """
    names = [node for node in ast.walk(_parsed(expression)) if isinstance(node, ast.Name)]
    ordered = sorted(names, key=lambda node: (node.lineno, node.col_offset))
    return tuple(dict.fromkeys(node.id for node in ordered))


def values_in_words(expression: str, knobs: Mapping[str, Scalar]) -> str:
    """Say the values that a constraint looks at: ``micro=4, accum=2``."""
    return ", ".join(f"{name}={knobs[name]!r}" for name in names_in(expression) if name in knobs)


@lru_cache(maxsize=256)
def _parsed(expression: str) -> ast.expr:
    try:
        return ast.parse(expression.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError(f"cannot read the constraint {expression!r}: {error}") from error


def expression_value(expression: str, names: Mapping[str, Any]) -> Any:
    """Give the value of an expression over named numbers; arrays are computed element by element.

    Raises
    ------
    ValueError
        It cannot be read, uses a name that is not there, or cannot be computed for these values.
    """
    for name in names_in(expression):
        if name not in names:
            raise ValueError(f"cannot compute {expression!r}: there is no {name!r}")
    try:
        return _Reader(expression, names).value_of(_parsed(expression))
    except (TypeError, ZeroDivisionError, OverflowError) as error:
        raise ValueError(f"cannot compute {expression!r}: {error}") from error


_READABLE = (
    ast.Constant, ast.Name, ast.Load, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.And, ast.Or,
    ast.Compare, ast.Tuple, ast.List, ast.Set, *_OPERATORS,
)  # fmt: skip


def check_expression(expression: str) -> None:
    """Refuse an expression that holds anything but names, literals, arithmetic and comparisons.

    Raises
    ------
    ValueError
        It cannot be read.
    """
    for node in ast.walk(_parsed(expression)):
        if not isinstance(node, _READABLE):
            raise ValueError(
                f"cannot read {ast.unparse(node)!r} in {expression!r}: it may use names, numbers, "
                "arithmetic, comparisons, `in`, `and`, `or` and `not`"
            )
