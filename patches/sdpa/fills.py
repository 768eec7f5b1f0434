"""The numbers that masked scores become."""

from __future__ import annotations

import math
from dataclasses import dataclass

import libcst as cst

from infrarsi.propose.flow import only_value
from infrarsi.propose.repository import Repository
from infrarsi.propose.source import Source, argument, literal, method_call

SAME_CONTENT = frozenset(
    {"view", "reshape", "expand", "to", "type", "type_as", "float", "bool", "int", "long", "byte",
     "half", "bfloat16", "double", "contiguous", "clone", "detach", "cuda", "cpu", "expand_as",
     "requires_grad_"}
)  # fmt: skip
"""Methods that keep what a tensor holds."""

_LOW = -1e4
"""Scores at or below this weigh nothing beside an unmasked one, in any dtype."""


@dataclass(frozen=True)
class Where:
    """The file and the statement in which an expression is read."""

    source: Source
    statement: cst.CSTNode


class Fills:
    """Follows the value that masked scores get."""

    def __init__(self, repository: Repository) -> None:
        self.repository = repository

    def low(self, node: cst.CSTNode, where: Where, depth: int = 6) -> float | None:
        """Give the value of a very negative number, which may stand in a tensor or a name."""
        value = self._number(node, where, depth)
        return value if value is not None and value <= _LOW else None

    def _number(self, node: cst.CSTNode, where: Where, depth: int) -> float | None:
        if depth == 0:
            return None
        plain = literal(node)
        if isinstance(plain, int | float) and not isinstance(plain, bool):
            return float(plain)
        match node:
            case cst.UnaryOperation(operator=cst.Minus(), expression=inner):
                value = self._number(inner, where, depth - 1)
                return None if value is None else -value
            case cst.Attribute(attr=cst.Name(value="min"), value=cst.Call(func=func)):
                is_finfo = (where.source.qualified(func) or "").endswith("finfo")
                return -3.3e38 if is_finfo else None
            case cst.Name() | cst.Attribute():
                return self._named_number(node, where, depth - 1)
            case cst.Call(func=func):
                return self._called_number(where.source.qualified(func) or "", node, where, depth)
        return None

    def _called_number(self, full: str, call: cst.Call, where: Where, depth: int) -> float | None:
        first = argument(call, 0)
        if full == "float" and isinstance(text := literal(first), str):
            try:
                return float(text)
            except ValueError:
                return None
        if full in {"float", "torch.tensor", "torch.as_tensor", "torch.full", "torch.full_like"}:
            inner = argument(call, 1, "fill_value") if "full" in full else first
            return None if inner is None else self._number(inner, where, depth - 1)
        found = method_call(call)
        if found and found[1] in SAME_CONTENT:
            return self._number(found[0], where, depth - 1)
        return None

    def _named_number(self, node: cst.CSTNode, where: Where, depth: int) -> float | None:
        full = where.source.qualified(node) or ""
        if full in {"math.inf", "torch.inf", "numpy.inf"}:
            return math.inf
        if full.startswith("self."):
            owner = self.repository.class_around(where.source, where.statement)
            spots = self.repository.attribute(owner, full.removeprefix("self.")) if owner else []
            values = {self._number(each.node, where, depth) for each in spots}
            return values.pop() if len(values) == 1 else None
        single = only_value(where.source, full, where.statement) if "." not in full else None
        return self._number(single[0], Where(where.source, single[1]), depth) if single else None
