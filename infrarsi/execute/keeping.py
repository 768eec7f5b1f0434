"""The state of one update: asking a launch to keep it, taking it out, and laying it out to replay.

A launch is asked through the witness's channel, and only once it has reached its hidden stop: until
then nothing tells a launch whose state will be kept from one that will not. The files are written
by a process that is not trusted, so that only plain files of the expected names are taken.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path

from infrarsi.execute.channel import Channel

KEPT = "kept"
"""The folder below a launch's scratch folder in which the witness writes."""
_NAME = re.compile(r"(before|after)\.[0-9]{1,5}")
_PATIENCE_UPDATES = 10
"""Updates past the one to be kept that a launch may make before it is given up."""


@dataclass(frozen=True)
class Keep:
    """What a launch is asked to keep once its timed part is over."""

    update: int
    """The update whose beginning and end are kept; it must come after the hidden stop."""
    ahead: int
    """How many updates before it the request is sent, though never before the stop."""
    most_bytes: int


class Keeping:
    """Asks a launch to keep the state of one update, and waits until every rank has."""

    def __init__(self, keep: Keep | None, *, folder: Path) -> None:
        self.keep = keep
        self.folder = folder
        """Where the witness writes, as the program sees it."""
        self._asked = False

    def is_over(self, channel: Channel) -> bool:
        """Tell whether nothing is left to wait for; ask, when it is time to."""
        keep = self.keep
        if keep is None:
            return True
        leading = max(channel.ended.values(), default=0)
        if not self._asked and leading >= keep.update - keep.ahead:
            self._asked = True
            channel.tell(request_of(keep, self.folder))
        if channel.fault_s is not None:
            return True
        return channel.kept >= set(channel.ended) or leading >= keep.update + _PATIENCE_UPDATES


def take_kept(scratch: Path, place: Path) -> None:
    """Move what a launch has kept out of its scratch folder.

    What is no plain file of an expected name is left behind.
    """
    found = scratch / KEPT
    if found.is_symlink() or not found.is_dir():
        return
    place.mkdir(parents=True, exist_ok=True)
    for each in sorted(found.iterdir()):
        if _NAME.fullmatch(each.name) and _is_plain(each):
            each.replace(place / each.name)


def _is_plain(place: Path) -> bool:
    """Tell whether a place is a plain file that has no other name."""
    seen = place.lstat()
    return stat.S_ISREG(seen.st_mode) and seen.st_nlink == 1


def digests_of(place: Path) -> dict[str, str]:
    """Give the SHA-256 of each file that was taken, by name."""
    digests: dict[str, str] = {}
    for each in sorted(place.iterdir()) if place.is_dir() else ():
        with each.open("rb") as file:
            digests[each.name] = hashlib.file_digest(file, "sha256").hexdigest()
    return digests


def lay_out(place: Path, scratch: Path, *, name: str) -> None:
    """Give a launch its own files of a kept state, below its scratch folder."""
    folder = scratch / "replay" / name
    folder.mkdir(parents=True)
    for each in sorted(place.iterdir()):
        try:
            os.link(each, folder / each.name)
        except OSError:
            shutil.copyfile(each, folder / each.name)


def request_of(keep: Keep, folder: Path) -> bytes:
    """Give the line that asks for a state to be kept, as the witness reads it."""
    said = {
        "kind": "keep", "update": keep.update, "folder": str(folder),
        "most_bytes": keep.most_bytes,
    }  # fmt: skip
    return json.dumps(said).encode() + b"\n"
