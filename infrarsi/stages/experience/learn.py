"""Learning from a search: its ledger becomes a pack, in ratios to its own reference.

Nothing in a pack names a machine, a user or a path; a knob whose values do is left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from statistics import NormalDist, median

from infrarsi.records.base import Scalar
from infrarsi.records.baseline import Baseline
from infrarsi.records.candidate import Candidate, Effect
from infrarsi.records.estimate import Estimate
from infrarsi.records.experience import (
    Atom,
    Lesson,
    LessonOutcome,
    Pack,
    ordered,
)
from infrarsi.records.plan import Contract
from infrarsi.records.task import same_scalar
from infrarsi.records.trial import Outcome, Trial
from infrarsi.records.verdict import Ruling
from infrarsi.stages.experience.described import context_of, hardware_of, pack_id, roles_of
from infrarsi.stages.history import History, Screening
from infrarsi.stages.searching.parts import WINNER_ARM, ablation_of, arms_of
from infrarsi.stages.workspace import Workspace

_DIGITS = 4
_LEAST_SD = 0.001
_PRIVATE = ("/", "\\", "@", "~")
"""What paths and addresses hold, and settings hardly."""
_EXHAUSTED = (Outcome.OOM, Outcome.AMBIGUOUS_MEMORY)


def pack_of(workspace: Workspace, history: History, *, label: str | None = None) -> Pack | None:
    """Give what the search on this ledger's last machine has taught; ``None`` where nothing yet.

    Raises
    ------
    LedgerError
        The reference's evidence is missing.
    """
    if history.baseline is None or history.machine is None:
        return None
    lessons = lessons_of(workspace.contract, history)
    if not lessons:
        return None
    return Pack(
        id=pack_id(workspace, history.machine), label=label or workspace.contract.name,
        context=context_of(workspace, history),
        hardware=hardware_of(workspace.contract, history.machine, history.baseline),
        lessons=lessons,
    )  # fmt: skip


def lessons_of(contract: Contract, history: History) -> tuple[Lesson, ...]:
    """Give every lesson of a search, those of failures too."""
    if history.baseline is None:
        return ()
    reading = _Reading(contract, history, history.baseline)
    return ordered([*reading.of_candidates(), *reading.of_parts()])


@dataclass
class _Measured:
    """What was seen of one candidate, in all its launches."""

    outcome: LessonOutcome = "failed"
    why: str = ""
    times: list[Effect] = field(default_factory=list)
    peaks: list[int] = field(default_factory=list)
    evidence: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class _Reading:
    contract: Contract
    history: History
    baseline: Baseline

    def of_candidates(self) -> Iterator[Lesson]:
        """Give what each candidate did against the reference."""
        found: dict[str, tuple[Candidate, _Measured]] = {}

        def seen(candidate: Candidate) -> _Measured:
            return found.setdefault(candidate.digest(), (candidate, _Measured()))[1]

        for screening in self.history.final():
            self._take_screening(seen(screening.trial.candidate), screening)
        for trial in self.history.trials_for("ablation"):
            if trial.outcome in _EXHAUSTED:
                measured = seen(trial.candidate)
                measured.outcome, measured.why = "oom", ""
                measured.evidence |= _digests([trial])
        for confirmation in self.history.confirmations:
            verdict = confirmation.verdict
            if verdict.ruling is Ruling.PASS and verdict.speedup is not None:
                candidate = Candidate.model_validate(confirmation.body["candidate"])
                launches = [
                    t for n in verdict.trials if (t := self.history.trials.get(n)) is not None
                ]
                measured = seen(candidate)
                measured.outcome, measured.why = "confirmed", ""
                measured.times.append(_inverse(verdict.speedup))
                measured.evidence |= _digests(launches)
        for candidate, measured in found.values():
            atoms = self._atoms(candidate)
            if atoms and not any(map(_is_private, atoms)):
                yield self._lesson(atoms, measured)

    def of_parts(self) -> Iterator[Lesson]:
        """Give what each part of the winner added beside the rest of it."""
        choice = self.history.choice
        winner = (choice.winner or choice.candidate) if choice else None
        if choice is None or winner is None or not choice.parts:
            return
        try:
            arms = dict(arms_of(self.contract, self.history, winner))
        except ValueError:  # the plan searches another space since
            return
        done = ablation_of(self.history, winner)
        for part in choice.parts:
            arm = arms.get(part.name)
            if part.gain is None or arm is None:
                continue
            beside, whole = self._atoms(arm), self._atoms(winner)
            atoms = tuple(each for each in whole if each not in beside)
            if not atoms or not set(beside) <= set(whole) or any(map(_is_private, whole)):
                continue
            with_it, without = (
                [t for t in done if t.arm == label] for label in (WINNER_ARM, part.name)
            )
            yield Lesson.of(
                atoms=atoms, beside=beside, outcome="accepted", log_time=_inverse(part.gain),
                log_memory=_ratio(_peaks(with_it), _peaks(without)),
                evidence=tuple(sorted(_digests([*with_it, *without]))),
            )  # fmt: skip

    def _take_screening(self, measured: _Measured, screening: Screening) -> None:
        trial, verdict = screening.trial, screening.verdict
        measured.evidence |= _digests([trial])
        measured.outcome, measured.why = _outcome_of(screening)
        if measured.outcome != "accepted" or verdict is None:
            return
        if screening.update_s:
            noise = max(self.baseline.noise_sd, _LEAST_SD)
            ratio = math.log(screening.update_s / self.baseline.update_s.point)
            num = max(len(self.baseline.trials), 1)
            measured.times.append(Effect(mean=ratio, sd=noise * math.sqrt(1 + 1 / num)))
        measured.peaks += _peaks([trial])

    def _lesson(self, atoms: tuple[Atom, ...], measured: _Measured) -> Lesson:
        peak, above = self.baseline.peak_bytes, None
        if measured.outcome == "oom" and peak:
            above = round(math.log(self.contract.task.memory.capacity_bytes / peak), _DIGITS)
        is_good = measured.outcome in {"accepted", "confirmed"}
        return Lesson.of(
            atoms=atoms, outcome=measured.outcome, why=measured.why,
            log_time=_joined(measured.times) if is_good else None,
            log_memory=_ratio(measured.peaks, [peak] if peak else []) if is_good else None,
            log_memory_above=above, evidence=tuple(sorted(measured.evidence)),
        )  # fmt: skip

    def _atoms(self, candidate: Candidate) -> tuple[Atom, ...]:
        defaults = self.contract.task.surface.default_knobs()
        roles = roles_of(self.contract)
        patches = [
            Atom(patch=name, proposer=self.history.patches[name].proposer)
            for name in candidate.patches
            if name in self.history.patches
        ]
        knobs = [
            Atom(knob=name, role=roles.get(name), before=defaults[name], after=value)
            for name, value in candidate.knobs.items()
            if name in defaults and not same_scalar(value, defaults[name])
        ]
        return (*patches, *knobs) if len(patches) == len(candidate.patches) else ()


def _outcome_of(screening: Screening) -> tuple[LessonOutcome, str]:
    trial, verdict = screening.trial, screening.verdict
    if trial.outcome in _EXHAUSTED:
        return "oom", ""
    if verdict is None:
        return "failed", trial.outcome.value
    checks = sorted({f"{each.layer}: {each.check}" for each in verdict.reasons})
    match verdict.ruling:
        case Ruling.PASS:
            return "accepted", ""
        case Ruling.FAIL:
            return "refused", "; ".join(checks)
        case Ruling.INCONCLUSIVE:
            return "inconclusive", "; ".join(checks)


def _is_private(atom: Atom) -> bool:
    return any(_names_a_place(value) for value in (atom.before, atom.after))


def _names_a_place(value: Scalar) -> bool:
    return isinstance(value, str) and any(mark in value for mark in _PRIVATE)


def _digests(trials: Iterable[Trial]) -> set[str]:
    return {trial.evidence_digest[:16] for trial in trials if trial.evidence_digest}


def _peaks(trials: Iterable[Trial]) -> list[int]:
    return [trial.peak_bytes for trial in trials if trial.peak_bytes]


def _ratio(peaks: list[int], reference: list[int]) -> float | None:
    if not peaks or not reference:
        return None
    return round(math.log(median(peaks) / median(reference)), _DIGITS)


def _inverse(speedup: Estimate) -> Effect:
    """Give log time ratio and its spread from a speedup with its interval."""
    width = math.log(speedup.high / speedup.low) if speedup.low > 0 else math.inf
    z = NormalDist().inv_cdf(0.5 + speedup.level / 2)
    sd = width / (2 * z) if math.isfinite(width) else 1.0
    mean = round(-math.log(speedup.point), _DIGITS)
    return Effect(mean=mean, sd=max(round(sd, _DIGITS), _LEAST_SD))


def _joined(effects: list[Effect]) -> Effect | None:
    """Average measurements of one thing by their precision."""
    if not effects:
        return None
    weights = [each.sd**-2 for each in effects]
    mean = sum(w * each.mean for w, each in zip(weights, effects, strict=True)) / sum(weights)
    sd = max(round(sum(weights) ** -0.5, _DIGITS), _LEAST_SD)
    return Effect(mean=round(mean, _DIGITS), sd=sd)
