"""Where names get their values and where they are read, within one function.

Only codemods import this module (it loads libcst).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import libcst as cst

from infrarsi.propose.source import Source, children_of, method_call, sole, walk


def loads(node: cst.CSTNode) -> list[cst.Name]:
    """Give the names that are read in a node, in the order of the text."""
    return [name for name, role in _names(node, store=False) if role == "load"]


def stores(node: cst.CSTNode) -> list[cst.Name]:
    """Give the names that are bound in a node: targets, parameters, loops, imports."""
    return [name for name, role in _names(node, store=False) if role == "store"]


def _names(node: cst.CSTNode, *, store: bool) -> Iterator[tuple[cst.Name, str]]:
    match node:
        case cst.Name():
            yield node, "store" if store else "load"
            return
        case cst.Attribute(value=value):
            yield from _names(value, store=False)
            return
        case cst.Subscript(value=value, slice=index):
            yield from _names(value, store=False)
            for each in index:
                yield from _names(each, store=False)
            return
        case cst.Arg(value=value):
            yield from _names(value, store=False)
            return
        case cst.AugAssign(target=cst.Name() as target, value=value):
            yield target, "load"
            yield target, "store"
            yield from _names(value, store=False)
            return
    targets = _targets(node)
    for child in children_of(node):
        if isinstance(child, cst.Annotation) or child in _labels(node):
            continue
        yield from _names(child, store=store or any(child is target for target in targets))


def _targets(node: cst.CSTNode) -> tuple[cst.CSTNode, ...]:
    match node:
        case cst.AssignTarget(target=target) | cst.AnnAssign(target=target):
            return (target,)
        case cst.For(target=target) | cst.CompFor(target=target) | cst.NamedExpr(target=target):
            return (target,)
        case cst.AsName(name=name) | cst.Param(name=name):
            return (name,)
        case cst.FunctionDef(name=name) | cst.ClassDef(name=name):
            return (name,)
        case cst.Del(target=target):
            return (target,)
        case cst.ImportAlias(name=cst.Name() as name, asname=None):
            return (name,)
    return ()


def _labels(node: cst.CSTNode) -> tuple[cst.CSTNode, ...]:
    """Names that are no variables: parts of an import, and of a ``global`` statement."""
    match node:
        case cst.ImportFrom(module=module) if module is not None:
            return (module,)
        case cst.ImportAlias(name=name, asname=asname) if asname is not None:
            return (name,)
        case cst.ImportAlias(name=cst.Attribute() as name):
            return (name,)
        case cst.NameItem(name=name):
            return (name,)
    return ()


def reads(node: cst.CSTNode, name: str) -> list[cst.Name]:
    """Give the places in a node where a name is read."""
    return [each for each in loads(node) if each.value == name]


def binds(node: cst.CSTNode, name: str) -> bool:
    """Tell whether a node binds a name anywhere."""
    return any(each.value == name for each in stores(node))


@dataclass(frozen=True)
class Definition:
    """The statement that last gave a name its value, and that value."""

    name: str
    value: cst.BaseExpression
    """An augmented or in-place operation is written out: ``x *= c`` has the value ``x * c``."""
    statement: cst.CSTNode
    condition: cst.BaseExpression | None = None
    """For ``if condition: name = value``: otherwise the name keeps what it had."""


def definition(source: Source, name: str, before: cst.CSTNode) -> Definition | None:
    """Give the nearest definition of a name above a statement, in the same block.

    Blocks of a ``with`` belong to the block around them. Nothing is given where the name is
    bound in a way that cannot be followed.
    """
    block = list(source.block(before))
    for statement in reversed(block[: block.index(before)]):
        if binds(statement, name) or _changes_in_place(statement, name):
            return _read_definition(name, statement)
    owner = source.parents.get(source.parents[before])
    if isinstance(owner, cst.With) and not any(binds(item, name) for item in owner.items):
        return definition(source, name, owner)
    return None


def _changes_in_place(statement: cst.CSTNode, name: str) -> bool:
    for node in walk(statement):
        found = method_call(node)
        if found and found[1].endswith("_") and not found[1].startswith("_"):
            match found[0]:
                case cst.Name(value=value) if value == name:
                    return True
    return False


_PLAIN: dict[type[cst.BaseAugOp], Callable[[], cst.BaseBinaryOp]] = {
    cst.AddAssign: cst.Add, cst.SubtractAssign: cst.Subtract, cst.MultiplyAssign: cst.Multiply,
    cst.DivideAssign: cst.Divide, cst.MatrixMultiplyAssign: cst.MatrixMultiply,
    cst.PowerAssign: cst.Power,
}  # fmt: skip


def plain_operator(operator: cst.BaseAugOp) -> cst.BaseBinaryOp | None:
    """Give ``*`` for ``*=``, and so on."""
    kind = _PLAIN.get(type(operator))
    return kind() if kind else None


def _read_definition(name: str, statement: cst.CSTNode) -> Definition | None:
    match sole(statement):
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=target))], value=value):
            return Definition(name, value, statement) if target == name else None
        case cst.AnnAssign(target=cst.Name(value=target), value=value) if value is not None:
            return Definition(name, value, statement) if target == name else None
        case cst.AugAssign(target=cst.Name(value=target), operator=operator, value=value):
            plain = plain_operator(operator)
            if plain is None or target != name:
                return None
            whole = cst.BinaryOperation(cst.Name(name), plain, _grouped(value))
            return Definition(name, whole, statement)
        case cst.Expr(value=value):
            return _in_place_definition(name, value, statement)
    match statement:
        case cst.If(test=test, orelse=None, body=cst.IndentedBlock(body=[only])):
            inner = _read_definition(name, only)
            if inner and inner.condition is None:
                return Definition(name, inner.value, statement, test)
    return None


def _in_place_definition(
    name: str, value: cst.BaseExpression, statement: cst.CSTNode
) -> Definition | None:
    found = method_call(value)
    if not found or not isinstance(found[0], cst.Name) or found[0].value != name:
        return None
    call = found[2]
    assert isinstance(call.func, cst.Attribute)
    plain = call.with_changes(
        func=call.func.with_changes(attr=cst.Name(found[1].removesuffix("_")))
    )
    return Definition(name, plain, statement)


def _grouped(value: cst.BaseExpression) -> cst.BaseExpression:
    """Put parentheses around an operation that becomes an operand."""
    if isinstance(value, cst.BinaryOperation | cst.UnaryOperation | cst.IfExp) and not value.lpar:
        return value.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    return value


def only_value(
    source: Source, name: str, at: cst.CSTNode
) -> tuple[cst.BaseExpression, cst.CSTNode] | None:
    """Give a name's value where one plain assignment in its function, or module, binds it."""
    scope = source.scope(at)
    if isinstance(scope, cst.FunctionDef) and not binds(scope.body, name):
        if binds(scope.params, name):
            return None
        scope = source.module
    holders = [
        statement
        for statement in source.every(cst.SimpleStatementLine, scope)
        if source.scope(statement) is scope and binds(statement, name)
    ]
    bound = [each for each in stores(scope.body if isinstance(scope, cst.FunctionDef) else scope)
             if each.value == name and source.scope(each) is scope]  # fmt: skip
    if len(holders) != 1 or len(bound) != 1:
        return None
    found = _read_definition(name, holders[0])
    return (found.value, found.statement) if found else None


