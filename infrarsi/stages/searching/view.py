"""Watching a search: each step as a line, or as a live table."""

from __future__ import annotations

from infrarsi.records.asked import Asked
from infrarsi.render import numbers
from infrarsi.render.document import shortened
from infrarsi.render.live import SearchView
from infrarsi.stages.history import History, Screening
from infrarsi.stages.naming import words_of
from infrarsi.stages.searching.asking import Ask
from infrarsi.stages.searching.steps import Choose, Judge, Launch, Step
from infrarsi.stages.workspace import Workspace


class SearchWatcher:
    """Shows the steps of a search on a view that is already open."""

    def __init__(self, workspace: Workspace, view: SearchView) -> None:
        self._defaults = workspace.contract.task.surface.default_knobs()
        self._view = view
        self._model = workspace.contract.plan.language.model

    def say(self, text: str) -> None:
        """Show a sentence that stays."""
        self._view.show_note(text)

    def begin(self, step: Step, history: History) -> None:
        """Show that a trial runs."""
        match step:
            case Launch(request=request) if request.purpose == "screen":
                reason = str((request.remarks or {}).get("reason", ""))
                change = words_of(request.candidate, self._defaults)
                self._view.show_trial(len(history.screenings) + 1, change, reason=reason)
            case Launch(request=request):
                round_ = request.replicate + 1
                what = "winner" if request.arm == "winner" else f"winner without {request.arm}"
                self._view.show_note(f"ablation, round {round_}: {what}")
            case Ask(mending=mending):
                what = "to mend what was declined" if mending else "for ideas"
                self._view.show_note(f"asking the language model {self._model} {what}")
            case Judge() | Choose():
                pass

    def end(self, step: Step, history: History) -> None:
        """Show how a trial ended, and what was chosen."""
        match step:
            case Judge(trial=trial) if trial.purpose == "screen":
                self._show_screening(history.screenings[-1], history)
            case Ask() if history.asked:
                self._view.show_note(asked_in_words(history.asked[-1]))
            case Choose(candidate=candidate, reason=reason):
                self._view.show_note(
                    f"put forward: {words_of(candidate, self._defaults)} ({reason})"
                )
            case _:
                pass

    def _show_screening(self, screening: Screening, history: History) -> None:
        trial, verdict = screening.trial, screening.verdict
        status, why = trial.outcome.value, trial.reason
        if verdict is not None:
            status = {"pass": "passed", "fail": "refused"}.get(verdict.ruling, verdict.ruling.value)
            why = "; ".join(f"{each.layer}: {each.reason}" for each in verdict.reasons)
        speedup = None
        if history.baseline is not None and screening.update_s is not None:
            speedup = history.baseline.update_s.point / screening.update_s
        self._view.show_trial(
            len(history.screenings), words_of(trial.candidate, self._defaults),
            reason=screening.reason, status=status, update_s=screening.update_s,
            speedup=speedup, peak_bytes=trial.peak_bytes, why=why,
        )  # fmt: skip
        best = next(iter(history.accepted()), None)
        if best is not None and best.update_s and history.baseline is not None:
            self._view.show_best(
                words_of(best.trial.candidate, self._defaults), update_s=best.update_s,
                speedup=history.baseline.update_s.point / best.update_s,
            )  # fmt: skip


def asked_in_words(asked: Asked) -> str:
    """Say what a call of a language model came to, in one sentence."""
    if not asked.was_answered:
        return f"language model {asked.model}: {asked.note}"
    found = len(asked.patches) + len(asked.settings)
    words = f"language model {asked.model}: {numbers.counted(found, 'idea')} to try"
    if asked.declined:
        reasons = "; ".join(f"{each.name}: {each.because}" for each in asked.declined)
        words += f", {len(asked.declined)} declined ({shortened(reasons, 300)})"
    if asked.redactions:
        words += f"; {numbers.counted(asked.redactions, 'secret')} taken out of the prompt"
    return words + (f"; {asked.note}" if asked.note and asked.outcome != "ok" else "")
