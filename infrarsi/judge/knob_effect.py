"""Whether turning a knob did anything that can be seen: a program may ignore it in silence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from infrarsi.judge.observed import Observed, Tolerance, differing, words_of
from infrarsi.records.base import Scalar
from infrarsi.records.candidate import Candidate
from infrarsi.records.constraint import names_in
from infrarsi.records.effect import Claim, KnobEffect
from infrarsi.records.task import Knob, Surface, same_scalar

_DECISIVE: Mapping[Claim, tuple[str, ...]] = {
    "micro_batches": ("forwards an update", "rows a forward"),
    "dtypes": ("dtypes", "precision switches"),
    "threads": ("threads of torch", "live threads"),
    "workers": ("child processes", "live threads"),
    "anything": (),
}
"""What a knob with this claim changes wherever it is obeyed, the surest first; nothing else then
speaks for it."""


@dataclass(frozen=True)
class Comparison:
    """Launches that differ in one knob, and in what a constraint turned along with it."""

    knob: str
    turned: tuple[str, ...]
    """Ids of the launches in which it stands at another value than its default."""
    against: tuple[str, ...]
    """Ids of the launches that are alike but for it."""
    value: Scalar
    together_with: tuple[str, ...] = ()


def comparisons_of(surface: Surface, launched: Mapping[str, Candidate]) -> tuple[Comparison, ...]:
    """Find which launches can tell something about single knobs.

    Parameters
    ----------
    surface : Surface
        The knobs and constraints of the contract.
    launched : mapping from str to Candidate
        The candidate of every launch that ended well, by trial id; the reference's among them.

    Notes
    -----
    Two candidates are compared for a knob where they carry the same patches and differ in that
    knob and in nothing but knobs that a constraint ties to it. One of them has the knob at its
    default.
    """
    groups: dict[str, list[str]] = {}
    for name, candidate in launched.items():
        groups.setdefault(candidate.digest(), []).append(name)
    candidates = [launched[names[0]] for names in groups.values()]
    ties = _ties(surface)
    found = []
    for pair in combinations(candidates, 2):
        if pair[0].patches != pair[1].patches:
            continue
        for knob in surface.knobs:
            comparison = _comparison(knob, pair, ties, groups, surface)
            if comparison is not None:
                found.append(comparison)
    return tuple(found)


def _comparison(
    knob: Knob,
    pair: Sequence[Candidate],
    ties: Mapping[str, frozenset[str]],
    groups: Mapping[str, Sequence[str]],
    surface: Surface,
) -> Comparison | None:
    values = [{**surface.default_knobs(), **each.knobs} for each in pair]
    differ = {name for name in values[0] if not same_scalar(values[0][name], values[1][name])}
    if knob.name not in differ or not differ <= ties[knob.name]:
        return None
    at_default = [same_scalar(each[knob.name], knob.default) for each in values]
    if not any(at_default):
        return None
    turned = at_default.index(False)
    return Comparison(
        knob=knob.name, value=values[turned][knob.name],
        turned=tuple(groups[pair[turned].digest()]),
        against=tuple(groups[pair[1 - turned].digest()]),
        together_with=tuple(sorted(differ - {knob.name})),
    )  # fmt: skip


def _ties(surface: Surface) -> dict[str, frozenset[str]]:
    """Give the knobs that share constraints with each knob, itself among them."""
    ties = {knob.name: frozenset({knob.name}) for knob in surface.knobs}
    for constraint in surface.constraints:
        joined = frozenset().union(*(ties[name] for name in names_in(constraint)))
        for name in joined:
            ties[name] = joined
    return ties


def silent_knobs(
    surface: Surface,
    comparisons: Sequence[Comparison],
    observed: Mapping[str, Observed],
    *,
    equal: Sequence[str],
    claims: Mapping[str, Claim],
    reached_by: Mapping[str, str],
) -> tuple[KnobEffect, ...]:
    """Give the knobs that were turned, and nothing differed wherever it was.

    Parameters
    ----------
    surface : Surface
        The knobs of the contract.
    comparisons : sequence of Comparison
        As :func:`comparisons_of` gives them.
    observed : mapping from str to Observed
        What was seen of each launch that they name, by trial id.
    equal : sequence of str
        Ids of the equal launches of the reference: what differs between them says nothing.
    claims : mapping from str to Claim
        What each knob seems to set, by its name.
    reached_by : mapping from str to str
        How each knob reaches the program, for a person.

    Notes
    -----
    A knob whose claim has a decisive observable (micro-batches: the forwards of an update) is
    judged by that alone, exactly. Any other is compared in all that was seen: exactly where
    equal launches agree exactly, within their noise for time, phases and memory. One launch
    that differs anywhere acquits a knob.

    When not to trust it: an effect smaller than the noise, on what is printed or written, or
    only after the measured updates, is not seen. It is a remark for a person and no verdict.
    """
    if not comparisons:
        return ()
    tolerance = Tolerance.of([observed[name] for name in equal])
    kept: dict[str, list[tuple[Comparison, str]]] = {}
    heard: set[str] = set()
    for each in comparisons:
        if each.knob in heard:
            continue
        words = _no_difference(each, observed, tolerance, claims[each.knob])
        if words is None:
            heard.add(each.knob)
        elif words:
            kept.setdefault(each.knob, []).append((each, words))
    return tuple(
        _effect(knob, kept[knob.name], observed, reached_by[knob.name])
        for knob in surface.knobs
        if knob.name in kept and knob.name not in heard
    )


def _no_difference(
    comparison: Comparison,
    observed: Mapping[str, Observed],
    tolerance: Tolerance,
    claim: Claim,
) -> str | None:
    """Say what was the same; ``None`` where something differed, empty where nothing was seen."""
    turned = [observed[name] for name in comparison.turned]
    against = [observed[name] for name in comparison.against]
    decisive = _DECISIVE[claim]
    usable = tuple(
        name
        for name in decisive
        if name not in tolerance.unsteady
        and all(each.exact.get(name) is not None for each in (*turned, *against))
    )
    # Without the first, what is left is too little to go by: all is compared then.
    names = usable if usable[:1] == decisive[:1] else ()
    if differing(turned, against, tolerance, only=names):
        return None
    return words_of(turned, against, tolerance, only=names)


def _effect(
    knob: Knob,
    comparisons: Sequence[tuple[Comparison, str]],
    observed: Mapping[str, Observed],
    way: str,
) -> KnobEffect:
    values: list[Scalar] = []
    for comparison, _ in comparisons:
        if not any(same_scalar(comparison.value, each) for each in values):
            values.append(comparison.value)
    turned = list(dict.fromkeys(name for each, _ in comparisons for name in each.turned))
    against = [name for each, _ in comparisons for name in each.against]
    arrived = [observed[name].argv for name in turned]
    words = comparisons[0][1]
    if way.startswith("-") and all(arrived):
        typed = any(word.partition("=")[0] == way for argv in arrived for word in argv or ())
        words += (
            f"; {way} was on the command line of the training process"
            if typed
            else f"; {way} was not on the command line of the training process"
        )
    return KnobEffect(
        knob=knob.name, reached_by=way, values=tuple(values), default=knob.default,
        together_with=comparisons[0][0].together_with, compared=words,
        trials=tuple(dict.fromkeys([*turned, *against])),
    )  # fmt: skip
