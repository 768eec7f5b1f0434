"""What a declaration in source says of a setting: its kind, its choices, its default."""

from __future__ import annotations

import ast
from typing import Any, Literal, TypeAlias

from infrarsi.records.base import Scalar

ScalarKind: TypeAlias = Literal["bool", "int", "float", "str"]

_KINDS: dict[str, ScalarKind] = {"bool": "bool", "int": "int", "float": "float", "str": "str"}


def literal(node: ast.expr) -> Any:
    """Give the value of a literal; anything else gives ``None``."""
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None


def spelled(node: ast.AST | None) -> str:
    """Give a dotted name as it stands: ``typer.Option``; anything else gives an empty text."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=attribute):
            left = spelled(value)
            return f"{left}.{attribute}" if left else ""
        case _:
            return ""


def annotated_kind(
    annotation: ast.expr | None, default: Any
) -> tuple[ScalarKind | None, tuple[Scalar, ...]]:
    """Give the kind and choices that an annotation means; without one, the default's kind."""
    match annotation:
        case None:
            return _KINDS.get(type(default).__name__), ()
        case ast.Constant(value=str() as text):
            try:
                return annotated_kind(ast.parse(text, mode="eval").body, default)
            except (SyntaxError, ValueError):
                return None, ()
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _of_union([left, right], default)
        case ast.Subscript(value=outer, slice=inner):
            return _of_subscript(spelled(outer).rsplit(".", 1)[-1], inner, default)
        case _:
            return _KINDS.get(spelled(annotation)), ()


def _of_subscript(
    outer: str, inner: ast.expr, default: Any
) -> tuple[ScalarKind | None, tuple[Scalar, ...]]:
    elements = inner.elts if isinstance(inner, ast.Tuple) else [inner]
    match outer:
        case "Optional" | "Annotated" | "Final":
            return annotated_kind(elements[0], default)
        case "Union":
            return _of_union(elements, default)
        case "Literal":
            choices = tuple(literal(each) for each in elements)
            kinds = {type(each).__name__ for each in choices}
            kind = _KINDS.get(kinds.pop()) if len(kinds) == 1 else None
            return kind, choices
        case _:
            return None, ()


def _of_union(sides: list[ast.expr], default: Any) -> tuple[ScalarKind | None, tuple[Scalar, ...]]:
    rest = [
        each
        for each in sides
        if not (isinstance(each, ast.Constant) and each.value is None) and spelled(each) != "None"
    ]
    return annotated_kind(rest[0], default) if len(rest) == 1 else (None, ())


def field_default(value: ast.expr | None) -> tuple[bool, Any]:
    """Tell whether a field's default is a literal, and give it: ``field(default=...)`` too."""
    if isinstance(value, ast.Call):
        given = {word.arg: word.value for word in value.keywords}
        value = given.get("default")
    if value is None:
        return False, None
    if isinstance(value, ast.Constant) and value.value is None:
        return True, None
    found = literal(value)
    return isinstance(found, bool | int | float | str), found
