"""bank: look at experience, take it along, join it, and let go of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from infrarsi.bank.folders import files_of, read_bank, remove
from infrarsi.bank.merging import merged
from infrarsi.bank.packs import read_pack, write_pack
from infrarsi.errors import UsageError
from infrarsi.records.experience import AtomBelief, Pack, Source
from infrarsi.search.recollection import recollect
from infrarsi.stages.experience.learn import pack_of
from infrarsi.stages.experience.recall import Banks, experience_for, packs_in
from infrarsi.stages.history import History
from infrarsi.stages.workspace import Workspace


@dataclass(frozen=True)
class Listed:
    """One pack of a bank, in short."""

    id: str
    label: str
    device: str
    num_devices: int
    num_parameters: int | None
    num_lessons: int
    outcomes: dict[str, int]


@dataclass(frozen=True)
class Shown:
    """One pack, and what it says of each atom alone."""

    pack: Pack
    atoms: tuple[AtomBelief, ...]


@dataclass(frozen=True)
class Recollection:
    """What a search would start from here."""

    sources: tuple[Source, ...]
    beliefs: tuple[AtomBelief, ...]


def listed(folder: Path, *, tell: Callable[[str], None]) -> tuple[Listed, ...]:
    """List the packs of a bank; what cannot be read is told."""
    bank = read_bank(folder)
    for fault in bank.faults:
        tell(f"note: {fault}; {fault.hint}")
    return tuple(map(_in_short, bank.packs))


def shown(folder: Path, name: str) -> Shown:
    """Give a pack by the beginning of its id, by its label, or by its file.

    Raises
    ------
    UsageError
        No pack is called that, or several are.
    BankError
        It cannot be read.
    """
    place = Path(name)
    pack = read_pack(place) if place.is_file() else one_pack(read_bank(folder).packs, name)
    return Shown(pack, tuple(e for e in recollect([(pack, 0.0)], ()) if e.patch is not None))


def recalled(workspace: Workspace, banks: Banks, *, tell: Callable[[str], None]) -> Recollection:
    """Give what a search would start from here, without beginning it.

    Raises
    ------
    UsageError
        The reference was never measured.
    """
    history = History.of(workspace.ledger.events)
    if history.baseline is None:
        raise UsageError(
            "what is alike is not known: the reference has not been measured yet",
            hint="measure it with `infrarsi doctor`",
        )
    if not history.proposed:
        tell("note: patches are not proposed yet, so that settings alone are recalled")
    found = experience_for(workspace, history, packs_in(banks, tell=tell))
    return Recollection(found.sources, found.beliefs)


def exported(workspace: Workspace, *, label: str | None = None) -> Pack:
    """Give the pack of a search, as its ledger stands.

    Raises
    ------
    UsageError
        The search has taught nothing yet.
    """
    pack = pack_of(workspace, History.of(workspace.ledger.events), label=label)
    if pack is None:
        raise UsageError(
            "this search has taught nothing yet", hint="search first with `infrarsi run`"
        )
    return pack


def joined(places: Sequence[Path], folder: Path) -> tuple[tuple[Path, Pack], ...]:
    """Write the packs of files and folders into a bank, joined with those that it holds.

    Nothing is written where one of them cannot be used.

    Raises
    ------
    BankError
        A pack cannot be used, two of one id clash, or the bank cannot be written.
    UsageError
        A place does not exist, or holds no pack.
    """
    new = [pack for place in places for pack in _packs_at(place)]
    ids = {pack.id for pack in new}
    present = [pack for pack in read_bank(folder).packs if pack.id in ids]
    result = merged([*present, *new])
    written = []
    for pack in result:
        old = files_of(folder, [pack.id])
        place = write_pack(folder, pack)
        remove(each for each in old if each != place)
        written.append((place, pack))
    return tuple(written)


def forgotten(folder: Path, names: Sequence[str]) -> tuple[Pack, ...]:
    """Take packs out of a bank; nothing is taken out where one of them is not there.

    Raises
    ------
    UsageError
        No pack is called that, or several are.
    BankError
        A file cannot be removed.
    """
    packs = read_bank(folder).packs
    gone = tuple(one_pack(packs, name) for name in names)
    remove(files_of(folder, {pack.id for pack in gone}))
    return gone


def one_pack(packs: Sequence[Pack], name: str) -> Pack:
    """Find a pack by the beginning of its id, or by its label.

    Raises
    ------
    UsageError
        No pack is called that, or several are.
    """
    found = [pack for pack in packs if pack.id.startswith(name) or pack.label == name]
    if len(found) == 1:
        return found[0]
    known = ", ".join(f"{pack.id} ({pack.label})" for pack in packs) or "none"
    wrong = (
        f"no pack is called {name!r}" if not found else f"{len(found)} packs are called {name!r}"
    )
    raise UsageError(wrong, hint=f"give an id, or the beginning of one; there are: {known}")


def _packs_at(place: Path) -> tuple[Pack, ...]:
    if place.is_dir():
        packs = read_bank(place, strictly=True).packs
        if not packs:
            raise UsageError(f"there is no pack in {place}", hint="name a pack's file or a folder")
        return packs
    if not place.exists():
        raise UsageError(f"{place} does not exist", hint="name a pack's file or a folder")
    return (read_pack(place),)


def _in_short(pack: Pack) -> Listed:
    outcomes: dict[str, int] = {}
    for lesson in pack.lessons:
        outcomes[lesson.outcome] = outcomes.get(lesson.outcome, 0) + 1
    return Listed(
        id=pack.id, label=pack.label, device=pack.hardware.name, num_devices=pack.hardware.num,
        num_parameters=pack.context.num_parameters, num_lessons=len(pack.lessons),
        outcomes=dict(sorted(outcomes.items())),
    )  # fmt: skip
