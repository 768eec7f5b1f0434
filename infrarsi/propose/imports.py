"""Which files of a repository a script imports."""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath


def reachable_files(sources: Mapping[str, str], entry: str) -> frozenset[str]:
    """Give the entry script and every file that it imports, directly or through another.

    A module is looked up beside the importing file, at the root, and in any other folder that
    holds a file of that dotted name, since search paths are set in many ways. A string that
    names a file (``exec(open("configurator.py").read())``) counts too. An entry that is not
    among the sources gives all of them.
    """
    return frozenset(files_in_order(sources, entry) if entry in sources else sources)


def files_in_order(sources: Mapping[str, str], entry: str) -> tuple[str, ...]:
    """Give the same files, the entry first, then those nearest to it by imports."""
    found: dict[str, None] = {}
    pending = deque([entry])
    while pending:
        path = pending.popleft()
        if path in found:
            continue
        found[path] = None
        for name in _mentioned(sources[path], PurePosixPath(path)):
            pending += _files_of(sources, name, PurePosixPath(path).parent)
    return tuple(found)


def _mentioned(text: str, path: PurePosixPath) -> Iterator[str]:
    """Give the slashed names of all modules, and files, that a source mentions."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Import(names=names):
                yield from (each.name.replace(".", "/") for each in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                base = (
                    list(path.parent.parts[: len(path.parent.parts) - level + 1]) if level else []
                )
                prefix = "/".join([*base, *(module or "").split(".")]).strip("/")
                yield prefix
                yield from (f"{prefix}/{each.name}".strip("/") for each in names)
            case ast.Constant(value=str() as value) if value.endswith(".py") and "\n" not in value:
                yield value.removesuffix(".py").removeprefix("./")


def _files_of(sources: Mapping[str, str], name: str, folder: PurePosixPath) -> list[str]:
    if not name:
        return []
    endings = (f"{name}.py", f"{name}/__init__.py")
    # A package's own __init__ runs before any module in it.
    parents = [str(each / "__init__.py") for each in PurePosixPath(name).parents]
    near = [str(folder / ending) for ending in endings]
    exact = [path for path in (*near, *endings) if path in sources]
    anywhere = [path for path in sources if any(path.endswith(f"/{ending}") for ending in endings)]
    return [*(exact[:1] or anywhere), *(path for path in parents if path in sources)]
