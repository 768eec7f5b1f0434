"""Reading a program's own settings from its source, without running it."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Literal

from infrarsi.records.base import Scalar

ScalarKind = Literal["bool", "int", "float", "str"]


@dataclass(frozen=True)
class Setting:
    """One flag of a program, as its source declares it."""

    name: str
    """As the program knows it: ``batch_size``."""
    flag: str
    """As typed: ``--batch-size``."""
    kind: ScalarKind
    default: Scalar
    style: Literal["space", "presence", "negatable"]
    choices: tuple[Scalar, ...] = ()


def entry_script(command: Sequence[str], folder: str) -> str | None:
    """Give the Python file that a command runs, relative to the root; ``None`` if it names none."""
    for word in command:
        if word.endswith(".py"):
            return str(PurePosixPath(folder) / word)
    for index, word in enumerate(command[:-1]):
        if word == "-m":
            return str(PurePosixPath(folder) / (command[index + 1].replace(".", "/") + ".py"))
    return None


def find_settings(source: str) -> tuple[Setting, ...]:
    """Find the flags that a program declares with ``add_argument``.

    Flags whose declaration is not literal are left out, since nothing is known of them. Source
    that is not Python gives none.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return ()
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    found = [
        _read_argument(call)
        for call in calls
        if isinstance(call.func, ast.Attribute) and call.func.attr == "add_argument"
    ]
    return tuple(each for each in found if each is not None)


def _read_argument(call: ast.Call) -> Setting | None:
    names = [_literal(arg) for arg in call.args]
    flags = [name for name in names if isinstance(name, str) and name.startswith("--")]
    if not flags:
        return None
    options = {word.arg: word.value for word in call.keywords if word.arg}
    default = _literal(options["default"]) if "default" in options else None
    name = (
        _literal(options["dest"]) if "dest" in options else flags[0].lstrip("-").replace("-", "_")
    )
    action = options.get("action")
    if action is not None:
        return _read_action(str(name), flags[0], action, default)
    kind = _kind_of(options.get("type"), default)
    choices = _literal(options["choices"]) if "choices" in options else ()
    if kind is None or not isinstance(default, (bool, int, float, str, type(None))):
        return None
    choices = tuple(choices) if isinstance(choices, (list, tuple)) else ()
    return Setting(str(name), flags[0], kind, default, "space", choices)


def _read_action(name: str, flag: str, action: ast.expr, default: Any) -> Setting | None:
    said = _literal(action)
    spelled = ast.unparse(action)
    if said == "store_true":
        return Setting(name, flag, "bool", bool(default), "presence")
    if spelled.endswith("BooleanOptionalAction") and isinstance(default, bool):
        return Setting(name, flag, "bool", default, "negatable")
    return None


def _kind_of(kind: ast.expr | None, default: Any) -> ScalarKind | None:
    spelled = ast.unparse(kind) if kind is not None else type(default).__name__
    match spelled:
        case "int" | "float" | "str":
            return spelled
        case "NoneType":
            return "str"
        case _:
            return None


def _literal(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None
