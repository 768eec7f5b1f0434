"""Synthetic machines: what a trial would measure, with interactions as published."""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np

from infrarsi.records.candidate import Candidate, Edit, Effect, Patch
from infrarsi.records.constraint import constraint_holds
from infrarsi.records.history import Observation, Space
from infrarsi.records.task import Environment, Knob
from infrarsi.search import best_so_far, suggest_next

GIB = 2**30


def knob(name, values, default, raises_memory=None):
    reach = Environment(variable=name.upper())
    return Knob(name=name, reach=reach, values=values, default=default, raises_memory=raises_memory)


def patch(name, time=(0.0, 0.2), memory=(0.0, 0.2), conflicts=()):
    return Patch(
        name=name,
        proposer="test",
        edits=(Edit(path="train.py", search=name, replace=f"{name}!"),),
        summary=name,
        conflicts=conflicts,
        log_time=Effect(mean=time[0], sd=time[1]),
        log_memory=Effect(mean=memory[0], sd=memory[1]),
    )


def observe(candidate, status="ok", *, update_s=1.0, peak_gib=40.0, cost_s=60.0, sd=0.01):
    measured = status == "ok"
    return Observation(
        candidate=candidate,
        status=status,
        update_s=update_s if measured else None,
        update_sd=sd if measured else None,
        peak_bytes=int(peak_gib * GIB) if measured else None,
        cost_s=cost_s,
    )


class MemoryBound:
    """A job shaped like the published Gemma-4 case.

    Recomputation off alone runs out of memory; with an attention patch and a chunked loss
    it fits, and with compilation on top it is the fastest of all. One patch changes the
    numbers and is refused; one kernel patch helps alone and hurts under compilation.
    """

    capacity_gib = 80.0
    refused = ("fast_cast",)

    def __init__(self, *, misleading=False):
        flip = -1 if misleading else 1
        self.space = Space(
            knobs=(
                knob("recompute", (True, False), True, "up"),
                knob("micro_batch", (1, 2, 4, 8), 1, "up"),
                knob("grad_accum", (16, 8, 4, 2), 16),
                knob("num_workers", (0, 2, 4), 0),
                knob("prefetch", ("off", "one", "many"), "off"),
            ),
            constraints=("micro_batch * grad_accum == 16",),
            patches=(
                patch("sdpa", (-0.15 * flip, 0.2), (-0.3, 0.2)),
                patch("chunked_loss", (0.02 * flip, 0.1), (-0.25, 0.2)),
                patch("compile", (-0.25 * flip, 0.2)),
                patch("own_kernels", (-0.1 * flip, 0.15), (-0.05, 0.1)),
                patch("fused_adamw", (-0.03 * flip, 0.05)),
                patch("fast_cast", (-0.2, 0.2), (-0.1, 0.2)),
            ),
            capacity_bytes=int(self.capacity_gib * GIB),
            default_cost_s=60.0,
        )

    def peak_gib(self, candidate):
        knobs, patches = candidate.knobs, set(candidate.patches)
        activations = 9.0 * knobs["micro_batch"] ** 0.9
        if not knobs["recompute"]:
            activations *= 5.2
        if "sdpa" in patches:
            activations *= 0.62 if not knobs["recompute"] else 0.8
        logits = 7.0 * knobs["micro_batch"]
        if "chunked_loss" in patches:
            logits *= 0.25
        return 30.0 + activations + logits - (2.0 if "own_kernels" in patches else 0.0)

    def update_s(self, candidate):
        knobs, patches = candidate.knobs, set(candidate.patches)
        log_time = 0.0 if knobs["recompute"] else -0.33
        log_time -= 0.05 * math.log2(knobs["micro_batch"])
        log_time -= {0: 0.0, 2: 0.04, 4: 0.03}[knobs["num_workers"]]
        log_time -= {"off": 0.0, "one": 0.02, "many": 0.01}[knobs["prefetch"]]
        log_time -= 0.18 if "sdpa" in patches else 0.0
        log_time += 0.03 if "chunked_loss" in patches else 0.0
        if "compile" in patches:
            log_time -= 0.22 if "own_kernels" not in patches else 0.05
        log_time -= 0.08 if "own_kernels" in patches else 0.0
        log_time -= 0.03 if "fused_adamw" in patches else 0.0
        log_time -= 0.25 if "fast_cast" in patches else 0.0
        return 4.0 * math.exp(log_time)

    def fits(self, candidate):
        return self.peak_gib(candidate) <= self.capacity_gib

    def measure(self, candidate, rng):
        compile_s = 40.0 if "compile" in candidate.patches else 0.0
        if not self.fits(candidate):
            return observe(candidate, "oom", cost_s=25.0)
        if set(self.refused) & set(candidate.patches):
            return observe(candidate, "refused", cost_s=60.0 + compile_s)
        time = self.update_s(candidate) * math.exp(rng.normal(0.0, 0.01))
        return observe(
            candidate, update_s=time, peak_gib=self.peak_gib(candidate), cost_s=60.0 + compile_s
        )

    @functools.cached_property
    def best_s(self):
        """The fastest update among candidates that fit and are accepted, by enumeration."""
        return min(self.update_s(each) for each in self.everything() if self.is_good(each))

    def is_good(self, candidate):
        return self.fits(candidate) and not set(self.refused) & set(candidate.patches)

    def everything(self):
        names = [each.name for each in self.space.knobs]
        patches = [each.name for each in self.space.patches]
        for values in itertools.product(*(each.values for each in self.space.knobs)):
            knobs = dict(zip(names, values, strict=True))
            if all(constraint_holds(each, knobs) for each in self.space.constraints):
                for bits in itertools.product((0, 1), repeat=len(patches)):
                    yield Candidate.of(knobs, itertools.compress(patches, bits))


