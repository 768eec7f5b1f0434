"""Every error that a user can meet, as a tree; each branch has its exit code.

::

    InfraRSIError
    ├── UsageError            2   a wrong argument, or nothing to work on
    │   └── TableError        2   a measured table or its sidecar cannot be used
    ├── RepositoryError       2   not a git repository, no commit
    ├── ContractError         3   the contract cannot be read, or what it locked has changed
    ├── RejectedError         4   the judge or the gate refused
    │   └── BundleError       4   the evidence of a promotion cannot be used
    ├── InconclusiveError     5   the judge could not tell
    ├── LedgerError           6   the ledger was altered, or cannot be written
    │   ├── SpaceError        6   no space left for the ledger, its evidence or a trial
    │   └── BankError         6   a pack of experience cannot be read or kept, or was altered
    ├── BusyError             7   another command is at work here
    ├── ReferenceFailedError  8   the reference launch fails, hangs, or shows no update
    └── EditError             9   a patch does not apply

Exit code 0 is done; 1 is a defect of InfraRSI itself; 130 is Ctrl-C.
"""

from __future__ import annotations

import errno
from typing import ClassVar


class InfraRSIError(Exception):
    """What is wrong in one sentence, and in ``hint`` what to do about it."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


class UsageError(InfraRSIError):
    """A wrong argument, or a stage called before the one that it needs."""

    exit_code = 2


class TableError(UsageError):
    """A measured table, or the sidecar that says what its columns mean, cannot be used."""


class RepositoryError(InfraRSIError):
    """The place is not a git repository that a trial can start from."""

    exit_code = 2


class ContractError(InfraRSIError):
    """The contract cannot be read, or something that it locked has changed."""

    exit_code = 3


class RejectedError(InfraRSIError):
    """The judge, or the gate, refused."""

    exit_code = 4


class BundleError(RejectedError):
    """The evidence bundle of a promotion cannot be read, or is not what it says."""


class InconclusiveError(InfraRSIError):
    """The judge could not tell."""

    exit_code = 5


class LedgerError(InfraRSIError):
    """The ledger was altered, or it cannot be written."""

    exit_code = 6


class SpaceError(LedgerError):
    """There is no space left for the ledger, its evidence or a trial."""

    @staticmethod
    def explains(error: OSError) -> bool:
        """Tell whether a failed call says that a disk, a quota or a file's limit is full."""
        full = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
        # Copying a folder gathers its errors in words.
        return error.errno in full or any(f"[Errno {number}]" in str(error) for number in full)


class BankError(LedgerError):
    """A pack of experience cannot be read, was altered, clashes, or cannot be kept."""


class BusyError(InfraRSIError):
    """Another command holds the ledger."""

    exit_code = 7


class ReferenceFailedError(InfraRSIError):
    """The reference launch itself fails, hangs, or shows no update."""

    exit_code = 8


class EditError(InfraRSIError):
    """A patch does not apply exactly; it is refused whole."""

    exit_code = 9
