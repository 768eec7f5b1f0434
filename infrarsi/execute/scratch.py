"""The own folders of a launch: temporary files, compile caches, and a short path for a socket."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from infrarsi.errors import SpaceError

_LONGEST = 60
"""Bytes of a temporary folder's path that leave room for a socket's name."""


def short_places() -> list[Path]:
    """Give the folders that may hold a socket's short path, the user's own choice first."""
    named = os.environ.get("TMPDIR", "")
    places = [Path(each) for each in (named, "/tmp", "/dev/shm", "/var/tmp") if each]
    return [place for place in places if len(os.fsencode(place)) <= _LONGEST and place.is_dir()]


@contextlib.contextmanager
def short_folder() -> Iterator[Path]:
    """Make a folder with a short path, wherever one can be made, and take it away.

    Raises
    ------
    SpaceError
        None can be made: no temporary folder is there and may be written to.
    """
    for place in short_places():
        with contextlib.suppress(OSError):
            made = Path(tempfile.mkdtemp(prefix=f"infrarsi-{os.getpid()}-", dir=place))
            break
    else:
        raise SpaceError(
            "there is no temporary folder that can be written to",
            hint="make one and name it in TMPDIR, or free space in /tmp; then repeat the command",
        )
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def prepare_scratch(scratch: Path, *, cache: Path | None) -> None:
    """Make a trial's own folders, with a private copy of a compile cache where there is one."""
    (scratch / "tmp").mkdir(parents=True, exist_ok=True)
    if cache is not None and cache.exists():
        shutil.copytree(cache, scratch / "cache", symlinks=True)
    (scratch / "cache").mkdir(exist_ok=True)


def keep_cache(scratch: Path, cache: Path) -> None:
    """Keep the compile cache that a cold launch filled, for later launches to copy."""
    if cache.exists() or not any((scratch / "cache").iterdir()):
        return
    cache.parent.mkdir(parents=True, exist_ok=True)
    draft = cache.with_name(f"{cache.name}.{os.getpid()}")
    shutil.rmtree(draft, ignore_errors=True)
    try:
        shutil.copytree(scratch / "cache", draft, symlinks=True)
        draft.replace(cache)
    except OSError:  # a cache that was not kept is filled again
        shutil.rmtree(draft, ignore_errors=True)
