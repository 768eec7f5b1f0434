"""From knob values to what is typed, set and written: the launch that a candidate names."""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

import yaml

from infrarsi.errors import ContractError
from infrarsi.records.base import Scalar
from infrarsi.records.task import ConfigKey, Environment, Flag, Knob, Task, same_scalar


@dataclass(frozen=True)
class Invocation:
    """A launch: arguments, environment variables and configuration files that it needs."""

    argv: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    files: dict[str, bytes] = field(default_factory=dict)


def invocation_of(
    task: Task, knobs: Mapping[str, Scalar], files: Mapping[str, bytes]
) -> Invocation:
    """Give the launch of these knob values.

    A knob at its default leaves the reference launch as it is.

    Parameters
    ----------
    task
        The locked task.
    knobs
        Value by knob name; a knob left out stands at its default.
    files
        Contents of the configuration files that ``config`` knobs name.

    Raises
    ------
    ContractError
        A name is no knob, a value is none of the knob's, or a key cannot be set.
    """
    known = {knob.name: knob for knob in task.surface.knobs}
    argv, unset = list(task.command), list[str]()
    env: dict[str, str] = {}
    written: dict[str, bytes] = {}
    for name, value in knobs.items():
        knob = known.get(name)
        if knob is None:
            raise ContractError(
                f"there is no knob {name!r}", hint=f"the contract has: {', '.join(known) or 'none'}"
            )
        if not any(same_scalar(value, each) for each in knob.values):
            raise ContractError(
                f"{value!r} is not a value of the knob {name!r}",
                hint=f"it takes: {', '.join(map(repr, knob.values))}",
            )
        if same_scalar(value, knob.default):
            continue
        match knob.reach:
            case Flag() as flag:
                argv = _with_flag(argv, flag, value)
            case Environment(variable=variable) if value is None:
                unset.append(variable)
            case Environment(variable=variable):
                env[variable] = _as_text(value)
            case ConfigKey(file=file, key=key):
                before = written.get(file, files.get(file))
                written[file] = _with_key(before, file, key, value)
    return Invocation(tuple(_with_interpreter(argv, task)), env, tuple(unset), written)


def reached_by(knob: Knob) -> str:
    """Say how a knob reaches the program, for a person."""
    match knob.reach:
        case Flag(flag=flag):
            return flag
        case Environment(variable=variable):
            return f"${variable}"
        case ConfigKey(file=file, key=key):
            return f"{file}: {key}"


def _with_interpreter(argv: list[str], task: Task) -> list[str]:
    if PurePosixPath(argv[0]).name in {"python", "python3"} and (task.python or "/" not in argv[0]):
        return [task.python or sys.executable, *argv[1:]]
    return argv


def _with_flag(argv: list[str], flag: Flag, value: Scalar) -> list[str]:
    kept = _without_flag(argv, flag)
    match flag.style:
        case "presence":
            return [*kept, flag.flag] if value else kept
        case "negatable":
            negation = flag.negation or "--no-" + flag.flag.removeprefix("--")
            return [*kept, flag.flag if value else negation]
        case "equals":
            return kept if value is None else [*kept, f"{flag.flag}={_as_text(value)}"]
        case "space":
            return kept if value is None else [*kept, flag.flag, _as_text(value)]


def _without_flag(argv: list[str], flag: Flag) -> list[str]:
    names = {flag.flag, flag.negation or "--no-" + flag.flag.removeprefix("--")}
    takes_value = flag.style == "space"
    kept: list[str] = []
    skip = False
    for argument in argv:
        if skip:
            skip = False
        elif argument in names:
            skip = takes_value
        elif argument.split("=", 1)[0] not in names:
            kept.append(argument)
    return kept


def _as_text(value: Scalar) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case _:
            return json.dumps(value)


def _with_key(before: bytes | None, file: str, key: str, value: Scalar) -> bytes:
    if before is None:
        raise ContractError(f"{file} is not in the commit", hint="correct the knob's file")
    suffix = PurePosixPath(file).suffix
    text = before.decode("utf-8")
    loaded: Any
    match suffix:
        case ".json":
            loaded = json.loads(text)
        case ".yaml" | ".yml":
            loaded = yaml.safe_load(text)
        case ".toml":
            return _with_toml_key(text, file, key, value)
        case _:
            raise ContractError(
                f"{file}: a knob's file must be YAML, TOML or JSON", hint="use a flag instead"
            )
    *tables, last = key.split(".")
    table = loaded
    for name in tables:
        table = table.get(name) if isinstance(table, dict) else None
    if not isinstance(table, dict):
        raise ContractError(f"{file} has no key {key}", hint="correct the knob's key")
    table[last] = value
    if suffix == ".json":
        return (json.dumps(loaded, indent=2, ensure_ascii=False) + "\n").encode()
    return yaml.safe_dump(loaded, sort_keys=False, allow_unicode=True).encode()


def _with_toml_key(text: str, file: str, key: str, value: Scalar) -> bytes:
    """Set a key in TOML by rewriting its one line, since the standard library cannot write."""
    *tables, last = key.split(".")
    wanted, table = ".".join(tables), ""
    lines = text.splitlines(keepends=True)
    for index, line in enumerate(lines):
        stripped = line.strip()
        if stripped.startswith("["):
            table = stripped.strip("[] \t").replace('"', "")
        elif table == wanted and stripped.split("=", 1)[0].strip().strip('"') == last:
            end = "\n" if line.endswith("\n") else ""
            said = json.dumps(value) if value is not None else '""'
            lines[index] = f"{line.split('=', 1)[0].rstrip()} = {said}{end}"
            tomllib.loads("".join(lines))
            return "".join(lines).encode()
    raise ContractError(f"{file} has no key {key}", hint="correct the knob's key")
