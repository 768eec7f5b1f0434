"""The sections without a plot of measurements: cost, noise, limits, all trials, provenance."""

from __future__ import annotations

from infrarsi.records.forecast import Forecast
from infrarsi.records.report import Cost, Report, TrialRow
from infrarsi.records.trial import Outcome
from infrarsi.records.verdict import Ruling
from infrarsi.render import numbers
from infrarsi.render.bars import draw_cost
from infrarsi.render.document import (
    Cell,
    Figure,
    Line,
    Row,
    Section,
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
from infrarsi.render.facts import break_even, command_line, dollars_of
from infrarsi.render.rows import accepted, is_refused


def cost_section(report: Report) -> Section:
    """Tell what the search cost, failures included, and when it has paid."""
    cost = report.cost
    launches = sum(cost.by_purpose_s.values())
    rows = [
        (cell(purpose), cell(numbers.duration(seconds)), cell(_of(seconds, launches)))
        for purpose, seconds in cost.by_purpose_s.items()
    ]
    rows.append((cell("all launches"), cell(numbers.duration(launches)), cell()))
    rows.append(
        (
            cell("of these, failed"),
            cell(numbers.duration(cost.failed_wall_s)),
            cell(_of(cost.failed_wall_s, launches)),
        )
    )
    ledger = table(
        "Wall time of launches by purpose",
        ("Purpose", number("Wall time"), number("Share")),
        rows=rows,
    )
    totals = table(
        "Totals",
        ("What", number("Amount")),
        rows=[
            (cell("wall time"), cell(numbers.duration(cost.wall_s))),
            (cell("of these, between launches"), cell(numbers.duration(cost.overhead_s))),
            *_calibration(cost),
            (cell("processor time"), cell(numbers.duration(cost.cpu_s))),
            (cell("accelerators held"), cell(numbers.duration(cost.gpu_s))),
            (cell("language model tokens"), cell(numbers.count(cost.llm_tokens))),
            (cell("US dollars"), cell(dollars_of(cost))),
            (cell("break-even, in updates of the winner"), cell(break_even(report))),
        ],
    )
    summary = (
        f"Launches took {numbers.duration(launches)}; failed ones "
        f"{numbers.duration(cost.failed_wall_s)}."
    )
    figures: tuple[Figure, ...] = ()
    if launches > 0:
        figures = (
            Figure("cost", "Where the search spent its time", summary, draw_cost(cost).svg()),
        )
    failed = "No search trial was made."
    if report.trials.rows:
        share = numbers.percent(report.trials.failed_share)
        failed = f"{share} of the search trials failed, and their cost is counted."
    paid = cost.break_even_note if accepted(report) else ""
    text = line(f"{failed} {paid[:1].upper()}{paid[1:]}".strip())
    tables = [ledger, totals, _cold_start(report)]
    if cost.expected is not None:
        tables.insert(2, _against_forecast(cost, cost.expected, len(report.trials.rows)))
    return Section("cost", "Cost", (text,), figures, tuple(tables))


def _calibration(cost: Cost) -> list[tuple[Cell, Cell]]:
    if cost.calibration_share is None:
        return []
    words = "calibration, as a share of a search of 30 trials"
    return [(cell(words), cell(numbers.percent(cost.calibration_share)))]


def noise_section(report: Report) -> Section:
    """Tell how noisy the machine is, and which deviations were allowed."""
    text = line(
        "Noise is the spread of update time between equal launches of the reference "
        f"(standard deviation of its logarithm): {numbers.percent(report.noise_sd)}. The "
        "smallest speedup that the planned confirmation can tell from none: "
        f"{numbers.percent(report.least_detectable)}. Timed: {report.window or 'not stated'}."
    )
    checks = (line(report.checks),) if report.checks else ()
    if not report.bands:
        nothing = line("No numerical bands are on record: not measured.")
        return Section("noise", "Noise and allowed deviations", (text, *checks, nothing))
    bands = table(
        "Allowed deviation from the reference, and where each comes from",
        ("Metric", sentences("Band and source")),
        rows=[(cell(code(name)), cell(words)) for name, words in report.bands.items()],
    )
    return Section("noise", "Noise and allowed deviations", (text, *checks), (), (bands,))


def limits_section(report: Report) -> Section:
    """Tell what a reader must not conclude."""
    paragraphs: tuple[Line, ...] = (
        line("Quality: ", report.quality or "not stated"),
        line("Containment: ", report.sandbox or "not recorded"),
    )
    if not report.limits:
        paragraphs = (*paragraphs, line("No further limits were recorded."))
    bullets = tuple(line(limit) for limit in report.limits)
    return Section("limits", "What this does not show", paragraphs, bullets=bullets)


def trials_section(report: Report, *, most_rows: int | None = None) -> Section:
    """List all trials; with ``most_rows``, leave out routine ones and say so."""
    rows = report.trials.rows
    if not rows:
        return Section("trials", "All trials", (line("No trial was made."),))
    shown, left_out = _choose(rows, most_rows)
    columns = (
        number("#"), sentences("Change and why it was tried"), sentences("Outcome"),
        number("Update, predicted"), number("Screening"),
        number("Peak, predicted"), number("Cost"),
    )  # fmt: skip
    text = line("Predictions were made before the launch, and are shown with their intervals.")
    if left_out:
        text = line(
            f"{numbers.counted(left_out, 'routine trial')} left out for length: report.json "
            "holds them all."
        )
    listing = table("All trials", columns, rows=map(_trial_row, shown), long=True)
    return Section("trials", "All trials", (text,), (), (listing,))


def provenance_section(report: Report) -> Section:
    """Tell what ran where, and the digests by which it can be held to account."""
    machine = table(
        "Machine",
        ("What", sentences("Value")),
        rows=[(cell(name), cell(value)) for name, value in report.machine.items()],
    )
    verdict = report.confirmed.verdict_digest if report.confirmed else None
    digests = table(
        "Digests",
        ("What", sentences("Value")),
        rows=[
            (cell("contract"), cell(code(report.contract))),
            (cell("commit that every trial starts from"), cell(code(report.commit))),
            (cell("locked task (SHA-256)"), cell(code(report.task_digest))),
            (cell("verdict (SHA-256)"), cell(code(verdict) if verdict else "no verdict")),
            (cell("last event of the ledger (SHA-256)"), cell(code(report.history_digest))),
            (cell("reference launch"), cell(code(command_line(report.command)))),
            (cell("written"), cell(report.generated_at)),
            (cell("schema of report.json"), cell(str(report.schema_version))),
        ],
    )
    text = line(
        "The ledger is a chain of hashes over every event, failed and refused trials included. "
        "The digests name the stored bytes of the records that this report was made from."
    )
    tables = (digests, machine) if report.machine else (digests,)
    return Section("provenance", "Provenance", (text,), (), tables)


def _against_forecast(cost: Cost, expected: Forecast, num_launches: int) -> Table:
    """Hold what was expected against what it came to."""
    rows = [
        ("search, wall time", numbers.duration_range(expected.search_wall_s),
         numbers.duration(cost.search_wall_s)),
        ("search, launches", numbers.count_range(expected.num_launches),
         numbers.count(num_launches)),
        ("search, dollars of the machine", numbers.dollars_range(expected.search_usd),
         numbers.dollars(cost.search_dollars)),
        ("confirmation, wall time", numbers.duration_range(expected.confirm_wall_s),
         numbers.duration(cost.confirm_wall_s)),
    ]  # fmt: skip
    return table(
        "Expected before the search, and what it came to",
        ("What", number("Expected (low to high)"), number("Came to")),
        rows=[tuple(cell(each) for each in row) for row in rows],
    )


def _cold_start(report: Report) -> Table:
    confirmed = report.confirmed
    rows = (
        ("reference", confirmed.reference_cold_start_s if confirmed else None),
        ("winner, compile cache filled", confirmed.winner_cold_start_s if confirmed else None),
        ("winner, first of all", confirmed.winner_first_cold_start_s if confirmed else None),
    )
    return table(
        "Cold start: from launch to the end of the first update",
        ("Launch", number("Time")),
        rows=[(cell(name), cell(numbers.duration(seconds))) for name, seconds in rows],
    )


def _of(part: float, whole: float) -> str:
    return numbers.percent(part / whole) if whole > 0 else numbers.NOT_MEASURED


def _choose(rows: tuple[TrialRow, ...], most: int | None) -> tuple[list[TrialRow], int]:
    if most is None or len(rows) <= most:
        return list(rows), 0
    # Refusals first, then what passed, fastest first: those are what a reader asks about.
    ranked = sorted(
        rows,
        key=lambda row: (
            not is_refused(row),
            row.verdict is not Ruling.PASS,
            -(row.screening_speedup or 0.0),
        ),
    )
    chosen = sorted(ranked[:most], key=lambda row: row.index)
    return chosen, len(rows) - len(chosen)


def _trial_row(row: TrialRow) -> Row:
    cost: list[list[str]] = [[numbers.duration(row.wall_s)]]
    if row.dollars is not None:
        cost.append([numbers.dollars(row.dollars)])
    return Row(
        (
            cell(str(row.index)),
            stacked([code(row.change)], [row.reason], [muted(row.candidate)]),
            stacked([row.outcome], [ruling_span(row.verdict)], [muted(row.why)] if row.why else []),
            stacked(
                [numbers.duration(row.update_s)],
                [muted(numbers.duration_estimate(row.predicted_update_s))]
                if row.predicted_update_s
                else [],
            ),
            cell(numbers.ratio(row.screening_speedup)),
            _memory_cell(row),
            stacked(*cost),
        )
    )


def _memory_cell(row: TrialRow) -> Cell:
    # Out of memory is not unmeasured: it is known to lie above the capacity.
    beyond = row.peak_bytes is None and row.outcome == Outcome.OOM
    return stacked(
        ["above capacity" if beyond else numbers.size(row.peak_bytes)],
        [muted(numbers.size_estimate(row.predicted_peak_bytes))]
        if row.predicted_peak_bytes
        else [],
        [muted(f"fits: {numbers.probability(row.p_fits)}")] if row.p_fits is not None else [],
    )
