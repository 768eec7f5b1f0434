"""Where the chosen experts come from, as far as plain sight says."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from infrarsi.propose.flow import binds
from infrarsi.propose.repository import Repository, is_parameter
from infrarsi.propose.source import Source, argument, dotted, literal, method_call, sole

_SHAPES = frozenset(
    {"view", "reshape", "flatten", "to", "long", "int", "contiguous", "detach", "clone"}
)


@dataclass(frozen=True)
class Origin:
    """The statement that gave a name its value."""

    value: cst.BaseExpression
    element: int | None
    """Which element of the value it is, where a tuple was unpacked."""
    statement: cst.CSTNode


def origin(source: Source, name: str, at: cst.CSTNode) -> Origin | None:
    """Give the last statement above a place that bound a name, in the blocks around it."""
    node = at
    while True:
        block = list(source.block(node))
        for statement in reversed(block[: block.index(node)]):
            if binds(statement, name):
                return _read(_last(statement, name), name)
        owner = source.parents.get(source.parents[node])
        if isinstance(owner, cst.For | cst.While) and binds(owner, name):
            return None
        if not isinstance(owner, cst.For | cst.While | cst.With | cst.If | cst.Else):
            return None
        while isinstance(owner, cst.Else) or isinstance(source.parents.get(owner), cst.If):
            owner = source.parents[owner]
        node = owner


def _last(statement: cst.CSTNode, name: str) -> cst.CSTNode:
    """Give the last statement within a ``with`` that binds a name."""
    if isinstance(statement, cst.With) and not any(binds(item, name) for item in statement.items):
        for inner in reversed(statement.body.body):
            if binds(inner, name):
                return _last(inner, name)
    return statement


def _read(statement: cst.CSTNode, name: str) -> Origin | None:
    match sole(statement):
        case cst.Assign(targets=[cst.AssignTarget(target=target)], value=value):
            match target:
                case cst.Name():
                    return Origin(value, None, statement)
                case cst.Tuple(elements=elements):
                    for position, each in enumerate(elements):
                        if dotted(each.value) == name:
                            return Origin(value, position, statement)
        case cst.AnnAssign(target=cst.Name(), value=value) if value is not None:
            return Origin(value, None, statement)
    return None


class Origins:
    """Tells where tensors of chosen experts come from."""

    def __init__(self, repository: Repository) -> None:
        self.repository = repository

    def is_distinct(
        self,
        source: Source,
        node: cst.BaseExpression,
        at: cst.CSTNode,
        *,
        element: int | None = None,
        depth: int = 12,
    ) -> bool:
        """Tell whether an expression holds no expert twice in one row, for certain."""
        if depth == 0:
            return False
        match node:
            case cst.Name(value=name) if element is None:
                found = origin(source, name, at)
                return found is not None and self.is_distinct(
                    source, found.value, found.statement, element=found.element, depth=depth - 1
                )
            case cst.Attribute(value=value, attr=cst.Name(value="indices")) if element is None:
                return self.is_distinct(source, value, at, element=1, depth=depth - 1)
            case cst.Subscript(slice=[*_]) if element is None:
                return self._of_subscript(source, node, at, depth=depth)
            case cst.Call():
                return self._of_call(source, node, at, element=element, depth=depth)
        return False

    def _of_subscript(
        self, source: Source, node: cst.Subscript, at: cst.CSTNode, *, depth: int
    ) -> bool:
        value, slices = node.value, node.slice
        last = slices[-1].slice
        if len(slices) == 1 and isinstance(last, cst.Index) and isinstance(value, cst.Call):
            position = literal(last.value)
            return isinstance(position, int) and self.is_distinct(
                source, value, at, element=position, depth=depth - 1
            )
        if len(slices) > 1 and isinstance(last, cst.Index):
            return literal(last.value) is not None  # one column holds one expert a row
        # A slice of a row without repetitions has none either.
        return isinstance(last, cst.Slice) and self.is_distinct(source, value, at, depth=depth - 1)

    def _of_call(
        self, source: Source, call: cst.Call, at: cst.CSTNode, *, element: int | None, depth: int
    ) -> bool:
        full = source.qualified(call.func) or ""
        found = method_call(call)
        torch_name = full.removeprefix("torch.") if full.startswith("torch.") else None
        name = torch_name or (found[1] if found else "")
        if name in {"topk", "max", "sort"}:
            return element == 1
        if element is None and name in {"argmax", "argsort"}:
            return True
        if element is None and name == "multinomial":
            replacement = argument(call, 2 if torch_name else 1, "replacement")
            return replacement is None or literal(replacement) is False
        if element is None and name in _SHAPES and found is not None:
            return self.is_distinct(source, found[0], at, depth=depth - 1)
        return self._of_function(source, call, element=element, depth=depth)

    def _of_function(
        self, source: Source, call: cst.Call, *, element: int | None, depth: int
    ) -> bool:
        """Tell it of what a function of the repository, or a module's forward, returns."""
        target = self._callee(source, call)
        if target is None:
            return False
        where, function = target
        returns = [
            each for each in where.every(cst.Return, function) if where.scope(each) is function
        ]  # fmt: skip
        for each in returns:
            value, inner = each.value, element
            if isinstance(value, cst.Tuple) and element is not None:
                if element >= len(value.elements):
                    return False
                value, inner = value.elements[element].value, None
            if value is None or not self.is_distinct(
                where, value, where.statement(each), element=inner, depth=depth - 1
            ):
                return False
        return bool(returns)

    def _callee(self, source: Source, call: cst.Call) -> tuple[Source, cst.FunctionDef] | None:
        name = dotted(call.func) or ""
        kind = self.repository.module_kind(source, call.func)
        cls = self.repository.class_named(kind[0]) if kind is not None else None
        if cls is not None:
            forward = cls.method("forward")
            return (cls.source, forward) if forward is not None else None
        owner = self.repository.class_around(source, call)
        if name.startswith("self.") and name.count(".") == 1 and owner is not None:
            method = owner.method(name.removeprefix("self."))
            return (owner.source, method) if method is not None else None
        functions = self.repository.functions.get(name, [])
        return functions[0] if len(functions) == 1 else None


