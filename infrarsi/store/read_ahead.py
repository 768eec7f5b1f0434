"""Artifacts read before they are wanted: unpacking and hashing go on beside the judge."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

from infrarsi.store.artifacts import Artifacts

_THREADS = 2
_AHEAD = 12
"""How many wait to be taken at the most: evidence can be large."""


class ReadAhead(Artifacts):
    """Artifacts that are read in a known order, before they are asked for."""

    def __init__(
        self, artifacts: Artifacts, digests: Iterable[str], threads: ThreadPoolExecutor
    ) -> None:
        super().__init__(artifacts.folder)
        self._coming = iter(digests)
        self._threads = threads
        self._waiting: dict[str, Future[bytes]] = {}

    def get(self, digest: str) -> bytes:
        """Give the bytes of a digest, and begin to read what comes after it.

        Raises
        ------
        LedgerError
            They are missing, or are no longer what they were.
        """
        self._fill()
        if digest not in self._waiting:
            return super().get(digest)
        for name in list(self._waiting):  # what stands before it was passed over
            future = self._waiting.pop(name)
            if name == digest:
                break
        self._fill()
        return future.result()

    def _fill(self) -> None:
        while len(self._waiting) < _AHEAD:
            digest = next(self._coming, None)
            if digest is None:
                return
            if digest not in self._waiting:
                self._waiting[digest] = self._threads.submit(super().get, digest)


@contextmanager
def read_ahead(artifacts: Artifacts, digests: Iterable[str]) -> Iterator[ReadAhead]:
    """Read these in their order while the block goes on; others can be asked for as well."""
    with ThreadPoolExecutor(max_workers=_THREADS) as threads:
        try:
            yield ReadAhead(artifacts, digests, threads)
        finally:
            threads.shutdown(wait=True, cancel_futures=True)
