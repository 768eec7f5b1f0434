"""Tables and panels for a terminal. Rich is imported when something is drawn, not before.

Texts of programs and models are put in as text, never as markup, and what would steer a
terminal is taken out of them first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from infrarsi.records.plan import Contract
from infrarsi.records.report import Report, TrialRow
from infrarsi.records.task import ConfigKey, Environment, Flag, Knob, Override
from infrarsi.records.verdict import Ruling, Verdict
from infrarsi.render import numbers
from infrarsi.render.checks import checks_see, drawn_by_chance, what_it_cost
from infrarsi.render.document import Cell, printable
from infrarsi.render.facts import command_line, facts_of
from infrarsi.render.headline import contradictions, headline_of
from infrarsi.render.rows import is_memory_failure, is_refused

if TYPE_CHECKING:
    from rich.console import Group
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    from infrarsi.records.baseline import Baseline

_STYLES = {"pass": "green", "fail": "red", "inconclusive": "yellow", "none": "dim"}


def error_text(message: str, hint: str = "") -> Text:
    """Give an error as one sentence of what is wrong, and one of what to do."""
    from rich.text import Text

    text = Text()
    text.append("Error: ", style="bold red")
    text.append(printable(message))
    if hint:
        text.append("\nWhat to do: ", style="bold")
        text.append(printable(hint))
    return text


def baseline_table(baseline: Baseline) -> Table:
    """Give what doctor measured of the reference, noise and bands included."""
    table = _pairs_table("The reference on this machine")
    rows = [
        ("Time per update", numbers.duration_estimate(baseline.update_s),
         f"{numbers.level(baseline.update_s)} interval over "
         f"{numbers.counted(len(baseline.trials), 'equal launch', 'equal launches')}"),
        ("Cold start", numbers.duration(baseline.cold_start_s),
         "from launch to the end of the first update"),
        ("One launch", numbers.duration(baseline.launch_s), "what a trial costs"),
        ("Peak memory", numbers.size(baseline.peak_bytes), ""),
        ("Model FLOP utilisation", numbers.percent(baseline.mfu),
         f"of {numbers.flops(baseline.peak_flops)} measured" if baseline.peak_flops else ""),
        ("Noise", numbers.percent(baseline.noise_sd), "spread of update time between launches"),
        ("Bias", numbers.percent(baseline.bias), "between equal launches in turns: near zero"),
        ("Least detectable", numbers.percent(baseline.least_detectable),
         "speedup that the planned confirmation can tell from none"),
        ("Deterministic", "no" if baseline.nondeterministic else "yes",
         "whether equal launches gave equal numbers"),
        ("Drawn by chance", _short(baseline), drawn_by_chance(baseline)),
        ("Controls", _controls(baseline), checks_see(baseline)),
        ("Calibration", numbers.duration(baseline.wall_s), what_it_cost(baseline)),
    ]  # fmt: skip
    for name, share in baseline.phase_share.items():
        rows.append((f"  {printable(name)}", numbers.percent(share), "of an update"))
    for band in baseline.bands:
        limit = numbers.significant(band.limit, 2)
        rows.append((f"Band, {printable(band.metric)}", limit, printable(band.source)))
    for row in rows:
        table.add_row(*map(_text, row))
    return table


def _short(baseline: Baseline) -> str:
    """Give in a word what is drawn by chance."""
    randomness = baseline.randomness
    if randomness is None:
        return "-"
    return "data" if randomness.data_from else "dropout" if randomness.redraw else "none"


def _controls(baseline: Baseline) -> str:
    """Give how many of the falsifications that were made the checks saw."""
    made = [each for each in baseline.controls if each.applied]
    seen = sum(bool(each.seen_by) for each in made)
    return f"{seen} of {len(made)}" if baseline.controls else "-"


def trials_table(rows: Report | Iterable[TrialRow]) -> Table:
    """Give the trials of a search, one a row, with why each failed or was refused."""
    from rich.table import Table
    from rich.text import Text

    listed = rows.trials.rows if isinstance(rows, Report) else tuple(rows)
    table = Table(
        title="Trials", title_justify="left", header_style="bold", box=None, padding=(0, 1)
    )
    for title in ("#", "Change", "Outcome", "Update", "Screening", "Peak", "Why"):
        right = title in ("#", "Update", "Screening", "Peak")
        table.add_column(title, justify="right" if right else "left", no_wrap=right)
    for row in listed:
        word, style = trial_word(row)
        table.add_row(
            str(row.index),
            _text(row.change),
            Text(word, style=style),
            "" if row.update_s is None else numbers.duration(row.update_s),
            "" if row.screening_speedup is None else numbers.ratio(row.screening_speedup),
            "" if row.peak_bytes is None else numbers.size(row.peak_bytes),
            _text(row.why or row.reason),
        )
    return table


def trial_word(row: TrialRow) -> tuple[str, str]:
    """Give the one word for how a trial ended, and its style."""
    if is_refused(row):
        return "refused", "red"
    if is_memory_failure(row):
        return printable(row.outcome), "magenta"
    if row.verdict is Ruling.INCONCLUSIVE:
        return "inconclusive", "yellow"
    if row.verdict is Ruling.PASS:
        return "passed", "green"
    return printable(row.outcome), "dim"


def verdict_panel(report: Report) -> Panel:
    """Give the first screen of a report: the verdict in one sentence, and the facts below."""
    from rich.console import Group
    from rich.panel import Panel
    from rich.text import Text

    headline = headline_of(report)
    style = _STYLES[headline.tone]
    table = _pairs_table("")
    table.title = None
    for fact in facts_of(report):
        table.add_row(_text(fact.label), _text(_plain(fact.value)), _text(_plain(fact.note)))
    warnings = [Text(f"Warning: {words}", style="bold red") for words in contradictions(report)]
    sentence = Text(headline.sentence, style="bold")
    content = Group(sentence, _text(headline.support), *warnings, Text(), table)
    title = Text(headline.label, style=f"bold {style}")
    return Panel(content, title=title, title_align="left", border_style=style, padding=(1, 2))


def findings_table(verdict: Verdict) -> Table:
    """Give the findings of a verdict, layer by layer, with every reason."""
    from rich.table import Table
    from rich.text import Text

    speedup = ""
    if verdict.speedup is not None:
        speedup = f", {numbers.ratio_estimate(verdict.speedup)} at {numbers.level(verdict.speedup)}"
    title = f"{verdict.ruling.value}: candidate {printable(verdict.subject)}{speedup}"
    table = Table(
        title=Text(title),
        title_justify="left",
        header_style="bold",
        box=None,
        expand=True,
        padding=(0, 1),
    )
    for name in ("Layer", "Check", "Ruling", "Why"):
        table.add_column(name)
    for finding in verdict.findings:
        why = Text(printable(finding.reason))
        if finding.hint:
            why.append(f"\n{printable(finding.hint)}", style="dim")
        ruling = finding.ruling.value
        table.add_row(finding.layer, _text(finding.check), Text(ruling, style=_STYLES[ruling]), why)
    return table


def verdict_lines(verdict: Verdict) -> list[str]:
    """Give a verdict in a few lines: what it is, and what stood against it."""
    speedup = ""
    if verdict.speedup is not None:
        speedup = f", {numbers.ratio_estimate(verdict.speedup)} at {numbers.level(verdict.speedup)}"
    passed = len(verdict.findings) - len(verdict.reasons)
    checks = f"{numbers.counted(passed, 'check')} passed"
    launches = numbers.counted(len(verdict.trials), "launch", "launches")
    lines = [f"{verdict.ruling.value}: candidate {printable(verdict.subject)}{speedup}; "
             f"{checks} on {launches}"]  # fmt: skip
    for finding in verdict.reasons:
        lines.append(f"  {finding.layer}, {finding.check}: {printable(finding.reason)}")
    return lines


def contract_summary(contract: Contract, lines: Sequence[str] = ()) -> Group:
    """Give what a contract locks and what it leaves free, and further lines below."""
    from rich.console import Group
    from rich.text import Text

    task, plan = contract.task, contract.plan
    table = _pairs_table(f"Contract {printable(contract.name)}")
    first, last = task.window.warmup_updates + 1, task.window.last_update
    tokens = task.workload.tokens_per_update
    rows = [
        ("Locked command", command_line(task.command), f"in {task.folder}"),
        ("Tokens per update", numbers.count(tokens), ""),
        ("Timed updates", f"{first} to {last}", f"after {task.window.warmup_updates} of warm-up"),
        (
            "Least effect",
            numbers.percent(task.objective.least_effect),
            "a smaller one is no result",
        ),
        ("Memory", numbers.size(task.memory.capacity_bytes), task.memory.unit),
        ("May be edited", ", ".join(task.surface.editable) or "nothing", ""),
        ("Protected besides", ", ".join(task.surface.protected) or "all other files", ""),
    ]
    rows += [
        (f"Knob {knob.name}", ", ".join(map(numbers.scalar, knob.values)), _reach_words(knob))
        for knob in task.surface.knobs
    ]
    rows += [("Constraint", each, "") for each in task.surface.constraints]
    budget = plan.budget
    rows.append(
        (
            "Budget",
            f"{numbers.counted(budget.max_trials, 'trial')}, {numbers.duration(budget.max_wall_s)}",
            f"{numbers.duration(budget.trial_deadline_s)} a launch at most",
        )
    )
    rows.append(
        ("Confirmation", numbers.counted(plan.confirmation_blocks, "block"), "of 4 launches")
    )
    for row in rows:
        table.add_row(*map(_text, row))
    return Group(table, *(Text(printable(each)) for each in lines))


def _reach_words(knob: Knob) -> str:
    match knob.reach:
        case Flag(flag=flag):
            way = f"flag {flag}"
        case Environment(variable=variable):
            way = f"environment variable {variable}"
        case ConfigKey(file=file, key=key):
            way = f"{key} in {file}"
        case Override(key=key, prefix=prefix):
            way = f"override {prefix}{key}"
    return f"{way}; now {numbers.scalar(knob.default)}"


def _pairs_table(title: str) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=Text(title, style="bold"), title_justify="left", show_header=False, box=None,
        padding=(0, 2, 0, 0),
    )  # fmt: skip
    table.add_column(style="dim", no_wrap=True)
    table.add_column(style="bold", overflow="fold")
    table.add_column(style="dim", overflow="fold")
    return table


def _text(words: str) -> Text:
    from rich.text import Text

    return Text(printable(words))


def _plain(cell: Cell) -> str:
    return "\n".join("".join(span.text for span in line) for line in cell.lines)
