"""Asking a language model for ideas: what it is told, and what is made of its reply."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from infrarsi.frameworks.program import entry_script
from infrarsi.judge.audit import judge_audit, texts_of
from infrarsi.propose.language.consultant import Consultant, Consultation
from infrarsi.propose.language.endpoint import endpoint_of
from infrarsi.propose.language.ideas import Accepted, Ground, accept_ideas
from infrarsi.propose.language.prompt import Known, Situation, write_prompt
from infrarsi.propose.language.redact import secrets_in
from infrarsi.propose.language.reply import Parsed, is_refusal, parse_reply
from infrarsi.records.asked import Asked, AskedOutcome, DeclinedIdea
from infrarsi.records.candidate import Patch
from infrarsi.records.plan import Contract, Language
from infrarsi.records.verdict import Ruling
from infrarsi.stages.history import History, Screening
from infrarsi.stages.naming import words_of
from infrarsi.stages.reporting.credit import effects_so_far
from infrarsi.stages.workspace import Workspace


def open_consultant(
    contract: Contract,
    environment: Mapping[str, str] | None = None,
    *,
    typed_url: str | None = None,
) -> Consultant | None:
    """Give the model that a plan wants asked, or ``None`` where it wants none.

    Raises
    ------
    UsageError
        No model is named, consent is missing, or the key is.
    """
    if "language" not in contract.plan.proposers:
        return None
    language = contract.plan.language
    seen = os.environ if environment is None else environment
    return Consultant(endpoint_of(language, seen, typed_url=typed_url), language)


def ask(workspace: Workspace, history: History, consultant: Consultant, *, mending: bool) -> Asked:
    """Ask once, keep prompt and reply, and check every idea; nothing here fails the search."""
    situation = situation_of(workspace, history, mending=mending)
    done = consultant.ask(
        lambda budget: write_prompt(situation, budget), num_trials=len(history.screenings)
    )
    parsed, outcome, note = _read(done)
    found = _without_what_the_audit_refuses(accept_ideas(parsed, ground_of(workspace, history)))
    answer, endpoint, language = done.answer, consultant.endpoint, workspace.contract.plan.language
    tokens = (answer.input_tokens, answer.output_tokens) if answer else (None, None)
    reply = answer.text.encode("utf-8", "replace") if answer else None
    return Asked(
        provider=endpoint.provider, model=endpoint.model, host=endpoint.host, mending=mending,
        after_trials=history.num_taught, outcome=outcome, note=note, input_tokens=tokens[0],
        output_tokens=tokens[1], usd=_usd(language, outcome, *tokens), wall_s=done.wall_s,
        attempts=done.attempts, patches=found.patches, settings=found.settings,
        declined=found.declined, incompatible=found.incompatible,
        redactions=done.prompt.redactions, left_out=done.prompt.left_out,
        prompt_digest=workspace.artifacts.put(done.prompt.to_bytes()),
        reply_digest=workspace.artifacts.put(reply) if reply is not None else None,
    )  # fmt: skip


def situation_of(workspace: Workspace, history: History, *, mending: bool) -> Situation:
    """Gather what a model is told: the task, the files, and all that was learnt so far."""
    task = workspace.contract.task
    last = next((each for each in reversed(history.asked) if each.was_answered), None)
    defaults = task.surface.default_knobs()
    reply = b""
    if mending and last is not None and last.reply_digest is not None:
        reply = workspace.artifacts.get(last.reply_digest)
    return Situation(
        task=task,
        files=_editable_files(workspace),
        entry=entry_script(task.command, task.folder),
        baseline=history.baseline,
        machine=_machine_words(history),
        known=tuple(_known(history)),
        trials=tuple(_trial_words(each, history, defaults) for each in history.screenings),
        declined=tuple(idea for each in history.asked for idea in each.declined),
        earlier_reply=reply.decode("utf-8", "replace"),
        mending=last.declined if mending and last is not None else (),
        secrets=secrets_in(os.environ),
        places=_places(workspace.root),
    )


def _places(root: Path) -> dict[str, str]:
    """Give what stands for the paths of this machine; a home at the root of all has no name."""
    named = {str(root): "<repository>"}
    with contextlib.suppress(RuntimeError):  # nobody knows this user
        named[str(Path.home())] = "<home>"
    return {place: name for place, name in named.items() if len(Path(place).parts) > 1}


def ground_of(workspace: Workspace, history: History) -> Ground:
    """Gather what ideas are checked against."""
    task, repository, commit = workspace.contract.task, workspace.repository, workspace.lock.commit
    return Ground(
        files=_editable_files(workspace),
        surface=task.surface,
        numerics=task.numerics,
        tracked=frozenset(workspace.tracked),
        links=frozenset({*repository.symlinks(commit), *repository.gitlinks(commit)}),
        patches=history.patches,
    )


def _editable_files(workspace: Workspace) -> dict[str, bytes]:
    return {path: text for path, text in workspace.sources.items() if path in workspace.editable}


def _read(done: Consultation) -> tuple[Parsed, AskedOutcome, str]:
    """Read what a call came to: its ideas, its outcome, and what a person should know."""
    answer = done.answer
    if answer is None:
        return Parsed(), done.outcome, done.note
    parsed = parse_reply(answer.text, truncated=answer.stop == "length")
    if not parsed.found and (answer.stop == "refusal" or is_refusal(answer.text)):
        said = " ".join(answer.text.split())[:160]
        because = f"the model would not help: {said!r}" if said else "the model would not help"
        declined = DeclinedIdea(name="the whole reply", because=because)
        return Parsed(declined=(declined,)), "refused", because
    if answer.stop == "length":
        return parsed, "truncated", "the reply was cut off"
    if not parsed.found:
        return parsed, "unreadable", "the reply holds no ideas in the form asked for"
    return parsed, "ok", parsed.note


def _without_what_the_audit_refuses(found: Accepted) -> Accepted:
    """Decline at once what the judge would refuse by reading it: that needs no trial."""
    refused: dict[str, str] = {}
    for patch in found.patches:
        findings = judge_audit(texts_of([patch]))
        reasons = [each.reason for each in findings if each.ruling is Ruling.FAIL]
        if reasons:
            refused[patch.name] = "; ".join(reasons)
    if not refused:
        return found
    declined = [
        DeclinedIdea(name=name, because=f"{why}. No speedup needs that; do without.")
        for name, why in refused.items()
    ]
    return Accepted(
        patches=tuple(each for each in found.patches if each.name not in refused),
        settings=tuple(
            each for each in found.settings if not refused.keys() & set(each.candidate.patches)
        ),
        declined=(*found.declined, *declined),
        incompatible=tuple(pair for pair in found.incompatible if not refused.keys() & set(pair)),
    )


def _usd(
    language: Language, outcome: AskedOutcome, input_tokens: int | None, output_tokens: int | None
) -> float | None:
    """Give the price of a call, where both prices and both numbers of tokens are known.

    What a server turned away cost nothing; what it did not answer in time, nobody knows.
    """
    if outcome in {"unauthorized", "rejected", "rate_limited"}:
        return 0.0
    price, output_price = (
        language.usd_per_million_input_tokens, language.usd_per_million_output_tokens,
    )  # fmt: skip
    if price is None or output_price is None or input_tokens is None or output_tokens is None:
        return None
    return (input_tokens * price + output_tokens * output_price) / 1e6


def _known(history: History) -> Iterable[Known]:
    measured = effects_so_far(history)
    for name in sorted(history.patches):
        patch = history.patches[name]
        yield Known(patch, _so_far(patch, history, measured.get(name)))


def _so_far(patch: Patch, history: History, ratio: float | None) -> str:
    tried = [each for each in history.screenings if patch.name in each.trial.candidate.patches]
    if ratio is not None:
        return f"update time with it over without: {ratio:.3f}"
    if not tried:
        return "not tried yet"
    passed = sum(history.passed(each) for each in tried)
    return f"in {len(tried)} trials with other changes, {passed} of them accepted"


def _trial_words(screening: Screening, history: History, defaults: Mapping[str, object]) -> str:
    trial, verdict = screening.trial, screening.verdict
    words = f"{words_of(trial.candidate, dict(defaults))}: {trial.outcome.value}"
    if screening.update_s is not None and history.baseline is not None:
        words += f", {history.baseline.update_s.point / screening.update_s:.3f}x"
    if trial.reason:
        words += f", {trial.reason}"
    if verdict is not None and verdict.ruling is not Ruling.PASS:
        reasons = "; ".join(f"{each.layer}: {each.reason}" for each in verdict.reasons)
        words += f", {verdict.ruling.value} by the judge: {reasons}"
    return words


def _machine_words(history: History) -> str:
    machine = history.machine
    if machine is None:
        return ""
    gpus = ", ".join(each.name for each in machine.accelerators) or "no accelerator"
    return f"{machine.cpu}, {machine.num_cpus} CPUs, {gpus}, torch {machine.torch}"
