"""What a command, or the arguments' file that it names, says about TrainingArguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from infrarsi.edits.config_file import is_config_file, keys_in
from infrarsi.errors import ContractError
from infrarsi.frameworks.training_arguments import TrainingArguments
from infrarsi.records.base import Scalar
from infrarsi.records.command import Occurrence, find_flag, split_command
from infrarsi.records.task import ConfigKey, Flag

_SWITCHES = {word: True for word in ("yes", "true", "t", "y", "1")} | {
    word: False for word in ("no", "false", "f", "n", "0")
}
"""How transformers' own parser reads a boolean."""


@dataclass(frozen=True)
class Said:
    """The values that a launch names, and where it names them."""

    arguments: tuple[str, ...]
    """The program's own words; none where it reads a file instead."""
    defaults: Mapping[str, Scalar]
    """Defaults of the program's own."""
    file: str | None = None
    """The arguments' file, from the root, where there is one."""
    content: Mapping[str, Scalar] | None = None
    """Its keys that can be set."""
    takes_flags: bool = True

    def names(self, name: str) -> bool:
        """Tell whether the launch, or a default of the program's own, says a value."""
        in_file = name in (self.content or {})
        return in_file or name in self.defaults or self._typed(name) is not None

    def reach(self, name: str) -> Flag | ConfigKey | None:
        """Give the way to a setting; none where the program reads a file without that key."""
        typed = self._typed(name)
        if typed is None and name in (self.content or {}) and self.file is not None:
            return ConfigKey(file=self.file, key=name)
        if not self.takes_flags:
            return None
        spelled = typed.name if typed and not typed.is_negation else f"--{name}"
        return Flag(flag=spelled, negation=f"--no_{name}")

    def value(self, name: str, default: Scalar, *, boolean: bool = False) -> Scalar:
        """Give the value that the launch has for a setting."""
        typed = self._typed(name)
        if typed is None:
            return (self.content or {}).get(name, self.defaults.get(name, default))
        if typed.is_negation or not typed.values:
            return not typed.is_negation
        return _read(typed.values[0], boolean=boolean)

    def _typed(self, name: str) -> Occurrence | None:
        found = find_flag(self.arguments, Flag(flag=f"--{name}", negation=f"--no_{name}"))
        return found[-1] if found else None


def read_said(
    found: TrainingArguments,
    command: Sequence[str],
    *,
    configured: Mapping[str, bytes],
    folder: str,
) -> Said | None:
    """Read a command; nothing where it names no file and the program takes no flags."""
    arguments = split_command(command).arguments
    chosen = find_flag(arguments, Flag(flag="--config"))
    named = chosen[-1].values if chosen else arguments if len(arguments) == 1 else ()
    file = str(PurePosixPath(folder) / named[0]) if named else ""
    if not (found.from_file and file in configured and is_config_file(file)):
        return Said(arguments, found.defaults) if found.from_flags else None
    try:
        content = keys_in(file, configured[file])
    except ContractError:  # the program cannot read it either: the rehearsal will say so
        return None
    # transformers reads either a file or flags; trl reads --config and flags, the flags last.
    both = bool(chosen)
    return Said(arguments if both else (), found.defaults, file, content, takes_flags=both)


def _read(text: str, *, boolean: bool) -> Scalar:
    """Read a flag's text: as a switch where one is wanted, else as what it looks like."""
    if boolean:
        return _SWITCHES.get(text.lower(), text)
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return None if text == "None" else text
