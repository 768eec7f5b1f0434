"""What packs of experience say of the atoms of a search: ratios, re-based on its own reference."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeGuard

import numpy as np

from infrarsi.records.base import Scalar
from infrarsi.records.candidate import Effect
from infrarsi.records.experience import AtomBelief, Pack
from infrarsi.records.task import Knob, same_scalar
from infrarsi.search.told import Key, Told, knob_key, tell

_TRANSFER_SD, _TRANSFER_SD_A_UNIT = 0.04, 0.12
"""How far an effect moves from one search to another like it, and more a unit of distance."""
_GUESS_SD = 0.05
"""Added where a value of a knob was not tried itself, and lies between such as were."""
_OTHER_NAME = 0.5
"""Distance that another name of a knob adds."""


def recollect(
    packs: Sequence[tuple[Pack, float]],
    knobs: Sequence[Knob],
    *,
    roles: Mapping[str, str] | None = None,
    matmul: tuple[str, ...] = (),
) -> tuple[AtomBelief, ...]:
    """Turn lessons into beliefs on patches, and on values of these knobs against their defaults.

    Parameters
    ----------
    packs
        Each with its distance from this search, in units of which one is a factor of 4.
    knobs
        Of the search to come.
    roles
        What its knobs are, by name: one that is called otherwise in a pack is known by that.
    matmul
        Dtypes that it allows. What was refused under others says nothing here.

    Notes
    -----
    Within a pack the effects of atoms are taken to add up in logarithms, with a normal prior
    of mean 0; a lesson beside other atoms counts for what was added alone; an out-of-memory is a
    lower bound. What the prior itself brings is taken off again. From pack to pack effects
    vary: each is widened by its distance before they are averaged by precision, and packs that
    contradict each other widen what they agree on. Not to be trusted where atoms interact
    strongly: that is what the guard is for.
    """
    told = [tell(pack, distance, matmul) for pack, distance in packs]
    beliefs = [_patch_belief(name, told) for name in sorted(_patch_names(told))]
    for knob in knobs:
        beliefs += [
            _knob_belief(knob, value, told, (roles or {}).get(knob.name))
            for value in knob.values
            if not same_scalar(value, knob.default)
        ]
    return tuple(each for each in beliefs if each is not None)


def _patch_names(told: Sequence[Told]) -> set[str]:
    keys = (key for each in told for key in (*each.time, *each.memory, *each.blame))
    return {name for mark, name in keys if mark == "+"}


def _patch_belief(name: str, told: Sequence[Told]) -> AtomBelief | None:
    key = ("+", name)
    return _belief(
        [(each.distance, each.time.get(key)) for each in told],
        [(each.distance, each.memory.get(key)) for each in told],
        [(each.distance, each.blame.get(key)) for each in told],
        atom=AtomBelief(patch=name),
    )


def _knob_belief(
    knob: Knob, value: Scalar, told: Sequence[Told], role: str | None
) -> AtomBelief | None:
    known = [
        (each, name, each.distance + (0.0 if name == knob.name else _OTHER_NAME))
        for each in told
        if (name := each.name_of(knob.name, role)) is not None
    ]
    return _belief(
        [(far, _between(each, each.time, name, knob, value)) for each, name, far in known],
        [(far, _between(each, each.memory, name, knob, value)) for each, name, far in known],
        [(far, each.blame.get(knob_key(name, value))) for each, name, far in known],
        atom=AtomBelief(knob=knob.name, value=value),
    )


def _belief(
    times: Iterable[tuple[float, Effect | None]],
    memories: Iterable[tuple[float, Effect | None]],
    blames: Iterable[tuple[float, float | None]],
    *,
    atom: AtomBelief,
) -> AtomBelief | None:
    time, memory = _averaged(list(times)), _averaged(list(memories))
    blamed = [(math.exp(-distance), share) for distance, share in blames if share is not None]
    weight = sum(near for near, _ in blamed)
    # Half a vote for innocence, however alike: another repository's refusal is a hint.
    refused = sum(near * share for near, share in blamed) / (weight + 0.5) if blamed else 0.0
    if time[0] is None and memory[0] is None and not refused:
        return None
    num = max(time[1], memory[1], len(blamed))
    return atom.model_copy(
        update={"log_time": time[0], "log_memory": memory[0], "refused": refused, "num_packs": num}
    )


def _averaged(rows: Sequence[tuple[float, Effect | None]]) -> tuple[Effect | None, int]:
    """Average effects by precision, each widened by its distance; give also their number."""
    told = [(distance, effect) for distance, effect in rows if effect is not None]
    if not told:
        return None, 0
    means = np.array([effect.mean for _, effect in told])
    moved = [_TRANSFER_SD + _TRANSFER_SD_A_UNIT * distance for distance, _ in told]
    variances = np.array([effect.sd**2 for _, effect in told]) + np.square(moved)
    precision = 1 / variances
    mean = float(precision @ means / precision.sum())
    variance = float(1 / precision.sum())
    if len(told) > 1:
        surprise = float(precision @ np.square(means - mean)) / (len(told) - 1)
        variance *= max(1.0, surprise)
    return Effect(mean=mean, sd=math.sqrt(variance)), len(told)


def _between(
    told: Told, effects: dict[Key, Effect], name: str, knob: Knob, value: Scalar
) -> Effect | None:
    """Give the effect of a value against this search's default, which may not be the pack's."""
    here = _at(told, effects, name, knob.default)
    there = _at(told, effects, name, value)
    if here is not None and there is not None:
        spread = math.hypot(here[1], there[1])
        return Effect(mean=there[0] - here[0], sd=max(spread, 1e-3))
    before = told.befores[name]
    if not (_is_size(before) and _is_size(knob.default) and _is_size(value)):
        return None
    # Sizes that the pack does not know: what counts is by how much the default is multiplied.
    moved = _at(told, effects, name, float(value) / float(knob.default) * float(before))
    return Effect(mean=moved[0], sd=math.hypot(moved[1], _GUESS_SD)) if moved else None


def _at(
    told: Told, effects: dict[Key, Effect], name: str, value: Scalar
) -> tuple[float, float] | None:
    """Give the effect of a knob's value against the pack's reference, between known ones."""
    before = told.befores[name]
    if same_scalar(value, before):
        return 0.0, 0.0
    exact = effects.get(knob_key(name, value))
    if exact is not None:
        return exact.mean, exact.sd
    if not _is_size(value) or not _is_size(before):
        return None
    known = [(math.log2(float(before)), 0.0, 0.0)]
    for after in told.afters[name]:
        effect = effects.get(knob_key(name, after))
        if effect is not None and _is_size(after):
            known.append((math.log2(float(after)), effect.mean, effect.sd))
    known.sort()
    places, means, sds = map(list, zip(*known, strict=True))
    place = math.log2(float(value))
    if not places[0] - 1e-9 <= place <= places[-1] + 1e-9:
        return None
    is_known = min(abs(place - each) for each in places) < 1e-9
    guess = 0.0 if is_known else _GUESS_SD
    return float(np.interp(place, places, means)), float(np.interp(place, places, sds)) + guess


def _is_size(value: Scalar) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0
