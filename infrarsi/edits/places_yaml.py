"""Places of values in YAML, by the marks that PyYAML sets."""

from __future__ import annotations

import datetime
import json
import re
from collections import Counter
from typing import Any

import yaml

from infrarsi.edits.places import NOT_SINGLE, TWICE, Gap, Layout, Path, Place, newline_of

_ANCHOR = re.compile(r"&\S+(\s+|$)")
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
_WORDS = frozenset(
    {"y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf", "none"}
)
"""Words that one YAML or another does not read as text."""
_SHARED = "it is shared by way of an anchor and an alias"
_TAGGED = "it has a tag"
_MOST_VALUES = 100_000
_ODD = re.compile("[\x7f-\x9f\u2028\u2029\ufeff]")


def layout_of_yaml(text: str) -> Layout:
    """Find every single value of the one document, and where tables begin.

    Raises
    ------
    ValueError
        It is no YAML, or several documents.
    """
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.composer.ComposerError as error:
        if "single document" in str(error):
            raise ValueError("it holds several YAML documents") from error
        raise ValueError(_in_a_line(error)) from error
    except yaml.YAMLError as error:
        raise ValueError(_in_a_line(error)) from error
    if root is None:
        end = newline_of(text)
        before = end if text and not text.endswith("\n") else ""
        return Layout(gaps={(): Gap(len(text), before, end)})
    walk = _Walk(text, _uses_of(root))
    walk.visit(root, (), why_not="", around=frozenset())
    return walk.found


def yaml_text(value: Any, place: Place) -> str:
    """Write a value so that every YAML reads it as what it is, quoted as its predecessor was."""
    match value:
        case str():
            return _quoted(value, place.quote)
        case float():
            text = repr(value)
            # YAML 1.1 reads `1e-05` as text.
            return text if "e" not in text or "." in text else text.replace("e", ".0e")
        case _:
            return json.dumps(value)


def yaml_key(name: str) -> str:
    """Write a key, up to its value."""
    return f"{_quoted(name, '')}: "


def _quoted(value: str, quote: str) -> str:
    is_plain = _PLAIN.fullmatch(value) and value.lower() not in _WORDS
    if not quote and is_plain:
        return value
    if quote == "'" and value.isprintable():
        return "'" + value.replace("'", "''") + "'"
    said = json.dumps(value, ensure_ascii=False)
    return _ODD.sub(lambda found: f"\\u{ord(found.group()):04x}", said)


def _in_a_line(error: yaml.YAMLError) -> str:
    return " ".join(str(error).split())


def _uses_of(root: yaml.Node) -> Counter[int]:
    """Count how often each node is used: a second use is an alias."""
    uses: Counter[int] = Counter()
    pending = [root]
    while pending:
        node = pending.pop()
        uses[id(node)] += 1
        if uses[id(node)] == 1:
            if isinstance(node, yaml.MappingNode):
                pending += [each for pair in node.value for each in pair]
            elif isinstance(node, yaml.SequenceNode):
                pending += node.value
    return uses


class _Walk:
    """Collects the places of a document."""

    def __init__(self, text: str, uses: Counter[int]) -> None:
        self.text = text
        self.uses = uses
        self.found = Layout()

    def visit(self, node: yaml.Node, path: Path, *, why_not: str, around: frozenset[int]) -> None:
        """Record what a node holds; ``around`` are the nodes that it lies within."""
        if id(node) in around:
            raise ValueError("an alias in it lies within its own anchor")
        if len(self.found.places) > _MOST_VALUES:
            raise ValueError(f"it holds more than {_MOST_VALUES:,} values, aliases written out")
        if self.uses[id(node)] > 1:
            why_not = _SHARED
        around = around | {id(node)}
        if isinstance(node, yaml.MappingNode) and not why_not:
            self.found.gaps[path] = self._gap(node)
        if isinstance(node, yaml.MappingNode) and node.value:
            names = Counter(_name_of(key) for key, _ in node.value)
            for key, value in node.value:
                name = _name_of(key)
                again = TWICE if names[name] > 1 else why_not
                self.visit(value, (*path, name), why_not=again, around=around)
        elif isinstance(node, yaml.SequenceNode) and node.value:
            for index, value in enumerate(node.value):
                self.visit(value, (*path, index), why_not=why_not, around=around)
        else:
            self._record(node, path, why_not)

    def _gap(self, node: yaml.MappingNode) -> Gap:
        if node.flow_style:
            start = self.text.index("{", node.start_mark.index) + 1
            return Gap(start, "", ", " if node.value else "")
        first = node.value[0][0].start_mark
        return Gap(first.index, "", newline_of(self.text) + " " * first.column)

    def _record(self, node: yaml.Node, path: Path, why_not: str) -> None:
        start, end, quote = node.start_mark.index, node.end_mark.index, ""
        value: Any = []
        if isinstance(node, yaml.ScalarNode):
            anchor = _ANCHOR.match(self.text[start:end])
            start += anchor.end() if anchor else 0
            quote = node.style or ""
            value, odd = _value_of(node)
            why_not = why_not or odd
        else:
            why_not = why_not or NOT_SINGLE
        if self.text[start:end].startswith("!"):
            why_not = why_not or _TAGGED
        elif quote in {"|", ">"}:
            why_not = why_not or "it is a block of text"
        self.found.places[path] = Place(start, end, value, quote=quote, why_not=why_not)


def _name_of(key: yaml.Node) -> str:
    return str(key.value) if isinstance(key, yaml.ScalarNode) else repr(key.value)


def _value_of(node: yaml.ScalarNode) -> tuple[Any, str]:
    try:
        value = yaml.constructor.SafeConstructor().construct_object(node)
    except (yaml.YAMLError, ValueError):
        return (node.tag, node.value), _TAGGED
    if isinstance(value, datetime.date | bytes):
        return value, "it is neither text nor a number"
    return value, ""