def in_loop(source: Source, node: cst.CSTNode) -> cst.For | cst.While | None:
    """Give the innermost loop around a node within its own function."""
    for each in source.ancestors(node):
        if isinstance(each, cst.For | cst.While):
            return each
        if isinstance(each, cst.FunctionDef | cst.ClassDef | cst.Lambda):
            return None
    return None


def enclosing_definition(source: Source, name: str, before: cst.CSTNode) -> Definition | None:
    """Give the nearest definition of a name above a statement, also outside of an ``if``."""
    at = before
    while True:
        block = list(source.block(at))
        for statement in reversed(block[: block.index(at)]):
            if binds(statement, name) or _changes_in_place(statement, name):
                return _read_definition(name, statement)
        owner = source.parents.get(source.parents[at])
        while isinstance(owner, cst.Else):
            owner = source.parents.get(owner)
        if not isinstance(owner, cst.If | cst.With):
            return None
        at = _outermost_branch(source, owner)


def _outermost_branch(source: Source, node: cst.If | cst.With) -> cst.CSTNode:
    """Give the ``if`` that an ``elif`` belongs to."""
    current: cst.CSTNode = node
    while isinstance(source.parents.get(current), cst.If):
        current = source.parents[current]
    return current


def read_later(source: Source, name: str, statement: cst.CSTNode) -> cst.Name | None:
    """Give a place that may read the value which a statement binds to a name."""
    scope = source.scope(statement)
    last = max(source.order[node] for node in walk(statement))
    first = source.order[statement]
    events = [(source.order[each], each, False) for each in reads(scope, name)]
    events += [(source.order[each], each, True) for each in stores(scope) if each.value == name]
    later = sorted((event for event in events if event[0] > last), key=lambda event: event[0])
    found = _first_read(source, later, statement)
    loop = in_loop(source, statement)
    if found is None and loop is not None:
        around = [event for event in events if source.order[loop] < event[0] < first]
        found = _first_read(source, sorted(around, key=lambda event: event[0]), statement)
    return found


def _first_read(
    source: Source, events: list[tuple[int, cst.Name, bool]], statement: cst.CSTNode
) -> cst.Name | None:
    """Give the first read that no certain rebinding comes before."""
    parts = source.block(statement)
    for _, name, stores_it in events:
        if not stores_it:
            return name
        holder = source.statement(name)
        if isinstance(holder, cst.SimpleStatementLine) and any(each is holder for each in parts):
            # Its own right side was read before; from here on the name holds something else.
            return next((each for each in reads(holder, name.value)), None)
    return None
