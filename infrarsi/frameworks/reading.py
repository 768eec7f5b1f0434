"""All settings of a program, however it declares them, each once."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Mapping, Sequence

from infrarsi.edits.config_file import is_config_file
from infrarsi.frameworks.click_flags import click_settings
from infrarsi.frameworks.config_keys import file_settings, hydra_settings
from infrarsi.frameworks.configurator import configurator_settings
from infrarsi.frameworks.dataclass_flags import dataclass_settings
from infrarsi.frameworks.program import Setting, argparse_settings
from infrarsi.frameworks.sources import Sources
from infrarsi.records.command import find_flag, split_command


def read_settings(
    sources: Sources,
    command: Sequence[str],
    *,
    texts: Mapping[str, str],
    configured: Mapping[str, bytes],
    composed: Mapping[str, tuple[str, bytes]],
    folder: str = ".",
) -> tuple[Setting, ...]:
    """Read the settings that a program takes from outside.

    What the command says itself comes first, then what stands in a configuration file, then
    a flag's default: of two settings of one name the one that counts is kept.

    Parameters
    ----------
    sources
        The entry script and what it imports.
    command
        The reference launch.
    texts
        Python files by path, those that the command names among them.
    configured
        Contents of the configuration files that the command names, by path.
    composed
        Path and content of the files that Hydra composes, by the prefix of their keys.
    folder
        Where the command runs, relative to the root.
    """
    flags = [
        *argparse_settings(sources.nodes),
        *click_settings(sources),
        *dataclass_settings(sources),
        *configurator_settings(sources, command, texts=texts, folder=folder),
    ]
    keys: list[Setting] = []
    for file, content in configured.items():
        keys += file_settings(file, content, command)
    for prefix, (file, content) in composed.items():
        keys += hydra_settings(file, content, prefix)
    arguments = split_command(command).arguments
    typed = [each for each in flags if _is_typed(each, arguments)]
    return _each_once([*typed, *keys, *_unmistakable(flags)])


def files_by_default(
    sources: Sources, command: Sequence[str], *, folder: str, tracked: Collection[str]
) -> tuple[str, ...]:
    """Give the configuration files that a flag names by its default, by path from the root."""
    arguments = split_command(command).arguments
    flags = (*argparse_settings(sources.nodes), *click_settings(sources))
    named = [
        posixpath.normpath(posixpath.join(folder, each.default))
        for each in flags
        if isinstance(each.default, str)
        and is_config_file(each.default)
        and not _is_typed(each, arguments)
    ]
    return tuple(dict.fromkeys(path for path in named if path in tracked))


def _is_typed(setting: Setting, arguments: Sequence[str]) -> bool:
    spellings = (setting.flag, *setting.aliases)
    return any(find_flag(arguments, setting.as_flag(each)) for each in spellings)


def _unmistakable(flags: Sequence[Setting]) -> list[Setting]:
    """Leave out flags that are declared twice, with other defaults: who knows which counts."""
    return [
        each
        for each in flags
        if all(
            (other.default, other.kind, other.style) == (each.default, each.kind, each.style)
            for other in flags
            if other.flag == each.flag
        )
    ]


def _each_once(settings: Iterable[Setting]) -> tuple[Setting, ...]:
    kept: list[Setting] = []
    for each in settings:
        if not any(_are_one(each, other) for other in kept):
            kept.append(each)
    return tuple(kept)


def _are_one(left: Setting, right: Setting) -> bool:
    """Tell whether two settings are one: a flat flag stands for the key of its name anywhere."""
    paths = [(each.path or each.name).replace("-", "_") for each in (left, right)]
    if paths[0] == paths[1]:
        return True
    if (left.place is None) == (right.place is None):
        return False
    flag, key = paths if left.place is None else reversed(paths)
    return "." not in flag and key.rsplit(".", 1)[-1] == flag
