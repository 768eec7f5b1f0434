"""A rewriting of one file that keeps everything else as it stands.

Only codemods import this module (it loads libcst).
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import libcst as cst

from infrarsi.propose.flow import stores
from infrarsi.propose.source import Source, expression, read_imports


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
                        alias in read_imports(cst.Module(body=[statement]), self.source.path)
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
    names = set()
    for function in source.every(cst.FunctionDef):
        names |= {name.value for name in stores(function.body)}
        names |= {name.value for name in stores(function.params)}
    return frozenset(names)


def with_keyword(call: cst.Call, name: str, value: str) -> cst.Call:
    """Give a call with one more keyword at its end, laid out as the others are."""
    new = cst.Arg(
        expression(value), keyword=cst.Name(name),
        equal=cst.AssignEqual(
            whitespace_before=cst.SimpleWhitespace(""), whitespace_after=cst.SimpleWhitespace("")
        ),
    )  # fmt: skip
    if not call.args:
        return call.with_changes(args=[new])
    last = call.args[-1]
    between = next(
        (
            each.comma.whitespace_after
            for each in call.args[:-1]
            if isinstance(each.comma, cst.Comma)
        ),
        cst.SimpleWhitespace(" "),
    )
    kept = last.with_changes(
        comma=cst.Comma(whitespace_after=between), whitespace_after_arg=cst.SimpleWhitespace("")
    )
    new = new.with_changes(comma=last.comma, whitespace_after_arg=last.whitespace_after_arg)
    return call.with_changes(args=[*call.args[:-1], kept, new])
