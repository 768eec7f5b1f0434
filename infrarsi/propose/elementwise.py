"""Run elementwise tensor arithmetic on plain numbers, to find out what it computes.

A per-parameter update treats every element alike, so one number can stand for each tensor.
Only codemods import this module (it loads libcst).
"""

from __future__ import annotations

import math
import operator
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import libcst as cst

from infrarsi.propose.flow import loads, only_value, plain_operator
from infrarsi.propose.source import Source, literal, text_of


class NotElementwise(Exception):  # noqa: N818 - an answer, not a defect
    """Something stands in the arithmetic that is not done element by element."""


_BINARY: dict[type[cst.BaseBinaryOp], Callable[[float, float], float]] = {
    cst.Add: operator.add, cst.Subtract: operator.sub, cst.Multiply: operator.mul,
    cst.Divide: operator.truediv, cst.Power: math.pow,
}  # fmt: skip
_COMPARE: dict[type[cst.BaseCompOp], Callable[[float, float], bool]] = {
    cst.Equal: operator.eq, cst.NotEqual: operator.ne, cst.LessThan: operator.lt,
    cst.LessThanEqual: operator.le, cst.GreaterThan: operator.gt,
    cst.GreaterThanEqual: operator.ge,
}  # fmt: skip


def _scaled_add(x: float, other: float, alpha: float = 1.0) -> float:
    return x + alpha * other


def _scaled_sub(x: float, other: float, alpha: float = 1.0) -> float:
    return x - alpha * other


def _addcmul(x: float, one: float, two: float, value: float = 1.0) -> float:
    return x + value * one * two


def _addcdiv(x: float, one: float, two: float, value: float = 1.0) -> float:
    return x + value * one / two


def _lerp(x: float, end: float, weight: float) -> float:
    return x + weight * (end - x)


OPERATIONS: dict[str, Callable[..., float]] = {
    "add": _scaled_add, "sub": _scaled_sub, "mul": operator.mul, "div": operator.truediv,
    "pow": math.pow, "sqrt": math.sqrt, "rsqrt": lambda x: 1 / math.sqrt(x),
    "square": lambda x: x * x, "neg": operator.neg, "abs": abs, "reciprocal": lambda x: 1 / x,
    "addcmul": _addcmul, "addcdiv": _addcdiv, "lerp": _lerp, "copy": lambda x, other: other,
    "sign": lambda x: math.copysign(1.0, x), "multiply": operator.mul,
    "subtract": _scaled_sub, "divide": operator.truediv, "true_divide": operator.truediv,
    "zero": lambda x: 0.0,
}  # fmt: skip
_SAME = frozenset({"detach", "clone", "float", "item", "to", "type_as", "contiguous", "view_as"})
_NUMBERS: dict[str, Callable[..., float]] = {
    "math.sqrt": math.sqrt, "float": float, "int": float, "abs": abs, "math.pow": math.pow,
}  # fmt: skip


