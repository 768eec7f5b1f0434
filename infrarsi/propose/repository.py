"""What the files of a repository say about each other: classes, attributes, calls.

Only codemods import this module (it loads libcst).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from infrarsi.propose.flow import binds, only_value, stores
from infrarsi.propose.source import Source, argument, dotted, literal, method_call, walk


@dataclass(frozen=True)
class Spot:
    """An expression, and the file that it stands in."""

    source: Source
    node: cst.BaseExpression


@dataclass(frozen=True)
class Class:
    """A class and its file."""

    source: Source
    node: cst.ClassDef

    @property
    def name(self) -> str:
        """The class's own name."""
        return self.node.name.value

    def method(self, name: str) -> cst.FunctionDef | None:
        """Give a method that the class itself defines."""
        for statement in self.node.body.body:
            if isinstance(statement, cst.FunctionDef) and statement.name.value == name:
                return statement
        return None

    @property
    def bases(self) -> tuple[str, ...]:
        """Full dotted names of the bases."""
        return tuple(self.source.qualified(each.value) or "?" for each in self.node.bases)

    def attribute(self, name: str) -> list[cst.BaseExpression]:
        """Give every value that the class gives to ``self.name``, buffers included."""
        found = []
        for node in walk(self.node):
            match node:
                case cst.AssignTarget(target=target) if dotted(target) == f"self.{name}":
                    assign = self.source.parents[node]
                    assert isinstance(assign, cst.Assign)
                    found.append(assign.value)
                case cst.AssignTarget(target=cst.Tuple() as targets):
                    assign = self.source.parents[node]
                    assert isinstance(assign, cst.Assign)
                    found += _unpacked(targets, assign.value, f"self.{name}")
                case cst.AnnAssign(target=target, value=value) if (
                    dotted(target) == f"self.{name}" and value is not None
                ):
                    found.append(value)
                case cst.AugAssign(target=target, value=value) if dotted(target) == f"self.{name}":
                    found.append(cst.Name("unknown"))
                case cst.Call(func=func) if dotted(func) == "self.register_buffer":
                    value = argument(node, 1, "tensor")
                    if literal(argument(node, 0, "name")) == name and value is not None:
                        found.append(value)
        return found


def _unpacked(targets: cst.Tuple, value: cst.BaseExpression, name: str) -> list[cst.BaseExpression]:
    """Give what unpacking gives to a name; where that cannot be seen, something unknown."""
    for position, each in enumerate(targets.elements):
        if dotted(each.value) == name:
            if isinstance(value, cst.Tuple) and len(value.elements) == len(targets.elements):
                return [value.elements[position].value]
            return [cst.Name("unknown")]
    return []


