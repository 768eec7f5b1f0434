"""The sections that carry a plot: the search, the confirmation, the parts, time, and memory."""

from __future__ import annotations

from infrarsi.records.report import Confirmed, PairRow, Part, Report, TrialRow
from infrarsi.render import numbers
from infrarsi.render.bars import draw_phases
from infrarsi.render.calibration import calibration_lines
from infrarsi.render.confirmation_plot import draw_blocks, draw_launches
from infrarsi.render.document import (
    Cell,
    Column,
    Figure,
    Row,
    Section,
    Span,
    Table,
    cell,
    code,
    line,
    muted,
    number,
    ruling_span,
    sentences,
    stacked,
    table,
)
from infrarsi.render.forest import draw_parts
from infrarsi.render.memory_plot import draw_memory
from infrarsi.render.rows import is_memory_failure, is_refused
from infrarsi.render.search_plot import draw_search


def search_section(report: Report) -> Section:
    """Tell how the search went, trial by trial."""
    rows = report.trials.rows
    if not rows:
        return Section("search", "The search", (line("No trial was made."),))
    outcomes = ", ".join(f"{n:,} {name}" for name, n in sorted(report.trials.outcomes.items()))
    verdicts = ", ".join(f"{n:,} {name}" for name, n in sorted(report.trials.verdicts.items()))
    summary = (
        f"{numbers.counted(len(rows), 'trial')}. Outcomes: {outcomes or 'none recorded'}. "
        f"Screening verdicts: {verdicts or 'none recorded'}. "
        f"{numbers.percent(report.trials.failed_share)} of the trials failed."
    )
    figure = Figure("search", "Search progress", summary, draw_search(report).svg())
    text = line(
        "Each mark is one launch of one candidate. A launch in the search ranks candidates and "
        "decides nothing: the claim rests on the confirmation alone. The line follows the best "
        "candidate that the judge let pass; what it refused never counts, however fast."
    )
    return Section("search", "The search", (text, *calibration_lines(rows)), (figure,))


def confirmation_section(report: Report) -> Section:
    """Tell how the winner met the original reference, launch by launch."""
    title = "The confirmation"
    confirmed = report.confirmed
    if confirmed is None:
        text = line("Nothing was confirmed: no speedup was measured, and none is claimed.")
        return Section("confirmation", title, (text,))
    text = line(
        "Fresh launches of the reference (A) and the winner (B), back to back, in blocks of "
        "ABBA or BAAB drawn at random, their number fixed in advance. A steady drift of the "
        "machine cancels inside a block. The interval is taken over blocks, not over updates."
    )
    figures: tuple[Figure, ...] = ()
    tables: list[Table] = []
    if confirmed.blocks:
        figures = (_blocks_figure(confirmed), _launches_figure(confirmed))
        tables.append(_blocks_table(confirmed))
    texts = [text]
    if confirmed.sessions:
        tables.insert(0, _sessions_table(confirmed))
        texts.append(
            line(
                "It was held in sessions, each a confirmation of its own: every one of them had to "
                "pass, and in the interval of the whole the sessions are the units, so that it "
                "holds what may change from one to the next."
            )
        )
    if confirmed.findings:
        tables.append(_findings_table(confirmed))
    return Section("confirmation", title, tuple(texts), figures, tuple(tables))


def winner_section(report: Report) -> Section:
    """Tell what the winner changes, and what each part of it adds."""
    title, winner = "What changed, and what each part adds", report.winner
    if winner is None:
        return Section("winner", title, (line("No candidate was put forward."),))
    knobs = table(
        "Launch settings that differ from the reference",
        ("Setting", "Value"),
        rows=[
            (cell(code(name)), cell(code(numbers.scalar(v)))) for name, v in winner.knobs.items()
        ],
    )
    patches = table(
        "Patches",
        ("Patch", sentences("What it does")),
        rows=[
            (cell(code(name)), cell(winner.summaries.get(name) or muted("no summary recorded")))
            for name in winner.patches
        ],
    )
    changes = tuple(each for each in (knobs, patches) if each.rows)
    about = line("Candidate ", code(winner.candidate), ".")
    if not changes:
        about = (*about, Span(" It differs from the reference in nothing."))
    if not winner.parts:
        text = line("What each part adds was not measured.")
        return Section("winner", title, (about, text), (), changes)
    kept = sum(part.kept for part in winner.parts)
    summary = (
        f"{numbers.counted(len(winner.parts), 'part')}, {kept} kept; the others were taken out of "
        "the candidate, and stand here for the record. The bars are intervals."
    )
    figure = Figure("parts", "What each part adds", summary, draw_parts(winner.parts).svg())
    text = line(
        "Each part was taken out of the candidate and both were run in turns. The gain is the "
        "time without the part over the time with it. Gains of parts need not multiply to the "
        "whole, and the figure claimed is never their product."
    )
    return Section(
        "winner", title, (about, text), (figure,), (*changes, _parts_table(winner.parts))
    )


