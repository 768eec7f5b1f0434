"""A bundle as it stands in a tree, read back as the ledger and the artifacts that it holds."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from pydantic import ValidationError

from infrarsi.errors import BundleError, LedgerError
from infrarsi.execute.git_trees import Entries
from infrarsi.execute.repository import Repository
from infrarsi.records.plan import Contract, Lock
from infrarsi.records.statement import (
    EVIDENCE,
    REVIEW,
    SIGNATURE,
    STATEMENT,
    Promoted,
    Statement,
)
from infrarsi.stages.workspace import Workspace
from infrarsi.store.bundle import unpack_evidence
from infrarsi.store.ledger import read_ledger

_MOST_BYTES = {STATEMENT: 16 << 20, EVIDENCE: 256 << 20, SIGNATURE: 1 << 16, REVIEW: 1 << 16}
"""The largest that a file of a bundle may be."""


@dataclass(frozen=True)
class Bundle:
    """A bundle as it stands in a tree."""

    statement: Statement
    raw: bytes
    """The statement's very bytes, which signatures cover."""
    archive: bytes
    signature: bytes | None
    review: bytes | None

    @property
    def predicate(self) -> Promoted:
        """What it says."""
        return self.statement.predicate


def read_bundle(repository: Repository, entries: Entries) -> Bundle:
    """Read the bundle that a tree holds.

    Raises
    ------
    BundleError
        A file of it is missing, too large or no plain file, or the statement says something
        else than a statement of ours can say.
    """
    files = {path: _file(repository, entries, path) for path in _MOST_BYTES}
    raw, archive = files[STATEMENT], files[EVIDENCE]
    for path, content in ((STATEMENT, raw), (EVIDENCE, archive)):
        if content is None:
            raise BundleError(
                f"{path} is missing", hint="take the bundle as `infrarsi apply` wrote it"
            )
    assert raw is not None
    assert archive is not None
    try:
        statement = Statement.model_validate_json(raw)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        raise _unlike(f"{place}: {first['msg'].lower()}") from error
    if statement.to_bytes() != raw:
        raise _unlike("it is not written as InfraRSI writes it")
    return Bundle(statement, raw, archive, files[SIGNATURE], files[REVIEW])


def _unlike(why: str) -> BundleError:
    return BundleError(
        f"{STATEMENT} cannot be read: {why}",
        hint="take it as `infrarsi apply` wrote it; where a newer InfraRSI did, upgrade this one",
    )


def _file(repository: Repository, entries: Entries, path: str) -> bytes | None:
    entry = entries.get(path)
    if entry is None:
        return None
    if entry.mode != "100644" or entry.size > _MOST_BYTES[path]:
        raise BundleError(
            f"{path} is no plain file of at most {_MOST_BYTES[path] >> 10} KiB",
            hint="take the bundle as `infrarsi apply` wrote it",
        )
    return repository.blob(entry.object_id)


@contextmanager
def open_bundle(repository: Repository, contract: Contract, bundle: Bundle) -> Iterator[Workspace]:
    """Give a bundle's ledger and artifacts as a workspace under a contract, to be judged anew.

    Raises
    ------
    BundleError
        The archive is not the one that the statement names, or cannot be read.
    """
    named = {each.name: each.digests for each in bundle.statement.subject}.get(EVIDENCE)
    if named != {"sha256": hashlib.sha256(bundle.archive).hexdigest()}:
        raise BundleError(
            f"{EVIDENCE} is not the evidence that the statement names",
            hint="take the bundle as `infrarsi apply` wrote it",
        )
    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        unpack_evidence(bundle.archive, folder)
        try:
            ledger = read_ledger(folder)
        except LedgerError as error:
            inside = str(error).replace(f"{scratch}/", "the bundle's ")
            raise BundleError(inside, hint="promote again with `infrarsi apply`") from error
        locks = ledger.of_kind("locked")
        if len(locks) != 1 or ledger.events[0].kind != "locked":
            raise BundleError(
                "the bundle's ledger does not begin with its one lock",
                hint="promote again with `infrarsi apply`",
            )
        lock = Lock.model_validate(locks[0].body)
        yield Workspace(repository, contract, lock, ledger, state=folder)
