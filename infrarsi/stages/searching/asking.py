"""When a language model is asked, and which of its settings is tried: pure, like all steps."""

from __future__ import annotations

from dataclasses import dataclass

from infrarsi.records.asked import Setting
from infrarsi.records.base import Scalar
from infrarsi.records.candidate import Candidate
from infrarsi.records.plan import Plan
from infrarsi.records.task import Knob, same_scalar
from infrarsi.stages.history import History

TRIALS_BETWEEN_CALLS = 6
"""It is asked again once so many trials have taught something new."""
SETTING = "a setting of the language model"
"""How the reason of a trial of such a setting begins."""


@dataclass(frozen=True)
class Ask:
    """Ask the language model for ideas, or to mend those of its last reply."""

    mending: bool = False


def next_ask(plan: Plan, history: History, *, is_last_resort: bool = False) -> Ask | None:
    """Ask at the start, to mend what was declined, and when trials have taught something new.

    As a last resort, where nothing else is worth trying, one new lesson is enough. Once the
    winner is being taken apart it is asked no more.
    """
    if "language" not in plan.proposers or history.ablation_begun():
        return None
    answered = [each for each in history.asked if each.was_answered]
    if len(answered) >= plan.language.max_calls:
        return None
    if not answered:
        return Ask()
    last = answered[-1]
    if last.can_be_mended and not last.mending:
        return Ask(mending=True)
    needed = 1 if is_last_resort else TRIALS_BETWEEN_CALLS
    taught = history.num_taught
    if taught >= last.after_trials:  # else the search began anew, on another machine
        taught -= last.after_trials
    return Ask() if taught >= needed else None


def next_setting(plan: Plan, history: History, *, is_last_resort: bool = False) -> Setting | None:
    """Give a setting that was asked for and not tried; two never follow each other.

    So a model that misleads costs at most every other trial, and few of them.
    """
    last = history.screenings[-1] if history.screenings else None
    if last is not None and last.reason.startswith(SETTING) and not is_last_resort:
        return None
    tried = {each.trial.candidate.digest() for each in history.screenings}
    clashing = [set(pair) for pair in history.incompatible]
    return next(
        (
            each
            for each in history.settings
            if each.candidate.digest() not in tried
            and not (plan.strategy == "configonly" and each.candidate.patches)
            and not any(pair <= set(each.candidate.patches) for pair in clashing)
        ),
        None,
    )


def reason_of(setting: Setting) -> str:
    """Say why a setting is tried."""
    return f"{SETTING}: {setting.reason}" if setting.reason else SETTING


def without_sweep(knob: Knob, history: History) -> Knob:
    """Leave a knob its default, and the values that a language model asked for."""
    wanted = [_value_in(each.candidate, knob) for each in history.settings]
    kept = tuple(
        value
        for value in knob.values
        if any(same_scalar(value, each) for each in (knob.default, *wanted))
    )
    return knob.model_copy(update={"values": kept})


def _value_in(candidate: Candidate, knob: Knob) -> Scalar:
    return candidate.knobs.get(knob.name, knob.default)
