"""Where a program says which attention implementation a model gets, and how that travels."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from infrarsi.propose.repository import Repository, Spot, passed
from infrarsi.propose.source import Source, argument, dotted, keywords, literal, method_call, walk

NAMES = frozenset({"attn_implementation", "_attn_implementation"})
_DEPTH = 5
_FIELDS = frozenset({"field", "Field", "HfArg", "Argument", "Option"})
_WITH_FALLBACK = frozenset({"get", "pop", "getattr", "getenv", "setdefault"})


def chosen_values(repository: Repository) -> list[Spot]:
    """Give every value that a model, a configuration or a setting of that name is given."""
    found = [
        Spot(source, value)
        for source in repository.sources
        for node in walk(source.module)
        for value in _values_at(node)
    ]
    named = [spot for name in sorted(NAMES) for spot in given_to_name(repository, name)]
    return [*found, *named]


def _values_at(node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """Give what a node says under one of the names: an argument, a key, an attribute."""
    match node:
        case cst.Arg(keyword=cst.Name(value=name), value=value) if name in NAMES:
            yield value
        case cst.DictElement(key=key, value=value) if literal(key) in NAMES:
            yield value
        case cst.Assign(targets=targets, value=value):
            if any(_named(each.target) for each in targets):
                yield value
        case cst.Call():
            called = method_call(node)
            first = argument(node, 0) if called else None
            if called and called[1] == "set_attn_implementation" and first is not None:
                yield first


def _named(target: cst.CSTNode) -> bool:
    """Tell whether something like ``config._attn_implementation`` or ``kwargs["..."]`` is set."""
    match target:
        case cst.Attribute(attr=cst.Name(value=name)):
            return name in NAMES
        case cst.Subscript(slice=[cst.SubscriptElement(slice=cst.Index(value=index))]):
            return literal(index) in NAMES
    return False


def words_in(repository: Repository, spot: Spot, depth: int = _DEPTH) -> list[Spot]:
    """Give the literals that a value can be, through names, branches, fields and calls."""
    source, node = spot.source, spot.node
    inner: list[Spot] = []
    match node:
        case cst.SimpleString():
            return [spot]
        case cst.IfExp(body=body, orelse=orelse):
            inner = [Spot(source, body), Spot(source, orelse)]
        case cst.BooleanOperation(left=left, right=right):
            inner = [Spot(source, left), Spot(source, right)]
        case cst.Call():
            inner = [Spot(source, each) for each in _fallback(node)]
        case cst.Name(value=name):
            inner = _of_name(repository, source, name, node)
        case cst.Attribute(attr=cst.Name(value=name)) if name not in NAMES:
            inner = given_to_name(repository, name)
    return [
        word for each in inner if depth and each.node is not node
        for word in words_in(repository, each, depth - 1)
    ]  # fmt: skip


def _fallback(call: cst.Call) -> Iterator[cst.BaseExpression]:
    """Give the default in ``field(default=...)``, ``d.get(key, default)`` and the like."""
    last = (dotted(call.func) or "").rpartition(".")[2]
    given = keywords(call)
    if last in _FIELDS:
        value = given.get("default") or (argument(call, 0) if last == "Field" else None)
        if value is not None:
            yield value
    elif last in _WITH_FALLBACK and len(call.args) > (2 if last == "getattr" else 1):
        yield call.args[-1].value


def _of_name(repository: Repository, source: Source, name: str, at: cst.CSTNode) -> list[Spot]:
    """Give what a variable is assigned, where it is used, or what a parameter is passed."""
    if at not in source.parents:
        return []
    function = source.nearest(at, cst.FunctionDef)
    for scope in (function, source.module) if function is not None else (source.module,):
        bound = [
            Spot(source, each.value)
            for each in source.every(cst.Assign, scope)
            if any(dotted(target.target) == name for target in each.targets)
        ]
        given = _given_to_parameter(repository, source, scope, name)
        if bound or given:
            return [*bound, *given]
    return []


def _given_to_parameter(
    repository: Repository, source: Source, function: cst.CSTNode, name: str
) -> list[Spot]:
    """Give a parameter's default, and what callers pass for it."""
    if not isinstance(function, cst.FunctionDef):
        return []
    params = function.params
    every = (*params.posonly_params, *params.params, *params.kwonly_params)
    own = [each for each in every if each.name.value == name]
    if not own:
        return []
    found = [Spot(source, each.default) for each in own if each.default is not None]
    owner = repository.class_around(source, function)
    called = owner.name if owner and function.name.value == "__init__" else function.name.value
    for caller in repository.sources:
        for call in caller.every(cst.Call):
            if (dotted(call.func) or "").rpartition(".")[2] == called:
                found += [Spot(caller, v) for key, v in passed(call, function) if key == name]
    return found


def given_to_name(repository: Repository, name: str) -> list[Spot]:
    """Give the values of a setting of this name: fields, defaults of functions and flags."""
    return [
        Spot(source, value)
        for source in repository.sources
        for node in walk(source.module)
        for value in _values_for(node, name)
    ]


def _values_for(node: cst.CSTNode, name: str) -> Iterator[cst.BaseExpression]:
    match node:
        case cst.AnnAssign(target=target, value=cst.BaseExpression() as value):
            if _last(target) == name:
                yield value
        case cst.Assign(targets=targets, value=value):
            if any(_last(each.target) == name for each in targets):
                yield value
        case cst.Param(name=cst.Name(value=own), default=cst.BaseExpression() as value):
            if own == name:
                yield value
        case cst.Call():
            yield from _flag_default(node, name)


def _last(target: cst.CSTNode) -> str:
    return (dotted(target) or "").rpartition(".")[2]


def _flag_default(call: cst.Call, name: str) -> Iterator[cst.BaseExpression]:
    """Give the default of ``add_argument("--name", default=...)``, where sdpa is a choice."""
    if (dotted(call.func) or "").rpartition(".")[2] != "add_argument":
        return
    given = keywords(call)
    flags = [literal(each.value) for each in call.args if each.keyword is None]
    dests = {str(flag).lstrip("-").replace("-", "_") for flag in flags} | {
        literal(given.get("dest"))
    }
    choices = literal(given.get("choices"))
    if name in dests and "default" in given and (choices is ... or "sdpa" in choices):
        yield given["default"]
