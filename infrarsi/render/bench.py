"""A bench in words and tables."""

from __future__ import annotations

from infrarsi.records.bench import BenchPlan, BenchReport, Standing
from infrarsi.records.estimate import Estimate
from infrarsi.render.markdown import escaped


def bench_markdown(report: BenchReport) -> str:
    """Give a bench as Markdown."""
    rows = sum(task.num_rows for task in report.tasks)
    parts = [
        f"# Strategies on {escaped(report.table)}",
        f"{len(report.tasks)} tasks with {rows:,} configurations, {report.seeds} searches each; "
        f"{report.left_out} smaller tasks left out. {plan_in_words(report.plan)}",
        "Best found after so many trials, as a share of the task's optimum: geometric mean over "
        "tasks, and its 95 % interval over resampled tasks. A search that has found nothing "
        "counts .010.",
        standings_table(report),
        "**The worst task of each**",
        _worst_table(report),
    ]
    if len(report.standings) > 1:
        first = report.standings[0].strategy
        parts += [f"**{escaped(first)} over the others, task by task**", _ahead_table(report)]
    if report.notes:
        parts.append("Of the table's rows:")
        parts.append("\n".join(f"- {note.rows:,} {escaped(note.what)}" for note in report.notes))
    return "\n\n".join(parts) + "\n"


def plan_in_words(plan: BenchPlan) -> str:
    """Say what was asked of the replays."""
    words = [f"{plan.trials} trials a search"]
    if plan.batch > 1:
        words.append(f"{plan.batch} chosen at once")
    if plan.most_share < 1:
        words.append(f"at most {plan.most_share:.0%} of a task's configurations")
    words.append("formulas on" if plan.formulas else "formulas off")
    if plan.constants != 1:
        words.append(f"their constants wrong by {plan.constants:g}x, up or down at random")
    if plan.beliefs != "none":
        how = "" if plan.beliefs == "experience" else f", {plan.beliefs}"
        words.append(f"coefficients as the tasks of other model sizes teach them{how}")
    if plan.noise_sd:
        words.append(f"{plan.noise_sd:.0%} noise on what a trial returns")
    if plan.complete:
        words.append("pools completed with what surely runs out of memory")
    return "; ".join(words).capitalize() + "."


def standings_table(report: BenchReport) -> str:
    """Give every strategy's standing by budget."""
    heads = [*(f"{budget}" for budget in report.budgets), "OOM share", "s a choice"]
    lines = [_line("strategy", heads), _line("---", ["--:"] * len(heads))]
    for each in report.standings:
        cells = [_estimate(each.found[budget]) for budget in report.budgets]
        lines.append(
            _line(each.strategy, [*cells, f"{each.oom_share:.2f}", f"{each.choose_s:.3f}"])
        )
    return "\n".join(lines)


def _worst_table(report: BenchReport) -> str:
    last = report.budgets[-1]
    heads = [*(f"{budget}" for budget in report.budgets), f"which, at {last}"]
    lines = [_line("strategy", heads), _line("---", [*["--:"] * len(report.budgets), "---"])]
    for each in report.standings:
        cells = [f"{each.worst[budget][1]:.3f}" for budget in report.budgets]
        lines.append(_line(each.strategy, [*cells, escaped(each.worst[last][0])]))
    return "\n".join(lines)


def _ahead_table(report: BenchReport) -> str:
    lines = [
        _line("over", [f"{budget}" for budget in report.budgets]),
        _line("---", ["--:"] * len(report.budgets)),
    ]
    others: list[Standing] = [each for each in report.standings if each.ahead]
    for each in others:
        cells = [_estimate(each.ahead[budget]) for budget in report.budgets]
        lines.append(_line(each.strategy, cells))
    return "\n".join(lines)


def _estimate(value: Estimate) -> str:
    return f"{value.point:.3f} ({value.low:.3f}-{value.high:.3f})"


def _line(first: str, cells: list[str]) -> str:
    return f"| {' | '.join([first, *cells])} |"
