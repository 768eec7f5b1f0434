"""Proofs that a mask is causal: what an expression holds, whatever it is called."""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

import libcst as cst

from infrarsi.propose.flow import definition, only_value
from infrarsi.propose.repository import Repository, is_parameter, passed
from infrarsi.propose.source import Source, argument, dotted, literal, method_call, text_of, walk

from .fills import SAME_CONTENT, Fills, Where

Kind: TypeAlias = Literal[
    "keep", "drop", "upper", "half", "add", "ones", "zeros", "low", "rows", "columns", "index"
]
"""``keep``: one on and below the diagonal. ``drop``: one above it. ``upper``: one on and above
it. ``half``: one on and below, very negative above. ``add``: zero on and below, very negative
above. ``low``: very negative everywhere. ``index``: 0, 1, 2, ...; ``rows``: the same as a
column, so that it numbers the rows; ``columns``: as a row."""

_FLIPPED: dict[str, Kind] = {"keep": "drop", "drop": "keep", "ones": "zeros", "zeros": "ones"}
_EVEN: dict[str, Kind] = {
    "ones": "ones", "ones_like": "ones", "zeros": "zeros", "zeros_like": "zeros"
}  # fmt: skip
_FLIPS = frozenset({"logical_not", "bitwise_not"})


class MaskProof:
    """Follows a mask to where it is made."""

    def __init__(self, repository: Repository) -> None:
        self.repository = repository
        self.fills = Fills(repository)

    def kind(self, node: cst.CSTNode, where: Where, depth: int = 12) -> Kind | None:
        """Tell what an expression holds, and nothing where that is not certain."""
        if depth == 0:
            return None
        match node:
            case cst.Name() | cst.Attribute():
                return self._named(node, where, depth - 1)
            case cst.UnaryOperation(operator=cst.BitInvert(), expression=inner):
                return _FLIPPED.get(self.kind(inner, where, depth - 1) or "")
            case cst.Comparison(left=left, comparisons=[comparison]):
                return self._compared(left, comparison, where, depth - 1)
            case cst.BinaryOperation():
                return self._computed(node, where, depth - 1)
            case cst.Subscript(value=value, slice=index):
                return self._indexed(self.kind(value, where, depth - 1), index)
            case cst.Call():
                return self._called(node, where, depth - 1)
        return None

    def _named(self, node: cst.CSTNode, where: Where, depth: int) -> Kind | None:
        name = dotted(node)
        if name is None:
            return None
        if name.startswith("self."):
            return self._attribute(name.removeprefix("self."), where, depth)
        if "." in name:
            return None
        above = definition(where.source, name, where.statement)
        if above is not None and above.condition is None:
            return self.kind(above.value, Where(where.source, above.statement), depth)
        single = only_value(where.source, name, where.statement)
        if single is not None:
            return self.kind(single[0], Where(where.source, single[1]), depth)
        if is_parameter(where.source, name, where.statement):
            return self._parameter(name, where, depth)
        return None

    def _attribute(self, name: str, where: Where, depth: int) -> Kind | None:
        owner = self.repository.class_around(where.source, where.statement)
        if owner is None or "." in name:
            return None
        kinds = set()
        for spot in self.repository.attribute(owner, name):
            if literal(spot.node) is None:
                continue  # nothing yet: it is made later, and that value counts
            if spot.node not in spot.source.parents:
                return None
            inside = Where(spot.source, spot.source.statement(spot.node))
            kinds.add(self.kind(spot.node, inside, depth))
        return kinds.pop() if len(kinds) == 1 else None

    def _parameter(self, name: str, where: Where, depth: int) -> Kind | None:
        """Look at what every call passes; one call that cannot be seen spoils the proof."""
        function = where.source.nearest(where.statement, cst.FunctionDef)
        assert function is not None
        owner = self.repository.class_around(where.source, function)
        calls = self._calls(function, owner.name if owner else None)
        if not calls:
            return None
        kinds = set()
        for source, call in calls:
            values = dict(passed(call, function))
            if name not in values or any(each.star for each in call.args):
                return None
            inside = Where(source, source.statement(call))
            kinds.add(self.kind(values[name], inside, depth))
        return kinds.pop() if len(kinds) == 1 else None

    def _calls(
        self, function: cst.FunctionDef, owner: str | None
    ) -> list[tuple[Source, cst.Call]] | None:
        name = function.name.value
        if owner is not None and name in {"forward", "__call__"}:
            held = self.repository.holders(owner)
            calls = self.repository.calls_of(owner)
        else:
            held = {name}
            calls = [
                (source, call)
                for source in self.repository.sources
                for call in source.every(cst.Call)
                if (dotted(call.func) or "").rpartition(".")[2] == name
            ]
        return None if self._escapes(held) else calls

    def _escapes(self, held: set[str]) -> bool:
        """Tell whether an instance is handed to code that could call it unseen."""
        for source in self.repository.sources:
            for call in source.every(cst.Call):
                callee = (dotted(call.func) or "").rpartition(".")[2]
                if callee in _HARMLESS or callee in self.repository.functions:
                    continue
                for each in call.args:
                    name = dotted(each.value)
                    if name and name.rpartition(".")[2] in held:
                        return True
        return False

    def _compared(
        self, left: cst.CSTNode, comparison: cst.ComparisonTarget, where: Where, depth: int
    ) -> Kind | None:
        kind = self.kind(left, where, depth)
        right = comparison.comparator
        number = literal(right)
        operator = comparison.operator
        if isinstance(number, bool | int | float) and kind is not None:
            return _against(kind, operator, float(number))
        if number is not ...:
            return None
        # A plain index broadcasts like a row.
        sides = [
            "columns" if each == "index" else each
            for each in (kind, self.kind(right, where, depth))
        ]
        if sides == ["columns", "rows"]:
            return _ORDERED.get(type(operator))
        if sides == ["rows", "columns"]:
            return _ORDERED.get(_MIRRORED.get(type(operator), cst.Is))
        return None

    def _computed(self, node: cst.BinaryOperation, where: Where, depth: int) -> Kind | None:
        match node.operator:
            case cst.Subtract() if literal(node.left) in (1, 1.0):
                return _FLIPPED.get(self.kind(node.right, where, depth) or "")
            case cst.Multiply():
                for factor, other in ((node.left, node.right), (node.right, node.left)):
                    value = self.fills.low(other, where, depth)
                    if value is not None and math.isfinite(value):
                        kind = self.kind(factor, where, depth)
                        return "add" if kind == "drop" else "low" if kind == "ones" else None
        return None

    def _indexed(self, kind: Kind | None, index: object) -> Kind | None:
        """Follow slices that keep the top left corner, and new axes."""
        assert isinstance(index, tuple | list)
        shape = []
        for element in index:
            match element.slice:
                case cst.Slice(lower=lower, step=step):
                    if step is not None or (lower is not None and literal(lower) != 0):
                        return None
                    shape.append("slice")
                case cst.Index(value=cst.Name(value="None")):
                    shape.append("new")
                case cst.Index(value=cst.Ellipsis()):
                    shape.append("slice")
                case _:
                    return None
        if kind == "index":
            return _axes(shape)
        if kind in {"rows", "columns"}:
            return None
        if "slice" in shape and "new" in shape[-2:]:
            return None  # the matrix would no longer stand in the last two axes
        return kind

    def _called(self, node: cst.Call, where: Where, depth: int) -> Kind | None:
        full = where.source.qualified(node.func) or ""
        if full.startswith("torch.") or full.startswith("numpy."):
            return self._made(full.rpartition(".")[2], node, where, depth)
        name = dotted(node.func)
        if (
            name
            and name.rpartition(".")[2] in self.repository.functions
            and ("." not in name or name.startswith("self."))
        ):
            return self._returned(name.rpartition(".")[2], depth)
        found = method_call(node)
        if found is None:
            return None
        receiver, method, _ = found
        if method == "generate_square_subsequent_mask":
            return "add"
        return self._method(method, receiver, node, where, depth)

    def _method(
        self, method: str, receiver: cst.CSTNode, call: cst.Call, where: Where, depth: int
    ) -> Kind | None:
        kind = self.kind(receiver, where, depth)
        if method in {"unsqueeze", "view", "reshape"} and kind == "index":
            return _index_axis(method, call)
        if method in {"view", "reshape"} and kind in {"keep", "drop", "add"}:
            sizes = [text_of(each.value) for each in call.args]
            return kind if len(sizes) >= 2 and sizes[-1] == sizes[-2] else None
        if method == "unsqueeze" and kind is not None:
            dim, above = literal(argument(call, 0, "dim")), method_call(receiver)
            # A second axis is in front of the matrix only after a first new one.
            nested = above is not None and above[1] == "unsqueeze"
            return kind if dim == 0 or (dim == 1 and nested) else None
        if method in {"transpose", "t", "mT"}:
            return {"upper": "keep", "keep": "upper"}.get(kind or "")  # type: ignore[return-value]
        if method in SAME_CONTENT:
            return kind
        if method in _FLIPS:
            return _FLIPPED.get(kind or "")
        if method in {"tril", "triu"}:
            return _triangle(method, kind, argument(call, 0, "diagonal"))
        if method == "masked_fill":
            return self._filled(
                kind, argument(call, 0, "mask"), argument(call, 1, "value"), where, depth
            )
        if method in _COMPARING and isinstance(number := literal(argument(call, 0)), int | float):
            return _against(kind, _COMPARING[method](), float(number)) if kind else None
        return None

    def _made(self, function: str, call: cst.Call, where: Where, depth: int) -> Kind | None:
        first = argument(call, 0, "input")
        if function in _EVEN:
            return _EVEN[function]
        if function == "arange":
            return (
                "index" if len([each for each in call.args if each.keyword is None]) == 1 else None
            )
        if function in {"full", "full_like"}:
            fill = argument(call, 1, "fill_value")
            if fill is not None and self.fills.low(fill, where, depth) is not None:
                return "low"
            return {1: "ones", 0: "zeros"}.get(literal(fill))  # type: ignore[return-value]
        if first is None:
            return None
        if function in {"tril", "triu"}:
            return _triangle(
                function, self.kind(first, where, depth), argument(call, 1, "diagonal")
            )
        if function in _FLIPS:
            return _FLIPPED.get(self.kind(first, where, depth) or "")
        if function == "where":
            return self._chosen(call, where, depth)
        if function == "masked_fill":
            kind = self.kind(first, where, depth)
            return self._filled(
                kind, argument(call, 1, "mask"), argument(call, 2, "value"), where, depth
            )
        return None

    def _filled(
        self, kind: Kind | None, mask: cst.CSTNode | None, value: cst.CSTNode | None,
        where: Where, depth: int,
    ) -> Kind | None:  # fmt: skip
        if mask is None or value is None:
            return None
        drops = self.kind(mask, where, depth)
        if drops == "drop" and self.fills.low(value, where, depth) is not None:
            return {"zeros": "add", "keep": "half"}.get(kind or "")  # type: ignore[return-value]
        if (kind, drops) == ("half", "keep") and literal(value) == 0:
            return "add"
        return None

    def _chosen(self, call: cst.Call, where: Where, depth: int) -> Kind | None:
        condition, yes, no = (argument(call, position) for position in range(3))
        if condition is None or yes is None or no is None:
            return None
        kind = self.kind(condition, where, depth)
        if kind == "drop":
            yes, no = no, yes
        zero = literal(yes) == 0 or self.kind(yes, where, depth) == "zeros"
        if kind in {"keep", "drop"} and zero and self.fills.low(no, where, depth) is not None:
            return "add"
        return None

    def _returned(self, name: str, depth: int) -> Kind | None:
        """Tell what a function of these files returns, where all its returns agree."""
        kinds = set()
        for source, function in self.repository.functions[name]:
            for node in walk(function):
                if isinstance(node, cst.Return) and source.scope(node) is function:
                    if node.value is None:
                        return None
                    kinds.add(self.kind(node.value, Where(source, source.statement(node)), depth))
        return kinds.pop() if len(kinds) == 1 else None


