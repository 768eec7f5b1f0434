"""Numbers that a loop reads off the device, and what becomes of them."""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from infrarsi.propose.flow import loads, reads, stores
from infrarsi.propose.rewrite import Rewrite
from infrarsi.propose.source import Source, dotted, literal, method_call, sole, text_of, walk
from infrarsi.propose.training import backward_calls

_KEEPS = frozenset(
    {"detach", "mean", "sum", "float", "cpu", "abs", "clone", "max", "min", "squeeze"}
)
_CLIPS = frozenset({"clip_grad_norm_", "clip_grad_norm", "get_total_norm"})


class LoopNumbers:
    """Finds, in a training loop, numbers whose reading can wait until they are used."""

    def __init__(self, source: Source, rewrite: Rewrite) -> None:
        self.source, self.rewrite = source, rewrite
        self.done: set[str] = set()

    def defer(self, loop: cst.For | cst.While) -> int:
        """Put off the reading of every number for which that is safe; give their count."""
        scope = self.source.scope(loop)
        tensors = _tensors(self.source, scope)
        found: dict[str, list[tuple[cst.CSTNode, cst.Call]]] = {}
        for statement in self.source.every(cst.SimpleStatementLine, loop):
            if self.source.scope(statement) is not scope:
                continue
            name = _taker(statement)
            readings = self._readings(statement, tensors)
            if name is not None and len(readings) == 1:
                found.setdefault(name, []).append((statement, readings[0]))
        return sum(self._defer(name, taken, loop) for name, taken in found.items())

    def _readings(self, statement: cst.CSTNode, tensors: set[str]) -> list[cst.Call]:
        return [
            node for node in walk(statement)
            if isinstance(node, cst.Call) and (inner := _read_tensor(node)) is not None
            and _is_tensor(self.source, inner, tensors)
        ]  # fmt: skip

    def _defer(
        self, name: str, taken: list[tuple[cst.CSTNode, cst.Call]], loop: cst.For | cst.While
    ) -> bool:
        key = f"{id(self.source.scope(loop))} {name}"
        kinds = {_kind(statement) for statement, _ in taken}
        if key in self.done or len(kinds) != 1:
            return False
        kind = kinds.pop()
        if not self._stores_allow(name, {statement for statement, _ in taken}, kind, loop):
            return False
        within = {node for statement, _ in taken for node in walk(statement)}
        uses = [use for use in reads(self.source.scope(loop), name) if use not in within]
        uses = [use for use in uses if not _is_length(self.source, use)]
        if not uses or not all(self._is_rare(use, taken, loop) for use in uses):
            return False
        if kind == "list" and not all(_is_whole_read(self.source, use) for use in uses):
            return False
        if any(not _is_arithmetic(statement, reading) for statement, reading in taken):
            return False
        self._write(kind, taken, uses)
        self.done.add(key)
        return True

    def _stores_allow(self, name: str, own: set[cst.CSTNode], kind: str, loop: cst.CSTNode) -> bool:
        """Everything else that binds the name must give it a literal to begin with."""
        for each in stores(self.source.scope(loop)):
            if each.value != name:
                continue
            statement = self.source.statement(each)
            if statement in own:
                continue
            begins = _beginning(sole(statement), each)
            if begins != [] if kind == "list" else not isinstance(begins, int | float):
                return False
        scope = self.source.scope(loop)
        return not any(
            isinstance(node, cst.Global | cst.Nonlocal)
            and name in {item.name.value for item in node.names}
            for node in walk(self.source.module if isinstance(scope, cst.Module) else scope)
        )

    def _is_rare(
        self, use: cst.Name, taken: Iterable[tuple[cst.CSTNode, cst.Call]], loop: cst.CSTNode
    ) -> bool:
        """Tell whether a use comes less often than the reading it waits for."""
        inner = {
            next(
                each
                for each in self.source.ancestors(statement)
                if isinstance(each, cst.For | cst.While)
            )
            for statement, _ in taken
        }
        # A condition around the reading itself makes the use no rarer than the reading.
        shared = {each for statement, _ in taken for each in self.source.ancestors(statement)}
        node: cst.CSTNode = use
        for around in self.source.ancestors(use):
            if around in inner:
                return False
            if isinstance(around, cst.If) and node is not around.test and around not in shared:
                return True
            if around is self.source.scope(loop):
                return True
            node = around
        return True

    def _write(
        self, kind: str, taken: list[tuple[cst.CSTNode, cst.Call]], uses: list[cst.Name]
    ) -> None:
        for _, reading in taken:
            inner = _read_tensor(reading)
            assert inner is not None
            code = self.source.code(inner)
            if not isinstance(inner, cst.Name | cst.Call | cst.Attribute) and not inner.lpar:
                code = f"({code})"
            # A sum is kept in float64, in which Python would have summed.
            self.rewrite.replace(
                reading,
                f"{code}.detach().double()" if kind == "sum" else f"{code}.detach().clone()",
            )
        for use in uses:
            around = self.source.parents[use]
            if kind != "list":
                self.rewrite.replace(use, f"float({use.value})")
            elif isinstance(around, cst.Subscript) and isinstance(around.slice[0].slice, cst.Index):
                self.rewrite.replace(around, f"float({self.source.code(around)})")
            else:
                self.rewrite.replace(use, f"[float(each) for each in {use.value}]")


