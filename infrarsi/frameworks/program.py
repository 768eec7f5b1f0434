"""Reading a program's own settings from its source, without running it."""

from __future__ import annotations

import ast
import posixpath
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from infrarsi.frameworks.annotations import ScalarKind, literal
from infrarsi.records.base import Scalar
from infrarsi.records.command import split_command
from infrarsi.records.task import ConfigKey, Flag, Override

Style: TypeAlias = Literal["space", "equals", "python", "presence", "negatable", "list", "repeated"]


@dataclass(frozen=True)
class Setting:
    """One setting of a program, as its source or its configuration declares it."""

    name: str
    """As the program knows it: ``batch_size``."""
    flag: str
    """As typed: ``--batch-size``; empty where it is not set by a flag."""
    kind: ScalarKind
    default: Scalar
    style: Style
    choices: tuple[Scalar, ...] = ()
    aliases: tuple[str, ...] = ()
    """Other spellings of the flag: ``-b``."""
    negation: str | None = None
    """The flag that says no, where it is not ``--no-`` and the name."""
    place: ConfigKey | Override | None = None
    """Where it is set, if not by a flag."""
    path: str = ""
    """Its dotted path among nested settings, where it has one: ``train.batch_size``."""

    @property
    def known_as(self) -> str:
        """The name by which a catalogue knows it: the last part of its path."""
        return (self.path or self.name).rsplit(".", 1)[-1].replace("-", "_")

    def as_flag(self, spelled: str | None = None) -> Flag:
        """Give the flag that sets it, in one of its spellings."""
        return Flag(flag=spelled or self.flag, style=self.style, negation=self.negation)


def entry_script(command: Sequence[str], folder: str) -> str | None:
    """Give the Python file that a command runs, relative to the root; ``None`` if it names none."""
    split = split_command(command)
    script = split.script
    if split.module is not None:
        script = split.module.replace(".", "/") + ".py"
    return None if script is None else posixpath.normpath(posixpath.join(folder, script))


def find_settings(source: str) -> tuple[Setting, ...]:
    """Find the flags that a program declares with ``add_argument``.

    Flags whose declaration is not literal are left out, since nothing is known of them. Source
    that is not Python gives none.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return ()
    return argparse_settings(ast.walk(tree))


def argparse_settings(nodes: Iterable[ast.AST]) -> tuple[Setting, ...]:
    """Find the same among the nodes of a tree; ``set_defaults`` counts too."""
    calls = [
        node
        for node in nodes
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    ]
    found = [_read_argument(call) for call in calls if _method(call) == "add_argument"]
    defaults = {
        word.arg: word.value
        for call in calls
        if _method(call) == "set_defaults"
        for word in call.keywords
    }
    return tuple(
        replace(each, default=literal(defaults[each.name])) if each.name in defaults else each
        for each in found
        if each is not None
    )


def _method(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""


def _read_argument(call: ast.Call) -> Setting | None:
    names = [literal(arg) for arg in call.args]
    flags = [name for name in names if isinstance(name, str) and name.startswith("-")]
    flag = next((name for name in flags if name.startswith("--")), flags[0] if flags else None)
    if flag is None:
        return None
    options = {word.arg: word.value for word in call.keywords if word.arg}
    default = literal(options["default"]) if "default" in options else None
    name = literal(options["dest"]) if "dest" in options else flag.lstrip("-").replace("-", "_")
    aliases = tuple(each for each in flags if each != flag)
    action = options.get("action")
    if action is not None:
        return _read_action(str(name), flag, action, default, aliases)
    kind = _kind_of(options.get("type"), default)
    choices = literal(options["choices"]) if "choices" in options else ()
    if kind is None or not isinstance(default, (bool, int, float, str, type(None))):
        return None
    if "nargs" in options and literal(options["nargs"]) != "?":
        return None
    choices = tuple(choices) if isinstance(choices, (list, tuple)) else ()
    return Setting(str(name), flag, kind, default, "space", choices, aliases)


def _read_action(
    name: str, flag: str, action: ast.expr, default: Any, aliases: tuple[str, ...]
) -> Setting | None:
    said = literal(action)
    spelled = ast.unparse(action)
    if said == "store_true" and not default:
        return Setting(name, flag, "bool", default=False, style="presence", aliases=aliases)
    if spelled.endswith("BooleanOptionalAction") and isinstance(default, bool):
        return Setting(name, flag, "bool", default, "negatable", aliases=aliases)
    return None


_BOOLEAN_READERS = frozenset({
    "bool", "str2bool", "str_to_bool", "string_to_bool", "strtobool", "parse_bool", "str_bool",
    "boolean", "boolean_string", "to_bool", "_str2bool", "bool_flag", "booltype",
})  # fmt: skip
"""Names of functions that read a switch from text. ``bool`` itself takes any text for true."""


def _kind_of(kind: ast.expr | None, default: Any) -> ScalarKind | None:
    spelled = ast.unparse(kind) if kind is not None else type(default).__name__
    match spelled.rsplit(".", 1)[-1]:
        case "int" | "float" | "str" as known if known == spelled:
            return known
        case "NoneType":
            return "str"
        case reader if reader in _BOOLEAN_READERS - {"bool"} and isinstance(default, bool):
            return "bool"
        case _:
            return None
