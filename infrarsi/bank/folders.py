"""Where packs lie: a user's own bank, what ships with InfraRSI, and any folder that is named."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from infrarsi.bank.merging import merged
from infrarsi.bank.packs import SUFFIX, read_pack
from infrarsi.errors import BankError
from infrarsi.records.experience import Pack

BANK_VARIABLE = "INFRARSI_BANK"
"""Environment variable that names the user's bank; empty, there is none."""


@dataclass(frozen=True)
class Bank:
    """The packs of a folder."""

    packs: tuple[Pack, ...]
    """In the order of their ids."""
    faults: tuple[BankError, ...] = ()
    """What is wrong with files that were passed over."""


def user_bank() -> Path | None:
    """Give the folder of the user's own packs, which need not exist; ``None``: there is none.

    ``$INFRARSI_BANK``, else ``infrarsi/bank`` in ``$XDG_DATA_HOME``, else in ``~/.local/share``.
    """
    named = os.environ.get(BANK_VARIABLE)
    if named is not None:
        return Path(named).expanduser() if named.strip() else None
    data = os.environ.get("XDG_DATA_HOME", "")
    try:
        home = Path(data) if Path(data).is_absolute() else Path.home() / ".local" / "share"
    except RuntimeError:  # a user without a home
        return None
    return home / "infrarsi" / "bank"


def shipped_bank() -> Path | None:
    """Find the packs that ship: inside the installed package, or beside it in a checkout."""
    package = Path(__file__).resolve().parent.parent
    places = (package / "_experience_bank", package.parent / "experience_bank")
    return next((place for place in places if any(place.glob(f"*{SUFFIX}"))), None)


def read_bank(folder: Path, *, strictly: bool = False) -> Bank:
    """Read all packs of a folder; one that does not exist is an empty bank.

    Raises
    ------
    BankError
        A pack cannot be used, where ``strictly``; else it is passed over, and told in ``faults``.
    """
    try:
        places = sorted(each for each in folder.glob(f"*{SUFFIX}") if not each.name.startswith("."))
    except OSError as error:
        raise BankError(
            f"the bank {folder} cannot be read: {error.strerror}",
            hint="name another folder with --bank, or do without with --no-bank",
        ) from error
    packs: list[Pack] = []
    faults: list[BankError] = []
    for place in places:
        try:
            packs = list(merged([*packs, read_pack(place)]))
        except BankError as error:
            if strictly:
                raise
            faults.append(error)
    return Bank(tuple(packs), tuple(faults))


def files_of(folder: Path, ids: Iterable[str]) -> tuple[Path, ...]:
    """Give the files of a folder whose names end in one of these ids."""
    endings = tuple(f"-{name}{SUFFIX}" for name in ids)
    return tuple(sorted(each for each in folder.glob(f"*{SUFFIX}") if each.name.endswith(endings)))


def remove(files: Iterable[Path]) -> None:
    """Remove packs' files.

    Raises
    ------
    BankError
        One cannot be removed.
    """
    for file in files:
        try:
            file.unlink()
        except OSError as error:
            raise BankError(
                f"{file} cannot be removed: {error.strerror}", hint="remove it yourself"
            ) from error
