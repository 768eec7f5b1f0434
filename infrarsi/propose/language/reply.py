"""Reading a reply: the form that is asked for, and whatever models make of it."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from pydantic import Field, ValidationError, field_validator

from infrarsi.records.asked import DeclinedIdea
from infrarsi.records.base import Record, Scalar
from infrarsi.records.candidate import PrecisionClass

MOST_IDEAS = 8
"""More of them than a search has trials for help nobody."""
_LONGEST_REPLY = 400_000
_QUOTED = 160
_NO_HELP = re.compile(
    r"\b(?:i can't|i cannot|i can not|i'm unable|i am unable|i won't|i will not|i'm sorry"
    r"|i am sorry|not able to (?:help|assist))\b"
)
_MOST_FALSE_STARTS = 2_000
"""Braces of prose and code that begin no JSON."""


class GivenEdit(Record):
    """Replace the one place where ``search`` stands in a file."""

    path: str
    search: str
    replace: str


class GivenIdea(Record):
    """One change of the source."""

    name: str = Field(min_length=1)
    summary: str
    reason: str = ""
    edits: tuple[GivenEdit, ...] = Field(min_length=1, max_length=40)
    time_ratio: float = Field(gt=0)
    memory_ratio: float = Field(default=1.0, gt=0)
    confidence: Literal["low", "medium", "high"] = "low"
    precision: PrecisionClass = "same"
    conflicts: tuple[str, ...] = ()
    cold_start_s: float = Field(default=0.0, ge=0)


class GivenKnob(Record):
    """One knob at one value."""

    name: str
    value: Scalar


class GivenSetting(Record):
    """Knob values to try together, with patches that are known."""

    name: str = ""
    knobs: tuple[GivenKnob, ...] = ()
    patches: tuple[str, ...] = ()
    reason: str = ""
    time_ratio: float = Field(default=1.0, gt=0)
    memory_ratio: float = Field(default=1.0, gt=0)
    confidence: Literal["low", "medium", "high"] = "low"

    @field_validator("knobs", mode="before")
    @classmethod
    def _takes_a_mapping_too(cls, given: Any) -> Any:
        if isinstance(given, Mapping):
            return [{"name": name, "value": value} for name, value in given.items()]
        return given


class GivenReply(Record):
    """The whole reply, as the schema that is sent along says it."""

    ideas: tuple[GivenIdea, ...] = ()
    settings: tuple[GivenSetting, ...] = ()


@dataclass(frozen=True)
class Parsed:
    """What could be read."""

    ideas: tuple[GivenIdea, ...] = ()
    settings: tuple[GivenSetting, ...] = ()
    declined: tuple[DeclinedIdea, ...] = ()
    found: bool = False
    """Whether the reply holds anything in the form asked for."""
    note: str = ""


def reply_schema() -> dict[str, Any]:
    """Give the JSON schema of a reply in the strict form: every field required, none added."""
    schema: dict[str, Any] = _strict(GivenReply.model_json_schema())
    return schema


def parse_reply(text: str, *, truncated: bool = False) -> Parsed:
    """Read a reply: JSON, alone or with prose or fences round it.

    Each idea is read by itself, so that one that cannot be read does not cost the others. Of a
    reply that was cut off, the ideas that had come whole still count.
    """
    text = _without_thoughts(text)[:_LONGEST_REPLY]
    given = max((_best_object(text), _whole_items(text)), key=_num_items)
    if given is None:
        why = "was cut off before its first idea was whole" if truncated else "holds no JSON"
        unreadable = DeclinedIdea(
            name="the whole reply",
            because=f"it {why}: {_shortened(text)!r}. Reply with the JSON object alone"
            + (", and with fewer and smaller ideas." if truncated else "."),
        )
        return Parsed(declined=(unreadable,))
    ideas, bad_ideas = _each(given.get("ideas"), GivenIdea, what="idea")
    settings, bad_settings = _each(given.get("settings"), GivenSetting, what="setting")
    declined = [*bad_ideas, *bad_settings]
    if truncated:
        words = "it was cut off here. Give what is missing again, smaller."
        declined.append(DeclinedIdea(name="the rest of the reply", because=words))
    unknown = sorted(set(given) - set(GivenReply.model_fields))
    note = f"fields that were not asked for: {', '.join(unknown)}" if unknown else ""
    return Parsed(tuple(ideas), tuple(settings), tuple(declined), found=True, note=note)


def is_refusal(text: str) -> bool:
    """Tell whether a reply without ideas says that its writer will not help."""
    start = text.strip().casefold().replace("\u2019", "'")[:200]
    return _NO_HELP.search(start) is not None


_Item = TypeVar("_Item", GivenIdea, GivenSetting)


def _each(
    given: object, model: type[_Item], *, what: str
) -> tuple[list[_Item], list[DeclinedIdea]]:
    if given is None:
        return [], []
    given = _unwrapped(given)
    items = [_unwrapped(each) for each in (given if isinstance(given, list) else [given])]
    read, declined = [], []
    for number, item in enumerate(items, start=1):
        name = item.get("name") if isinstance(item, dict) else None
        name = name if isinstance(name, str) and name.strip() else f"{what} {number}"
        name = _encodable(name)[:80]
        if number > MOST_IDEAS:
            because = f"more than {MOST_IDEAS} in one reply; give the best ones."
            declined.append(DeclinedIdea(name=name, because=because))
            continue
        try:
            json.dumps(item, ensure_ascii=False).encode()
            read.append(model.model_validate(item))
        except UnicodeEncodeError:
            because = "it holds half a character (a lone surrogate), which no file can hold."
            declined.append(DeclinedIdea(name=name, because=because))
        except ValidationError as error:
            declined.append(DeclinedIdea(name=name, because=_in_words(error)))
    return read, declined


def _unwrapped(value: Any) -> Any:
    """Read JSON that was written as a string within JSON."""
    if isinstance(value, str) and value.lstrip()[:1] in {"[", "{"}:
        with contextlib.suppress(ValueError, RecursionError):
            return json.loads(value, strict=False)
    return value


def _in_words(error: ValidationError) -> str:
    """Say what is wrong with an item, field by field."""
    said = []
    for each in error.errors()[:4]:
        place = ".".join(str(part) for part in each["loc"]) or _kind_of(each["input"])
        words = "unknown field" if each["type"] == "extra_forbidden" else each["msg"].lower()
        said.append(f"{_encodable(place)}: {words}")
    more = f" (and {error.error_count() - 4} more)" if error.error_count() > 4 else ""
    return "; ".join(said) + more + "."


def _kind_of(value: object) -> str:
    """Name the kind of a value that should have been an object."""
    return f"a {type(value).__name__} instead of an object"


def _without_thoughts(text: str) -> str:
    """Leave out what a reasoning model thought aloud before its reply."""
    return re.sub(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", "", text, flags=re.DOTALL)


def _best_object(text: str) -> dict[str, Any] | None:
    """Give the longest piece of the text that is a reply in JSON."""
    best: tuple[int, dict[str, Any]] | None = None
    for length, value in _json_values(text):
        reply = _as_reply(value)
        if reply is not None and (best is None or length > best[0]):
            best = (length, reply)
    return best[1] if best else None


def _as_reply(value: Any) -> dict[str, Any] | None:
    """Take a reply, a lone idea, a list of ideas, or a reply inside one more object."""
    match value:
        case {"ideas": _} | {"settings": _}:
            reply: dict[str, Any] = dict(value)
            return reply
        case {"edits": _}:
            return {"ideas": [value]}
        case [{"edits": _}, *_]:
            return {"ideas": value}
        case dict() if len(value) == 1:
            return _as_reply(next(iter(value.values())))
        case str() if value.lstrip().startswith("{"):  # JSON within a string
            return _best_object(value)
    return None


def _json_values(text: str) -> Iterator[tuple[int, object]]:
    """Give every JSON object or list that stands in a text, outermost ones only."""
    decoder = json.JSONDecoder(strict=False)
    at = failed = 0
    opening = re.compile(r"[{\[]")
    while failed < _MOST_FALSE_STARTS and (found := opening.search(text, at)) is not None:
        try:
            value, end = decoder.raw_decode(text, found.start())
        except (ValueError, RecursionError):
            at = found.start() + 1
            failed += 1
            continue
        yield end - found.start(), value
        at = end


def _num_items(given: dict[str, Any] | None) -> int:
    if given is None:
        return -1
    return sum(len(given[key]) for key in ("ideas", "settings") if isinstance(given.get(key), list))


def _whole_items(text: str) -> dict[str, Any] | None:
    """Give the ideas and settings that came whole in JSON that was cut off."""
    given = {}
    for key in ("ideas", "settings"):
        opened = re.search(rf'"{key}"\s*:\s*\[', text)
        items = _items_from(text, opened.end()) if opened else []
        if items:
            given[key] = items
    return given or None


def _items_from(text: str, start: int) -> Sequence[object]:
    decoder = json.JSONDecoder(strict=False)
    items: list[object] = []
    while (found := re.compile(r"\s*,?\s*(?=\{)").match(text, start)) is not None:
        try:
            item, start = decoder.raw_decode(text, found.end())
        except (ValueError, RecursionError):
            break
        items.append(item)
    return items


def _shortened(text: str) -> str:
    words = " ".join(_encodable(text).split())
    return words if len(words) <= _QUOTED else words[: _QUOTED - 1] + "…"


def _encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")


def _strict(schema: Any) -> Any:
    """Turn a schema of pydantic into the strict form that structured output takes."""
    if isinstance(schema, list):
        return [_strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    dropped = {"title", "default", "minLength", "minItems", "maxItems", "exclusiveMinimum",
               "minimum", "maximum"}  # fmt: skip
    kept = {key: _strict(value) for key, value in schema.items() if key not in dropped}
    if schema.get("type") == "object":
        kept["properties"] = {name: _strict(each) for name, each in schema["properties"].items()}
        kept["required"] = list(schema["properties"])
        kept["additionalProperties"] = False
    return kept
