"""Tensors that every forward pass builds anew of nothing but sizes: build them once.

Only codemods import this module (it loads libcst).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import libcst as cst

from infrarsi.propose.constants import changes_in_place, is_constant_buffer, is_plain
from infrarsi.propose.flow import binds, definition, only_value, reads
from infrarsi.propose.recipe import DoesNotApply
from infrarsi.propose.repository import Class, Repository
from infrarsi.propose.rewrite import Rewrite
from infrarsi.propose.source import (
    Source,
    argument,
    children_of,
    dotted,
    literal,
    method_call,
    read_sources,
    sole,
    text_of,
    walk,
)

_MAKES = frozenset(
    {"arange", "ones", "zeros", "full", "tril", "triu", "linspace", "eye", "tril_indices"}
)
_SHAPES = frozenset(
    {"outer", "cos", "sin", "exp", "log", "pow", "sqrt", "cat", "stack", "where", "polar", "einsum",
     "repeat_interleave", "logical_not", "ones_like", "zeros_like", "full_like", "concat", "ger",
     "view_as_complex", "reciprocal", "flip", "meshgrid", "abs", "clamp", "minimum", "maximum"}
)  # fmt: skip
_TAKES_NUMBERS = frozenset(
    {"pow", "where", "full_like", "clamp", "repeat_interleave", "log", "sqrt"}
)
_METHODS = frozenset(
    {"view", "reshape", "unsqueeze", "squeeze", "expand", "to", "float", "bool", "type", "long",
     "int", "half", "bfloat16", "double", "repeat", "repeat_interleave", "tril", "triu", "cos",
     "sin", "exp", "flatten", "transpose", "permute", "t", "masked_fill", "logical_not",
     "contiguous", "chunk", "pow", "log", "neg", "abs", "clamp", "eq", "ne", "lt", "gt", "le", "ge"}
)  # fmt: skip
_MASKS = re.compile(
    r"\btril\b|\btriu\b|masked_fill|logical_not|[<>]|[=!]=|~|\b(eq|ne|lt|gt|le|ge)\("
)
_INITS = re.compile(r"^__init__$|^_?(init|reset|build|setup|register)")

_HOLDERS = (
    cst.BaseExpression, cst.BaseSlice, cst.SubscriptElement, cst.Element, cst.ComparisonTarget
)  # fmt: skip

_HELPER = '''
_TABLES = {{}}


def built_once(key, build, *kept):
    """Give what ``build`` makes, made once for each key; ``kept`` stays alive as long as that."""
    key = (*key, {torch}.is_inference_mode_enabled())
    if key not in _TABLES:
        if len(_TABLES) >= 64:
            _TABLES.clear()
        _TABLES[key] = (build(), kept)
    return _TABLES[key][0]
'''


@dataclass(frozen=True)
class _Table:
    """A statement that builds a table, and what the table depends on."""

    statement: cst.CSTNode
    name: str
    value: cst.BaseExpression
    scalars: tuple[str, ...]
    buffers: tuple[str, ...]
    is_mask: bool


def build_once(sources: Mapping[str, str], *, masks: bool) -> dict[str, str]:
    """Put a cache around every mask, or every other table, that a forward pass builds.

    Raises
    ------
    DoesNotApply
        There is none.
    """
    read = read_sources(sources)
    repository = Repository(read)
    changed = {}
    for source in read:
        rewrite, found = Rewrite(source), 0
        for function in _forward_functions(repository, source):
            tables = _Reader(repository, source, function).tables()
            for number, table in enumerate(tables):
                if table.is_mask is masks:
                    _cache(rewrite, function, table, number)
                    found += 1
        if found:
            changed[source.path] = rewrite.text()
    if not changed:
        kind = "mask" if masks else "table of positions"
        raise DoesNotApply(f"no forward pass builds a {kind} of sizes and constants alone")
    return changed


@lru_cache(maxsize=64)
def _forward_methods(repository: Repository) -> tuple[frozenset[cst.FunctionDef], frozenset[str]]:
    """Give the methods that a forward pass may run, and the names of what they call."""
    methods: set[cst.FunctionDef] = set()
    called: set[str] = set()
    for source in repository.sources:
        for node in source.every(cst.ClassDef):
            if not repository.is_module(Class(source, node)):
                continue
            for statement in node.body.body:
                if isinstance(statement, cst.FunctionDef) and not _INITS.search(
                    statement.name.value
                ):
                    methods.add(statement)
                    called |= {
                        name
                        for call in source.every(cst.Call, statement)
                        if (name := dotted(call.func))
                    }
    return frozenset(methods), frozenset(called)


def _forward_functions(repository: Repository, source: Source) -> list[cst.FunctionDef]:
    """Give the functions of a file that a forward pass may run: methods, and what they call."""
    methods, called = _forward_methods(repository)
    return [
        function for function in source.every(cst.FunctionDef)
        if function in methods
        or (function.name.value in called and source.nearest(function, cst.ClassDef) is None)
    ]  # fmt: skip


def _cache(rewrite: Rewrite, function: cst.FunctionDef, table: _Table, number: int) -> None:
    source = rewrite.source
    torch_name = rewrite.name_for("torch.is_inference_mode_enabled").removesuffix(
        ".is_inference_mode_enabled"
    )
    owner = source.nearest(function, cst.ClassDef)
    place = ".".join(
        filter(None, [owner.name.value if owner else None, function.name.value, table.name])
    )
    key = [f'"{place} {number}"', *table.scalars]
    for buffer in table.buffers:
        key += [f"id({buffer})", f"{buffer}._version"]
    kept = "".join(f", {buffer}" for buffer in table.buffers)
    code = source.code(table.value)
    text = f"built_once(({', '.join(key)},), lambda: {code}{kept})"
    if len(text) + len(table.name) > 80:
        kept = "".join(f"\n    {buffer}," for buffer in table.buffers)
        text = f"built_once(\n    ({', '.join(key)},),\n    lambda: {code},{kept}\n)"
    rewrite.define(function, _HELPER.format(torch=torch_name))
    rewrite.replace(table.value, text)


class _Reader:
    """Finds the tables of one function."""

    def __init__(self, repository: Repository, source: Source, function: cst.FunctionDef) -> None:
        self.repository, self.source, self.function = repository, source, function
        self.known: dict[cst.CSTNode, _Table] = {}

    def tables(self) -> list[_Table]:
        """Give the statements that build tables, in order."""
        for statement in self.source.every(cst.SimpleStatementLine, self.function):
            match sole(statement):
                case cst.Assign(
                    targets=[cst.AssignTarget(target=cst.Name(value=name))], value=value
                ) if self.source.scope(statement) is self.function:
                    table = self._table(statement, name, value)
                    if table is not None:
                        self.known[statement] = table
        return [self._with_use(table) for table in self.known.values()]

    def _table(self, statement: cst.CSTNode, name: str, value: cst.BaseExpression) -> _Table | None:
        scalars: dict[str, None] = {}
        buffers: dict[str, None] = {}
        state = _Leaves(scalars, buffers)
        if not self._reads_leaves(value, statement, state) or not state.makes:
            return None
        if changes_in_place(self.function, name):
            return None
        if not any(isinstance(node, cst.Call) for node in walk(value)) and not state.inputs:
            return None
        text = " ".join([text_of(value), *(text_of(each.value) for each in state.inputs)])
        return _Table(
            statement, name, value, tuple(scalars), tuple(buffers), bool(_MASKS.search(text))
        )

    def _with_use(self, table: _Table) -> _Table:
        """Count a table among the masks where only masks are made of it."""
        users = [
            other for other in self.known.values()
            if any(use in set(walk(other.value)) for use in reads(self.function, table.name))
        ]  # fmt: skip
        uses = [use for use in reads(self.function, table.name)]
        within = {node for other in users for node in walk(other.value)}
        feeds_masks = bool(users) and all(use in within for use in uses) and all(
            other.is_mask for other in users
        )  # fmt: skip
        return _Table(
            table.statement, table.name, table.value, table.scalars, table.buffers,
            table.is_mask or feeds_masks,
        )  # fmt: skip

    def _reads_leaves(self, node: cst.CSTNode, at: cst.CSTNode, state: _Leaves) -> bool:
        """Tell whether an expression is made of sizes and constants; note which."""
        if literal(node) is not ...:
            return True
        if isinstance(node, cst.Attribute) and self._attribute(node, at, state):
            return True
        if self._is_scalar(node, at):
            state.scalars[self.source.code(node)] = None
            return True
        match node:
            case cst.Call():
                return self._call(node, at, state)
            case cst.Name():
                return self._name(node, at, state)
            case cst.Attribute(attr=cst.Name(value="T" | "mT"), value=value):
                return self._reads_leaves(value, at, state)
            case (
                cst.Attribute()
                | cst.Lambda()
                | cst.ListComp()
                | cst.GeneratorExp()
                | cst.IfExp()
                | cst.Await()
            ):
                return False
            case cst.Subscript(value=value) if self._is_scalar(value, at):
                return False  # what can be indexed is no number, whatever its name
        children = [
            each for each in children_of(node)
            if isinstance(each, _HOLDERS)
        ]  # fmt: skip
        return all(self._reads_leaves(each, at, state) for each in children)

    def _call(self, call: cst.Call, at: cst.CSTNode, state: _Leaves) -> bool:
        full = self.source.qualified(call.func) or ""
        arguments = [each.value for each in call.args if not each.star]
        if len(arguments) != len(call.args):
            return False
        if full.startswith(("math.", "float", "int", "max", "min", "len")):
            return all(self._reads_leaves(each, at, state) for each in arguments)
        if full.startswith("torch.") and full.count(".") == 1:
            name = full.removeprefix("torch.")
            if name not in _MAKES | _SHAPES:
                return False
            requires = argument(call, None, "requires_grad")
            state.makes |= name in _MAKES
            if name in _SHAPES - _TAKES_NUMBERS and any(self._is_scalar(e, at) for e in arguments):
                return False
            return requires is None and all(
                self._reads_leaves(each, at, state) for each in arguments
            )
        found = method_call(call)
        if found is None or found[1] not in _METHODS or self._is_scalar(found[0], at):
            return False
        return all(self._reads_leaves(each, at, state) for each in (found[0], *arguments))

    def _name(self, node: cst.Name, at: cst.CSTNode, state: _Leaves) -> bool:
        above = definition(self.source, node.value, at)
        table = self.known.get(above.statement) if above is not None else None
        if table is None:
            return False
        state.scalars |= dict.fromkeys(table.scalars)
        state.buffers |= dict.fromkeys(table.buffers)
        state.inputs.append(table)
        state.makes = True
        return True

    def _attribute(self, node: cst.Attribute, at: cst.CSTNode, state: _Leaves) -> bool:
        full = self.source.qualified(node) or ""
        if full.startswith("torch.") and full.count(".") == 1:
            return True  # a dtype
        name = dotted(node) or ""
        owner = self.repository.class_around(self.source, at)
        if owner is None or not name.startswith("self.") or name.count(".") != 1:
            return False
        if not is_constant_buffer(owner, name.removeprefix("self.")):
            return False
        state.buffers[name] = None
        state.makes = True
        return True

    def _is_scalar(self, node: cst.CSTNode, at: cst.CSTNode, depth: int = 6) -> bool:
        """Tell whether an expression is a size, a device or a dtype for certain."""
        if depth == 0:
            return False
        match node:
            case cst.Attribute(attr=cst.Name(value="device" | "dtype")):
                return dotted(node) is not None
            case cst.Subscript(value=cst.Attribute(attr=cst.Name(value="shape"), value=value)):
                return dotted(value) is not None
            case cst.Call(func=cst.Attribute(attr=cst.Name(value="size"), value=value), args=[_]):
                return dotted(value) is not None
            case cst.Name(value=name):
                return self._is_scalar_name(name, at, depth)
            case cst.Attribute():
                return self._is_setting(node, at)
        return False

    def _is_scalar_name(self, name: str, at: cst.CSTNode, depth: int) -> bool:
        single = only_value(self.source, name, at)
        if single is not None:
            value, statement = single
            if isinstance(literal(value), int | float):
                return True
            if isinstance(value, cst.BinaryOperation):
                return all(
                    isinstance(literal(each), int | float)
                    or self._is_scalar(each, statement, depth - 1)
                    for each in (value.left, value.right)
                )
            return self._is_scalar(value, statement, depth - 1)
        for assign in self.source.every(cst.Assign, self.function):
            for target in assign.targets:
                if isinstance(target.target, cst.Tuple) and binds(target, name):
                    return bool(
                        re.search(r"\.(shape|size\(\))(\[[^]]*\])?$", text_of(assign.value))
                    )
        if binds(self.function.body, name):
            return False
        for each in self.source.every(cst.Param, self.function.params):
            if each.name.value == name:
                annotation = each.annotation and text_of(each.annotation.annotation)
                return name in {"device", "dtype"} or annotation in {
                    "int",
                    "torch.device",
                    "torch.dtype",
                }
        return False

    def _is_setting(self, node: cst.Attribute, at: cst.CSTNode) -> bool:
        """Tell whether ``self.x`` is a number that the constructor takes from its settings."""
        name = dotted(node) or ""
        owner = self.repository.class_around(self.source, at)
        if owner is None or not name.startswith("self."):
            return False
        parts = name.split(".")
        if len(parts) == 3:
            return parts[1] in {"config", "cfg", "args", "hparams", "params"}
        values = owner.attribute(parts[1]) if len(parts) == 2 else []
        return bool(values) and all(is_plain(owner, value) for value in values)


@dataclass
class _Leaves:
    """What an expression was found to be made of."""

    scalars: dict[str, None]
    buffers: dict[str, None]
    makes: bool = False

    def __post_init__(self) -> None:
        self.inputs: list[_Table] = []
