"""The order of a report: the verdict first, then the plots, then the tables."""

from __future__ import annotations

from infrarsi.records.report import Report
from infrarsi.render import numbers
from infrarsi.render.confirmation_plot import draw_strip
from infrarsi.render.document import Document, Figure, code, line
from infrarsi.render.experience import experience_section
from infrarsi.render.facts import facts_of
from infrarsi.render.headline import contradictions, headline_of
from infrarsi.render.ideas import ideas_section
from infrarsi.render.knobs import silent_knobs_section
from infrarsi.render.ledger import (
    cost_section,
    limits_section,
    noise_section,
    provenance_section,
    trials_section,
)
from infrarsi.render.sections import (
    confirmation_section,
    memory_section,
    phases_section,
    refusals_section,
    search_section,
    winner_section,
)


def document_of(report: Report, *, most_trials: int | None = None) -> Document:
    """Put a report into words, tables and plots, before any format gives it a look."""
    return Document(
        title=f"{report.contract}: InfraRSI report",
        about=line(
            "InfraRSI report for ", code(report.contract), ", commit ", code(report.commit[:12]),
            f", written {report.generated_at}",
        ),
        headline=headline_of(report),
        warnings=contradictions(report),
        strip=_strip(report),
        facts=facts_of(report),
        sections=(
            search_section(report),
            confirmation_section(report),
            winner_section(report),
            ideas_section(report),
            *experience_section(report),
            phases_section(report),
            memory_section(report),
            refusals_section(report),
            *silent_knobs_section(report),
            cost_section(report),
            noise_section(report),
            limits_section(report),
            trials_section(report, most_rows=most_trials),
            provenance_section(report),
        ),
    )  # fmt: skip


def _strip(report: Report) -> Figure | None:
    confirmed = report.confirmed
    drawing = draw_strip(confirmed) if confirmed else None
    if confirmed is None or confirmed.speedup is None or drawing is None:
        return None
    summary = (
        f"Overall {numbers.ratio_estimate(confirmed.speedup)}; threshold "
        f"{numbers.ratio(confirmed.threshold, decimals=3)}."
    )
    return Figure("strip", "The verdict", summary, drawing.svg())
