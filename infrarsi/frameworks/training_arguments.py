"""Whether a program parses transformers' TrainingArguments, found in its source by ``ast``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from infrarsi.records.base import Scalar

_FROM_FLAGS = frozenset({"parse_args_into_dataclasses", "parse_args_and_config", "parse_args"})
_FROM_FILE = frozenset({"parse_json_file", "parse_yaml_file", "parse_args_and_config"})


@dataclass(frozen=True)
class TrainingArguments:
    """The arguments' class that a program parses, as far as it matters for drafting."""

    defaults: dict[str, Scalar] = field(default_factory=dict)
    """Defaults that differ from transformers' own."""
    from_flags: bool = True
    from_file: bool = False
    """Whether the arguments may stand in a JSON or YAML file that the command names."""


def find_training_arguments(
    sources: Mapping[str, str], *, classes: Mapping[str, Mapping[str, Any]], parsers: Sequence[str]
) -> TrainingArguments | None:
    """Find the arguments' class that is handed to a parser, through subclasses in the sources.

    Parameters
    ----------
    sources
        Python files by path; those that do not parse are left out.
    classes
        By package: patterns of class names, each with the defaults that differ.
    parsers
        Names of the parsers' classes.
    """
    program = _Program(sources, classes)
    for name in program.parsed_names(parsers):
        defaults = program.defaults(name)
        if defaults is None:
            continue
        called = program.called
        if called & (_FROM_FLAGS | _FROM_FILE):
            return TrainingArguments(
                defaults, from_flags=bool(called & _FROM_FLAGS), from_file=bool(called & _FROM_FILE)
            )
    return None


class _Program:
    """All trees of a program, read once: its classes, its imports, its calls."""

    def __init__(
        self, sources: Mapping[str, str], classes: Mapping[str, Mapping[str, Any]]
    ) -> None:
        self.known = classes
        self.trees = [tree for text in sources.values() if (tree := _parse(text)) is not None]
        self.nodes = [node for tree in self.trees for node in ast.walk(tree)]
        self.classes = {node.name: node for node in self.nodes if isinstance(node, ast.ClassDef)}
        self.imports = dict(_imports(self.nodes))
        self.called = {
            _spelled(node.func).rpartition(".")[2]
            for node in self.nodes
            if isinstance(node, ast.Call)
        }

    def parsed_names(self, parsers: Sequence[str]) -> Iterator[str]:
        """Give the classes that are handed to a parser, by the names they have there."""
        for node in self.nodes:
            if isinstance(node, ast.Call) and self._meant(node.func).rpartition(".")[2] in parsers:
                for given in [*node.args, *(word.value for word in node.keywords)]:
                    yield from self._names_in(given)

    def _names_in(self, node: ast.expr, depth: int = 2) -> Iterator[str]:
        match node:
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                for each in elements:
                    yield from self._names_in(each, depth)
            case ast.Name(id=name) if name not in self.classes and name not in self.imports:
                # dataclass_types = (ModelArguments, ...), somewhere in the program
                for other in self.nodes if depth else ():
                    match other:
                        case ast.Assign(targets=[ast.Name(id=target)], value=value):
                            if target == name:
                                yield from self._names_in(value, depth - 1)
            case ast.Name() | ast.Attribute():
                yield _spelled(node)

    def defaults(self, name: str, depth: int = 5) -> dict[str, Scalar] | None:
        """Give the defaults that a class changes; nothing if it is no TrainingArguments."""
        package, _, last = self._meant_name(name).rpartition(".")
        if package:
            for pattern, changed in self.known.get(package.partition(".")[0], {}).items():
                if re.fullmatch(pattern, last):
                    return dict(changed)
        own = self.classes.get(last)
        if own is None or depth == 0:
            return None
        for base in own.bases:
            inherited = self.defaults(_spelled(base), depth - 1)
            if inherited is not None:
                return inherited | dict(_field_defaults(own))
        return None

    def _meant(self, node: ast.expr) -> str:
        return self._meant_name(_spelled(node))

    def _meant_name(self, name: str) -> str:
        first, _, rest = name.partition(".")
        if first in self.classes and not rest:
            return name
        meant = self.imports.get(first, first)
        return f"{meant}.{rest}" if rest else meant


def _parse(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError):
        return None


def _imports(nodes: Sequence[ast.AST]) -> Iterator[tuple[str, str]]:
    for node in nodes:
        match node:
            case ast.Import(names=names):
                for each in names:
                    first = each.name.partition(".")[0]
                    yield (each.asname, each.name) if each.asname else (first, first)
            case ast.ImportFrom(module=str() as module, names=names, level=0):
                for each in names:
                    yield each.asname or each.name, f"{module}.{each.name}"


def _field_defaults(node: ast.ClassDef) -> Iterator[tuple[str, Scalar]]:
    """Give the literal defaults of a dataclass's fields, ``field(default=...)`` included."""
    for statement in node.body:
        match statement:
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                if isinstance(value, ast.Call):
                    given = {word.arg: word.value for word in value.keywords}
                    value = given.get("default", ast.Constant(...))
                match value:
                    case ast.Constant(value=bool() | int() | float() | str() | None as literal):
                        yield name, literal


def _spelled(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=attribute):
            return f"{_spelled(value)}.{attribute}"
    return "?"
