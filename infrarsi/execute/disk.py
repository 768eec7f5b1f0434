"""Space on the disk: what is left, what a folder takes, and failures for the want of it."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

SPACE_HINT = (
    "free space there (`infrarsi status` says what .infrarsi takes), then repeat the command"
)
"""What to do where the disk is full: nothing was lost, and every command resumes."""

FLOOR_BYTES = 128 << 20
"""A launch is ended when less than this is left where it writes, so that the ledger has room."""

_FULL = re.compile(r"No space left on device|Disk quota exceeded|\[Errno (?:28|122)\]")
_SHARED_MEMORY = re.compile(r"/dev/shm|shared memory|torch_[0-9]+_[0-9]+|shm", re.IGNORECASE)


def is_out_of_space(words: str) -> bool:
    """Tell whether a failure's words say that a disk is full.

    Shared memory is a file system too, and says the same when it is full: that is memory.
    """
    found = _FULL.search(words)
    return found is not None and not any(
        _SHARED_MEMORY.search(line) for line in words.splitlines() if _FULL.search(line)
    )


def free_bytes(place: Path) -> int:
    """Give what an unprivileged process may still write at a place."""
    found = os.statvfs(place)
    if found.f_blocks == 0:  # a file system that does not count says 0 of everything
        return sys.maxsize
    return found.f_bavail * found.f_frsize


def size_of(place: Path) -> int:
    """Give the bytes that a file or a folder takes on the disk; links are not followed."""
    try:
        if place.is_symlink() or not place.is_dir():
            return place.lstat().st_blocks * 512
        return sum(size_of(Path(each.path)) for each in os.scandir(place))
    except OSError:  # it went away meanwhile
        return 0
