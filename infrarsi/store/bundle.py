"""The evidence of a promotion in one file: a ledger and its artifacts, as a compressed archive.

The archive comes out of a branch that a stranger may have written. It is read in memory, within
fixed bounds, and nothing in it is taken for a path.
"""

from __future__ import annotations

import hashlib
import io
import re
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from infrarsi.errors import BundleError
from infrarsi.records.event import Event
from infrarsi.store.artifacts import Artifacts
from infrarsi.store.ledger import LEDGER_FILE, chained

_ARTIFACT = re.compile(r"artifacts/([0-9a-f]{64})")
_MOST_BYTES = 512 * 1024**2
"""Unpacked. A launch of a model with a thousand tensors leaves a few megabytes."""
_MOST_MEMORY = 256 * 1024**2
"""Of the decompressor."""


def pack_evidence(events: Iterable[Event], artifacts: Mapping[str, bytes]) -> bytes:
    """Put events and artifacts into one archive; the same give the same bytes.

    Parameters
    ----------
    events
        They are numbered and chained anew: a part of a ledger is a ledger of its own.
    artifacts
        Contents by digest.
    """
    import lzma

    members = {LEDGER_FILE: chained(events)}
    members |= {f"artifacts/{digest}": artifacts[digest] for digest in sorted(artifacts)}
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o644
            archive.addfile(entry, io.BytesIO(content))
    return lzma.compress(packed.getvalue(), preset=6)


def unpack_evidence(packed: bytes, folder: Path, *, most_bytes: int = _MOST_BYTES) -> None:
    """Lay an archive out as a state folder: its ledger, and its artifacts by digest.

    Raises
    ------
    BundleError
        It is no such archive, is too large, or holds anything else.
    """
    members = _members(_decompressed(packed, most_bytes))
    ledger = members.pop(LEDGER_FILE, None)
    if ledger is None:
        raise _broken("it holds no ledger")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / LEDGER_FILE).write_bytes(ledger)
    kept = Artifacts(folder / "artifacts")
    for name, content in members.items():
        named = _ARTIFACT.fullmatch(name)
        if named is None:
            raise _broken(f"it holds {name[:80]!r}, which is no part of one")
        if hashlib.sha256(content).hexdigest() != named[1]:
            raise _broken(f"the artifact {named[1][:12]} is not what its digest says")
        kept.put(content)


def _decompressed(packed: bytes, most_bytes: int) -> bytes:
    import lzma

    reader = lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=_MOST_MEMORY)
    try:
        content = reader.decompress(packed, max_length=most_bytes + 1)
    except lzma.LZMAError as error:
        raise _broken(f"it cannot be decompressed ({error})") from error
    if len(content) > most_bytes:
        raise _broken(f"it holds more than {most_bytes >> 20} MiB")
    if not reader.eof or reader.unused_data:
        raise _broken("it does not end where it says")
    return content


def _members(content: bytes) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as archive:
            for entry in archive:
                if entry.type not in {tarfile.REGTYPE, tarfile.AREGTYPE} or entry.issparse():
                    raise _broken(f"{entry.name[:80]!r} in it is no plain file")
                if entry.name in found:
                    raise _broken(f"it holds {entry.name[:80]!r} twice")
                read = archive.extractfile(entry)
                assert read is not None, "a plain file can be read"
                found[entry.name] = read.read()
    except (tarfile.TarError, ValueError, OverflowError, EOFError) as error:
        raise _broken(f"it is no archive ({error})") from error
    return found


def _broken(why: str) -> BundleError:
    return BundleError(
        f"the archive of evidence cannot be used: {why}",
        hint="take the bundle as `infrarsi apply` wrote it, or promote again",
    )
