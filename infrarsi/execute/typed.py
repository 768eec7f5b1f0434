"""Knob values as they are typed: flags and overrides among a program's own arguments."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence

from infrarsi.errors import ContractError
from infrarsi.records.base import Scalar
from infrarsi.records.command import (
    Form,
    Occurrence,
    arguments_end,
    find_flag,
    negation_of,
    split_command,
)
from infrarsi.records.task import Flag, Override

_NEGATIVE_NUMBER = re.compile(r"-\d+|-\d*\.\d+")
"""Negative numbers that argparse takes for a value and not for a flag."""
_BARE_OVERRIDE = re.compile(r"[A-Za-z_/][\w./:@%-]*")
_WORDS_OF_OVERRIDES = frozenset(
    {"null", "true", "false", "none", "nan", "inf", "yes", "no", "on", "off"}
)


def with_flag(command: Sequence[str], flag: Flag, value: Scalar) -> list[str]:
    """Give a command with a flag at a value, where it stood before or else at the end.

    It keeps the spelling and the form that the command gives it, and never lands among a
    launcher's own flags.

    Raises
    ------
    ContractError
        The command is a line for a shell, in which no flag has a place.
    """
    head, arguments = _split(command, flag.flag)
    found = find_flag(arguments, flag)
    typed = _typed(flag, value, [each for each in found if not each.is_negation][-1:])
    place = found[-1 if flag.style != "repeated" else 0].start if found else None
    if place is None:
        place = arguments_end(arguments)
    inside = {index for each in found for index in range(each.start, each.end)}
    before = [word for i, word in enumerate(arguments[:place]) if i not in inside]
    after = [word for i, word in enumerate(arguments[place:], place) if i not in inside]
    return [*head, *before, *typed, *after]


def with_override(command: Sequence[str], override: Override, value: Scalar) -> list[str]:
    """Give a command with ``key=value`` at a value, where it stood before or else at the end.

    Raises
    ------
    ContractError
        The command is a line for a shell.
    """
    head, arguments = _split(command, override.key)
    pattern = re.compile(rf"(\+\+|\+|~)?{re.escape(override.key)}=.*", re.DOTALL)
    found = [i for i, word in enumerate(arguments) if pattern.fullmatch(word)]
    place = found[-1] if found else arguments_end(arguments)
    prefix = override.prefix
    if found:
        match = pattern.fullmatch(arguments[place])
        prefix = (match and match.group(1)) or ""  # type: ignore[assignment]
    typed = (
        [] if value is None and prefix == "+" else [f"{prefix}{override.key}={_as_override(value)}"]
    )
    before = [word for i, word in enumerate(arguments[:place]) if i not in found]
    after = [word for i, word in enumerate(arguments[place:], place) if i not in found]
    return [*head, *before, *typed, *after]


def as_text(value: Scalar) -> str:
    """Write a value as flags and environment variables hold it."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case _:
            return json.dumps(value)


def _split(command: Sequence[str], what: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    split = split_command(command)
    if split.is_shell_line:
        raise ContractError(
            f"{what} has no place in the command, which hands a line to a shell",
            hint='give the command itself, or a script that passes its arguments on with "$@"',
        )
    return split.words[: split.start], split.arguments


def _typed(flag: Flag, value: Scalar, before: Sequence[Occurrence]) -> list[str]:
    """Give the words of a flag; ``before`` is how the command typed it, if it did."""
    name = before[-1].name if before else flag.flag
    form = before[-1].form if before else None
    match flag.style:
        case "presence":
            return [name] if value else []
        case "negatable":
            no = negation_of(flag)
            assert no is not None, "the record sees to it"
            return [name if value else no]
        case "python":
            return _joined(name, value if isinstance(value, str) else repr(value), form or "equals")
        case _ if value is None:
            return []
        case "list":
            return [name, *shlex.split(as_text(value))]
        case "repeated":
            words = shlex.split(as_text(value))
            return [typed for word in words for typed in _joined(name, word, form or "space")]
        case "space" | "equals":
            return _joined(name, as_text(value), form or flag.style)


def _joined(name: str, text: str, form: Form) -> list[str]:
    match form:
        case "attached" if text:
            return [f"{name}{text}"]
        case "space" | "attached" if not text.startswith("-") or _NEGATIVE_NUMBER.fullmatch(text):
            return [name, text]
        case _ if name.startswith("--") or form == "equals":
            return [f"{name}={text}"]
        case _:
            return [f"{name}{text}"] if text else [name, text]


def _as_override(value: Scalar) -> str:
    match value:
        case None:
            return "null"
        case str() if _BARE_OVERRIDE.fullmatch(value) and value.lower() not in _WORDS_OF_OVERRIDES:
            return value
        case str():
            # Hydra: a quote is escaped, and so are backslashes that would touch a quote.
            said = re.sub(r"(\\*)'", r"\1\1\\'", value)
            said = re.sub(r"(\\+)$", r"\1\1", said)
            return f"'{said}'"
        case _:
            return as_text(value)
