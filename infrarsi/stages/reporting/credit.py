"""Credit: what each proposer brought, and how its predictions stood up to measurement."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from infrarsi.propose.language.ideas import slug_of
from infrarsi.records.asked import Setting
from infrarsi.records.base import Scalar
from infrarsi.records.candidate import Candidate, Patch
from infrarsi.records.report import Credit, IdeaRow, LanguageCall
from infrarsi.records.task import same_scalar
from infrarsi.search.calibration import FEWEST_SCORED, score_predictions
from infrarsi.stages.history import Declined, History, Screening

SWEEP = "sweep"
PATCHBOOK = "patchbook"
LANGUAGE = "language"


def effects_so_far(history: History) -> dict[str, float]:
    """Give, by patch, update time with it over without it, where that was measured.

    By ablation where the winner was taken apart; else from the launch that tried it alone.
    """
    return {
        name: ratio
        for name in history.patches
        if (ratio := _effect_of_patch(history, name)) is not None
    }


def idea_rows(history: History, defaults: Mapping[str, Scalar]) -> tuple[IdeaRow, ...]:
    """Give every idea of every proposer: what it promised, and what became of it."""
    rows = [_patch_row(history, patch) for patch in history.patches.values()]
    rows += [_setting_row(history, each, defaults) for each in history.settings]
    rows += [
        IdeaRow(name=each.name, proposer=each.proposer, kind="patch", fate="declined",
                because=each.because)
        for each in _still_declined(history)
    ]  # fmt: skip
    return tuple(rows)


def _still_declined(history: History) -> list[Declined]:
    """Leave out what was mended since, and count once what was declined twice."""
    last = {(each.proposer, slug_of(each.name)): each for each in history.declined}
    mended = {(patch.proposer, name) for name, patch in history.patches.items()}
    return [each for key, each in last.items() if key not in mended]


def credits_of(history: History, rows: Iterable[IdeaRow]) -> tuple[Credit, ...]:
    """Give each proposer its due; one that put nothing forward is left out."""
    listed = list(rows)
    names = sorted({row.proposer for row in listed}, key=lambda name: (name != PATCHBOOK, name))
    credits = [_credit(name, [row for row in listed if row.proposer == name], history)
               for name in names]  # fmt: skip
    swept = _sweep_credit(history)
    return (*credits, swept) if swept is not None else tuple(credits)


def language_calls(history: History) -> tuple[LanguageCall, ...]:
    """Give every call of a language model, failed ones too."""
    return tuple(
        LanguageCall(
            index=index, provider=each.provider, model=each.model, host=each.host,
            mending=each.mending, outcome=each.outcome, note=each.note,
            input_tokens=each.input_tokens, output_tokens=each.output_tokens, usd=each.usd,
            wall_s=each.wall_s, num_ideas=len(each.patches) + len(each.settings),
            num_declined=len(each.declined), redactions=each.redactions,
            prompt_digest=each.prompt_digest, reply_digest=each.reply_digest,
        )
        for index, each in enumerate(history.asked, start=1)
    )  # fmt: skip


def _patch_row(history: History, patch: Patch) -> IdeaRow:
    tried = [each for each in history.screenings if patch.name in each.trial.candidate.patches]
    kept = f"+{patch.name}" in _kept_parts(history)
    return IdeaRow(
        name=f"+{patch.name}", proposer=patch.proposer, kind="patch", summary=patch.summary,
        fate=_fate(history, tried, kept=kept), predicted=math.exp(patch.log_time.mean),
        measured=_effect_of_patch(history, patch.name), because=_why_not(history, tried),
    )  # fmt: skip


def _setting_row(history: History, setting: Setting, defaults: Mapping[str, Scalar]) -> IdeaRow:
    candidate = setting.candidate
    tried = [each for each in history.screenings if each.trial.candidate == candidate]
    words = [f"+{name}" for name in candidate.patches]
    words += [f"{k}={v}" for k, v in candidate.knobs.items() if not same_scalar(v, defaults[k])]
    chosen = history.choice is not None and history.choice.candidate == candidate
    return IdeaRow(
        name=", ".join(words), proposer=LANGUAGE, kind="setting", summary=setting.reason,
        fate=_fate(history, tried, kept=chosen), predicted=math.exp(setting.log_time.mean),
        measured=_against_reference(history, tried), because=_why_not(history, tried),
    )  # fmt: skip


def _fate(history: History, tried: list[Screening], *, kept: bool) -> str:
    if kept:
        return "kept"
    if any(history.passed(each) for each in tried):
        return "accepted"
    return "tried" if tried else "untried"


def _why_not(history: History, tried: list[Screening]) -> str:
    """Say why the last trial of an idea that was never accepted was not."""
    if not tried or any(history.passed(each) for each in tried):
        return ""
    last = tried[-1]
    if last.verdict is not None:
        return "; ".join(f"{each.layer}: {each.reason}" for each in last.verdict.reasons)
    return last.trial.reason


def _credit(name: str, rows: list[IdeaRow], history: History) -> Credit:
    fates = [row.fate for row in rows]
    pairs = [(r.predicted, r.measured) for r in rows if r.predicted and r.measured is not None]
    score = score_predictions([p for p, _ in pairs], [m for _, m in pairs])
    parts = {row.name for row in rows if row.fate == "kept" and row.kind == "patch"}
    if name == LANGUAGE:
        parts |= _knobs_first_set_by_language(history)
    return Credit(
        proposer=name, proposed=len(rows), declined=fates.count("declined"),
        tried=sum(fate in {"tried", "accepted", "kept"} for fate in fates),
        accepted=sum(fate in {"accepted", "kept"} for fate in fates),
        parts=tuple(sorted(parts)), num_scored=len(pairs),
        rank_correlation=score.rank_correlation, mean_log_error=score.mean_log_error,
        note=_score_note(len(pairs)),
    )  # fmt: skip


def _score_note(num_scored: int) -> str:
    if num_scored >= FEWEST_SCORED:
        return ""
    return f"too few to score: {num_scored} measured alone or by ablation, of {FEWEST_SCORED}"


@dataclass(frozen=True)
class _Turned:
    """A screening whose candidate turns a knob."""

    screening: Screening
    by_language: bool


def _sweep_credit(history: History) -> Credit | None:
    """Credit the sweep with the candidates that turn knobs, and the winner's knobs."""
    turned = [each for each in _turned(history) if not each.by_language]
    if not turned:
        return None
    candidates = {each.screening.trial.candidate.digest() for each in turned}
    passed = {
        each.screening.trial.candidate.digest() for each in turned if history.passed(each.screening)
    }
    knobs = {name for name in _kept_parts(history) if not name.startswith("+")}
    return Credit(
        proposer=SWEEP, proposed=None, tried=len(candidates), accepted=len(passed),
        parts=tuple(sorted(knobs - _knobs_first_set_by_language(history))), num_scored=0,
        note="it predicts nothing: it turns the knobs as the models suggest",
    )  # fmt: skip