def one_hot_axes(
    source: Source, node: cst.BaseExpression, at: cst.CSTNode
) -> tuple[str, tuple[int, ...]] | None:
    """Give the chosen experts that a one-hot tensor shows, and the order of its axes.

    The last number is the axis of the experts: ``one_hot(chosen, n).permute(2, 1, 0)`` has the
    axes ``(2, 1, 0)``. Nothing is given where the chosen experts are not the same any more.
    """
    found = _axes(source, node, at, depth=8)
    if found is None:
        return None
    chosen, where, axes = found
    name = dotted(chosen)
    if name is None or "." in name:
        return None
    now, then = origin(source, name, at), origin(source, name, where)
    same = now is not None and then is not None and now.statement is then.statement
    if now is None and then is None:
        same = is_parameter(source, name, at)
    return (name, axes) if same else None


def _axes(
    source: Source, node: cst.BaseExpression, at: cst.CSTNode, *, depth: int
) -> tuple[cst.BaseExpression, cst.CSTNode, tuple[int, ...]] | None:
    """Give the chosen experts, where they are read, and the axes."""
    if depth == 0:
        return None
    if isinstance(node, cst.Name):
        found = origin(source, node.value, at)
        if found is None or found.element is not None:
            return None
        return _axes(source, found.value, found.statement, depth=depth - 1)
    called = method_call(node)
    if called is None:
        return None
    receiver, name, call = called
    if source.qualified(call.func) == "torch.nn.functional.one_hot":
        chosen = argument(call, 0, "input") or argument(call, 0, "tensor")
        return (chosen, at, (0, 1, 2)) if chosen is not None else None
    inner = _axes(source, receiver, at, depth=depth - 1)
    if inner is None:
        return None
    chosen, where, axes = inner
    given = [literal(each.value) for each in call.args if each.keyword is None]
    match name, given:
        case (("bool" | "to" | "float" | "int" | "long" | "contiguous"), _):
            return inner
        case "permute", [int(), int(), int()] if sorted(given) == [0, 1, 2]:
            return chosen, where, tuple(axes[each] for each in given)
        case "transpose", [int(one), int(other)] if max(abs(one), abs(other)) <= 3:
            swapped = list(axes)
            swapped[one], swapped[other] = swapped[other], swapped[one]
            return chosen, where, tuple(swapped)
    return None