class Repository:
    """All files that a codemod sees."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self.sources = tuple(sources)
        self._held: dict[str, set[str]] = {}
        self.classes: dict[str, list[Class]] = {}
        self.functions: dict[str, list[tuple[Source, cst.FunctionDef]]] = {}
        for source in self.sources:
            for each in source.every(cst.ClassDef):
                self.classes.setdefault(each.name.value, []).append(Class(source, each))
            for function in source.every(cst.FunctionDef):
                name = function.name.value
                self.functions.setdefault(name, []).append((source, function))

    def class_named(self, name: str) -> Class | None:
        """Give the class of a name, where just one file defines it."""
        found = self.classes.get(name.rpartition(".")[2], [])
        return found[0] if len(found) == 1 else None

    def is_module(self, each: Class, depth: int = 5) -> bool:
        """Tell whether a class is a ``torch.nn.Module``, through bases in these files."""
        for base in each.bases:
            last = base.rpartition(".")[2]
            if base.startswith("torch.nn.") or last in {"Module", "LightningModule"}:
                return True
            parent = self.class_named(last)
            if depth and parent and parent is not each and self.is_module(parent, depth - 1):
                return True
        return False

    def class_around(self, source: Source, node: cst.CSTNode) -> Class | None:
        """Give the class that a node stands in."""
        around = source.nearest(node, cst.ClassDef)
        return Class(source, around) if around else None

    def attribute(self, owner: Class, name: str, depth: int = 5) -> list[Spot]:
        """Give every value that a class, or a base of it in these files, gives to an attribute."""
        found = [Spot(owner.source, value) for value in owner.attribute(name)]
        for base in owner.bases if depth else ():
            parent = self.class_named(base)
            if parent and parent.node is not owner.node:
                found += self.attribute(parent, name, depth - 1)
        return found

    def values(self, source: Source, node: cst.BaseExpression) -> list[Spot]:
        """Give all that a name or ``self.x`` can be, where assignments in plain sight say so."""
        name = dotted(node)
        if name is None:
            return []
        if name.startswith("self."):
            owner = self.class_around(source, node) if node in source.parents else None
            attribute = name.removeprefix("self.")
            return self.attribute(owner, attribute) if owner and "." not in attribute else []
        if "." in name or node not in source.parents:
            return []
        found = only_value(source, name, node)
        return [Spot(source, found[0])] if found else []

    def module_kind(self, source: Source, node: cst.BaseExpression) -> tuple[str, Spot] | None:
        """Give the full class name, and the construction, of what ``self.x`` or ``x`` holds."""
        spots = self.values(source, node)
        kinds = set()
        for spot in spots:
            if not isinstance(spot.node, cst.Call):
                return None
            kinds.add(spot.source.qualified(spot.node.func))
        kind = kinds.pop() if len(kinds) == 1 else None
        return (kind, spots[0]) if kind else None

    def holders(self, name: str) -> set[str]:
        """Give the names that may hold an instance of a class, or something that wraps one.

        Names count in any scope, attributes by their last part: more than the truth, never
        less, as long as instances travel by assignment, argument and loop.
        """
        if name not in self._held:
            self._held[name] = self._spread(name)
        return set(self._held[name])

    def _spread(self, name: str) -> set[str]:
        held: set[str] = set()
        left = list(self._flows)
        while True:
            before = len(held)
            rest = []
            for target, value in left:
                if _mentions(value, name, held):
                    held |= target
                elif not target <= held:
                    rest.append((target, value))
            left = rest
            if len(held) == before:
                return held

    @cached_property
    def _flows(self) -> list[tuple[set[str], cst.CSTNode]]:
        return [flow for source in self.sources for flow in _flows(self, source)]

    def calls_of(self, name: str) -> list[tuple[Source, cst.Call]]:
        """Give the calls whose callee may be an instance of a class."""
        held = self.holders(name)
        return [
            (source, call)
            for source in self.sources
            for call in source.every(cst.Call)
            if (callee := dotted(call.func) or _indexed(call.func))
            and callee.rpartition(".")[2] in held
        ]


def _indexed(node: cst.CSTNode) -> str | None:
    return dotted(node.value) if isinstance(node, cst.Subscript) else None


def _flows(repository: Repository, source: Source) -> Iterator[tuple[set[str], cst.CSTNode]]:
    """Give the names that take a value, and that value, of everything that assigns one."""
    for node in walk(source.module):
        match node:
            case cst.Assign(targets=targets, value=value):
                yield {name for each in targets for name in _target_names(each.target)}, value
            case cst.AnnAssign(target=target, value=value) if value is not None:
                yield _target_names(target), value
            case cst.For(target=target, iter=value) | cst.CompFor(target=target, iter=value):
                yield _loop_names(target, value), value
            case cst.Return(value=value) if value is not None:
                function = source.nearest(node, cst.FunctionDef)
                if function is not None:
                    yield {_GIVEN + function.name.value}, value
            case cst.NamedExpr(target=target, value=value):
                yield _target_names(target), value
            case cst.Call():
                yield from _parameters(repository, node)


def _target_names(node: cst.CSTNode) -> set[str]:
    name = dotted(node)
    if name:
        return {name.rpartition(".")[2]}
    if isinstance(node, cst.Subscript):
        return _target_names(node.value)
    return {each.value for each in stores(cst.AssignTarget(node))}  # type: ignore[arg-type]


def _loop_names(target: cst.CSTNode, value: cst.CSTNode) -> set[str]:
    match target, value:
        case cst.Tuple(elements=[_, second]), cst.Call(func=cst.Name(value="enumerate")):
            return _target_names(second.value)
    return _target_names(target)


_GIVEN = "-> "
"""Marks what a function returns, among the names that hold an instance."""


def _parameters(repository: Repository, call: cst.Call) -> Iterator[tuple[set[str], cst.CSTNode]]:
    """Match a call's arguments with the parameters of the functions of that name."""
    callee = (dotted(call.func) or "").rpartition(".")[2]
    functions = [function for _, function in repository.functions.get(callee, [])]
    functions += [
        method
        for each in repository.classes.get(callee, [])
        if (method := each.method("__init__")) is not None
    ]
    for function in functions:
        for parameter, value in passed(call, function):
            yield {parameter}, value


