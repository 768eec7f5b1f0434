"""Places of values in TOML, whose meaning the standard library's reader gives."""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any

from infrarsi.edits.places import NOT_SINGLE, Gap, Layout, Path, Place, newline_of

_BETWEEN = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_STRING = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}(?!")|'
    + r"'''.*?'{3,5}(?!')|"
    + r'"(?:\\.|[^"\\\n])*"|'
    + r"'[^'\n]*'",
    re.DOTALL,
)
_BARE_VALUE = re.compile(r"\d{4}-\d\d-\d\d \d\d:[^\s,\]}#]+|[^\s,\]}#]+")


def layout_of_toml(text: str) -> Layout:
    """Find every single value, and where tables begin.

    Raises
    ------
    ValueError
        It is no TOML.
    """
    loaded = tomllib.loads(text)
    scan = _Scan(text, loaded)
    scan.statements()
    return scan.found


def toml_text(value: Any, place: Place) -> str:
    """Write a value as TOML.

    Raises
    ------
    ValueError
        The value is ``None``, which TOML cannot say.
    """
    match value:
        case None:
            raise ValueError("TOML has no word for an absent value")
        case str() if place.quote == "'" and "'" not in value and value.isprintable():
            return f"'{value}'"
        case str():
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case _:
            return json.dumps(value)


def toml_key(name: str) -> str:
    """Write a key, up to its value."""
    is_bare = _BARE_KEY.fullmatch(name) is not None
    return f"{name if is_bare else json.dumps(name, ensure_ascii=False)} = "


class _Scan:
    """Reads a text that is known to be TOML, and notes where values stand."""

    def __init__(self, text: str, loaded: dict[str, Any]) -> None:
        self.text = text
        self.loaded = loaded
        self.index = 0
        self.found = Layout(gaps={(): Gap(0, "", newline_of(text))})
        self.num_tables: dict[Path, int] = {}
        """How many tables an array of tables has so far."""

    def statements(self) -> None:
        """Read headers and assignments to the end."""
        table: Path = ()
        self._skip(_BETWEEN)
        while self.index < len(self.text):
            if self._takes("[["):
                table = self._array_table(self._key())
                self._expect("]]")
                self.found.gaps[table] = self._gap()
            elif self._takes("["):
                table = self._resolved(self._key())
                self._expect("]")
                self.found.gaps[table] = self._gap()
            else:
                self._assignment(table)
            self._skip(_BETWEEN)

    def _gap(self) -> Gap:
        """Give the gap at the end of a header's line."""
        end = self.text.find("\n", self.index)
        end = len(self.text) if end < 0 else end
        end -= self.text.endswith("\r", 0, end)
        return Gap(end, newline_of(self.text))

    def _assignment(self, table: Path) -> None:
        key = self._key()
        self._expect("=")
        self._value((*table, *key))

    def _key(self) -> Path:
        parts: list[str | int] = []
        while True:
            self._skip(_SPACE)
            quoted = _STRING.match(self.text, self.index)
            bare = _BARE_KEY.match(self.text, self.index)
            if quoted:
                parts.append(tomllib.loads(f"k = {quoted.group()}")["k"])
                self.index = quoted.end()
            elif bare:
                parts.append(bare.group())
                self.index = bare.end()
            else:
                raise ValueError(f"no key at character {self.index}")
            self._skip(_SPACE)
            if not self._takes("."):
                return tuple(parts)

    def _resolved(self, key: Path) -> Path:
        """Give the path of a table, arrays of tables standing for their last one."""
        path: Path = ()
        for part in key:
            path = (*path, part)
            if path in self.num_tables:
                path = (*path, self.num_tables[path] - 1)
        return path

    def _array_table(self, key: Path) -> Path:
        array = (*self._resolved(key[:-1]), key[-1])
        self.num_tables[array] = self.num_tables.get(array, 0) + 1
        return (*array, self.num_tables[array] - 1)

    def _value(self, path: Path) -> None:
        self._skip(_SPACE)
        start = self.index
        if self._takes("["):
            self._items(path, "]")
        elif self._takes("{"):
            self._items(path, "}")
        else:
            string = _STRING.match(self.text, start)
            said = string or _BARE_VALUE.match(self.text, start)
            if said is None:
                raise ValueError(f"no value at character {start}")
            self.index = said.end()
            quote = self.text[start] if string else ""
            self._record(path, Place(start, self.index, self._loaded_at(path), quote=quote))
            return
        if not self._loaded_at(path):
            self._record(path, Place(start, self.index, self._loaded_at(path), why_not=NOT_SINGLE))

    def _items(self, path: Path, close: str) -> None:
        number = 0
        self._skip(_BETWEEN)
        while not self._takes(close):
            if close == "}":
                self._assignment(path)
            else:
                self._value((*path, number))
            number += 1
            self._skip(_BETWEEN)
            self._takes(",")
            self._skip(_BETWEEN)

    def _loaded_at(self, path: Path) -> Any:
        value: Any = self.loaded
        for part in path:
            value = value[part]
        return value

    def _record(self, path: Path, place: Place) -> None:
        if not place.why_not and not isinstance(place.value, bool | int | float | str):
            place = Place(
                place.start, place.end, place.value, why_not="it is neither text nor a number"
            )
        self.found.places[path] = place

    def _takes(self, mark: str) -> bool:
        if self.text.startswith(mark, self.index):
            self.index += len(mark)
            return True
        return False

    def _expect(self, mark: str) -> None:
        self._skip(_SPACE)
        if not self._takes(mark):
            raise ValueError(f"no {mark!r} at character {self.index}")

    def _skip(self, pattern: re.Pattern[str]) -> None:
        match = pattern.match(self.text, self.index)
        self.index = match.end() if match else self.index