@dataclass
class Arithmetic:
    """One pass through a block of statements, with a number for every tensor and scalar.

    ``numbers`` holds what each expression is worth, by its canonical text; what is missing
    is drawn at random, and noted in ``drawn``.
    """

    source: Source
    random: random.Random
    numbers: dict[str, float] = field(default_factory=dict)
    drawn: dict[str, float] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    updated: set[str] = field(default_factory=set)
    changed_in_place: set[str] = field(default_factory=set)
    literals: set[float] = field(default_factory=set)
    zeros: frozenset[str] = frozenset()
    """Expressions that are zero instead of random: an option that is switched off."""
    counts: Mapping[str, float] = field(default_factory=dict)
    """Expressions that are whole numbers: an update's number."""
    bound: frozenset[str] = frozenset()
    """Names that the loop binds, so that they stand for themselves."""

    def run(self, statement: cst.CSTNode) -> None:
        """Perform one statement."""
        match statement:
            case cst.SimpleStatementLine(body=body):
                for small in body:
                    self._small(small)
            case cst.If(test=test, body=body, orelse=orelse):
                if self.value(test):
                    self._block(body)
                elif isinstance(orelse, cst.Else):
                    self._block(orelse.body)
                elif orelse is not None:
                    self.run(orelse)
            case cst.With(body=body, items=[item]) if "no_grad" in text_of(item.item):
                self._block(body)
            case _:
                raise NotElementwise(type(statement).__name__)

    def _block(self, body: cst.BaseSuite) -> None:
        for statement in body.body:
            if isinstance(statement, cst.BaseSmallStatement):
                self._small(statement)
            else:
                self.run(statement)

    def _small(self, small: cst.CSTNode) -> None:
        match small:
            case cst.Expr(value=cst.Call() as call):
                self._reference(call)
            case cst.Expr(value=cst.SimpleString()) | cst.Pass():
                return
            case cst.Assign(targets=[cst.AssignTarget(target=target)], value=value):
                self._assign(target, value)
            case cst.AugAssign(target=target, operator=operator_, value=value):
                plain = plain_operator(operator_)
                if plain is None:
                    raise NotElementwise("augmented assignment")
                name = self._key(target)
                both = _BINARY[type(plain)]
                self._set(name, both(self.value(target), self.value(value)), in_place=True)
            case _:
                raise NotElementwise(type(small).__name__)

    def _assign(self, target: cst.CSTNode, value: cst.CSTNode) -> None:
        match target, value:
            case cst.Tuple(elements=targets), cst.Tuple(elements=values) if len(targets) == len(
                values
            ):
                for left, right in zip(targets, values, strict=True):
                    self._assign(left.value, right.value)
                return
            case cst.Name(value=name), _:
                number, reference = self._reference(value)
                self.aliases.pop(name, None)
                if reference is not None:
                    self.aliases[name] = reference
                else:
                    self.numbers[name] = number
                return
        if not isinstance(target, cst.Attribute | cst.Subscript):
            raise NotElementwise("unpacking")
        self._set(self._key(target), self.value(value), in_place=False)

    def _set(self, key: str, number: float, *, in_place: bool) -> None:
        self.numbers[key] = number
        self.updated.add(key)
        if in_place:
            self.changed_in_place.add(key)

    def value(self, node: cst.CSTNode) -> float:
        """Give the number that an expression is worth now."""
        return self._reference(node)[0]

    def _reference(self, node: cst.CSTNode) -> tuple[float, str | None]:
        """Give a number, and the tensor that it belongs to where the expression is one."""
        plain = literal(node)
        if isinstance(plain, bool | int | float):
            self.literals.add(float(plain))
            return float(plain), None
        match node:
            case cst.BinaryOperation(left=left, operator=operator_, right=right):
                perform = _BINARY.get(type(operator_))
                if perform is None:
                    raise NotElementwise(type(operator_).__name__)
                return perform(self.value(left), self.value(right)), None
            case cst.UnaryOperation(operator=cst.Minus(), expression=inner):
                return -self.value(inner), None
            case cst.Call():
                return self._call(node)
            case cst.Name() | cst.Attribute() | cst.Subscript():
                key = self._key(node)
                return self._number(key, node), key
        return float(self._truth(node)), None

    def _truth(self, node: cst.CSTNode) -> bool:
        match node:
            case cst.Comparison(left=left, comparisons=[comparison]):
                compare = _COMPARE.get(type(comparison.operator))
                zero = literal(comparison.comparator)
                # Any other bound might lie beyond every number that is tried.
                if compare is not None and zero == 0 and zero is not ...:
                    return compare(self.value(left), self.value(comparison.comparator))
            case cst.UnaryOperation(operator=cst.Not(), expression=inner):
                return not self.value(inner)
            case cst.BooleanOperation(left=left, operator=cst.And(), right=right):
                return bool(self.value(left)) and bool(self.value(right))
            case cst.BooleanOperation(left=left, operator=cst.Or(), right=right):
                return bool(self.value(left)) or bool(self.value(right))
        raise NotElementwise(text_of(node))

    def _call(self, call: cst.Call) -> tuple[float, str | None]:
        full = self.source.qualified(call.func) or ""
        if full in _NUMBERS:
            return _NUMBERS[full](*(self.value(each.value) for each in call.args)), None
        if full.startswith("torch."):
            name = full.rpartition(".")[2]
            receiver, rest = call.args[0].value, call.args[1:]
        elif isinstance(call.func, cst.Attribute):
            name, receiver, rest = call.func.attr.value, call.func.value, call.args
        else:
            raise NotElementwise(text_of(call))
        number, reference = self._reference(receiver)
        if name in _SAME:
            return number, reference if name in {"detach", "to", "type_as", "float"} else None
        in_place = name.endswith("_")
        perform = OPERATIONS.get(name.removesuffix("_"))
        if perform is None or any(each.star for each in rest):
            raise NotElementwise(text_of(call))
        plain = [self.value(each.value) for each in rest if each.keyword is None]
        named = {each.keyword.value: self.value(each.value) for each in rest if each.keyword}
        try:
            result = perform(number, *plain, **{_KEYWORDS.get(k, k): v for k, v in named.items()})
        except TypeError as error:
            raise NotElementwise(text_of(call)) from error
        if not in_place:
            return result, None
        if reference is not None:
            self._set(reference, result, in_place=True)
        return result, reference

    def _key(self, node: cst.CSTNode) -> str:
        """Name a tensor: ``p.data`` is ``p``, and an alias is what it was taken from."""
        match node:
            case cst.Attribute(value=value, attr=cst.Name(value="data")):
                return self._key(value)
        text = text_of(node)
        return self.aliases.get(text, text)

    def _number(self, key: str, node: cst.CSTNode) -> float:
        if key not in self.numbers:
            self.numbers[key] = self._drawn(key, node)
        return self.numbers[key]

    def _drawn(self, key: str, node: cst.CSTNode) -> float:
        if isinstance(node, cst.Name) and node.value == key and node.value not in self.bound:
            found = only_value(self.source, key, node) if node in self.source.parents else None
            if found is not None and isinstance(found[0], cst.BinaryOperation | cst.Call):
                try:
                    self.drawn[key] = self.value(found[0])
                except NotElementwise:
                    pass
                else:
                    return self.drawn[key]
        if key in self.counts:
            number = self.counts[key]
        else:
            number = 0.0 if key in self.zeros else self.random.uniform(0.05, 0.95)
            if self.bound & {name.value for name in loads(node)}:
                number *= self.random.choice((1, -1))  # tensors hold both signs
        self.drawn[key] = number
        return number


_KEYWORDS = {"tensor1": "one", "tensor2": "two", "exponent": "other", "end": "end"}
