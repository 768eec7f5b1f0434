"""What one pack of experience tells: the effect of each of its atoms alone, and what to blame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from infrarsi.records.base import Scalar, canonical_json
from infrarsi.records.candidate import Effect
from infrarsi.records.experience import Atom, Lesson, Pack
from infrarsi.records.task import same_scalar
from infrarsi.search.mixture import Floats
from infrarsi.search.tobit import TobitData, TobitPrior, fit_tobit

Key: TypeAlias = tuple[str, str]
"""``("+", "sdpa")``, or a knob's name and its value as JSON."""

_TIME_SD, _MEMORY_SD = 0.3, 0.5
"""Spread of an atom's effect before any lesson."""
_LEAST_TOLD = 4.0
"""Precision below which a pack has told nothing of an atom: a spread of 0.5."""
_MISFIT_SD, _INTERACTION_SD = 0.02, 0.03
"""What adding effects up leaves out, in one launch, and for each atom beside the first."""
_GOOD = frozenset({"accepted", "confirmed"})
_BAD = frozenset({"refused", "failed"})


@dataclass(frozen=True)
class Told:
    """What one pack tells."""

    distance: float
    befores: dict[str, Scalar]
    """The value of each knob in the pack's own reference."""
    afters: dict[str, list[Scalar]]
    names: dict[str, str]
    """Names of knobs by what they are."""
    time: dict[Key, Effect]
    memory: dict[Key, Effect]
    blame: dict[Key, float]
    """1 where an atom was refused alone, 0 where it was accepted, and in between."""

    def name_of(self, name: str, role: str | None) -> str | None:
        """Give what a knob is called in the pack, by its name or by what it is."""
        return name if name in self.befores else self.names.get(role or "")


def tell(pack: Pack, distance: float, matmul: tuple[str, ...]) -> Told:
    """Read a pack, by itself.

    Parameters
    ----------
    distance
        Of its search from the one to come: only passed on.
    matmul
        Dtypes that the search to come allows; empty: whatever it is.
    """
    lessons = [each for each in pack.lessons if all(map(_means_something, each.atoms))]
    befores: dict[str, Scalar] = {}
    afters: dict[str, list[Scalar]] = {}
    names: dict[str, str] = {}
    for atom in (atom for lesson in lessons for atom in lesson.atoms):
        if atom.knob is not None:
            befores[atom.knob] = atom.before
            if atom.role is not None:
                names[atom.role] = atom.knob
            known = afters.setdefault(atom.knob, [])
            if not any(same_scalar(atom.after, each) for each in known):
                known.append(atom.after)
    comparable = not matmul or tuple(pack.context.matmul) == tuple(matmul)
    return Told(
        distance, befores, afters, names, _time_effects(lessons), _memory_effects(lessons),
        _blame(lessons) if comparable else {},
    )  # fmt: skip


def _means_something(atom: Atom) -> bool:
    return atom.patch is None or atom.proposer == "patchbook"


def _key(atom: Atom) -> Key:
    return ("+", atom.patch) if atom.patch is not None else knob_key(atom.knob or "", atom.after)


def knob_key(name: str, value: Scalar) -> Key:
    """Give the key of a knob at a value."""
    return name, canonical_json(value).decode()


def _design(lessons: Sequence[Lesson]) -> tuple[list[Key], Floats]:
    keys = sorted({_key(atom) for lesson in lessons for atom in lesson.atoms})
    place = {key: i for i, key in enumerate(keys)}
    rows = np.zeros((len(lessons), len(keys)))
    for row, lesson in zip(rows, lessons, strict=True):
        for atom in lesson.atoms:
            row[place[_key(atom)]] = 1.0
    return keys, rows


def _time_effects(lessons: Sequence[Lesson]) -> dict[Key, Effect]:
    timed = [(each, each.log_time) for each in lessons if each.outcome in _GOOD]
    used = [(lesson, effect) for lesson, effect in timed if effect is not None]
    if not used:
        return {}
    keys, rows = _design([lesson for lesson, _ in used])
    extra = _INTERACTION_SD**2 * (rows.sum(axis=1) - 1)
    noise = np.array([effect.sd**2 for _, effect in used]) + _MISFIT_SD**2 + extra
    target = np.array([effect.mean for _, effect in used])
    precision = np.eye(len(keys)) / _TIME_SD**2 + rows.T @ (rows / noise[:, None])
    covariance = np.linalg.inv(precision)
    mean = covariance @ (rows.T @ (target / noise))
    return _without_prior(keys, mean, np.sqrt(np.diag(covariance)), _TIME_SD)


def _memory_effects(lessons: Sequence[Lesson]) -> dict[Key, Effect]:
    used = [
        each
        for each in lessons
        if (each.outcome in _GOOD and each.log_memory is not None)
        or (each.outcome == "oom" and each.log_memory_above is not None)
    ]
    if not used:
        return {}
    keys, rows = _design(used)
    ran_out = np.array([each.outcome == "oom" for each in used])
    outcome = [each.log_memory_above if each.outcome == "oom" else each.log_memory for each in used]
    prior = TobitPrior(
        np.zeros(len(keys)), np.full(len(keys), _MEMORY_SD), np.zeros(len(keys), dtype=np.int64)
    )
    data = TobitData(rows, np.array(outcome, dtype=np.float64), ran_out.astype(np.int64))
    return _without_prior(keys, *fit_tobit(data, prior).coefficient_moments(), _MEMORY_SD)


def _without_prior(
    keys: Sequence[Key], mean: Floats, sd: Floats, prior_sd: float
) -> dict[Key, Effect]:
    """Take a prior of mean 0 off normal posteriors; leave out what nothing was told of."""
    found = {}
    for key, centre, spread in zip(keys, mean, sd, strict=True):
        told = 1 / max(float(spread), 1e-6) ** 2 - 1 / prior_sd**2
        if told > _LEAST_TOLD:
            found[key] = Effect(mean=float(centre) / spread**2 / told, sd=told**-0.5)
    return found


def _blame(lessons: Sequence[Lesson]) -> dict[Key, float]:
    """Share each refusal and crash out among the atoms that nothing acquits."""
    acquitted = {
        _key(atom)
        for lesson in lessons
        if lesson.outcome in _GOOD
        for atom in (*lesson.atoms, *lesson.beside)
    }
    found = dict.fromkeys(acquitted, 0.0)
    for lesson in lessons:
        if lesson.outcome in _BAD:
            suspects = {_key(atom) for atom in (*lesson.atoms, *lesson.beside)} - acquitted
            for key in suspects:
                found[key] = max(found.get(key, 0.0), 1 / len(suspects))
    return found
