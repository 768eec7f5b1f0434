"""Settings that are the script's own globals, overridden by ``--key=value``, as in nanoGPT."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from infrarsi.frameworks.annotations import field_default
from infrarsi.frameworks.program import Setting
from infrarsi.frameworks.sources import Sources
from infrarsi.records.base import Scalar
from infrarsi.records.command import split_command


def configurator_settings(
    sources: Sources, command: Sequence[str], *, texts: Mapping[str, str], folder: str = "."
) -> tuple[Setting, ...]:
    """Find the globals of an entry script that runs a configurator over them.

    Parameters
    ----------
    sources
        The program.
    command
        The reference launch: a Python file among its arguments sets other defaults.
    texts
        Python files by path, those that the command names among them.
    folder
        Where the command runs, relative to the root.
    """
    entry = sources.trees.get(sources.entry)
    if entry is None:
        return ()
    end = next((i for i, each in enumerate(entry.body) if _runs_a_configurator(each)), None)
    if end is None:
        return ()
    values = dict(_globals(entry.body[:end]))
    for word in split_command(command).arguments:
        path = word if folder == "." else f"{folder}/{word}"
        if word.endswith(".py") and not word.startswith("--") and path in texts:
            try:
                values |= dict(_globals(ast.parse(texts[path]).body))
            except (SyntaxError, ValueError):
                return ()
    return tuple(
        Setting(
            name=name, flag=f"--{name}", kind=type(value).__name__, default=value,  # type: ignore[arg-type]
            style="python",
        )
        for name, value in values.items()
    )  # fmt: skip


def _runs_a_configurator(statement: ast.stmt) -> bool:
    """Tell whether a statement runs another file over the globals: ``exec(open(...).read())``."""
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Name(id="exec"), args=[given, *_])):
            return any(
                isinstance(node, ast.Constant) and str(node.value).endswith(".py")
                for node in ast.walk(given)
            )
        case _:
            return False


def _globals(body: Sequence[ast.stmt]) -> Iterator[tuple[str, Scalar]]:
    for statement in body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if not name.startswith("_"):
                known, default = field_default(value)
                if known and default is not None:
                    yield name, default
                elif (product := _product(value)) is not None:
                    yield name, product


def _product(node: ast.expr) -> int | None:
    """Give a product of whole numbers, as ``5 * 8`` is written."""
    match node:
        case ast.Constant(value=int() as number) if not isinstance(number, bool):
            return number
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            sides = _product(left), _product(right)
            return None if None in sides else (sides[0] or 0) * (sides[1] or 0)
        case _:
            return None