def phases_section(report: Report) -> Section:
    """Tell where the time of an update goes, before and after."""
    title, phases = "Where the time goes", report.phases
    if not phases:
        return Section("phases", title, (line("Time by phase was not measured."),))
    before = sum(phase.reference_s for phase in phases)
    measured = [phase.winner_s for phase in phases if phase.winner_s is not None]
    after = sum(measured) if measured else None
    summary = f"Reference {numbers.duration(before)}; winner {numbers.duration(after)}."
    if measured and len(measured) < len(phases):
        summary += " Some phases of the winner were not measured, so its bar is too short."
    rows = [
        (
            cell(phase.phase),
            cell(numbers.duration(phase.reference_s)),
            cell(numbers.percent(phase.reference_s / before) if before else numbers.NOT_MEASURED),
            cell(numbers.duration(phase.winner_s)),
            cell(_share(phase.winner_s, after)),
        )
        for phase in phases
    ]
    columns: list[Column | str] = [
        "Phase",
        *(number(each) for each in ("Reference", "Share", "Winner", "Share")),
    ]
    text = line(
        "Phases are timed by the training process's own clock: they explain, and no verdict "
        "rests on them. ",
        f"Model FLOP utilisation: reference {_fraction(report.mfu)}, winner "
        f"{_fraction(report.winner_mfu)}.",
    )
    figure = Figure("phases", "Time of one update by phase", summary, draw_phases(phases).svg())
    return Section(
        "phases", title, (text,), (figure,), (table("Time by phase", columns, rows=rows),)
    )


def memory_section(report: Report) -> Section:
    """Tell how well memory was predicted, and which candidates did not fit."""
    rows = report.trials.rows
    placed = [r for r in rows if r.predicted_peak_bytes and (r.peak_bytes or is_memory_failure(r))]
    unit = {
        "process_data": "data segment of the largest process",
        "cuda_allocated": "allocator peak of the largest rank",
    }.get(report.memory_unit, report.memory_unit)
    text = line(
        f"Capacity {numbers.size(report.capacity_bytes)} ({unit}), in the same unit as the peak. "
        f"Reference: {numbers.size(report.reference_peak_bytes)}. A launch that ran out of memory "
        "has no peak: all that is known is that its demand lies above the capacity."
    )
    if not placed:
        nothing = line("No prediction of memory met a measurement, so there is nothing to plot.")
        return Section("memory", "Memory, predicted and measured", (text, nothing))
    measured = [row for row in placed if row.peak_bytes is not None]
    inside = sum(_covers(row) for row in measured)
    summary = (
        f"{inside} of {numbers.counted(len(measured), 'measured peak')} inside the interval "
        f"predicted for them; {numbers.counted(len(placed) - len(measured), 'launch', 'launches')} "
        "out of memory."
    )
    figure = Figure(
        "memory", "Peak memory, predicted and measured", summary, draw_memory(report).svg()
    )
    return Section("memory", "Memory, predicted and measured", (text,), (figure,))


def refusals_section(report: Report) -> Section:
    """List what was refused, with every reason in full."""
    refused = [row for row in report.trials.rows if is_refused(row)]
    if not refused:
        text = line("The judge refused no trial of this search.")
        return Section("refusals", "What was refused", (text,))
    rows = [
        (
            cell(str(row.index)),
            stacked([code(row.change)], [muted(row.candidate)]),
            cell(numbers.ratio(row.screening_speedup)),
            cell(row.why or "no reason recorded"),
        )
        for row in refused
    ]
    columns = (
        number("#"), sentences("Change"), number("Would have claimed"),
        sentences("Why it was refused"),
    )  # fmt: skip
    text = line(
        "These may look faster. They do not do the same work, or could not be shown to, and so "
        "they are no speedups."
    )
    return Section(
        "refusals", "What was refused", (text,), (), (table("Refusals", columns, rows=rows),)
    )


