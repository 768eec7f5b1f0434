"""One parsed Python file, and a rewriting of it that keeps everything else as it stands.

Only codemods import this module (it loads libcst), so the command line stays quick.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache, lru_cache
from typing import Any, TypeAlias, TypeVar

import libcst as cst

from infrarsi.propose.recipe import DoesNotApply

Statement: TypeAlias = cst.SimpleStatementLine | cst.BaseCompoundStatement
NodeT = TypeVar("NodeT", bound=cst.CSTNode)


class Source:
    """A parsed file: its tree, each node's parent and place, and what its imports mean."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text
        self.module = cst.parse_module(text)
        self.parents: dict[cst.CSTNode, cst.CSTNode] = {}
        self.order: dict[cst.CSTNode, int] = {}
        self._index(self.module)
        self.imports = _imports(self.module, path)

    def _index(self, node: cst.CSTNode) -> None:
        pending = [node]
        while pending:
            current = pending.pop()
            self.order[current] = len(self.order)
            children = children_of(current)
            for child in children:
                self.parents[child] = current
            pending.extend(reversed(children))

    def code(self, node: cst.CSTNode) -> str:
        """Give a node's own text, without the lines above a statement."""
        if isinstance(node, cst.SimpleStatementLine | cst.BaseCompoundStatement):
            node = node.with_changes(leading_lines=())
        return self.module.code_for_node(node).strip()

    def line(self, node: cst.CSTNode) -> int:
        """Give the line number of a node, counting from 1."""
        from libcst.metadata import MetadataWrapper, PositionProvider

        wrapper = MetadataWrapper(self.module, unsafe_skip_copy=True)
        return wrapper.resolve(PositionProvider)[node].start.line

    def ancestors(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """Give the nodes around a node, innermost first."""
        while node in self.parents:
            node = self.parents[node]
            yield node

    def nearest(self, node: cst.CSTNode, kind: type[NodeT]) -> NodeT | None:
        """Give the innermost node of a kind around a node."""
        return next((each for each in self.ancestors(node) if isinstance(each, kind)), None)

    def scope(self, node: cst.CSTNode) -> cst.FunctionDef | cst.Module:
        """Give the function that a node runs in, or the module."""
        return self.nearest(node, cst.FunctionDef) or self.module

    def statement(self, node: cst.CSTNode) -> Statement:
        """Give the innermost statement that holds a node, or is it."""
        for each in (node, *self.ancestors(node)):
            if isinstance(each, cst.SimpleStatementLine | cst.BaseCompoundStatement):
                return each
        raise ValueError("the node stands in no statement")

    def block(self, statement: cst.CSTNode) -> Sequence[Any]:
        """Give the list of statements that a statement stands in."""
        return getattr(self.parents[statement], "body", ())

    def every(self, kind: type[NodeT], within: cst.CSTNode | None = None) -> list[NodeT]:
        """Give all nodes of a kind, in the order of the text."""
        return [node for node in walk(within or self.module) if isinstance(node, kind)]

    def qualified(self, node: cst.CSTNode | None) -> str | None:
        """Give the full dotted name that an expression means by this file's imports."""
        name = dotted(node)
        if name is None:
            return None
        first, _, rest = name.partition(".")
        meant = self.imports.get(first, first)
        return f"{meant}.{rest}" if rest else meant


_LAYOUT = re.compile(r"whitespace|_lines$|^lines_|^[lr](par|bracket|brace)$")
_MARKS = frozenset({"comma", "semicolon", "equal", "header", "footer", "colon", "dot", "first_colon"})


@cache
def _parts(kind: type[cst.CSTNode]) -> tuple[str, ...]:
    """Name the fields of a kind of node that hold code and not its layout, in their order."""
    names = [each.name for each in fields(kind)]
    names = [name for name in names if not _LAYOUT.search(name) and name not in _MARKS]
    # Of these two, libcst declares the body before what stands above it.
    return tuple(sorted(names, key="body".__eq__)) if kind in (cst.FunctionDef, cst.ClassDef) else tuple(names)


def children_of(node: cst.CSTNode) -> list[cst.CSTNode]:
    """Give the nodes right below a node; white space, commas and parentheses are left out."""
    found: list[cst.CSTNode] = []
    for name in _parts(type(node)):
        value = getattr(node, name)
        if isinstance(value, tuple | list):
            found.extend(value)
        elif isinstance(value, cst.CSTNode):
            found.append(value)
    return found


def walk(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Give a node and all below it, in the order of the text."""
    pending = [node]
    while pending:
        current = pending.pop()
        yield current
        pending.extend(reversed(children_of(current)))


def dotted(node: cst.CSTNode | None) -> str | None:
    """Give ``a.b.c`` for a chain of names, and nothing for anything else."""
    match node:
        case cst.Name(value=name):
            return name
        case cst.Attribute(value=value, attr=cst.Name(value=attribute)):
            before = dotted(value)
            return before and f"{before}.{attribute}"
    return None


_EMPTY = cst.Module(body=())


def text_of(node: cst.CSTNode) -> str:
    """Give an expression's text in one canonical spelling, for comparing."""
    code = _EMPTY.code_for_node(node).strip()
    try:
        return ast.unparse(ast.parse(f"({code}\n)", mode="eval"))
    except SyntaxError:
        return code


def expression(text: str) -> cst.BaseExpression:
    """Parse one expression."""
    return cst.parse_expression(text)


def literal(node: cst.CSTNode | None) -> Any:
    """Give the value of a literal expression, and ``...`` for anything else."""
    if node is None:
        return ...
    try:
        return ast.literal_eval(text_of(node))
    except (ValueError, SyntaxError, TypeError):
        return ...


def argument(
    call: cst.Call, position: int | None, keyword: str | None = None
) -> cst.BaseExpression | None:
    """Give the value that a call passes at a position or under a keyword."""
    plain = [each for each in call.args if each.keyword is None and not each.star]
    for each in call.args:
        if keyword is not None and each.keyword is not None and each.keyword.value == keyword:
            return each.value
    if position is not None and position < len(plain):
        return plain[position].value
    return None


def keywords(call: cst.Call) -> dict[str, cst.BaseExpression]:
    """Give what a call passes by keyword; ``**`` stands for unpacked ones."""
    found = {each.keyword.value: each.value for each in call.args if each.keyword is not None}
    return found | {each.star: each.value for each in call.args if each.star}


def method_call(node: cst.CSTNode) -> tuple[cst.BaseExpression, str, cst.Call] | None:
    """Give receiver, name and call of ``receiver.name(...)``."""
    match node:
        case cst.Call(func=cst.Attribute(value=receiver, attr=cst.Name(value=name))):
            return receiver, name, node
    return None


def sole(statement: cst.CSTNode) -> cst.BaseSmallStatement | None:
    """Give the one small statement of a line, and nothing where it holds several."""
    match statement:
        case cst.SimpleStatementLine(body=[only]):
            return only
    return None


@lru_cache(maxsize=4096)
def _read(path: str, text: str) -> Source | None:
    try:
        return Source(path, text)
    except (cst.ParserSyntaxError, RecursionError):
        return None


def read_sources(sources: Mapping[str, str], *words: str) -> list[Source]:
    """Parse the files that hold at least one of some words; those that do not parse are left out.

    Raises
    ------
    DoesNotApply
        No file is left.
    """
    wanted = {
        path: text
        for path, text in sources.items()
        if not words or any(word in text for word in words)
    }
    read = [source for path in sorted(wanted) if (source := _read(path, wanted[path]))]
    if wanted and not read:
        raise DoesNotApply(f"{', '.join(sorted(wanted))} cannot be parsed")
    if not read:
        raise DoesNotApply(f"no source mentions {' or '.join(words)}")
    return read


def _imports(module: cst.Module, path: str) -> dict[str, str]:
    found: dict[str, str] = {}
    package = path.removesuffix(".py").split("/")[:-1]
    for node in walk(module):
        match node:
            case cst.Import(names=names):
                for each in names:
                    full = dotted(each.name) or ""
                    alias = each.asname and dotted(each.asname.name)
                    found[alias or full.partition(".")[0]] = (
                        full if alias else full.partition(".")[0]
                    )
            case cst.ImportFrom(names=[*names], module=origin, relative=dots):
                base = package[: len(package) - len(dots) + 1] if dots else []
                prefix = ".".join([*base, *filter(None, [dotted(origin)])])
                for each in names:
                    alias = each.asname and dotted(each.asname.name)
                    name = dotted(each.name) or ""
                    found[alias or name] = f"{prefix}.{name}" if prefix else name
    return found


class Rewrite:
    """Changes to one file, collected and then made at once."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._instead: dict[cst.CSTNode, cst.CSTNode | None] = {}
        self._before: dict[cst.CSTNode, list[str]] = {}
        self._after: dict[cst.CSTNode, list[str]] = {}
        self._imports: list[str] = []

    def replace(self, node: cst.CSTNode, new: cst.CSTNode | str) -> None:
        """Put another expression, or another node of the same kind, in a node's place."""
        self._instead[node] = expression(new) if isinstance(new, str) else new

    def remove(self, statement: cst.CSTNode) -> None:
        """Take a statement out."""
        self._instead[statement] = None

    def put_before(self, statement: cst.CSTNode, text: str) -> None:
        """Insert statements before a statement, at its depth."""
        self._before.setdefault(statement, []).append(text)

    def put_after(self, statement: cst.CSTNode, text: str) -> None:
        """Insert statements after a statement, at its depth."""
        self._after.setdefault(statement, []).append(text)

    def put_statements(self, statement: cst.CSTNode, text: str) -> None:
        """Put statements in a statement's place; the comments above it stay."""
        self.remove(statement)
        self.put_after(statement, text)

    def define(self, near: cst.CSTNode, text: str) -> None:
        """Insert a definition at module level, above the one that a node stands in."""
        chain = [near, *self.source.ancestors(near)]
        top = chain[-2]
        text = "\n\n" + textwrap.dedent(text).strip("\n")
        for other, texts in self._before.items():
            if text in texts:
                if self.source.order[other] <= self.source.order[top]:
                    return
                texts.remove(text)
        self.put_before(top, text)

    def name_for(self, full: str) -> str:
        """Give a spelling of a full dotted name in this file, importing it where needed."""
        parts = full.split(".")
        shadowed = _locally_bound(self.source)
        for size in range(len(parts), 0, -1):
            prefix = ".".join(parts[:size])
            for alias, meant in self.source.imports.items():
                if meant == prefix and alias not in shadowed and self._at_module_level(alias):
                    return ".".join([alias, *parts[size:]])
        # ``import a.b.c`` also binds every submodule that torch itself loads.
        self._imports.append(
            f"import {parts[0]}"
            if parts[0] == "torch" and parts[1:2] != ["utils"]
            else f"import {'.'.join(parts[:-1])}"
        )
        return full

    def _at_module_level(self, alias: str) -> bool:
        for statement in self.source.module.body:
            if isinstance(statement, cst.SimpleStatementLine):
                for small in statement.body:
                    if isinstance(small, cst.Import | cst.ImportFrom) and (
                        alias in _imports(cst.Module(body=[statement]), self.source.path)
                    ):
                        return True
        return False

    def text(self) -> str:
        """Give the file's new text."""
        for line in dict.fromkeys(self._imports):
            place, first = _import_place(self.source.module)
            if place is None:
                return line + "\n" + self._transformed()
            (self.put_before if first else self.put_after)(place, line)
        text = self._transformed()
        if self.source.text.count("\n") == self.source.text.count("\r\n") > 0:
            # A string of several lines brings its own line ends.
            text = text.replace("\r\n", "\n").replace("\n", "\r\n")
        return text

    def _transformed(self) -> str:
        changed = self.source.module.visit(_Substitution(self._instead, self._before, self._after))
        assert isinstance(changed, cst.Module)
        return changed.code


class _Substitution(cst.CSTTransformer):
    def __init__(
        self,
        instead: dict[cst.CSTNode, cst.CSTNode | None],
        before: dict[cst.CSTNode, list[str]],
        after: dict[cst.CSTNode, list[str]],
    ) -> None:
        super().__init__()
        self.instead, self.before, self.after = instead, before, after

    def on_leave(self, original_node: Any, updated_node: Any) -> Any:
        before, after = self.before.get(original_node, []), self.after.get(original_node, [])
        new = updated_node
        if original_node in self.instead:
            new = self.instead[original_node]
            if new is not None and hasattr(new, "lpar") and not new.lpar:
                new = _with_parentheses(original_node, new)
        if not before and not after:
            return cst.RemoveFromParent() if new is None else new
        body = [*_statements(before), *([] if new is None else [new]), *_statements(after)]
        if new is None and not before:
            body[0] = body[0].with_changes(leading_lines=original_node.leading_lines)
        return cst.FlattenSentinel(body)


def _with_parentheses(original: Any, new: Any) -> Any:
    """Keep the parentheses of what is replaced; they may hold several lines together."""
    lpar = getattr(original, "lpar", ())
    if isinstance(new, cst.BaseExpression) and lpar and not isinstance(new, cst.Name | cst.Call):
        return new.with_changes(lpar=lpar, rpar=original.rpar)
    return new


def _statements(texts: Sequence[str]) -> list[Any]:
    """Parse statements; line ends and indentation become those of the file they go into.

    Blank lines above the first are kept.
    """
    found: list[Any] = []
    for text in texts:
        body = list(cst.parse_module(textwrap.dedent(text).strip("\n") + "\n").body)
        blank = len(text) - len(text.lstrip("\n"))
        lines = [cst.EmptyLine(indent=False)] * blank
        found += [body[0].with_changes(leading_lines=[*lines, *body[0].leading_lines]), *body[1:]]
    return found


def _import_place(module: cst.Module) -> tuple[cst.CSTNode | None, bool]:
    """Give the statement to put an import next to, and whether it goes before that."""
    last: cst.CSTNode | None = None
    for statement in module.body:
        if not isinstance(statement, cst.SimpleStatementLine):
            if isinstance(statement, cst.FunctionDef | cst.ClassDef):
                break
            continue
        if any(isinstance(small, cst.Import | cst.ImportFrom) for small in statement.body):
            last = statement
    if last is not None:
        return last, False
    if not module.body:
        return None, False
    first = module.body[0]
    return first, module.get_docstring() is None


@lru_cache(maxsize=256)
def _locally_bound(source: Source) -> frozenset[str]:
    from infrarsi.propose.flow import stores

    names = set()
    for function in source.every(cst.FunctionDef):
        names |= {name.value for name in stores(function.body)}
        names |= {name.value for name in stores(function.params)}
    return frozenset(names)
