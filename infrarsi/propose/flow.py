"""Where names get their values and where they are read, within one function.

Only codemods import this module (it loads libcst).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

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


@lru_cache(maxsize=1024)
def _bindings(source: Source) -> dict[tuple[cst.CSTNode, str], list[cst.Name]]:
    """Give the places that bind each name, by the function or module that they run in."""
    found: dict[tuple[cst.CSTNode, str], list[cst.Name]] = {}
    for name in stores(source.module):
        scope: cst.CSTNode = source.scope(name)
        if isinstance(scope, cst.FunctionDef) and name is scope.name:
            scope = source.scope(scope)
        found.setdefault((scope, name.value), []).append(name)
    return found


def only_value(
    source: Source, name: str, at: cst.CSTNode
) -> tuple[cst.BaseExpression, cst.CSTNode] | None:
    """Give a name's value where one plain assignment in its function, or module, binds it."""
    bindings = _bindings(source)
    bound = bindings.get((source.scope(at), name)) or bindings.get((source.module, name), [])
    if len(bound) != 1:
        return None
    statement = source.statement(bound[0])
    if not isinstance(statement, cst.SimpleStatementLine):
        return None
    found = _read_definition(name, statement)
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
    places = sorted(reads(scope, name), key=source.order.__getitem__)
    for use in places:
        place = source.order[use]
        if place > last and not _bound_between(source, use, after=last):
            return use
    loop = in_loop(source, statement)
    if loop is None:
        return None
    for use in places:
        # What the next round reads before it binds the name anew.
        start = source.order[loop]
        if start < source.order[use] < first and not _bound_between(source, use, after=start):
            return use
    return None


def _bound_between(source: Source, use: cst.Name, *, after: int) -> bool:
    """Tell whether, on every way to a read, a statement after a place binds the name anew."""
    around = set(source.ancestors(use))
    own = source.statement(use)
    for loop in (each for each in around if isinstance(each, cst.For)):
        inside = loop.body in around and source.order[loop] > after
        if inside and binds(cst.AssignTarget(loop.target), use.value):
            return True
    for each in _bindings(source).get((source.scope(use), use.value), []):
        holder = source.statement(each)
        block = source.parents[holder]
        while isinstance(source.parents.get(block), cst.With):
            block = source.parents[source.parents[block]]
        certain = isinstance(holder, cst.SimpleStatementLine) and block in around
        if certain and holder is not own and after < source.order[holder] < source.order[use]:
            return True
    return False