def _covers(row: TrialRow) -> bool:
    estimate, peak = row.predicted_peak_bytes, row.peak_bytes
    return estimate is not None and peak is not None and estimate.low <= peak <= estimate.high


def _blocks_figure(confirmed: Confirmed) -> Figure:
    ratios = [block.ratio for block in confirmed.blocks]
    overall = (
        "not measured"
        if confirmed.speedup is None
        else f"{numbers.ratio_estimate(confirmed.speedup)} at {numbers.level(confirmed.speedup)}"
    )
    summary = (
        f"Ratios of {numbers.counted(len(ratios), 'block')} from {numbers.ratio(min(ratios))} to "
        f"{numbers.ratio(max(ratios))}; overall {overall}; threshold "
        f"{numbers.ratio(confirmed.threshold, decimals=3)}."
    )
    return Figure("blocks", "Speedup, block by block", summary, draw_blocks(confirmed).svg())


def _launches_figure(confirmed: Confirmed) -> Figure:
    reference = [each for block in confirmed.blocks for each in block.reference_s]
    winner = [each for block in confirmed.blocks for each in block.winner_s]
    summary = f"Reference {_range(reference)}; winner {_range(winner)}."
    return Figure(
        "launches", "Every launch, in the order it ran", summary, draw_launches(confirmed).svg()
    )


def _range(seconds: list[float]) -> str:
    if not seconds:
        return numbers.NOT_MEASURED
    return f"{numbers.duration(min(seconds))} to {numbers.duration(max(seconds))}"


def _blocks_table(confirmed: Confirmed) -> Table:
    def row_of(block: PairRow) -> tuple[Cell, ...]:
        return (
            cell(str(block.block)),
            cell(code(block.order)),
            cell(", ".join(numbers.duration(each) for each in block.reference_s)),
            cell(", ".join(numbers.duration(each) for each in block.winner_s)),
            cell(numbers.ratio(block.ratio, decimals=3)),
        )

    columns: list[Column | str] = [
        "Block",
        "Order",
        *(number(each) for each in ("Reference", "Winner", "Ratio")),
    ]
    return table("Blocks of the confirmation", columns, rows=map(row_of, confirmed.blocks))


def _sessions_table(confirmed: Confirmed) -> Table:
    rows = [
        (
            cell(str(each.session)),
            cell(each.began_at),
            cell(each.ended_at),
            cell(str(each.num_blocks)),
            cell(numbers.ratio_estimate(each.speedup)),
        )
        for each in confirmed.sessions
    ]
    columns: list[Column | str] = ["Session", "Began", "Ended", number("Blocks"), number("Speedup")]
    return table("Sessions of the confirmation", columns, rows=rows)


def _findings_table(confirmed: Confirmed) -> Table:
    rows = [
        (
            cell(finding.layer),
            cell(finding.check),
            cell(ruling_span(finding.ruling)),
            stacked([finding.reason], [muted(finding.hint)] if finding.hint else []),
        )
        for finding in confirmed.findings
    ]
    columns = ("Layer", "Check", "Ruling", sentences("What was compared"))
    return table("Checks of the confirmed winner", columns, rows=rows)


def _parts_table(parts: tuple[Part, ...]) -> Table:
    rows = [
        Row(
            (
                cell(code(part.name)),
                cell(part.kind),
                cell(numbers.ratio_estimate(part.gain)),
                cell("kept" if part.kept else "dropped"),
                cell(part.note),
            ),
            dropped=not part.kept,
        )
        for part in parts
    ]
    columns = ("Part", "Kind", number("Gain"), "Decision", sentences("Note"))
    return table("Parts of the winner", columns, rows=rows)


def _share(seconds: float | None, total: float | None) -> str:
    if seconds is None or not total:
        return numbers.NOT_MEASURED
    return numbers.percent(seconds / total)


def _fraction(value: float | None) -> str:
    return numbers.percent(value)
