"""From knob values to what is typed, set and written: the launch that a candidate names."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from infrarsi.edits.config_file import has_key, value_at, with_key
from infrarsi.errors import ContractError
from infrarsi.execute.sandbox import allowed_environment
from infrarsi.execute.typed import as_text, with_flag, with_override
from infrarsi.records.base import Scalar
from infrarsi.records.command import find_flag, split_command
from infrarsi.records.constraint import first_broken, values_in_words
from infrarsi.records.task import (
    ConfigKey,
    Environment,
    Flag,
    Knob,
    Override,
    Task,
    same_scalar,
)

_SETTING = re.compile(r"[^=:]*")


@dataclass(frozen=True)
class Invocation:
    """A launch: arguments, environment variables and configuration files that it needs."""

    argv: tuple[str, ...]
    """As the user would type it; :func:`with_interpreter` has the training interpreter run it."""
    env: dict[str, str] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    files: dict[str, bytes] = field(default_factory=dict)


def invocation_of(
    task: Task,
    knobs: Mapping[str, Scalar],
    files: Mapping[str, bytes],
    *,
    environ: Mapping[str, str] | None = None,
) -> Invocation:
    """Give the launch of these knob values.

    A knob at its default leaves the reference's command and files as they are. An environment
    variable is set at its default too, so that the reference is the same in every shell.

    Parameters
    ----------
    task
        The locked task.
    knobs
        Value by knob name; a knob left out stands at its default.
    files
        Contents of the configuration files that ``config`` knobs name.
    environ
        The environment that a trial inherits: what a variable of several settings is added to.

    Raises
    ------
    ContractError
        A name is no knob, a value is none of the knob's, a constraint is broken, or a key
        cannot be set.
    """
    _check(task, knobs)
    inherited = allowed_environment(os.environ) if environ is None else environ
    argv, unset = list(task.command), list[str]()
    env: dict[str, str] = {}
    written: dict[str, bytes] = {}
    for knob in task.surface.knobs:
        value = knobs.get(knob.name, knob.default)
        if isinstance(knob.reach, Environment):
            text = _variable(knob.reach, knob, value, {**inherited, **env})
            if text is not None:
                env[knob.reach.variable] = text
            elif not same_scalar(value, knob.default):
                unset.append(knob.reach.variable)
                env.pop(knob.reach.variable, None)
        if same_scalar(value, knob.default):
            continue
        match knob.reach:
            case Flag() as flag:
                argv = with_flag(argv, flag, value)
            case Override() as override:
                argv = with_override(argv, override, value)
            case ConfigKey(file=file, key=key, absent=absent):
                before = written.get(file, files.get(file))
                written[file] = with_key(file, before, key, value, add=absent)
            case Environment():
                pass
    return Invocation(tuple(argv), env, tuple(unset), written)


def check_reference(task: Task, files: Mapping[str, bytes]) -> None:
    """Refuse a contract whose knobs' defaults are not what the reference launch says.

    Parameters
    ----------
    task
        The task to check.
    files
        Contents of the configuration files that ``config`` knobs name.

    Raises
    ------
    ContractError
        A flag or key of the reference has another value than its knob's default, or a key
        cannot be set.
    """
    arguments = split_command(task.command).arguments
    for knob in task.surface.knobs:
        match knob.reach:
            case Flag() as flag:
                where, said = flag.flag, _said_by_flag(arguments, flag, knob.default)
            case ConfigKey(file=file, key=key) as place:
                where, said = f"{key} in {file}", _said_by_file(place, knob, files.get(file))
            case Override(key=key):
                heads = {f"{prefix}{key}" for prefix in ("", "+", "++")}
                said_all = [w.partition("=")[2] for w in arguments if w.partition("=")[0] in heads]
                where, said = key, said_all[-1] if said_all else None
            case Environment():
                continue
        if said is not None and not _same_text(said, knob.default):
            raise ContractError(
                f"the knob {knob.name!r} has the default {knob.default!r}, but the reference "
                f"launch has {said} for {where}",
                hint="correct the knob's default: it is the value of the reference launch",
            )


def reached_by(knob: Knob) -> str:
    """Say how a knob reaches the program, for a person."""
    match knob.reach:
        case Flag(flag=flag):
            return flag
        case Environment(variable=variable):
            return f"${variable}"
        case ConfigKey(file=file, key=key):
            return f"{file}: {key}"
        case Override(key=key, prefix=prefix):
            return f"{prefix}{key}="


def _check(task: Task, knobs: Mapping[str, Scalar]) -> None:
    known = {knob.name: knob for knob in task.surface.knobs}
    for name, value in knobs.items():
        knob = known.get(name)
        if knob is None:
            raise ContractError(
                f"there is no knob {name!r}",
                hint=f"use one that the contract has: {', '.join(known) or 'none'}",
            )
        if not any(same_scalar(value, each) for each in knob.values):
            raise ContractError(
                f"{value!r} is not a value of the knob {name!r}",
                hint=f"use one that it takes: {', '.join(map(repr, knob.values))}",
            )
    values = {**task.surface.default_knobs(), **knobs}
    broken = first_broken(task.surface.constraints, values)
    if broken is not None:
        raise ContractError(
            f"the constraint {broken!r} is broken by {values_in_words(broken, values)}",
            hint="choose values that meet it, or correct the constraint and lock anew with "
            "`infrarsi init --relock`",
        )


def _variable(
    reach: Environment, knob: Knob, value: Scalar, environ: Mapping[str, str]
) -> str | None:
    """Give a variable's whole text, or ``None`` where it is left alone or taken away."""
    if reach.separator is None or (value is None and knob.default is None):
        return None if value is None else as_text(value)
    mark = reach.separator
    settings = _settings(as_text(value), mark) if value is not None else []
    replaced = [*settings, *(_settings(as_text(knob.default), mark) if knob.default else [])]
    names = {_name_of(each) for each in replaced}
    present = _settings(environ.get(reach.variable, ""), mark)
    kept = [each for each in present if _name_of(each) not in names]
    return mark.join([*kept, *settings]) or None


