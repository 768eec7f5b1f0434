"""The sources of a program, parsed once: what it calls, and what the names in it mean."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TypeAlias

from infrarsi.frameworks.annotations import spelled

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


class Sources:
    """The entry script and what it imports in the repository.

    Parameters
    ----------
    texts
        Python files by path; those that do not parse are left out.
    entry
        The script that runs. What stands under ``if __name__ == "__main__"`` counts in it alone.
    """

    def __init__(self, texts: Mapping[str, str], entry: str) -> None:
        self.entry = entry
        parsed = {path: tree for path, text in texts.items() if (tree := _parse(text)) is not None}
        self.trees = {path: parsed[path] for path in sorted(parsed, key=lambda p: (p != entry, p))}

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """All nodes, the entry's first."""
        return tuple(
            node
            for path, tree in self.trees.items()
            for node in (ast.walk(tree) if path == self.entry else _walk_imported(tree))
        )

    @cached_property
    def calls(self) -> tuple[tuple[str, ast.Call], ...]:
        """All calls, each with what its function's name means: ``tyro.cli``."""
        return tuple(
            (self.meaning(node.func), node) for node in self.nodes if isinstance(node, ast.Call)
        )

    @cached_property
    def classes(self) -> dict[str, ast.ClassDef]:
        """Classes by name."""
        return {node.name: node for node in reversed(self.nodes) if isinstance(node, ast.ClassDef)}

    @cached_property
    def functions(self) -> dict[str, Function]:
        """Functions by name."""
        return {node.name: node for node in reversed(self.nodes) if isinstance(node, Function)}

    @cached_property
    def _imports(self) -> dict[str, str]:
        return dict(_imported(self.nodes))

    def meaning(self, node: ast.AST | None) -> str:
        """Give a dotted name with what it was imported as written out."""
        name = spelled(node)
        first, dot, rest = name.partition(".")
        return f"{self._imports.get(first, first)}{dot}{rest}"

    def imports_package(self, package: str) -> bool:
        """Tell whether the program imports anything of a package."""
        return any(name.split(".", 1)[0] == package for name in self._imports.values())

    def named(self, node: ast.expr | None, depth: int = 2) -> Iterator[str]:
        """Give the names in a name, a tuple of names, or a variable that holds one."""
        match node:
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                for each in elements:
                    yield from self.named(each, depth)
            case ast.Name(id=name) if name not in self.classes and name not in self.functions:
                for other in self.nodes if depth else ():
                    match other:
                        case ast.Assign(targets=[ast.Name(id=target)], value=value):
                            if target == name:
                                yield from self.named(value, depth - 1)
            case ast.Name() | ast.Attribute():
                yield spelled(node).rsplit(".", 1)[-1]


def _parse(text: str) -> ast.Module | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(text.removeprefix("\ufeff"))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def _walk_imported(tree: ast.Module) -> Iterator[ast.AST]:
    """Walk a module that is imported: what only its own run as a script reaches is left out."""
    for statement in tree.body:
        if not (isinstance(statement, ast.If) and "__name__" in ast.unparse(statement.test)):
            yield from ast.walk(statement)


def _imported(nodes: tuple[ast.AST, ...]) -> Iterator[tuple[str, str]]:
    for node in nodes:
        match node:
            case ast.Import(names=names):
                for each in names:
                    first = each.name.partition(".")[0]
                    yield (each.asname, each.name) if each.asname else (first, first)
            case ast.ImportFrom(module=str() as module, names=names, level=0):
                for each in names:
                    yield each.asname or each.name, f"{module}.{each.name}"
