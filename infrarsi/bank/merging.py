"""Merging what several people, or several states of one search, have learnt."""

from __future__ import annotations

from collections.abc import Iterable

from infrarsi.errors import BankError
from infrarsi.records.experience import Lesson, Pack, ordered


def united(lessons: Iterable[Lesson], *, name: str) -> tuple[Lesson, ...]:
    """Give lessons in order, one a subject: of two accounts, the one that knows more.

    A search that goes on says again what it said before, resting on the old evidence and new:
    then the new account counts. ``name`` stands in the message.

    Raises
    ------
    BankError
        Two accounts of one subject differ, and neither rests on all that the other rests on.
    """
    by_subject: dict[bytes, Lesson] = {}
    for lesson in ordered(lessons):
        known = by_subject.get(lesson.subject)
        by_subject[lesson.subject] = lesson if known is None else _fuller(known, lesson, name)
    return ordered(by_subject.values())


def _fuller(left: Lesson, right: Lesson, name: str) -> Lesson:
    ours, theirs = set(left.evidence), set(right.evidence)
    if ours != theirs and ours <= theirs:
        return right
    if ours != theirs and theirs <= ours:
        return left
    atoms = ", ".join(atom.in_words() for atom in left.atoms)
    raise BankError(
        f"{name}: the lessons {left.id} and {right.id} clash: both are about {atoms}, and neither "
        "rests on all the evidence of the other",
        hint="take one of the two away, then repeat",
    )


def merged(packs: Iterable[Pack]) -> tuple[Pack, ...]:
    """Make one pack of those that share an id, and give all in the order of their ids.

    Raises
    ------
    BankError
        Packs of one id are about different machines or trainings, or lessons of theirs clash.
    """
    by_id: dict[str, Pack] = {}
    for pack in packs:
        known = by_id.get(pack.id)
        by_id[pack.id] = pack if known is None else _joined(known, pack)
    return tuple(by_id[name] for name in sorted(by_id))


def _joined(left: Pack, right: Pack) -> Pack:
    mine, others = (each.model_dump(include={"context", "hardware"}) for each in (left, right))
    if mine != others:
        raise BankError(
            f"two packs share the id {left.id} ({left.label} and {right.label}) and are not of "
            "the same training on the same machine",
            hint="forget one of them with `infrarsi bank forget`, or delete its file",
        )
    lessons = united((*left.lessons, *right.lessons), name=f"the pack {left.id}")
    label = min(left.label, right.label)
    return left.model_copy(update={"label": label, "lessons": lessons})