class RefusedShortcut:
    """A job with one setting that helps, and a faster one that trains something else.

    Most other settings do nothing, and the two are often tried together.
    """

    def __init__(self):
        self.space = Space(
            knobs=(
                knob("fused", (False, True), False),
                knob("dtype", ("float32", "bfloat16"), "float32"),
                knob("micro_batch", (1, 2, 4), 4, "up"),
                knob("grad_accum", (1, 2, 4), 1),
                knob("huge_pages", (0, 1), 0, "up"),
                knob("malloc", ("default", "keep"), "default", "up"),
            ),
            constraints=("micro_batch * grad_accum == 4",),
            patches=(patch("fused_adamw", (-0.03, 0.03)),),
            capacity_bytes=8 * GIB,
            default_cost_s=8.0,
        )

    def measure(self, candidate, rng):
        knobs = candidate.knobs
        if knobs["dtype"] == "bfloat16":
            return observe(candidate, "refused", cost_s=8.0)
        time = 0.035 * (0.25 if knobs["fused"] else 1.0) + 0.002 * knobs["grad_accum"]
        return observe(
            candidate, update_s=time * math.exp(rng.normal(0.0, 0.02)), peak_gib=0.25, cost_s=8.0
        )


def reference_of(space):
    return Candidate.of({each.name: each.default for each in space.knobs})


def search(truth, strategy, *, seed, trials, starts=3, enough=None):
    """Search a synthetic machine; gives every observation and suggestion.

    To save time it ends once the regret is no more than ``enough``.
    """
    rng = np.random.default_rng(seed)
    observations = [truth.measure(reference_of(truth.space), rng)]
    suggestions = []
    for _ in range(trials):
        suggestion = suggest_next(
            truth.space, observations, strategy=strategy, starts=starts, seed=seed
        )
        if suggestion is None:
            break
        suggestions.append(suggestion)
        observations.append(truth.measure(suggestion.candidate, rng))
        if enough is not None and regret(truth, observations) <= enough:
            break
    return observations, suggestions


def regret(truth, observations):
    """Relative excess of the true time of what was found over the true optimum."""
    found = best_so_far(observations)
    if found is None:
        return math.inf
    return truth.update_s(found.candidate) / truth.best_s - 1
