"""Artifacts: bytes kept under their own SHA-256, compressed, written whole or not at all."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import os
import zlib
from pathlib import Path

from infrarsi.errors import LedgerError, SpaceError

_GZIP = 31
"""What zlib calls the gzip format, with the largest window."""


class Artifacts:
    """A folder of content-addressed files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, content: bytes) -> str:
        """Keep the bytes, and give their digest.

        Raises
        ------
        LedgerError
            They could not be written; nothing is left behind.
        """
        digest = hashlib.sha256(content).hexdigest()
        place = self._place(digest)
        if place.exists():
            return digest
        draft = place.with_suffix(f".{os.getpid()}.tmp")
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            with draft.open("wb") as file:
                file.write(gzip.compress(content, compresslevel=3, mtime=0))
                file.flush()
                os.fsync(file.fileno())
            draft.replace(place)
        except OSError as error:
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)
            kind = SpaceError if SpaceError.explains(error) else LedgerError
            raise kind(
                f"evidence cannot be written: {error.strerror}",
                hint=f"free space at {self.folder}, then repeat the command; it resumes",
            ) from error
        return digest

    def get(self, digest: str) -> bytes:
        """Give the bytes of a digest.

        Raises
        ------
        LedgerError
            They are missing, or are no longer what they were.
        """
        try:
            packed = self._place(digest).read_bytes()
            content = zlib.decompress(packed, wbits=_GZIP, bufsize=4 * len(packed) or 1)
        except (OSError, zlib.error) as error:
            raise self._lost(digest, "is missing or cannot be read") from error
        if hashlib.sha256(content).hexdigest() != digest:
            raise self._lost(digest, "was altered")
        return content

    def has(self, digest: str) -> bool:
        """Tell whether something is kept under a digest, sound or not."""
        return self._place(digest).exists()

    def _place(self, digest: str) -> Path:
        return self.folder / digest[:2] / f"{digest[2:]}.gz"

    def _lost(self, digest: str, why: str) -> LedgerError:
        return LedgerError(
            f"the artifact {digest[:12]} {why}",
            hint="restore .infrarsi/artifacts from a copy, or start again with `infrarsi init`",
        )
