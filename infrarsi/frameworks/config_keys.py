"""Settings that stand in configuration files: those that a command names, and Hydra's."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterator, Sequence

from infrarsi.edits.config_file import is_config_file, keys_in
from infrarsi.errors import ContractError
from infrarsi.frameworks.annotations import ScalarKind, literal
from infrarsi.frameworks.program import Setting
from infrarsi.frameworks.sources import Sources
from infrarsi.records.base import Scalar
from infrarsi.records.command import SplitCommand, split_command
from infrarsi.records.task import ConfigKey, Override

_NOT_TRAINING = frozenset({
    "eval", "evaluation", "val", "valid", "validation", "test", "testing", "infer", "inference",
    "generate", "generation", "sample", "sampling", "hydra",
})  # fmt: skip
"""Tables whose settings do not touch the training."""
_LARGEST_BYTES = 500_000
"""A larger file holds data (a tokenizer's words), and no settings."""
_KINDS: dict[str, ScalarKind] = {"bool": "bool", "int": "int", "float": "float", "str": "str"}


def config_files_named(
    command: Sequence[str], folder: str, tracked: Collection[str]
) -> tuple[str, ...]:
    """Give the configuration files among a program's own arguments, by path from the root."""
    found: dict[str, None] = {}
    for word in split_command(command).arguments:
        for said in (
            word,
            word.partition("=")[2],
        ):  # conf.yaml, --config=conf.yaml, config=conf.yaml
            path = posixpath.normpath(posixpath.join(folder, said))
            if said and is_config_file(said) and path in tracked:
                found[path] = None
    return tuple(found)


def hydra_files(
    sources: Sources, command: Sequence[str], *, tracked: Collection[str]
) -> dict[str, str]:
    """Give the files that Hydra composes, as far as source and command show: path by prefix.

    The prefix is what Hydra puts before the keys of a file: empty for the primary one.
    """
    names = _hydra_main(sources)
    if names is None:
        return {}
    split = split_command(command)
    folder = _option(split, "--config-path", "-cp") or names[0]
    name = _option(split, "--config-name", "-cn") or names[1]
    base = posixpath.normpath(posixpath.join(posixpath.dirname(sources.entry), folder))
    for ending in ("", ".yaml", ".yml"):
        path = posixpath.join(base, name + ending)
        if path in tracked and is_config_file(path):
            return {"": path}
    return {}


def group_files(
    primary: str, content: bytes, command: Sequence[str], *, tracked: Collection[str]
) -> dict[str, str]:
    """Give the files that a primary configuration's ``defaults`` choose, by the keys' prefix."""
    import yaml

    try:
        loaded = yaml.safe_load(content.decode("utf-8"))
    except (UnicodeDecodeError, yaml.YAMLError):
        return {}
    chosen = loaded.get("defaults") if isinstance(loaded, dict) else None
    said = dict(word.split("=", 1) for word in split_command(command).arguments if "=" in word)
    found: dict[str, str] = {}
    for each in chosen if isinstance(chosen, list) else ():
        for group, name in each.items() if isinstance(each, dict) else ():
            plain = str(group).rsplit(" ", 1)[-1]
            named = f"{plain}/{said.get(plain, name)}.yaml"
            file = posixpath.join(posixpath.dirname(primary), named)
            if "@" not in plain and file in tracked:
                found[f"{plain.replace('/', '.')}."] = file
    return found


def file_settings(file: str, content: bytes, command: Sequence[str] = ()) -> tuple[Setting, ...]:
    """Give the settings in a file that a program reads; none where it cannot be read.

    A key that the command itself overrides, as OmegaConf and Hydra have it, is set there.
    """
    said = {word.partition("=")[0].lstrip("+") for word in split_command(command).arguments}
    return tuple(
        _setting(key, value, Override(key=key) if key in said else ConfigKey(file=file, key=key))
        for key, value in _keys(file, content)
    )


def hydra_settings(file: str, content: bytes, prefix: str) -> tuple[Setting, ...]:
    """Give the settings in a file that Hydra composes: each is set by an override."""
    if b"@package" in content.split(b"\n\n", 1)[0]:
        prefix = ""
    return tuple(
        _setting(f"{prefix}{key}", value, Override(key=f"{prefix}{key}"))
        for key, value in _keys(file, content)
        if not key.startswith("defaults.")
    )


def _keys(file: str, content: bytes) -> Iterator[tuple[str, Scalar]]:
    if len(content) > _LARGEST_BYTES:
        return
    try:
        known = keys_in(file, content)
    except ContractError:
        return
    for key, value in known.items():
        if value is not None and _NOT_TRAINING.isdisjoint(key.lower().split(".")[:-1]):
            yield key, value


def _setting(key: str, value: Scalar, place: ConfigKey | Override) -> Setting:
    return Setting(
        name=key.replace(".", "_").replace("-", "_"), flag="", kind=_KINDS[type(value).__name__],
        default=value, style="space", place=place, path=key,
    )  # fmt: skip


def _hydra_main(sources: Sources) -> tuple[str, str] | None:
    """Give ``config_path`` and ``config_name`` of ``@hydra.main``."""
    for name, call in sources.calls:
        if name == "hydra.main":
            given = {word.arg: literal(word.value) for word in call.keywords if word.arg}
            positional = [literal(each) for each in call.args]
            path = given.get("config_path", positional[0] if positional else ".")
            config = given.get("config_name", positional[1] if len(positional) > 1 else None)
            if isinstance(config, str):
                return (path if isinstance(path, str) else "."), config
    return None


def _option(command: SplitCommand, *spellings: str) -> str | None:
    words = command.arguments
    for word, after in zip(words, (*words, "")[1:], strict=True):
        name, equals, said = word.partition("=")
        if name in spellings:
            return said if equals else after
    return None