def _turned(history: History) -> list[_Turned]:
    reference = _reference(history)
    proposed = [each.candidate for each in history.settings]
    return [
        _Turned(each, each.trial.candidate in proposed)
        for each in history.screenings
        if reference is not None and each.trial.candidate.knobs != reference.knobs
    ]


def _knobs_first_set_by_language(history: History) -> set[str]:
    """Give the winner's knob parts whose value a language model had tried before the sweep did."""
    parts = {name for name in _kept_parts(history) if not name.startswith("+")}
    found = set()
    for part in parts:
        first = next(
            (
                each
                for each in _turned(history)
                if part in {f"{k}={v}" for k, v in each.screening.trial.candidate.knobs.items()}
            ),
            None,
        )
        if first is not None and first.by_language:
            found.add(part)
    return found


def _kept_parts(history: History) -> set[str]:
    """Give the parts of what was put forward: those kept, or all where none was taken out."""
    if history.choice is None:
        return set()
    reference = _reference(history)
    candidate = history.choice.candidate
    parts = {f"+{name}" for name in candidate.patches}
    parts |= {
        f"{name}={value}"
        for name, value in candidate.knobs.items()
        if reference is None or not same_scalar(value, reference.knobs.get(name))
    }
    return parts


def _effect_of_patch(history: History, name: str) -> float | None:
    parts = history.choice.parts if history.choice is not None else ()
    gain = next((part.gain for part in parts if part.name == f"+{name}" and part.gain), None)
    if gain is not None:
        return 1 / gain.point
    reference = _reference(history)
    alone = [
        each
        for each in history.screenings
        if each.trial.candidate.patches == (name,)
        and reference is not None
        and each.trial.candidate.knobs == reference.knobs
    ]
    return _against_reference(history, alone)


def _against_reference(history: History, tried: list[Screening]) -> float | None:
    """Give update time over the reference's, of the last of these that the judge let pass."""
    passed = [each.update_s for each in tried if history.passed(each) and each.update_s]
    if not passed or history.baseline is None:
        return None
    return passed[-1] / history.baseline.update_s.point


def _reference(history: History) -> Candidate | None:
    if history.baseline is None:
        return None
    return history.trials[history.baseline.reference_trial].candidate
