"""What torch's fused kernels compute, on numbers, and which roles explain a loop's arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

Values = Mapping[str, float]
"""The number behind each expression, by its text; literals stand under their own text."""


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
    for grad in grads:
        if len(updated) == 3:
            for parameter in updated:
                first, second = (each for each in updated if each != parameter)
                for one, two in ((first, second), (second, first)):
                    match = search.adam(parameter, grad, one, two)
                    if match:
                        return match
        if len(updated) == 2:
            for parameter, buffer in (updated, updated[::-1]):
                match = search.momentum(parameter, grad, buffer)
                if match:
                    return match
        if len(updated) == 1:
            match = search.descent(updated[0], grad)
            if match:
                return match
    return None


@dataclass
class _Search:
    runs: Sequence[Run]
    scalars: Sequence[str]
    counts: Sequence[str]

    def adam(self, p: str, g: str, m: str, v: str) -> Match | None:
        for decay_in_grad in (False, True):
            decays = self.scalars if decay_in_grad else ["0.0"]
            for decay, beta1 in product(decays, self.scalars):
                if not self._holds(m, lambda b: _average(b[m], _decayed(b, g, p, decay), b[beta1])):
                    continue
                for beta2 in self.scalars:
                    if not self._holds(
                        v, lambda b: _average(b[v], _decayed(b, g, p, decay) ** 2, b[beta2])
                    ):
                        continue
                    found = self._adam_step(p, m, v, beta1, beta2, decay if decay_in_grad else None)
                    if found:
                        tensors = {"p": p, "g": g, "m": m, "v": v}
                        kernel = "_fused_adam_" if decay_in_grad else "_fused_adamw_"
                        return Match(kernel, tensors, found)
        return None

    def _adam_step(
        self, p: str, m: str, v: str, beta1: str, beta2: str, decay_in_grad: str | None
    ) -> dict[str, str] | None:
        decays = self.scalars if decay_in_grad is None else ["0.0"]
        for step, lr, eps, decay in product(self.counts, self.scalars, self.scalars, decays):

            def stepped(before: Values, after: Values) -> float:
                count = after[step]
                size = before[lr] / (1 - before[beta1] ** count)
                root = math.sqrt(after[v]) / math.sqrt(1 - before[beta2] ** count)
                kept = before[p] * (1 - before[lr] * before[decay])
                return kept - size * after[m] / (root + before[eps])

            if self._steps(p, stepped):
                return {
                    "lr": lr, "beta1": beta1, "beta2": beta2, "eps": eps, "step": step,
                    "weight_decay": decay if decay_in_grad is None else decay_in_grad,
                }  # fmt: skip
        return None

    def momentum(self, p: str, g: str, buffer: str) -> Match | None:
        for decay, rate in product(self.scalars, self.scalars):
            for damping in dict.fromkeys(["0.0", *self.scalars]):
                if self._holds(
                    buffer,
                    lambda b: b[rate] * b[buffer] + (1 - b[damping]) * _decayed(b, g, p, decay),
                ):
                    found = self._momentum_step(p, g, buffer, decay, rate)
                    if found:
                        scalars = {
                            **found,
                            "weight_decay": decay,
                            "momentum": rate,
                            "dampening": damping,
                        }
                        return Match("_fused_sgd_", {"p": p, "g": g, "buffer": buffer}, scalars)
        return None

    def _momentum_step(
        self, p: str, g: str, buffer: str, decay: str, rate: str
    ) -> dict[str, str] | None:
        for lr in self.scalars:
            for nesterov in ("False", "True"):

                def stepped(before: Values, after: Values) -> float:
                    ahead = _decayed(before, g, p, decay) + before[rate] * after[buffer]
                    return before[p] - before[lr] * (ahead if nesterov == "True" else after[buffer])

                if self._steps(p, stepped):
                    return {"lr": lr, "nesterov": nesterov}
        return None

    def descent(self, p: str, g: str) -> Match | None:
        for lr, decay in product(self.scalars, self.scalars):
            if self._holds(p, lambda b: b[p] - b[lr] * _decayed(b, g, p, decay)):
                scalars = {
                    "lr": lr, "weight_decay": decay, "momentum": "0.0", "dampening": "0.0",
                    "nesterov": "False",
                }  # fmt: skip
                return Match("_fused_sgd_", {"p": p, "g": g}, scalars)
        return None

    def _holds(self, name: str, formula: Callable[[Values], float]) -> bool:
        return self._steps(name, lambda before, after: formula(before))

    def _steps(self, name: str, formula: Callable[[Values, Values], float]) -> bool:
        try:
            return all(_close(run.after[name], formula(run.before, run.after)) for run in self.runs)
        except (ArithmeticError, ValueError, TypeError):
            return False  # these roles do not even give a real number


def _decayed(before: Values, g: str, p: str, decay: str) -> float:
    return before[g] + before[decay] * before[p]


def _average(old: float, new: float, keep: float) -> float:
    return keep * old + (1 - keep) * new


def _close(left: float, right: float) -> bool:
    return math.isclose(left, right, rel_tol=1e-10, abs_tol=1e-13)


def switched_off(scalars: Sequence[str]) -> Iterator[frozenset[str]]:
    """Give the sets of scalars to be zero in a run: none, and each one alone."""
    yield frozenset()
    yield frozenset()
    for each in scalars:
        yield frozenset({each})