def _beginning(small: cst.CSTNode | None, name: cst.Name) -> object:
    """Give the literal that an assignment gives a name, alone or in a tuple of as many."""
    match small:
        case cst.Assign(targets=[cst.AssignTarget(target=target)], value=value):
            if target is name:
                return literal(value)
            if isinstance(target, cst.Tuple) and isinstance(value, cst.Tuple):
                pairs = zip(target.elements, value.elements, strict=False)
                return next((literal(b.value) for a, b in pairs if a.value is name), ...)
    return ...


def _taker(statement: cst.SimpleStatementLine) -> str | None:
    """Give the name that a statement puts a number into."""
    match sole(statement):
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name))]):
            return name
        case cst.AugAssign(target=cst.Name(value=name), operator=cst.AddAssign()):
            return name
        case cst.Expr(
            value=cst.Call(
                func=cst.Attribute(value=cst.Name(value=name), attr=cst.Name(value="append")),
                args=[_],
            )
        ):
            return name
    return None


def _kind(statement: cst.CSTNode) -> str:
    match sole(statement):
        case cst.AugAssign():
            return "sum"
        case cst.Expr():
            return "list"
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name))], value=value):
            return "sum" if any(each.value == name for each in loads(value)) else "last"
    return ""


def _read_tensor(call: cst.Call) -> cst.BaseExpression | None:
    """Give ``x`` of ``x.item()`` and of ``float(x)``."""
    found = method_call(call)
    if found is not None and found[1] in {"item", "tolist"} and not call.args:
        return found[0]
    if dotted(call.func) == "float" and len(call.args) == 1:
        return call.args[0].value
    return None


def _tensors(source: Source, scope: cst.CSTNode) -> set[str]:
    """Give the names that hold losses, or norms of gradients, for certain."""
    found = set()
    for call in backward_calls(source):
        if source.scope(call) is scope and (receiver := method_call(call)) is not None:
            match receiver[0]:
                case cst.Name(value=name) if not call.args:
                    found.add(name)
                case _:
                    found |= {each.value for each in loads(receiver[0])} if not call.args else set()
            found |= {each.value.value for each in call.args if isinstance(each.value, cst.Name)}
    for assign in source.every(cst.Assign, scope):
        for target in assign.targets:
            if isinstance(target.target, cst.Name) and isinstance(assign.value, cst.Call):
                callee = (dotted(assign.value.func) or "").rpartition(".")[2]
                if callee in _CLIPS:
                    found.add(target.target.value)
    return found


def _is_tensor(source: Source, node: cst.CSTNode, tensors: set[str]) -> bool:
    match node:
        case cst.Name(value=name):
            return name in tensors
        case cst.BinaryOperation(left=left, right=right):
            return any(_is_tensor(source, each, tensors) for each in (left, right))
        case cst.Call(func=func):
            if (dotted(func) or "").rpartition(".")[2] in _CLIPS:
                return True
            found = method_call(node)
            return (
                found is not None and found[1] in _KEEPS and _is_tensor(source, found[0], tensors)
            )
    return False


def _is_arithmetic(statement: cst.CSTNode, reading: cst.Call) -> bool:
    """Tell whether a reading stands alone, or among plain factors and summands."""
    match sole(statement):
        case cst.Assign(value=value) | cst.AugAssign(value=value):
            pass
        case cst.Expr(value=cst.Call(args=[only])):
            value = only.value
        case _:
            return False
    return _stands_plainly(value, reading)


def _stands_plainly(node: cst.CSTNode, reading: cst.Call) -> bool:
    if node is reading or isinstance(literal(node), int | float):
        return True
    match node:
        case cst.BinaryOperation(left=left, right=right, operator=operator):
            plain = isinstance(operator, cst.Add | cst.Subtract | cst.Multiply | cst.Divide)
            return plain and all(_stands_plainly(each, reading) for each in (left, right))
        case cst.Name() | cst.Attribute():
            return True
        case cst.Call():
            text = text_of(node)
            return text.startswith("len(") or ".size(" in text
        case cst.Subscript(value=cst.Attribute(attr=cst.Name(value="shape"))):
            return True
    return False


def _is_length(source: Source, use: cst.Name) -> bool:
    around = source.parents[use]
    call = source.parents[around]
    if isinstance(around, cst.Arg) and isinstance(call, cst.Call):
        return dotted(call.func) == "len"
    return isinstance(around, cst.Attribute) and around.attr.value == "clear"


def _is_whole_read(source: Source, use: cst.Name) -> bool:
    """Tell whether a list is only read here, and no method of it is called."""
    around = source.parents[use]
    return not isinstance(around, cst.Attribute | cst.Del | cst.AugAssign)
