"""Packs as files: YAML that people can read, and that git merges line by line.

A lesson is one line, lines stand in the order of their digests, and none says anything about the
file as a whole: whatever lines a merge keeps, a pack is left. A bank in git wants the attribute
`*.yaml merge=union`, for lines that two people have put in one place.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from infrarsi.bank.merging import united
from infrarsi.errors import BankError
from infrarsi.records.experience import Lesson, Pack, ordered

SUFFIX = ".yaml"
VERSION = 1
_HEADER = """\
# What a search of InfraRSI taught. Effects are natural logarithms of ratios to that search's own
# reference. An id is the digest of its lesson: an edited one is refused.
"""
_MEND = "restore it from a copy, or take it away: `infrarsi bank forget`, or delete the file"
_WIDEST = 1_000_000


def pack_text(pack: Pack) -> str:
    """Give the one text of a pack's file."""
    lessons = ordered(pack.lessons)
    head = pack.model_dump(mode="json", exclude={"lessons"})
    text = _HEADER + _yaml(head) + "lessons:\n"
    if not lessons:
        return _HEADER + _yaml({**head, "lessons": []})
    return text + "".join(_line(each) for each in lessons)


def parse_pack(content: bytes, *, name: str) -> Pack:
    """Read a pack from the bytes of its file.

    What a merge of lines left twice is taken once; two accounts of one subject are told apart by
    their evidence, and are an error where it does not tell.

    Raises
    ------
    BankError
        It is no YAML, of a version that is not known, not a pack, or a lesson of it was altered;
        the message names the file.
    """
    loaded = _loaded(content, name)
    version = loaded.get("schema_version")
    if version != VERSION:
        raise BankError(
            f"{name} is a pack of version {version!r}, and this InfraRSI reads version {VERSION}",
            hint="use the InfraRSI that wrote it, or take the pack away",
        )
    try:
        pack = Pack.model_validate(loaded)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "the file"
        said = first["msg"].removeprefix("Value error, ")
        raise BankError(f"{name}: {place}: {said}", hint=_MEND) from error
    for lesson in pack.lessons:
        if lesson.true_id() != lesson.id:
            atoms = ", ".join(atom.in_words() for atom in lesson.atoms)
            raise BankError(
                f"{name}: the lesson {lesson.id} ({atoms}) is not what its digest says: it was "
                "altered",
                hint=_MEND,
            )
    return pack.model_copy(update={"lessons": united(pack.lessons, name=name)})


def read_pack(path: Path) -> Pack:
    """Read the pack in a file.

    Raises
    ------
    BankError
        The file cannot be read, or holds no sound pack.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise BankError(
            f"the pack {path} cannot be read: {error.strerror}", hint="name a pack's file"
        ) from error
    return parse_pack(content, name=path.name)


def write_pack(folder: Path, pack: Pack) -> Path:
    """Write a pack into a folder under its own name, whole or not at all.

    Raises
    ------
    BankError
        It cannot be written.
    """
    place = folder / file_name(pack)
    draft = folder / f".{place.name}.{os.getpid()}.draft"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        draft.write_text(pack_text(pack), encoding="utf-8")
        draft.replace(place)
    except OSError as error:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
        raise BankError(
            f"nothing can be written to the bank {folder}: {error.strerror}",
            hint="name another folder with --bank, or do without with --no-bank",
        ) from error
    return place


def file_name(pack: Pack) -> str:
    """Give the name of a pack's file: its label, for people, and its id."""
    label = re.sub(r"[^A-Za-z0-9._]+", "-", pack.label).strip("-.") or "search"
    return f"{label[:40]}-{pack.id}{SUFFIX}"


def _loaded(content: bytes, name: str) -> dict[str, Any]:
    try:
        loaded = yaml.safe_load(content.decode("utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        said = " ".join(str(error).split())
        hint = "settle what a merge left open in it, or restore it from a copy"
        raise BankError(f"{name} is not valid YAML: {said}", hint=hint) from error
    if not isinstance(loaded, dict):
        raise BankError(f"{name} holds no pack", hint="name a file that a search wrote")
    return loaded


def _line(lesson: Lesson) -> str:
    said = yaml.safe_dump(
        lesson.model_dump(mode="json"),
        sort_keys=False, default_flow_style=True, allow_unicode=True, width=_WIDEST,
    )  # fmt: skip
    return f"- {said}"


def _yaml(value: Any) -> str:
    # None: flow style for what holds no collection, so that a small thing stands on one line.
    return yaml.safe_dump(
        value, sort_keys=False, default_flow_style=None, allow_unicode=True, width=_WIDEST
    )
