"""A command taken apart: what launches it, and which of its words the training program reads."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from infrarsi.records.launcher import read_command
from infrarsi.records.task import Flag

Form: TypeAlias = Literal["space", "equals", "attached", "bare"]
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "fish"})
_NUMBER = re.compile(r"-\d+|-\d*\.\d+([eE][-+]?\d+)?")


@dataclass(frozen=True)
class SplitCommand:
    """A command, split where the training program's own arguments begin."""

    words: tuple[str, ...]
    start: int
    """Index of the first word that the training program itself reads."""
    script: str | None = None
    """The file that trains, as typed."""
    module: str | None = None
    """The module that trains, where ``-m`` names one."""
    is_shell_line: bool = False
    """Whether it hands one line to a shell: nothing is known of the program then."""

    @property
    def arguments(self) -> tuple[str, ...]:
        """The words that the training program itself reads."""
        return self.words[self.start :]


def split_command(words: Sequence[str]) -> SplitCommand:
    """Split a command where the training program's own arguments begin.

    Where no program is found, all words but the first count as arguments.
    """
    command = read_command(words)
    shell = next((i for i, w in enumerate(words) if w.rsplit("/", 1)[-1] in _SHELLS), None)
    if shell is not None and shell < (command.script if command.script is not None else len(words)):
        line = any(w.startswith("-") and "c" in w for w in words[shell + 1 : shell + 3])
        if line:
            return SplitCommand(command.words, len(command.words), is_shell_line=True)
    if command.script is None:
        start = min(1 if command.program is None else command.program + 1, len(command.words))
        return SplitCommand(command.words, start)
    named = command.words[command.script]
    return SplitCommand(
        command.words, command.first_argument,
        script=None if command.is_module else named, module=named if command.is_module else None,
    )  # fmt: skip


def same_flag(left: str, right: str) -> bool:
    """Tell whether two spellings mean the same flag, dashes and underscores alike."""
    dashes = len(left) - len(left.lstrip("-")), len(right) - len(right.lstrip("-"))
    return dashes[0] == dashes[1] and left.replace("_", "-") == right.replace("_", "-")


def is_value(word: str) -> bool:
    """Tell whether a word after a flag is its value, and not a flag."""
    return not word.startswith("-") or word == "-" or _NUMBER.fullmatch(word) is not None


@dataclass(frozen=True)
class Occurrence:
    """A flag as it stands among a program's arguments: ``arguments[start:end]``."""

    start: int
    end: int
    name: str
    """The flag as spelled there."""
    form: Form
    """``--x V``, ``--x=V``, ``-xV``, or alone."""
    values: tuple[str, ...]
    is_negation: bool = False


def arguments_end(arguments: Sequence[str]) -> int:
    """Give the index up to which flags are read: the first ``--``, or the end."""
    return list(arguments).index("--") if "--" in arguments else len(arguments)


def negation_of(flag: Flag) -> str | None:
    """Give the flag that says no; a short flag has none of its own accord."""
    if flag.negation is not None:
        return flag.negation
    return "--no-" + flag.flag.removeprefix("--") if flag.flag.startswith("--") else None


def find_flag(arguments: Sequence[str], flag: Flag) -> tuple[Occurrence, ...]:
    """Find where a flag, or its negation, stands among a program's own arguments."""
    found: list[Occurrence] = []
    end, index = arguments_end(arguments), 0
    while index < end:
        occurrence = _occurrence_at(arguments[:end], index, flag)
        index = index + 1 if occurrence is None else occurrence.end
        if occurrence is not None:
            found.append(occurrence)
    return tuple(found)


def _occurrence_at(arguments: Sequence[str], index: int, flag: Flag) -> Occurrence | None:
    word = arguments[index]
    name, equals, said = word.partition("=")
    negation = negation_of(flag)
    if negation is not None and same_flag(name, negation):
        return Occurrence(index, index + 1, name, "bare", (), is_negation=True)
    takes_value = flag.style not in {"presence", "negatable"}
    is_short = len(flag.flag) == 2 and takes_value
    if is_short and word.startswith(flag.flag) and len(word) > 2:
        return Occurrence(index, index + 1, flag.flag, "attached", (word[2:].removeprefix("="),))
    if not same_flag(name, flag.flag):
        return None
    if equals:
        return Occurrence(index, index + 1, name, "equals", (said,))
    after = index + 1
    most = len(arguments) if flag.style == "list" else after + takes_value
    while after < min(most, len(arguments)) and is_value(arguments[after]):
        after += 1
    values = tuple(arguments[index + 1 : after])
    return Occurrence(index, after, name, "space" if values else "bare", values)
