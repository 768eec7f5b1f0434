"""A bench as a plot: best found by number of trials, each strategy with its interval."""

from __future__ import annotations

from infrarsi.records.bench import BenchReport, Standing
from infrarsi.render.drawing import (
    WIDTH,
    Scale,
    disc,
    element,
    escaped,
    horizontal_axis,
    label,
    legend,
    marked,
    vertical_axis,
)
from infrarsi.render.style import PLOT, THEME

# Paul Tol's "bright" scheme: lines that colour-blind readers tell apart.
_COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#bbbbbb")
_HEIGHT = 420.0


def bench_svg(report: BenchReport) -> str:
    """Give a plot that stands alone."""
    xs = Scale(0, max(report.budgets), start=60, end=WIDTH - 24)
    lowest = min(each.low for s in report.standings for each in s.found.values())
    highest = max(each.high for s in report.standings for each in s.found.values())
    names, used = legend(
        [(disc(0, 0, cls=f"line-{i}"), each.strategy) for i, each in enumerate(report.standings)],
        x=60, y=44, right=WIDTH - 24,
    )  # fmt: skip
    top = 52 + used
    ys = Scale(min(lowest, 0.5), max(1.0, highest), start=_HEIGHT - 48, end=top)
    drawn = [
        label(60, 20, f"Best found over the optimum, {report.table}", cls="strong"),
        names,
        vertical_axis(ys, xs.start, right=xs.end, title=""),
        horizontal_axis(xs, ys.start, top=top, title="trials", most=9),
    ]
    for i, standing in reversed(list(enumerate(report.standings))):
        drawn.append(_line(standing, i, xs=xs, ys=ys))
    title = f"Best found by trials, {len(report.tasks)} tasks, 95 % intervals over tasks"
    return element(
        "svg",
        [element("title", escaped(title)), f"<style>{THEME}{PLOT}{_style()}</style>", *drawn],
        xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {WIDTH} {_HEIGHT:g}", role="img",
    )  # fmt: skip


def _line(standing: Standing, index: int, *, xs: Scale, ys: Scale) -> str:
    budgets = sorted(standing.found)
    path = "".join(
        f"{'M' if i == 0 else 'L'}{xs(budget):.1f} {ys(standing.found[budget].point):.1f}"
        for i, budget in enumerate(budgets)
    )
    over = [(budget, standing.found[budget].high) for budget in budgets]
    under = [(budget, standing.found[budget].low) for budget in reversed(budgets)]
    band = "".join(
        f"{'M' if i == 0 else 'L'}{xs(budget):.1f} {ys(value):.1f}"
        for i, (budget, value) in enumerate([*over, *under])
    )
    dots = [
        marked(
            f"{standing.strategy} after {budget} trials: {found.point:.3f} "
            f"({found.low:.3f} to {found.high:.3f})",
            disc(xs(budget), ys(found.point), radius=3, cls=f"line-{index}"),
        )
        for budget, found in sorted(standing.found.items())
    ]
    return "".join([
        element("path", d=f"{band}z", cls=f"band-{index}"),
        element("path", d=path, cls=f"line-{index} through"),
        *dots,
    ])  # fmt: skip


def _style() -> str:
    rules = ["svg .through{fill:none!important;stroke-width:2;stroke-linejoin:round}"]
    for i in range(len(_COLOURS) * 2):
        colour = _COLOURS[i % len(_COLOURS)]
        rules.append(f"svg .line-{i}{{stroke:{colour};fill:{colour}}}")
        rules.append(f"svg .band-{i}{{fill:{colour};opacity:.13;stroke:none}}")
    return "\n".join(rules)
