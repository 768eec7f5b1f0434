"""One key of a configuration file set anew, every other byte left as it was."""

from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from infrarsi.edits.places import Layout, Path, Place, dotted, leaves
from infrarsi.edits.places_json import json_key, json_text, layout_of_json
from infrarsi.edits.places_toml import layout_of_toml, toml_key, toml_text
from infrarsi.edits.places_yaml import layout_of_yaml, yaml_key, yaml_text
from infrarsi.errors import ContractError
from infrarsi.records.base import Scalar

_BOM = "\ufeff"
_MOST_NAMED = 3


@dataclass(frozen=True)
class _Format:
    """How a kind of file is read and written."""

    layout: Callable[[str], Layout]
    written: Callable[[Any, Place], str]
    named: Callable[[str], str]
    """How a new key is written, up to its value."""
    loaded: Callable[[str], Any] | None
    """A reader that is not ours, to check our own by."""


_YAML = _Format(layout_of_yaml, yaml_text, yaml_key, None)
_FORMATS = {
    ".yaml": _YAML, ".yml": _YAML,
    ".json": _Format(layout_of_json, json_text, json_key, json.loads),
    ".toml": _Format(layout_of_toml, toml_text, toml_key, tomllib.loads),
}  # fmt: skip


def is_config_file(name: str) -> bool:
    """Tell by its name whether a file is one whose keys can be set."""
    return _suffix(name) in _FORMATS


def keys_in(file: str, content: bytes) -> dict[str, Scalar]:
    """Give every key of a file that can be set on its own, dotted, with its value.

    Raises
    ------
    ContractError
        The file cannot be read.
    """
    places = _read(file, content)[1].places
    names = [dotted(path) for path in places]
    return {
        dotted(path): place.value
        for path, place in places.items()
        if not place.why_not and names.count(dotted(path)) == 1
    }


def value_at(file: str, content: bytes | None, key: str) -> Scalar:
    """Give the value of one key.

    Raises
    ------
    ContractError
        The file or the key is not there, or the key cannot be set on its own.
    """
    places = _read(file, content)[1].places
    value: Scalar = places[_path_of(file, places, key)].value
    return value


def has_key(file: str, content: bytes | None, key: str) -> bool:
    """Tell whether a file has a key, or a table, of this name.

    Raises
    ------
    ContractError
        The file is not there, or cannot be read.
    """
    names = [dotted(path) for path in _read(file, content)[1].places]
    return any(name == key or name.startswith(f"{key}.") for name in names)


def with_key(
    file: str, content: bytes | None, key: str, value: Scalar, *, add: bool = False
) -> bytes:
    """Give a file with one key at another value.

    Comments, order, quotes, anchors, line ends and a byte-order mark stay. The file is read
    again afterwards: exactly this key must have changed, to exactly this value.

    Parameters
    ----------
    file
        Its name: the ending tells its kind.
    content
        Its bytes; ``None`` where it is not there.
    key
        The key, dotted.
    value
        The new value.
    add
        Whether a key that is not there is added to its table.

    Raises
    ------
    ContractError
        The file or the key is not there, the key cannot be set on its own, or the proof fails.
    """
    text, layout = _read(file, content)
    if add and not has_key(file, content, key):
        path, changed = _added(file, text, layout, key, value)
    else:
        path = _path_of(file, layout.places, key)
        place = layout.places[path]
        said = _written(file, key, value, place)
        if place.start == place.end and not text[: place.start].endswith((" ", "\t", "\n")):
            said = f" {said}"
        changed = text[: place.start] + said + text[place.end :]
    _prove(file, (text, changed), path, value)
    bom = _BOM if (content or b"").startswith(_BOM.encode()) else ""
    return (bom + changed).encode()


def _written(file: str, key: str, value: Scalar, place: Place) -> str:
    try:
        return _FORMATS[_suffix(file)].written(value, place)
    except ValueError as error:
        raise ContractError(
            f"{file}: {key} cannot be set to {value!r}: {error}",
            hint="take this value out of the knob's values, or reach the program by a flag",
        ) from error