_HARMLESS = frozenset(
    {"enumerate", "zip", "len", "list", "ModuleList", "Sequential", "print", "isinstance", "range",
     "reversed", "sum", "DistributedDataParallel", "DDP", "compile", "append", "super", "str",
     "id", "parameters", "tuple"}
)  # fmt: skip
_COMPARING = {"eq": cst.Equal, "ne": cst.NotEqual, "gt": cst.GreaterThan, "lt": cst.LessThan}
_ORDERED: dict[type, Kind] = {cst.LessThanEqual: "keep", cst.GreaterThan: "drop"}
"""For ``column index <operator> row index``."""
_MIRRORED: dict[type, type] = {
    cst.GreaterThanEqual: cst.LessThanEqual,
    cst.LessThan: cst.GreaterThan,
}


def _against(kind: Kind, operator: cst.CSTNode, number: float) -> Kind | None:
    """Compare zeros and ones with a number."""
    table = {
        cst.Equal: (number == 0, number == 1),
        cst.NotEqual: (number != 0, number != 1),
        cst.GreaterThan: (number < 0, number < 1),
        cst.GreaterThanEqual: (number <= 0, number <= 1),
        cst.LessThan: (number > 0, number > 1),
        cst.LessThanEqual: (number >= 0, number >= 1),
    }
    of_zero, of_one = table.get(type(operator), (False, False))
    if of_zero == of_one or (kind not in _FLIPPED and kind != "upper"):
        return None
    return kind if of_one else _FLIPPED.get(kind)


def _triangle(function: str, kind: Kind | None, diagonal: cst.CSTNode | None) -> Kind | None:
    offset = 0 if diagonal is None else literal(diagonal)
    if offset == 0 and kind == "ones":
        return "keep" if function == "tril" else "upper"
    if (function, offset) == ("triu", 1):
        return {"ones": "drop", "low": "add"}.get(kind or "")  # type: ignore[return-value]
    return None


def _axes(shape: list[str]) -> Kind | None:
    trimmed = "".join("n" if each == "new" else "s" for each in shape).lstrip("n")
    if trimmed == "sn":
        return "rows"
    if trimmed == "s":
        return "columns" if "new" in shape else "index"
    return None


def _index_axis(method: str, call: cst.Call) -> Kind | None:
    values = [literal(each.value) for each in call.args]
    if method == "unsqueeze":
        return {0: "columns", 1: "rows", -1: "rows", -2: "columns"}.get(values[0])  # type: ignore[return-value]
    if len(values) == 2:
        return "rows" if values[1] == 1 else "columns" if values[0] == 1 else None
    return None
