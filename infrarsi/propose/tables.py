"""Tensors that every forward pass builds anew of nothing but sizes: build them once.

Only codemods import this module (it loads libcst).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

import libcst as cst

from infrarsi.propose.constants import changes_in_place
from infrarsi.propose.flow import reads
from infrarsi.propose.leaves import LeafReader, Leaves, Table
from infrarsi.propose.recipe import DoesNotApply
from infrarsi.propose.repository import Class, Repository, passed
from infrarsi.propose.rewrite import Rewrite
from infrarsi.propose.sizes import calls_of_function
from infrarsi.propose.source import (
    Source,
    children_of,
    dotted,
    method_call,
    read_sources,
    sole,
    text_of,
    walk,
)

_MASKS = re.compile(
    r"\btril\b|\btriu\b|masked_fill|logical_not|[<>]|[=!]=|~|\b(eq|ne|lt|gt|le|ge)\("
)
_INITS = re.compile(r"^__init__$|^_?(init|reset|build|setup|register)")
_BLANK = frozenset({"zeros", "zeros_like", "new_zeros", "empty", "empty_like", "new_empty"})
_STEPS = (
    cst.Arg, cst.Element, cst.BinaryOperation, cst.UnaryOperation, cst.Comparison,
    cst.ComparisonTarget, cst.Tuple, cst.Subscript, cst.SubscriptElement, cst.Index,
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


def build_once(sources: Mapping[str, str], *, masks: bool) -> dict[str, str]:
    """Put a cache around every mask, or every other table, that a forward pass builds.

    Raises
    ------
    DoesNotApply
        There is none.
    """
    read = read_sources(sources)
    repository = Repository(read)
    found, inside = _all_tables(repository)
    changed = {}
    for source in read:
        rewrite, count = Rewrite(source), 0
        for function, tables in found.get(source.path, {}).items():
            if function in inside:
                continue
            for number, table in enumerate(tables):
                if table.is_mask is masks:
                    _cache(rewrite, function, table, number)
                    count += 1
        if count:
            changed[source.path] = rewrite.text()
    if not changed:
        kind = "mask" if masks else "table of positions"
        raise DoesNotApply(f"no forward pass builds a {kind} of sizes and constants alone")
    return changed


_Found = dict[str, dict[cst.FunctionDef, list[Table]]]


@lru_cache(maxsize=8)
def _all_tables(repository: Repository) -> tuple[_Found, frozenset[cst.FunctionDef]]:
    """Give the tables of every forward function, and functions that only cached calls run."""
    found: _Found = {}
    whole: set[cst.FunctionDef] = set()
    cached: set[cst.CSTNode] = set()
    for source in repository.sources:
        for function in _forward_functions(repository, source):
            finder = _Finder(repository, source, function)
            found.setdefault(source.path, {})[function] = finder.tables()
            whole |= finder.whole
            cached |= {node for table in finder.tables() for node in walk(table.value)}
    return found, frozenset(
        function for function in whole if _runs_only_in(repository, function, cached | whole)
    )


def _runs_only_in(
    repository: Repository, function: cst.FunctionDef, cached: set[cst.CSTNode]
) -> bool:
    """Tell whether all calls of a function stand in what is cached, or in a function that is."""
    return all(
        call in cached or source.nearest(call, cst.FunctionDef) in cached
        for source in repository.sources
        for call in source.every(cst.Call)
        if (dotted(call.func) or "").rpartition(".")[2] == function.name.value
    )


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


def _cache(rewrite: Rewrite, function: cst.FunctionDef, table: Table, number: int) -> None:
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
    if isinstance(table.value, cst.Tuple) and not table.value.lpar:
        code = f"({code})"
    text = f"built_once(({', '.join(key)},), lambda: {code}{kept})"
    if len(text) + len(table.name) > 80:
        kept = "".join(f"\n    {buffer}," for buffer in table.buffers)
        text = f"built_once(\n    ({', '.join(key)},),\n    lambda: {code},{kept}\n)"
    rewrite.define(function, _HELPER.format(torch=torch_name))
    rewrite.replace(table.value, text)


class _Finder:
    """Finds the tables of one function."""

    def __init__(self, repository: Repository, source: Source, function: cst.FunctionDef) -> None:
        self.repository, self.source, self.function = repository, source, function
        self.reader = LeafReader(repository, source, function)
        self.whole: set[cst.FunctionDef] = set()
        """Functions of which whole calls are cached."""
        self._found: list[Table] | None = None

    def tables(self) -> list[Table]:
        """Give the expressions that build tables, in order."""
        if self._found is None:
            found: list[Table] = []
            for statement in self.source.every(cst.SimpleStatementLine, self.function):
                if self.source.scope(statement) is self.function:
                    found += self._in_statement(statement)
            self._found = [self._with_use(table) for table in found]
        return self._found

    def _in_statement(self, statement: cst.SimpleStatementLine) -> list[Table]:
        match sole(statement):
            case cst.Assign(targets=[cst.AssignTarget(target=target)], value=value):
                names = _names(target)
                table = self._table(statement, ", ".join(names), value) if names else None
                if table is not None:
                    if any(self._may_change(name) for name in names):
                        return []
                    if isinstance(target, cst.Name):
                        self.reader.known[statement] = table
                    return [table]
                return self._inline(statement, value)
            case cst.AugAssign(value=value) | cst.Return(value=value) if value is not None:
                return self._inline(statement, value)
        return []

    def _table(self, statement: cst.CSTNode, name: str, value: cst.BaseExpression) -> Table | None:
        state = Leaves({}, {})
        if not self.reader.reads(value, statement, state) or not state.makes:
            return None
        if not any(isinstance(node, cst.Call) for node in walk(value)) and not state.inputs:
            return None
        self.whole |= set(state.called)
        text = " ".join([
            text_of(value), *(text_of(each.value) for each in state.inputs),
            *(self._body(each) for each in state.called),
        ])  # fmt: skip
        return Table(
            statement, name, value, tuple(state.scalars), tuple(state.buffers),
            bool(_MASKS.search(text)),
        )  # fmt: skip

    def _body(self, function: cst.FunctionDef) -> str:
        values = [
            node.value for node in walk(function.body) if isinstance(node, cst.Assign | cst.Return)
        ]
        return " ".join(text_of(value) for value in values if value is not None)

    def _inline(self, statement: cst.CSTNode, value: cst.BaseExpression) -> list[Table]:
        """Give the largest tables within an expression that is none itself."""
        found: list[Table] = []
        pending: list[cst.CSTNode] = [value]
        while pending:
            node = pending.pop()
            if isinstance(node, cst.Lambda | cst.ListComp | cst.GeneratorExp):
                continue
            if (
                isinstance(node, cst.BaseExpression)
                and any(isinstance(each, cst.Call) for each in walk(node))
                and not _is_blank(node)
                and self._is_only_read(node, statement)
            ):
                table = self._table(statement, "", node)
                if table is not None:
                    found.append(table)
                    continue
            pending.extend(reversed(children_of(node)))
        return found

    def _is_only_read(self, node: cst.CSTNode, statement: cst.CSTNode) -> bool:
        """Tell whether what takes a table cannot change it: arithmetic, torch, and returns."""
        for around in self.source.ancestors(node):
            match around:
                case cst.Call() if not self._only_reads(around, node):
                    return False
                case cst.Call() | cst.BinaryOperation() | cst.Comparison() | cst.UnaryOperation():
                    return True  # what comes of these is another tensor
                case cst.Attribute():
                    call = self.source.parents[around]
                    return isinstance(call, cst.Call) and not around.attr.value.endswith("_")
                case cst.Assign(targets=[cst.AssignTarget(target=target)]):
                    return not any(self._may_change(name) for name in _names(target))
                case cst.AugAssign():
                    return True
                case cst.Return():
                    return not self._callers_change()
            if not isinstance(around, _STEPS):
                return False
        return False

    def _only_reads(self, call: cst.Call, node: cst.CSTNode) -> bool:
        full = self.source.qualified(call.func) or ""
        found = method_call(call)
        if any(each.keyword is not None and each.keyword.value == "out" for each in call.args):
            return False
        if full.startswith("torch."):
            return not full.endswith("_")
        last = (dotted(call.func) or "").rpartition(".")[2]
        if last in self.repository.functions and not (found and last in {"masked_fill", "where"}):
            return not self._changes_argument(call, node)
        return found is not None and not found[1].endswith("_") and not full.startswith("self.")

    def _changes_argument(self, call: cst.Call, node: cst.CSTNode) -> bool:
        """Tell whether a function of the repository may change what it is given here."""
        name = (dotted(call.func) or "").rpartition(".")[2]
        for _, function in self.repository.functions.get(name, []):
            for parameter, value in passed(call, function):
                if value is node and changes_in_place(function, parameter):
                    return True
        return False

    def _may_change(self, name: str) -> bool:
        """Tell whether a table may be changed: here, where it is handed to, or by a caller."""
        if changes_in_place(self.function, name):
            return True
        for call in self.source.every(cst.Call, self.function):
            for each in call.args:
                if dotted(each.value) == name and self._changes_argument(call, each.value):
                    return True
        for given in self.source.every(cst.Return, self.function):
            values = given.value.elements if isinstance(given.value, cst.Tuple) else [given]
            if any(dotted(value.value) == name for value in values):
                return self._callers_change()
        return False

    def _callers_change(self) -> bool:
        """Tell whether a caller changes what the function returns."""
        for source, call in calls_of_function(self.repository, self.source, self.function):
            assign = source.parents[call]
            scope = source.scope(call)
            match assign:
                case cst.Assign(targets=[cst.AssignTarget(target=target)]):
                    if any(changes_in_place(scope, name) for name in _names(target)):
                        return True
                case cst.Attribute(attr=cst.Name(value=method)) if method.endswith("_"):
                    return True
        return False

    def _with_use(self, table: Table) -> Table:
        """Count a table among the masks where only masks are made of it."""
        if not table.name or "," in table.name:
            return table
        users = [
            other for other in self.reader.known.values()
            if any(use in set(walk(other.value)) for use in reads(self.function, table.name))
        ]  # fmt: skip
        uses = [use for use in reads(self.function, table.name)]
        within = {node for other in users for node in walk(other.value)}
        feeds_masks = bool(users) and all(use in within for use in uses) and all(
            other.is_mask for other in users
        )  # fmt: skip
        return Table(
            table.statement, table.name, table.value, table.scalars, table.buffers,
            table.is_mask or feeds_masks,
        )  # fmt: skip


def _names(target: cst.CSTNode) -> list[str]:
    """Give the names that a target binds, where it binds nothing else."""
    match target:
        case cst.Name(value=name):
            return [name]
        case cst.Tuple(elements=elements) if all(
            isinstance(each, cst.Element) and isinstance(each.value, cst.Name) for each in elements
        ):
            return [dotted(each.value) or "" for each in elements]
    return []


def _is_blank(node: cst.CSTNode) -> bool:
    """Tell whether an expression is a tensor that is made to be filled."""
    match node:
        case cst.Call(func=cst.Attribute(attr=cst.Name(value=name))):
            return name in _BLANK
    return False
