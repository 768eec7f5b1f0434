"""Scores of the models in words and tables."""

from __future__ import annotations

from infrarsi.records.bench_models import Agreement, MemoryScore, ModelReport, TimeScore
from infrarsi.render.markdown import escaped

_WAYS = {
    "tobit": "an OOM lies above the capacity (ours)", "dropped": "OOMs dropped",
    "capacity": "an OOM took the capacity", "formula and process": "formula and process (ours)",
    "process": "process alone", "forest": "random forest",
}  # fmt: skip


def models_markdown(report: ModelReport) -> str:
    """Give the scores as Markdown."""
    parts = [f"# Models on {escaped(report.table)}"]
    if report.memory:
        parts += [
            "**Memory**, learnt from so many rows of a task that has twice as many or more, told "
            "of the others: share of rows whose fit was told wrongly; mean log probability of fit "
            "or no fit; share of measured peaks inside the 90 % interval.",
            _memory_table(report.memory),
        ]
    if report.time:
        parts += [
            "**Time** of model sizes left out, learnt from all others: median of |log(predicted / "
            "measured)|, rank correlation, share inside the 90 % interval.",
            _time_table(report.time),
        ]
    if report.agreement is not None:
        parts.append(_agreement(report.agreement))
    parts += [escaped(note) + "." for note in report.notes]
    return "\n\n".join(parts) + "\n"


def _memory_table(scores: tuple[MemoryScore, ...]) -> str:
    heads = "| rows | observed | way | tasks | wrong | log likelihood | coverage | peak error |"
    lines = [heads, "|---|--:|---|--:|--:|--:|--:|--:|"]
    for each in scores:
        cells = [
            each.chosen, str(each.observed), _WAYS[each.way], str(each.num_tasks),
            f"{each.fit_error:.3f}", f"{each.log_likelihood:.3f}", _share(each.coverage),
            "-" if each.peak_log_error is None else f"{each.peak_log_error:.3f}",
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _time_table(scores: tuple[TimeScore, ...]) -> str:
    lines = ["| left out | way | rows | error | rank | coverage |", "|---|---|--:|--:|--:|--:|"]
    for each in scores:
        rank = "-" if each.rank_correlation is None else f"{each.rank_correlation:.3f}"
        cells = [
            each.left_out, _WAYS[each.way], str(each.num_rows), f"{each.median_log_error:.3f}",
            rank, _share(each.coverage),
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _agreement(found: Agreement) -> str:
    if found.median_difference is None or found.largest_difference is None:
        return f"lifelines' LogNormalAFTFitter converged on none of {found.num_fits} tasks."
    return (
        f"lifelines' LogNormalAFTFitter converged on {found.num_converged} of {found.num_fits} "
        f"tasks; its coefficients and ours differ by {found.median_difference:.1e} standard errors "
        f"in the median task, {found.largest_difference:.1e} at most. Fitting took "
        f"{found.ours_s:.2f} s, and {found.theirs_s:.2f} s with lifelines."
    )


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"
