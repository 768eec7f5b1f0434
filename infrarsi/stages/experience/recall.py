"""Experience on its way into a search and out of it: recalled as it begins, kept as it ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from infrarsi.bank.folders import files_of, read_bank, remove, shipped_bank, user_bank
from infrarsi.bank.likeness import compare
from infrarsi.bank.packs import read_pack, write_pack
from infrarsi.errors import BankError, InfraRSIError, UsageError
from infrarsi.records.experience import Experience, Pack, Source, ordered
from infrarsi.records.report import ExperienceUsed
from infrarsi.render import numbers
from infrarsi.search.guard import COLD_EVERY, LEAST_COLD
from infrarsi.search.recollection import recollect
from infrarsi.stages.experience.described import context_of, hardware_of, pack_id, roles_of
from infrarsi.stages.experience.learn import pack_of
from infrarsi.stages.history import History
from infrarsi.stages.workspace import Workspace

OWN_BANK = "bank"
"""The folder in the state folder that takes a pack which the bank cannot take."""
_MOST_PACKS = 20
_FARTHEST = 2.0
"""Packs farther than this are of another world."""


@dataclass(frozen=True)
class Banks:
    """Where a command reads experience, and where it keeps it."""

    folder: Path | None
    """``None``: experience is neither used nor kept."""
    is_named: bool = False
    """Whether the user named it for this command: then what is wrong with it is an error."""


NO_BANKS = Banks(None)


def banks_of(folder: Path | None, *, off: bool) -> Banks:
    """Give the bank of a command from ``--bank`` and ``--no-bank``.

    Raises
    ------
    UsageError
        Both are given.
    """
    if off and folder is not None:
        raise UsageError("--bank and --no-bank contradict each other", hint="leave one out")
    if off:
        return Banks(None, is_named=True)
    return Banks(folder, is_named=True) if folder is not None else Banks(user_bank())


def recall(
    workspace: Workspace, history: History, banks: Banks, *, tell: Callable[[str], None]
) -> None:
    """Recall experience into the ledger, once a search on a machine, or as a bank is named.

    The ledger holds what was recalled, so that a search that goes on makes the same choices,
    whatever the bank has become.

    Raises
    ------
    BankError
        A bank that the user named cannot be used.
    """
    known = history.here.experience
    if banks.folder is None:
        if known is not None and known.beliefs and banks.is_named:
            _record(workspace, history, Experience(note="switched off"), tell)
        return
    if not banks.is_named and (known is not None or history.screenings):
        return
    found = experience_for(workspace, history, packs_in(banks, tell=tell))
    if (found.beliefs or known is not None) and found != known:
        _record(workspace, history, found, tell)


def packs_in(banks: Banks, *, tell: Callable[[str], None]) -> tuple[Pack, ...]:
    """Read a bank; what is wrong with one that was not named is told, and passed over.

    Raises
    ------
    BankError
        A pack of a bank that was named cannot be used.
    """
    if banks.folder is None:
        return ()
    try:
        bank = read_bank(banks.folder, strictly=banks.is_named)
    except BankError as error:
        if banks.is_named:
            raise
        tell(f"note: {error}; no experience is used")
        return ()
    for fault in bank.faults:
        tell(f"note: {fault}; it is passed over")
    return bank.packs


def experience_for(workspace: Workspace, history: History, packs: Iterable[Pack]) -> Experience:
    """Give what packs say of this search, the nearest first; not what it taught itself."""
    assert history.baseline is not None, "experience is recalled after doctor"
    assert history.machine is not None, "a baseline has a machine"
    task = workspace.contract.task
    here = (
        context_of(workspace, history),
        hardware_of(workspace.contract, history.machine, history.baseline),
    )
    own = pack_id(workspace, history.machine)
    likenesses = [
        (compare(here, (pack.context, pack.hardware)), pack) for pack in packs if pack.id != own
    ]
    near = sorted(
        (each for each in likenesses if each[0].distance <= _FARTHEST),
        key=lambda each: (each[0].distance, each[1].id),
    )[:_MOST_PACKS]
    beliefs = recollect(
        [(pack, likeness.distance) for likeness, pack in near], task.surface.knobs,
        roles=roles_of(workspace.contract), matmul=here[0].matmul,
    )  # fmt: skip
    patches = set(history.patches)
    kept = tuple(each for each in beliefs if each.patch is None or each.patch in patches)
    return Experience(
        sources=tuple(
            Source(
                pack=pack.id, label=pack.label, device=pack.hardware.name,
                distance=round(likeness.distance, 3), num_compared=likeness.num_compared,
                num_lessons=len(pack.lessons),
            )
            for likeness, pack in near
        ) if kept else (),
        beliefs=kept,
    )  # fmt: skip


def experience_in_words(experience: Experience) -> str:
    """Say what a search starts from."""
    if not experience.beliefs:
        return f"experience: none ({experience.note or 'no pack says anything of this search'})"
    nearest = experience.sources[0]
    return (
        f"experience: {numbers.counted(len(experience.sources), 'pack')}, the nearest "
        f"{nearest.label} at distance {nearest.distance:.2f}, on "
        f"{numbers.counted(len(experience.beliefs), 'patch or setting', 'patches and settings')}; "
        f"it weighs {1 - LEAST_COLD:.1f} at most, and every {COLD_EVERY}rd pick is made without it"
    )


def remember(workspace: Workspace, banks: Banks, *, tell: Callable[[str], None]) -> Path | None:
    """Keep what the search taught in the bank, or in the state folder where that is not possible.

    No failure of it ends a command: it is told.
    """
    if banks.folder is None:
        return None
    try:
        pack = pack_of(workspace, History.of(workspace.ledger.events))
    except InfraRSIError as error:
        tell(f"note: what was learnt could not be kept: {error}")
        return None
    if pack is None:
        return None
    for folder in (banks.folder, workspace.folder / OWN_BANK):
        try:
            place = keep(folder, pack)
        except BankError as error:
            tell(f"note: {error}")
            continue
        tell(f"learnt: {numbers.counted(len(pack.lessons), 'lesson')}, kept in {place}")
        return place
    return None


def keep(folder: Path, pack: Pack) -> Path:
    """Write a pack of a search into a bank; what it says anew of a subject replaces the old.

    Raises
    ------
    BankError
        It cannot be written, or the pack that is there cannot be read.
    """
    former = files_of(folder, [pack.id])
    said = {each.subject: each for place in former for each in read_pack(place).lessons}
    said |= {each.subject: each for each in pack.lessons}
    kept = write_pack(folder, pack.model_copy(update={"lessons": ordered(said.values())}))
    remove(each for each in former if each != kept)
    return kept


def folder_of(banks: Banks) -> Path:
    """Give the folder of a command that cannot do without a bank.

    Raises
    ------
    UsageError
        There is none.
    """
    if banks.folder is None:
        raise UsageError("there is no bank", hint="name a folder with --bank DIR")
    return banks.folder


def shipped() -> Path:
    """Give the folder of the packs that ship with InfraRSI.

    Raises
    ------
    UsageError
        They are missing.
    """
    folder = shipped_bank()
    if folder is None:
        raise UsageError(
            "the packs that ship with InfraRSI are missing",
            hint="install InfraRSI again, or name a folder with --bank DIR",
        )
    return folder


def _record(
    workspace: Workspace, history: History, experience: Experience, tell: Callable[[str], None]
) -> None:
    history.fold(workspace.ledger.append("recalled", experience.model_dump(mode="json")))
    tell(experience_in_words(experience))


def experience_used(history: History) -> ExperienceUsed | None:
    """Give what of experience a search used, for its report; ``None`` where no bank was asked."""
    experience = history.here.experience
    if experience is None:
        return None
    guided = [
        each.prediction
        for each in history.screenings
        if each.prediction is not None and each.prediction.experience_in_time is not None
    ]
    first, last = (guided[0], guided[-1]) if guided else (None, None)
    return ExperienceUsed(
        sources=experience.sources, num_beliefs=len(experience.beliefs), num_guided=len(guided),
        first_in_time=first.experience_in_time if first else None,
        last_in_time=last.experience_in_time if last else None,
        first_in_memory=first.experience_in_memory if first else None,
        last_in_memory=last.experience_in_memory if last else None,
        note=experience.note,
    )  # fmt: skip