def _settings(text: str, mark: str) -> list[str]:
    """Split a variable at a mark, but not within brackets: ``a:[256:1,512:2],b:3``."""
    parts, depth = [""], 0
    index = 0
    while index < len(text):
        depth += (text[index] == "[") - (text[index] == "]")
        if depth <= 0 and text.startswith(mark, index):
            parts.append("")
            index += len(mark)
        else:
            parts[-1] += text[index]
            index += 1
    return [part for part in parts if part.strip()]


def _name_of(setting: str) -> str:
    match = _SETTING.match(setting)
    return (match.group() if match else setting).strip()


def _said_by_file(place: ConfigKey, knob: Knob, content: bytes | None) -> str | None:
    """Give what a file says for a key, having seen that it can be set."""
    if place.absent and not has_key(place.file, content, place.key):
        with_key(place.file, content, place.key, knob.default, add=True)
        return None
    present = value_at(place.file, content, place.key)
    with_key(place.file, content, place.key, present)
    return as_text(present)


def _said_by_flag(arguments: tuple[str, ...], flag: Flag, default: Scalar) -> str | None:
    """Give what the reference says for a flag; ``None`` where it says nothing."""
    found = find_flag(arguments, flag)
    if flag.style == "presence":
        return as_text(bool(found))
    if not found:
        return None
    last = found[-1]
    if last.is_negation:
        return "false"
    if flag.style == "repeated":
        return " ".join(word for each in found for word in each.values)
    if not last.values:
        return "true" if isinstance(default, bool) else ""
    return " ".join(last.values)


def _same_text(said: str, value: Scalar) -> bool:
    """Tell whether a text means a value, in any of the ways to write it."""
    match value:
        case bool():
            return said.lower() in ({"true", "1", "yes", "y", "t"} if value else
                                    {"false", "0", "no", "n", "f"})  # fmt: skip
        case None:
            return said.lower() in {"none", "null", ""}
        case int() | float():
            try:
                return float(said) == float(value)
            except ValueError:
                return False
        case str():
            return said.strip("'\"") == value.strip("'\"")
