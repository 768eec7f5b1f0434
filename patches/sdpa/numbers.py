"""Which expressions are Python numbers for certain."""

from __future__ import annotations

import re

import libcst as cst

from infrarsi.propose.flow import binds, only_value, stores
from infrarsi.propose.repository import Repository
from infrarsi.propose.source import Source, dotted, literal, method_call, text_of


def is_number(
    repository: Repository, source: Source, node: cst.CSTNode, at: cst.CSTNode, depth: int = 8
) -> bool:
    """Tell whether an expression is a Python number for certain, and no tensor."""
    if depth == 0:
        return False
    if isinstance(literal(node), int | float):
        return True
    again = (depth - 1,)
    match node:
        case cst.UnaryOperation(expression=inner):
            return is_number(repository, source, inner, at, *again)
        case cst.BinaryOperation(left=left, right=right):
            return all(is_number(repository, source, each, at, *again) for each in (left, right))
        case cst.Call():
            full = source.qualified(node.func) or ""
            found = method_call(node)
            if full.startswith("math.") or full in {"float", "int", "len", "numpy.sqrt"}:
                return True
            return (
                found is not None
                and found[1] in {"size", "item", "dim"}
                and bool(node.args or found[1] != "size")
            )
        case cst.Subscript(value=cst.Attribute(attr=cst.Name(value="shape"))):
            return True
        case cst.Name() | cst.Attribute():
            return _named_number(repository, source, node, at, depth - 1)
    return False


def _named_number(
    repository: Repository, source: Source, node: cst.CSTNode, at: cst.CSTNode, depth: int
) -> bool:
    name = dotted(node) or ""
    if name.startswith("self.") and name.count(".") == 1:
        owner = repository.class_around(source, at)
        spots = repository.attribute(owner, name.removeprefix("self.")) if owner else []
        return bool(spots) and all(
            spot.node in spot.source.parents
            and is_number(
                repository, spot.source, spot.node, spot.source.statement(spot.node), depth
            )
            for spot in spots
        )
    if "." in name:
        # An entry of a configuration object; a module's parameter would be a tensor.
        return not name.startswith("self.") or name.split(".")[1] in {"config", "cfg", "args"}
    single = only_value(source, name, at)
    if single is not None:
        return is_number(repository, source, single[0], single[1], depth)
    unpacked = bound_by_unpacking(source, name, at)
    if unpacked is not None:
        return bool(re.search(r"\.(shape|size\(\))(\[[^]]*\])?$", text_of(unpacked)))
    return _parameter_is_number(source, name, at)


def _parameter_is_number(source: Source, name: str, at: cst.CSTNode) -> bool:
    function = source.nearest(at, cst.FunctionDef)
    if function is None:
        return False
    for each in source.every(cst.Param, function.params):
        if each.name.value == name:
            annotation = each.annotation and text_of(each.annotation.annotation)
            if annotation in {"int", "float"} or isinstance(literal(each.default), int | float):
                return True
            # What builds a module is its configuration.
            return function.name.value == "__init__" and annotation is None
    return False


def bound_by_unpacking(source: Source, name: str, at: cst.CSTNode) -> cst.BaseExpression | None:
    """Give the value whose parts an unpacking in the same function binds to a name."""
    scope = source.scope(at)
    for assign in source.every(cst.Assign, scope):
        for target in assign.targets:
            if isinstance(target.target, cst.Tuple | cst.List) and binds(target, name):
                bound = [each for each in stores(scope) if each.value == name]
                return assign.value if len(bound) == 1 else None
    return None
