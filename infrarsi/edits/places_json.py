"""Places of values in JSON, as the standard library reads it."""

from __future__ import annotations

import json
import re
from typing import Any

from infrarsi.edits.places import NOT_SINGLE, TWICE, Gap, Layout, Path, Place

_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


def layout_of_json(text: str) -> Layout:
    """Find every single value, and where tables begin.

    Raises
    ------
    ValueError
        It is no JSON.
    """
    json.loads(text)
    found = Layout()
    _walk(text, _skip(text, 0), (), found)
    return found


def json_text(value: Any, place: Place) -> str:
    """Write a value as JSON."""
    return json.dumps(value, ensure_ascii=False)


def json_key(name: str) -> str:
    """Write a key, up to its value."""
    return f"{json.dumps(name, ensure_ascii=False)}: "


def _walk(text: str, start: int, path: Path, found: Layout) -> int:
    """Record what stands at a place, and give the index after it."""
    if text[start] not in "{[":
        value, end = _DECODER.raw_decode(text, start)
        _record(found, path, Place(start, end, value))
        return end
    is_table, close = text[start] == "{", "}" if text[start] == "{" else "]"
    index, number = _skip(text, start + 1), 0
    if is_table:
        is_empty = text[index] == close
        space = "" if is_empty else text[start + 1 : index]
        found.gaps[path] = Gap(start + 1, space, "" if is_empty else ",")
    if text[index] == close:
        _record(found, path, Place(start, index + 1, {} if is_table else [], why_not=NOT_SINGLE))
        return index + 1
    while True:
        key: str | int = number
        if is_table:
            key, index = _DECODER.raw_decode(text, index)
            index = _skip(text, _skip(text, index) + 1)
        index = _skip(text, _walk(text, index, (*path, key), found))
        number += 1
        if text[index] == close:
            return index + 1
        index = _skip(text, index + 1)


def _record(found: Layout, path: Path, place: Place) -> None:
    if path in found.places:
        place = Place(place.start, place.end, place.value, why_not=TWICE)
    found.places[path] = place


def _skip(text: str, index: int) -> int:
    match = _SPACE.match(text, index)
    return match.end() if match else index
