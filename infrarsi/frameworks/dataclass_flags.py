"""Flags that parsers make of dataclasses and signatures, where the source shows which parser."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from infrarsi.frameworks.annotations import annotated_kind, field_default, spelled
from infrarsi.frameworks.program import Setting
from infrarsi.frameworks.sources import Function, Sources

_DEEPEST = 5
Field: TypeAlias = tuple[ast.expr | None, ast.expr | None]
"""Annotation and default of a field."""
Switch: TypeAlias = Literal["equals", "negatable", "python"]


@dataclass(frozen=True)
class _Parser:
    """How one parser spells the flags of fields."""

    switch: Switch = "equals"
    """How it takes a switch: ``--x=true``, ``--x`` against ``--no-x``, or ``--x=True``."""
    nested: bool = True
    """Whether fields of nested classes are dotted: ``--optimizer.lr``; else they are flat."""
    dashes: bool = False
    """Whether underscores are typed as dashes."""


_HUGGINGFACE = _Parser(nested=False)
_DOTTED = _Parser()
_TYRO = _Parser(switch="negatable", dashes=True)
_FIRE = _Parser(switch="python")
_CALLS = {
    "draccus.parse": _DOTTED, "draccus.argparsing.parse": _DOTTED, "pyrallis.parse": _DOTTED,
    "tyro.cli": _TYRO, "tyro.extras.overridable_config_cli": _TYRO,
    "simple_parsing.parse": _HUGGINGFACE, "jsonargparse.CLI": _DOTTED,
    "jsonargparse.auto_cli": _DOTTED, "fire.Fire": _FIRE,
}  # fmt: skip
"""Functions that parse the command line into what they are handed."""
_WRAPS = {"draccus.wrap": _DOTTED, "pyrallis.wrap": _DOTTED}
"""Decorators that parse it into the first parameter of what they decorate."""
_FLAT = frozenset({"TrlParser"})
_ADDERS = ("add_class_arguments", "add_dataclass_arguments")
_HANDED = ("config_class", "components", "component", "dataclass_types", "f")


def dataclass_settings(sources: Sources) -> tuple[Setting, ...]:
    """Find the flags that parsers make of the program's own classes and functions.

    Known are HfArgumentParser and its kin, draccus, pyrallis, tyro, simple_parsing,
    jsonargparse and fire. Fields that are no plain scalars are left out.
    """
    found: list[Setting] = []
    for name, call in sources.calls:
        parser = _parser_of(sources, name)
        if parser is not None:
            prefix = _key_of(call) if name.endswith(_ADDERS) else ""
            found += _of_handed(sources, call, parser, prefix)
    for function in sources.functions.values():
        for decorator in function.decorator_list:
            bare = decorator.func if isinstance(decorator, ast.Call) else decorator
            parser = _WRAPS.get(sources.meaning(bare))
            if parser is not None and function.args.args:
                name = spelled(function.args.args[0].annotation).rsplit(".", 1)[-1]
                found += _of_name(sources, name, parser, "")
    return tuple(found)


def _parser_of(sources: Sources, name: str) -> _Parser | None:
    """Give the parser that a function of this name is, or hands classes to."""
    last = name.rsplit(".", 1)[-1]
    if last in _ADDERS:
        return _DOTTED
    own = last.endswith("ArgumentParser") and last != "ArgumentParser"
    if (
        own
        or last in _FLAT
        or (last == "add_arguments" and sources.imports_package("simple_parsing"))
    ):
        return _HUGGINGFACE
    return _CALLS.get(name)


def _of_handed(
    sources: Sources, call: ast.Call, parser: _Parser, prefix: str = ""
) -> Iterator[Setting]:
    given = {word.arg: word.value for word in call.keywords if word.arg in _HANDED}
    for node in [*call.args[:1], *given.values()]:
        for name in sources.named(node):
            yield from _of_name(sources, name, parser, prefix)


def _key_of(call: ast.Call) -> str:
    match call.args[1:2]:
        case [ast.Constant(value=str() as key)]:
            return f"{key}."
        case _:
            return ""


def _of_name(
    sources: Sources,
    name: str,
    parser: _Parser,
    prefix: str,
    *,
    given: Mapping[str, ast.expr] | None = None,
    depth: int = 0,
) -> Iterator[Setting]:
    """Give the settings of a class or function; ``given`` are its fields' values as it is made."""
    for field, (annotation, declared) in _fields(sources, name).items():
        value = (given or {}).get(field, declared)
        inner = spelled(annotation).rsplit(".", 1)[-1]
        if inner in sources.classes:
            made = _made(value)
            if made is not None and depth < _DEEPEST:
                deeper = f"{prefix}{field}." if parser.nested else prefix
                yield from _of_name(sources, inner, parser, deeper, given=made, depth=depth + 1)
            continue
        setting = _setting(f"{prefix}{field}", annotation, value, parser)
        if setting is not None:
            yield setting


def _made(value: ast.expr | None) -> Mapping[str, ast.expr] | None:
    """Give the values that a nested class is made with; ``None`` where that cannot be read.

    Known are ``Data()``, ``Data(batch_size=8)``, and ``field`` with either, or the class, in
    ``default_factory``.
    """
    match value:
        case None:
            return {}
        case ast.Lambda(body=body):
            return _made(body)
        case ast.Call(func=func, args=[], keywords=keywords):
            given = {word.arg: word.value for word in keywords}
            if spelled(func).rsplit(".", 1)[-1] != "field":
                return {k: v for k, v in given.items() if k} if None not in given else None
            factory = given.get("default_factory", given.get("default"))
            return {} if isinstance(factory, ast.Name | ast.Attribute) else _made(factory)
        case _:
            return None


def _setting(
    path: str, annotation: ast.expr | None, value: ast.expr | None, parser: _Parser
) -> Setting | None:
    known, default = field_default(value)
    kind, choices = annotated_kind(annotation, default)
    if kind is None:
        return None
    typed = path.replace("_", "-") if parser.dashes else path
    table, dot, last = typed.rpartition(".")
    negatable = kind == "bool" and parser.switch == "negatable"
    return Setting(
        name=path.replace(".", "_"), flag=f"--{typed}", kind=kind,
        default=default if known else None,
        style=parser.switch if kind == "bool" or parser.switch == "python" else "space",
        choices=choices, path=path,
        negation=f"--{table}{dot}no-{last}" if negatable and dot else None,
    )  # fmt: skip


def _fields(sources: Sources, name: str, depth: int = 0) -> dict[str, Field]:
    """Give the fields of a class, inherited ones first, or the parameters of a function."""
    found: dict[str, Field] = {}
    own = sources.classes.get(name)
    if own is not None:
        for base in own.bases if depth < _DEEPEST else ():
            found |= _fields(sources, spelled(base).rsplit(".", 1)[-1], depth + 1)
        plain = False
        for statement in own.body:
            match statement:
                case ast.AnnAssign(target=ast.Name(id=field), annotation=annotation, value=value):
                    plain = True
                    found[field] = annotation, value
                case ast.FunctionDef(name="__init__") if not plain:
                    found |= _parameters(statement)
    elif name in sources.functions:
        found |= _parameters(sources.functions[name])
    return found


def _parameters(function: Function) -> dict[str, Field]:
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args]
    missing: list[ast.expr | None] = [None] * (len(named) - len(arguments.defaults))
    values = [*missing, *arguments.defaults, *arguments.kw_defaults]
    return {
        each.arg: (each.annotation, value)
        for each, value in zip([*named, *arguments.kwonlyargs], values, strict=True)
        if each.arg not in {"self", "cls"}
    }