def _added(file: str, text: str, layout: Layout, key: str, value: Scalar) -> tuple[Path, str]:
    """Give the path of a new key and the text with it, the first of its table."""
    table, _, name = key.rpartition(".")
    gaps = {dotted(path): (path, gap) for path, gap in layout.gaps.items()}
    if table not in gaps:
        raise ContractError(
            f"{file} has no table {table} to add {name} to",
            hint=f"write the table into the file, or name one that it has: {_some(gaps)}",
        )
    path, gap = gaps[table]
    said = _written(file, key, value, Place(gap.index, gap.index, None))
    named = _FORMATS[_suffix(file)].named(name)
    new = f"{gap.before}{named}{said}{gap.after}"
    return (*path, name), text[: gap.index] + new + text[gap.index :]


def _some(names: Iterable[str]) -> str:
    return ", ".join([name for name in names if name][:_MOST_NAMED]) or "none"


def _suffix(name: str) -> str:
    return "." + name.rsplit(".", 1)[-1].lower()


def _read(file: str, content: bytes | None) -> tuple[str, Layout]:
    if content is None:
        raise ContractError(
            f"{file} is not in the commit",
            hint="commit it, or correct the file that the knob names (relative to the root)",
        )
    kind = _FORMATS.get(_suffix(file))
    if kind is None:
        raise ContractError(
            f"{file}: a knob's file must be YAML, TOML or JSON",
            hint="reach the program by a flag or an environment variable instead",
        )
    try:
        text = content.decode("utf-8").removeprefix(_BOM)
        return text, kind.layout(text)
    except (ValueError, KeyError, IndexError, TypeError, RecursionError) as error:
        raise ContractError(
            f"{file} cannot be read to set a key in it: {' '.join(str(error).split())}",
            hint="mend the file, or reach the program by a flag or an environment variable",
        ) from error


def _path_of(file: str, places: Mapping[Path, Place], key: str) -> Path:
    """Find the one path that a dotted key means."""
    found = [path for path in places if dotted(path) == key]
    if len(found) > 1:
        raise ContractError(
            f"{file}: {key} may mean {len(found)} keys, since a name in it has a dot",
            hint="rename one of them, or reach the program by a flag",
        )
    if found:
        why_not = places[found[0]].why_not
        if why_not:
            raise ContractError(
                f"{file}: {key} cannot be set on its own: {why_not}",
                hint="write the key out with a value of its own, or reach the program by a flag",
            )
        return found[0]
    names = [dotted(path) for path in places]
    below = [name for name in names if name.startswith(f"{key}.")]
    if below:
        raise ContractError(
            f"{file}: {key} is no single value",
            hint=f"name a key in it: {', '.join(below[:_MOST_NAMED])}",
        )
    raise ContractError(f"{file} has no key {key}", hint=_nearest(names, key))


def _nearest(names: list[str], key: str) -> str:
    last = key.rsplit(".", 1)[-1]
    near = [name for name in names if name.rsplit(".", 1)[-1] == last]
    near += [
        name for name in difflib.get_close_matches(key, names, n=_MOST_NAMED) if name not in near
    ]
    if near:
        return f"the nearest keys are: {', '.join(near[:_MOST_NAMED])}"
    return "write the key into the file with its present value, and commit that"


def _prove(file: str, texts: tuple[str, str], path: Path, value: Scalar) -> None:
    """Check by reading both texts that one key has changed, and nothing else.

    Raises
    ------
    ContractError
        Something else changed, or the value is read as another.
    """
    key = dotted(path)
    try:
        before, after = (_leaves_of(file, text) for text in texts)
    except (ValueError, KeyError, IndexError, RecursionError) as error:
        raise ContractError(
            f"{file}: setting {key} to {value!r} would leave a file that cannot be read: {error}",
            hint="reach the program by a flag or an environment variable instead",
        ) from error
    read = after.get(path)
    expected = (type(value).__name__, repr(value))
    # The path's own beginnings are tables that were empty before.
    changed = [each for each in {**before, **after} if before.get(each) != after.get(each)]
    others = [dotted(each) for each in changed if each != path[: len(each)]]
    if read != expected or others:
        what = f"would change {others[0]} too" if others else f"would be read as {read and read[1]}"
        raise ContractError(
            f"{file}: setting {key} to {value!r} {what}",
            hint="reach the program by a flag or an environment variable instead",
        )


def _leaves_of(file: str, text: str) -> dict[Path, tuple[str, str]]:
    kind = _FORMATS[_suffix(file)]
    if kind.loaded is not None:
        return dict(leaves(kind.loaded(text)))
    return {
        path: (type(place.value).__name__, repr(place.value))
        for path, place in kind.layout(text).places.items()
    }
