"""One parsed Python file: its tree, and what its names mean.

Only codemods import this module (it loads libcst), so the command line stays quick.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache, lru_cache
from operator import itemgetter
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
        self.imports = read_imports(self.module, path)

    def _index(self, node: cst.CSTNode) -> None:
        """Give all nodes numbers in the order of the text, those below a node right after it."""
        self._nodes: list[cst.CSTNode] = []
        self._ends: dict[cst.CSTNode, int] = {}
        self._kinds: dict[type, list[tuple[int, Any]]] = {}
        pending: list[tuple[cst.CSTNode, bool]] = [(node, False)]
        while pending:
            current, done = pending.pop()
            if done:
                self._ends[current] = len(self._nodes)
                continue
            self.order[current] = len(self._nodes)
            self._nodes.append(current)
            children = children_of(current)
            for child in children:
                self.parents[child] = current
            pending.append((current, True))
            pending.extend((child, False) for child in reversed(children))

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
        if kind not in self._kinds:
            numbered = enumerate(self._nodes)
            self._kinds[kind] = [(at, node) for at, node in numbered if isinstance(node, kind)]
        found = self._kinds[kind]
        if within is None:
            return [node for _, node in found]
        first = bisect_left(found, self.order[within], key=itemgetter(0))
        last = bisect_left(found, self._ends[within], key=itemgetter(0))
        return [node for _, node in found[first:last]]

    def qualified(self, node: cst.CSTNode | None) -> str | None:
        """Give the full dotted name that an expression means by this file's imports."""
        name = dotted(node)
        if name is None:
            return None
        first, _, rest = name.partition(".")
        meant = self.imports.get(first, first)
        return f"{meant}.{rest}" if rest else meant


_LAYOUT = re.compile(r"whitespace|_lines$|^lines_|^[lr](par|bracket|brace)$")
_MARKS = frozenset(
    {"comma", "semicolon", "equal", "header", "footer", "colon", "dot", "first_colon"}
)


@cache
def _parts(kind: type[cst.CSTNode]) -> tuple[str, ...]:
    """Name the fields of a kind of node that hold code and not its layout, in their order."""
    names = [each.name for each in fields(kind)]
    names = [name for name in names if not _LAYOUT.search(name) and name not in _MARKS]
    # Of these two, libcst declares the body before what stands above it.
    return (
        tuple(sorted(names, key="body".__eq__))
        if kind in (cst.FunctionDef, cst.ClassDef)
        else tuple(names)
    )


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


def read_imports(module: cst.Module, path: str) -> dict[str, str]:
    """Give the full name that each imported name means, relative imports by the file's place."""
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
