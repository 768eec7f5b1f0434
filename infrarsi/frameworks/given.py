"""What a launch gives for each setting of its program, and by what it would be given another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from infrarsi.frameworks.program import Setting
from infrarsi.records.base import Scalar
from infrarsi.records.command import Occurrence, find_flag, same_flag, split_command
from infrarsi.records.task import ConfigKey, Flag, Override

_YES = frozenset({"true", "t", "yes", "y", "1", "on"})
_NO = frozenset({"false", "f", "no", "n", "0", "off"})


@dataclass(frozen=True)
class Given:
    """One setting as the reference launch has it."""

    setting: Setting
    name: str
    """What a knob of it is called: short where that is unmistakable."""
    value: Scalar
    reach: Flag | ConfigKey | Override


def given_values(settings: Sequence[Setting], command: Sequence[str]) -> tuple[Given, ...]:
    """Give each setting's value in the reference launch; unreadable ones are left out.

    A flag is known in every spelling that its program takes: aliases, and long flags cut short
    as argparse allows. The spelling that the command uses is the one that a knob will use.
    """
    arguments = split_command(command).arguments
    short = Counter(each.known_as for each in settings)
    found: dict[str, Given] = {}
    for each in settings:
        name = each.known_as if short[each.known_as] == 1 else each.name
        given = _given(each, name, arguments, settings)
        if given is not None and name not in found:
            found[name] = given
    return tuple(found.values())


def _given(
    setting: Setting, name: str, arguments: Sequence[str], settings: Sequence[Setting]
) -> Given | None:
    match setting.place:
        case ConfigKey() as place:
            return Given(setting, name, setting.default, place)
        case Override(key=key) as place:
            heads = {f"{prefix}{key}" for prefix in ("", "+", "++")}
            said = [word.partition("=") for word in arguments if word.partition("=")[0] in heads]
            value = _parsed(setting, said[-1][2]) if said else setting.default
            return Given(setting, name, value, place)
        case None:
            pass
    spellings = [setting.flag, *setting.aliases, *_cut_short(setting, arguments, settings)]
    typed = [each for one in spellings for each in find_flag(arguments, setting.as_flag(one))]
    if not typed:
        return Given(setting, name, setting.default, setting.as_flag())
    last = max(typed, key=lambda each: each.start)
    value = _value_of(setting, last)
    if value is None:
        return None
    reach = setting.as_flag() if last.is_negation else setting.as_flag(last.name)
    return Given(setting, name, value, reach)


def _cut_short(
    setting: Setting, arguments: Sequence[str], settings: Sequence[Setting]
) -> list[str]:
    """Give the spellings in a command that are this long flag cut short, and no other's."""
    flags = {flag for each in settings for flag in (each.flag, *each.aliases) if flag}
    found = []
    for word in arguments:
        name = word.partition("=")[0]
        if not name.startswith("--") or name == "--" or any(same_flag(name, f) for f in flags):
            continue
        if [flag for flag in flags if flag.startswith(name)] == [setting.flag]:
            found.append(name)
    return found


def _value_of(setting: Setting, typed: Occurrence) -> Scalar:
    if typed.is_negation:
        return False
    if not typed.values:
        return True if setting.kind == "bool" else None
    return _parsed(setting, typed.values[0])


def _parsed(setting: Setting, said: str) -> Scalar:
    try:
        match setting.kind:
            case "int":
                return int(said)
            case "float":
                return float(said)
            case "bool":
                return True if said.lower() in _YES else False if said.lower() in _NO else None
            case "str":
                return said
    except ValueError:
        return None
