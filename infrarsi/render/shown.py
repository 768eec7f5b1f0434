"""One trial on a terminal: everything that is known of it, heading by heading."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from infrarsi.records.shown import MarkShown, SeenShown, Shown
from infrarsi.records.verdict import Finding, Verdict
from infrarsi.render import numbers
from infrarsi.render.document import printable
from infrarsi.render.facts import command_line
from infrarsi.render.wrapping import wrapped

_OTHERS = 8
"""Other launches of the candidate that are named."""


def shown_lines(shown: Shown, *, width: int | None = None) -> list[str]:
    """Say everything that is known of a trial, a fact a line; with a width, none is wider."""
    sections: list[tuple[str, Iterable[str]]] = [
        ("", _head(shown)),
        ("what was tried", _tried(shown)),
        ("how it went", _went(shown)),
        ("what the witness saw", _seen(shown.seen)),
        ("precision, mark by mark", _marks(shown.seen.marks if shown.seen else ())),
        *((_verdict_title(each), _findings(each.findings)) for each in shown.verdicts),
        ("what today's rules find in this launch alone", _findings(shown.own_findings)),
        ("evidence", _artifacts(shown)),
        ("cost", _cost(shown)),
    ]
    lines: list[str] = []
    for title, said in sections:
        told = list(map(printable, said))
        if told and title:
            lines += ["", title, *(f"  {each}" for each in told)]
        else:
            lines += told
    lines = wrapped(lines, width)
    if shown.diff is not None:
        lines += ["", "the change", *map(_as_typed, shown.diff.splitlines())]
    return lines


def _as_typed(text: str) -> str:
    """Keep the tabs of source, and nothing else that acts on a terminal."""
    return "\t".join(map(printable, text.split("\t")))


def _head(shown: Shown) -> Iterator[str]:
    trial = shown.trial
    ruling = f", {shown.verdicts[-1].ruling.value}" if shown.verdicts else ", not judged"
    yield f"{trial.trial_id}: {trial.purpose} of {shown.change}: {trial.outcome.value}{ruling}"
    if trial.reason:
        yield f"  {trial.reason}"
    yield f"  why it was tried: {shown.why}"
    ended = f", ended {shown.ended_at}" if shown.ended_at else ", has not ended"
    yield f"  started {shown.started_at}{ended}"
    if not shown.is_current:
        yield "  it ran under an earlier lock than today's"


def _tried(shown: Shown) -> Iterator[str]:
    yield f"candidate {shown.candidate}, on commit {shown.commit[:12]}"
    for knob in shown.knobs:
        same = knob.value == knob.default
        turned = "" if same else f" (reference {numbers.scalar(knob.default)})"
        way = f", by {knob.reached_by}" if knob.reached_by else ""
        yield f"knob {knob.name} = {numbers.scalar(knob.value)}{turned}{way}"
    for patch in shown.patches:
        yield f"patch {patch.name} ({patch.proposer}, in {', '.join(patch.paths)}): {patch.summary}"
    if shown.patches and shown.diff is None:
        yield "(their text: `--diff`)"
    if shown.trial.argv:
        yield f"launched: {command_line(shown.trial.argv)}"
    if shown.others:
        more = f" and {len(shown.others) - _OTHERS} more" if len(shown.others) > _OTHERS else ""
        yield f"the same candidate: {', '.join(shown.others[:_OTHERS])}{more}"


def _went(shown: Shown) -> Iterator[str]:
    seen, prediction, trial = shown.seen, shown.prediction, shown.trial
    predicted = (
        f"; predicted {numbers.duration_estimate(prediction.update_s)}" if prediction else ""
    )
    measured = seen.update_s if seen else None
    yield f"time per update: {numbers.duration(measured)}{predicted}"
    if shown.reference_update_s is not None:
        speedup = (
            f"; {numbers.ratio(shown.speedup)} in this one launch, which ranks and decides nothing"
            if shown.speedup is not None
            else ""
        )
        yield f"the reference: {numbers.duration_estimate(shown.reference_update_s)}{speedup}"
    predicted = f"; predicted {numbers.size_estimate(prediction.peak_bytes)}" if prediction else ""
    capacity = f" of {numbers.size(shown.capacity_bytes)}" if shown.capacity_bytes else ""
    yield f"peak memory: {numbers.size(trial.peak_bytes)}{capacity}{predicted}"
    if prediction is not None:
        yield (
            f"before it ran: P(fits) {numbers.probability(prediction.p_fits)}, expected gain "
            f"{numbers.percent(prediction.expected_improvement)}, "
            f"cost {numbers.duration(prediction.cost_s)}"
        )
    if seen is not None:
        cache = "empty" if trial.cold_cache else "filled"
        yield f"cold start: {numbers.duration(seen.cold_start_s)}, compile cache {cache}"
    stop = f"stopped at the hidden update {trial.stop_update}"
    yield f"{stop}; replicate {trial.replicate + 1}" + (f", arm {trial.arm}" if trial.arm else "")
    yield f"containment: {shown.containment}"


def _seen(seen: SeenShown | None) -> Iterator[str]:
    if seen is None:
        yield "nothing that can be read"
        return
    ranks = f", {seen.world_size} ranks" if (seen.world_size or 1) > 1 else ""
    versions = f"Python {seen.python or '-'}, torch {seen.torch or '-'}"
    yield f"{numbers.counted(seen.num_updates, 'update')}{ranks}, {versions}"
    if seen.argv:
        yield f"the training process: {command_line(seen.argv)}"
    if seen.first_loss is not None and seen.last_loss is not None:
        yield f"loss: {seen.first_loss:.6g} at first, {seen.last_loss:.6g} at last"
    shares = [f"{name} {numbers.percent(share)}" for name, share in seen.phase_share.items()]
    if shares:
        yield f"an update's time: {', '.join(shares)}"
    if seen.fault:
        yield f"ended by {seen.fault}"
    if seen.malformed:
        yield f"{numbers.counted(seen.malformed, 'line')} on its channel were no events"
    for note in seen.notes:
        yield f"note: {note}"


def _marks(marks: Sequence[MarkShown]) -> Iterator[str]:
    said = ""
    for mark in marks:
        census = "; ".join(_census(kind, counts) for kind, counts in mark.census.items())
        flags = ", ".join(
            f"{name}={value}" for name, value in mark.flags.items() if value not in (None, "")
        )
        memory = ", ".join(f"{name} {numbers.size(size)}" for name, size in mark.memory.items())
        live = ", ".join(
            f"{what} {numbers.count(count)}"
            for what, count in (
                ("threads", mark.num_threads),
                ("child processes", mark.num_children),
            )
        )
        yield f"after update {mark.update}: {census}; {live}" + (f"; {memory}" if memory else "")
        if flags and flags != said:
            yield f"  switches: {flags}"
        said = flags


def _census(kind: str, counts: dict[str, int]) -> str:
    held = ", ".join(f"{number:,} {dtype}" for dtype, number in counts.items())
    return f"{kind.replace('_', ' ')} {held or 'none'}"


def _verdict_title(verdict: Verdict) -> str:
    what = "confirmation" if verdict.kind == "confirm" else "screening"
    on = numbers.counted(len(verdict.trials), "launch", "launches")
    within = f" in {', '.join(verdict.sandbox)}" if verdict.sandbox else ""
    speedup = f", speedup {numbers.ratio_estimate(verdict.speedup)}" if verdict.speedup else ""
    ruled = f"{verdict.ruling.value} by rules version {verdict.rules}"
    return f"{what}: {ruled} on {on}{within}{speedup}"


def _findings(findings: Iterable[Finding]) -> Iterator[str]:
    """Say every finding, what spoke against the candidate first."""
    order = ("fail", "inconclusive", "pass")
    for each in sorted(findings, key=lambda each: order.index(each.ruling.value)):
        yield f"{each.ruling.value:<13}{each.layer}, {each.check}: {each.reason}"
        if each.hint:
            yield f"{'':<13}-> {each.hint}"


def _artifacts(shown: Shown) -> Iterator[str]:
    for each in shown.artifacts:
        size = numbers.size(each.num_bytes) if each.num_bytes is not None else "cannot be read"
        yield f"{each.what}: {each.state}, {size}, SHA-256 {each.sha256}"
    if shown.trial.tree_digest:
        yield f"the tree that ran: {shown.trial.tree_digest}"


def _cost(shown: Shown) -> Iterator[str]:
    trial = shown.trial
    accelerators = f", accelerators held {numbers.duration(trial.gpu_s)}" if trial.gpu_s else ""
    yield (
        f"{numbers.duration(trial.wall_s)} by the clock, processors "
        f"{numbers.duration(trial.cpu_s)}{accelerators}, dollars {numbers.dollars(shown.usd)}"
    )
