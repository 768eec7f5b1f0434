"""What is installed where the training imports from: each distribution, and whether it is whole."""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import PathDistribution
from pathlib import Path
from typing import TypeAlias

_INFO = (".dist-info", ".egg-info")
_IMPORTED = (".py", ".so", ".pyd")
_NO_NAMES = frozenset({"__pycache__", "bin", "share", "include", "etc", "tests", "test", "docs"})
"""What distributions put beside their packages, by design or by mistake."""
_Stamp: TypeAlias = tuple[int, int, int]


@dataclass(frozen=True)
class Distribution:
    """One installed distribution."""

    name: str
    """Normalised: ``ruamel-yaml``."""
    version: str
    digest: str
    """SHA-256 of its record of files, which names each by its own digest; of its metadata where it
    has no such record."""
    top_levels: frozenset[str]
    """The names that it is imported by."""
    info: Path
    is_editable: bool

    @property
    def state(self) -> str:
        """What tells it from another version, or from another build of the same one."""
        return f"{self.version} {self.digest[:12]}"

    def altered(self, top_level: str) -> str | None:
        """Give a file below a top-level name that is not what was installed, if there is one.

        Only what can be imported is looked at; what is gone cannot.
        """
        for name, digest in _recorded(self.info):
            first = name.partition("/")[0]
            if first.partition(".")[0] != top_level or not name.endswith(_IMPORTED):
                continue
            found = _digest_of(self.info.parent / name)
            if found is not None and found != digest:
                return name
        return None


def installed(search_path: Iterable[Path]) -> dict[str, Distribution]:
    """Give the distributions that an interpreter finds along its path, the first of each name."""
    found: dict[str, Distribution] = {}
    for info in _infos(search_path):
        each = _read(info, _stamp(info))
        if each is not None:
            found.setdefault(each.name, each)
    return found


def states(distributions: Mapping[str, Distribution]) -> dict[str, str]:
    """Give what is kept of them: the state of each, by name."""
    return {name: each.state for name, each in sorted(distributions.items())}


def changes(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
    """Say what differs between two states: ``numpy 1.26.4 -> 2.0.0``."""
    names = sorted({*before, *after})
    return tuple(
        f"{name} {_words(before.get(name), after.get(name))}"
        for name in names
        if before.get(name) != after.get(name)
    )


def _words(before: str | None, after: str | None) -> str:
    old, new = (each.split(" ")[0] if each else "none" for each in (before, after))
    return f"{old} -> {new}" if old != new else f"{old}, its files changed"


def _infos(search_path: Iterable[Path]) -> Iterator[Path]:
    for place in dict.fromkeys(search_path):
        try:
            entries = sorted(each for each in place.iterdir() if each.name.endswith(_INFO))
        except OSError:
            continue  # no folder, or none that may be read
        yield from entries


def _stamp(place: Path) -> tuple[_Stamp, ...]:
    """Give what changes when a distribution's own notes do."""
    stamps = []
    for each in (place, place / "RECORD", place / "METADATA", place / "PKG-INFO"):
        try:
            found = each.stat()
        except OSError:
            continue
        stamps.append((found.st_size, found.st_mtime_ns, found.st_ctime_ns))
    return tuple(stamps)


@lru_cache(maxsize=4096)
def _read(info: Path, _stamp: tuple[_Stamp, ...]) -> Distribution | None:
    known = PathDistribution(info)
    metadata = known.read_text("METADATA") or known.read_text("PKG-INFO") or known.read_text("")
    if not metadata:
        return None  # the remains of one that was taken away
    said = known.metadata
    if "Name" not in said or "Version" not in said:
        return None
    name, version = said["Name"], said["Version"]
    record = known.read_text("RECORD")
    digest = hashlib.sha256((record or metadata).encode("utf-8", "surrogateescape")).hexdigest()
    return Distribution(
        name=_normal(name), version=version, digest=digest, info=info,
        top_levels=frozenset(_top_levels(known, record)), is_editable=_is_editable(known),
    )  # fmt: skip


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _top_levels(known: PathDistribution, record: str | None) -> Iterator[str]:
    if record is None:
        told = (known.read_text("top_level.txt") or "").split()
        names = set(told or [_normal(known.metadata["Name"]).replace("-", "_")])
    else:
        names = {line.partition(",")[0].partition("/")[0] for line in record.splitlines()}
        names = {name.partition(".")[0] for name in names if not name.endswith((*_INFO, ".pth"))}
    yield from (name for name in names if name.isidentifier() and name not in _NO_NAMES)


def _is_editable(known: PathDistribution) -> bool:
    try:
        origin = json.loads(known.read_text("direct_url.json") or "{}")
    except ValueError:
        return False
    return bool(origin.get("dir_info", {}).get("editable"))


def _recorded(info: Path) -> Iterator[tuple[str, str]]:
    """Give the files of a distribution's record with their SHA-256, as it is written there."""
    for row in csv.reader((PathDistribution(info).read_text("RECORD") or "").splitlines()):
        if len(row) >= 2 and row[1].startswith("sha256="):
            yield row[0], row[1].removeprefix("sha256=")


def _digest_of(place: Path) -> str | None:
    try:
        found = place.stat()
    except OSError:
        return None
    return _hashed(place, (found.st_size, found.st_mtime_ns, found.st_ctime_ns))


@lru_cache(maxsize=1 << 16)
def _hashed(place: Path, _stamp: _Stamp) -> str | None:
    try:
        with place.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").digest()
    except OSError:
        return None
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