def passed(call: cst.Call, function: cst.FunctionDef) -> list[tuple[str, cst.BaseExpression]]:
    """Give what a call passes for each parameter of a function, ``self`` left out."""
    names = [each.name.value for each in (*function.params.posonly_params, *function.params.params)]
    if names[:1] in (["self"], ["cls"]):
        names = names[1:]
    named = {*names, *(each.name.value for each in function.params.kwonly_params)}
    plain = [each.value for each in call.args if each.keyword is None and not each.star]
    found = list(zip(names, plain, strict=False))
    found += [
        (each.keyword.value, each.value)
        for each in call.args
        if each.keyword is not None and each.keyword.value in named
    ]
    return found


def _mentions(value: cst.CSTNode, name: str, held: set[str]) -> bool:
    """Tell whether a value is, wraps or holds an instance of the class."""
    match value:
        case cst.Call():
            return _call_mentions(value, name, held)
        case cst.Name() | cst.Attribute():
            parts = (dotted(value) or "").split(".")
            return parts[-1] in held or (parts[-1] in {"module", "_orig_mod"} and len(parts) > 1)
        case cst.Subscript(value=inner):
            return _mentions(inner, name, held)
        case cst.Lambda(body=body):
            return _mentions(body, name, held)
        case cst.List() | cst.Tuple() | cst.ListComp() | cst.GeneratorExp() | cst.IfExp():
            return any(
                _mentions(each, name, held)
                for each in walk(value)
                if each is not value and isinstance(each, cst.Call | cst.Name | cst.Attribute)
            )
    return False


def _call_mentions(call: cst.Call, name: str, held: set[str]) -> bool:
    callee = dotted(call.func) or ""
    last = callee.rpartition(".")[2]
    if name in callee.split(".") or _GIVEN + last in held:
        return True
    if last in {"isinstance", "len", "sum", "print", "getattr"} or last in held:
        return False  # a call of an instance gives its output, not the instance
    found = method_call(call)
    if found and _mentions(found[0], name, held):
        return found[1] in _GIVES_ITSELF
    return any(_mentions(each.value, name, held) for each in call.args)


_GIVES_ITSELF = frozenset(
    {"to", "cuda", "cpu", "train", "eval", "float", "double", "half", "bfloat16", "requires_grad_",
     "apply", "values", "items", "children", "named_children", "modules", "unwrap", "compile"}
)  # fmt: skip


def is_parameter(source: Source, name: str, at: cst.CSTNode) -> bool:
    """Tell whether a name is a parameter of the function around, and nothing rebinds it."""
    function = source.nearest(at, cst.FunctionDef)
    if function is None or binds(function.body, name):
        return False
    return binds(function.params, name)
