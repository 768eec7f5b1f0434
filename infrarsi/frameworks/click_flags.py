"""Options declared with click or typer."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from infrarsi.frameworks.annotations import annotated_kind, field_default, literal, spelled
from infrarsi.frameworks.program import Setting
from infrarsi.frameworks.sources import Function, Sources

_TYPES = {"INT": "int", "FLOAT": "float", "STRING": "str", "BOOL": "bool"}


def click_settings(sources: Sources) -> tuple[Setting, ...]:
    """Find the options of commands that click or typer makes."""
    found: list[Setting] = []
    if sources.imports_package("click"):
        calls = [call for name, call in sources.calls if name.rsplit(".", 1)[-1] == "option"]
        found += [setting for call in calls if (setting := _click_option(call)) is not None]
    if sources.imports_package("typer"):
        for function in _typer_commands(sources):
            found += _typer_options(sources, function)
    return tuple(found)


def _click_option(call: ast.Call) -> Setting | None:
    names = [name for arg in call.args if isinstance(name := literal(arg), str)]
    options = {word.arg: word.value for word in call.keywords if word.arg}
    flags = [name for name in names if name.startswith("-")]
    if not flags or {"multiple", "count", "nargs", "flag_value"} & set(options):
        return None
    long = next((each for each in flags if each.startswith("--")), flags[0])
    flag, slash, negation = long.partition("/")
    name = next((each for each in names if not each.startswith("-")), "")
    name = (name or flag.lstrip("-")).replace("-", "_")
    aliases = tuple(each.partition("/")[0] for each in flags if each != long)
    known, default = field_default(options.get("default", ast.Constant(None)))
    if not known and (slash or "is_flag" in options):
        return None
    if slash:
        return Setting(name, flag, "bool", bool(default), "negatable", aliases=aliases,
                       negation=negation.strip())  # fmt: skip
    if literal(options["is_flag"]) if "is_flag" in options else False:
        if default:
            return None
        return Setting(name, flag, "bool", default=False, style="presence", aliases=aliases)
    kind, choices = _click_type(options.get("type"), default)
    if kind is None:
        return None
    default = default if known else None
    return Setting(name, flag, kind, default, "space", choices, aliases)  # type: ignore[arg-type]


def _click_type(
    node: ast.expr | None, default: object
) -> tuple[str | None, tuple[str | int | float, ...]]:
    if isinstance(node, ast.Call):
        choices = literal(node.args[0]) if node.args else None
        called = spelled(node.func).rsplit(".", 1)[-1]
        if called == "Choice" and isinstance(choices, list | tuple):
            return "str", tuple(choices)
        return {"IntRange": "int", "FloatRange": "float"}.get(called), ()
    if node is None:
        return annotated_kind(None, default)[0] or "str", ()
    name = spelled(node).rsplit(".", 1)[-1]
    return _TYPES.get(name, name if name in _TYPES.values() else None), ()


def _typer_commands(sources: Sources) -> Iterator[Function]:
    run = {
        name
        for meant, call in sources.calls
        if meant == "typer.run"
        for name in sources.named(call.args[0] if call.args else None)
    }
    for function in sources.functions.values():
        decorators = [
            spelled(each.func if isinstance(each, ast.Call) else each).rsplit(".", 1)[-1]
            for each in function.decorator_list
        ]
        if function.name in run or {"command", "callback"} & set(decorators):
            yield function


def _typer_options(sources: Sources, function: Function) -> Iterator[Setting]:
    arguments = function.args
    missing: list[ast.expr | None] = [None] * (len(arguments.args) - len(arguments.defaults))
    values = [*missing, *arguments.defaults, *arguments.kw_defaults]
    for each, value in zip([*arguments.args, *arguments.kwonlyargs], values, strict=True):
        setting = _typer_option(sources, each, value)
        if setting is not None:
            yield setting


def _typer_option(sources: Sources, arg: ast.arg, value: ast.expr | None) -> Setting | None:
    declared = value if isinstance(value, ast.Call) else _in_annotation(arg.annotation)
    spellings: list[str] = []
    if isinstance(declared, ast.Call):
        if sources.meaning(declared.func) != "typer.Option":
            return None
        given = [literal(each) for each in declared.args]
        if declared is value:
            value, given = (declared.args[0], given[1:]) if declared.args else (None, [])
        spellings = [each for each in given if isinstance(each, str)]
    known, default = field_default(value)
    kind, choices = annotated_kind(arg.annotation, default)
    if not known or kind is None:
        return None
    long = next((each for each in spellings if each.startswith("--")), "")
    flag, slash, negation = (long or "--" + arg.arg.replace("_", "-")).partition("/")
    if kind == "bool" and long and not slash:
        # A spelling of one's own, and no negation with it: present or absent.
        style, default = "presence", bool(default)
        if default:
            return None
    else:
        style = "negatable" if kind == "bool" else "space"
    aliases = tuple(each.partition("/")[0] for each in spellings if each != long)
    return Setting(
        arg.arg, flag, kind, default, style, choices, aliases, negation=negation or None,  # type: ignore[arg-type]
    )  # fmt: skip


def _in_annotation(annotation: ast.expr | None) -> ast.expr | None:
    match annotation:
        case ast.Subscript(value=outer, slice=ast.Tuple(elts=elements)):
            if spelled(outer).rsplit(".", 1)[-1] == "Annotated":
                return next((each for each in elements if isinstance(each, ast.Call)), None)
    return None
