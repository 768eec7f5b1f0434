"""What torch's fused kernels compute, on numbers, and which roles explain a loop's arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations, product
from typing import TypeAlias

Values: TypeAlias = Mapping[str, float]
"""The number behind each expression, by its text; literals stand under their own text."""
Roles: TypeAlias = Mapping[str, str]
"""The expression that plays each role of a formula."""
Formula: TypeAlias = Callable[[Roles, Values, Values], float]
"""What a number becomes, from the roles, and the numbers before and after."""


@dataclass(frozen=True)
class Run:
    """One run of a loop's arithmetic on numbers: what each expression was worth, and became."""

    before: Values
    after: Values


@dataclass(frozen=True)
class Match:
    """A kernel, and the expression that plays each of its roles."""

    kernel: str
    tensors: dict[str, str] = field(default_factory=dict)
    scalars: dict[str, str] = field(default_factory=dict)


def find_match(
    runs: Sequence[Run], grads: Sequence[str], updated: Sequence[str], scalars: Sequence[str],
    counts: Sequence[str],
) -> Match | None:  # fmt: skip
    """Find the kernel and the roles that give the same numbers in every run.

    ``updated`` holds the tensors that the loop changes, ``grads`` those that it only reads,
    ``counts`` what may be the number of the update, ``scalars`` everything else.
    """
    search = _Search(runs, scalars, counts)
    others = {3: ("m", "v"), 2: ("buffer",), 1: ()}.get(len(updated))
    if others is None:
        return None
    find = {2: search.adam, 1: search.momentum, 0: search.descent}[len(others)]
    for grad, order in product(grads, permutations(updated)):
        match = find(dict(zip(("g", "p", *others), (grad, *order), strict=True)))
        if match:
            return match
    return None


@dataclass
class _Search:
    """Tries scalars in the roles of a formula until one set agrees with every run."""

    runs: Sequence[Run]
    scalars: Sequence[str]
    counts: Sequence[str]

    def adam(self, tensors: Roles) -> Match | None:
        for in_grad in (False, True):
            inside = self.scalars if in_grad else ["0.0"]
            outside = ["0.0"] if in_grad else self.scalars
            for one in self._fitting("m", _first_moment, tensors, l2=inside, beta1=self.scalars):
                for two in self._fitting("v", _second_moment, one, beta2=self.scalars):
                    for all_ in self._fitting(
                        "p", _adam_step, two,
                        step=self.counts, lr=self.scalars, eps=self.scalars, decay=outside,
                    ):  # fmt: skip
                        decay = all_["l2"] if in_grad else all_["decay"]
                        names = ("lr", "beta1", "beta2", "eps", "step")
                        scalars = {**{each: all_[each] for each in names}, "weight_decay": decay}
                        kernel = "_fused_adam_" if in_grad else "_fused_adamw_"
                        return Match(kernel, dict(tensors), scalars)
        return None

    def momentum(self, tensors: Roles) -> Match | None:
        for one in self._fitting(
            "buffer", _buffer, tensors,
            l2=self.scalars, momentum=self.scalars, dampening=["0.0", *self.scalars],
        ):  # fmt: skip
            for flag, formula in (("False", _buffer_step), ("True", _nesterov_step)):
                for all_ in self._fitting("p", formula, one, lr=self.scalars):
                    return _as_descent(tensors, all_, nesterov=flag)
        return None

    def descent(self, tensors: Roles) -> Match | None:
        none = {**tensors, "momentum": "0.0", "dampening": "0.0"}
        for all_ in self._fitting("p", _plain_step, none, lr=self.scalars, l2=self.scalars):
            return _as_descent(tensors, all_, nesterov="False")
        return None

    def _fitting(
        self, target: str, formula: Formula, known: Roles, **open_: Sequence[str]
    ) -> Iterator[dict[str, str]]:
        """Give the choices for open roles under which a formula gives the target's new number."""
        for chosen in product(*(dict.fromkeys(each) for each in open_.values())):
            roles = {**known, **dict(zip(open_, chosen, strict=True))}
            try:
                if all(
                    _close(run.after[roles[target]], formula(roles, run.before, run.after))
                    for run in self.runs
                ):
                    yield roles
            except (ArithmeticError, ValueError, TypeError):
                continue  # these roles do not even give a real number


def _as_descent(tensors: Roles, roles: Roles, *, nesterov: str) -> Match:
    scalars = {each: roles[each] for each in ("lr", "momentum", "dampening")}
    return Match(
        "_fused_sgd_", dict(tensors), {**scalars, "weight_decay": roles["l2"], "nesterov": nesterov}
    )


def _first_moment(roles: Roles, before: Values, after: Values) -> float:
    return _average(before[roles["m"]], _decayed(roles, before), before[roles["beta1"]])


def _second_moment(roles: Roles, before: Values, after: Values) -> float:
    return _average(before[roles["v"]], _decayed(roles, before) ** 2, before[roles["beta2"]])


def _adam_step(roles: Roles, before: Values, after: Values) -> float:
    count, rate = after[roles["step"]], before[roles["lr"]]
    size = rate / (1 - before[roles["beta1"]] ** count)
    root = math.sqrt(after[roles["v"]]) / math.sqrt(1 - before[roles["beta2"]] ** count)
    kept = before[roles["p"]] * (1 - rate * before[roles["decay"]])
    return kept - size * after[roles["m"]] / (root + before[roles["eps"]])


def _buffer(roles: Roles, before: Values, after: Values) -> float:
    fresh = (1 - before[roles["dampening"]]) * _decayed(roles, before)
    return before[roles["momentum"]] * before[roles["buffer"]] + fresh


def _buffer_step(roles: Roles, before: Values, after: Values) -> float:
    return before[roles["p"]] - before[roles["lr"]] * after[roles["buffer"]]


def _nesterov_step(roles: Roles, before: Values, after: Values) -> float:
    ahead = _decayed(roles, before) + before[roles["momentum"]] * after[roles["buffer"]]
    return before[roles["p"]] - before[roles["lr"]] * ahead


def _plain_step(roles: Roles, before: Values, after: Values) -> float:
    return before[roles["p"]] - before[roles["lr"]] * _decayed(roles, before)


def _decayed(roles: Roles, before: Values) -> float:
    return before[roles["g"]] + before[roles["l2"]] * before[roles["p"]]


def _average(old: float, new: float, keep: float) -> float:
    return keep * old + (1 - keep) * new


def _close(left: float, right: float) -> bool:
    return math.isclose(left, right, rel_tol=1e-10, abs_tol=1e-13)


def switched_off(scalars: Sequence[str]) -> Iterator[frozenset[str]]:
    """Give the sets of scalars to be zero in a run: none, and each one alone."""
    yield from [frozenset[str]()] * 8
    for each in scalars:
        yield frozenset({each})
