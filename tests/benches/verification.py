"""Writing docs/verification.md from what `make bench-judge` recorded."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from specimen import Specimen

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
LOOKS_FASTER = 1.05


@dataclass(frozen=True)
class Row:
    """One judged launch."""

    specimen: str
    workload: str
    digest: str
    trial: str
    outcome: str
    reason: str
    update_s: float | None
    reference_s: float
    claimed: float | None
    ruling: str
    findings: list[list[str]]
    rules: int
    repeats: int = 0
    wall_s: float = 0.0
    sandbox: str = ""
    stage: str = "screen"
    """``confirm``: what a confirmation came to, of what its screening let pass."""

    @property
    def speedup(self) -> float | None:
        """The reference's time over its own, by the parent's clock, before any judgement."""
        return self.reference_s / self.update_s if self.update_s else None

    @property
    def looks(self) -> float:
        """How much faster it looks to whoever believes the clock or the log, whichever is more."""
        return max(self.speedup or 0.0, self.claimed or 0.0)

    @property
    def accepted(self) -> bool:
        """Whether the judge let it pass."""
        return self.ruling == "pass"

    @property
    def layers(self) -> list[str]:
        """The layers that spoke: those that refused, or else those that could not tell."""
        refused = [layer for layer, _, ruling, _ in self.findings if ruling == "fail"]
        return list(dict.fromkeys(refused or [layer for layer, *_ in self.findings]))

    @property
    def first(self) -> str:
        """The first reason of those that decided."""
        ordered = sorted(self.findings, key=lambda each: each[2] != "fail")
        return ordered[0][3] if ordered else ""


def clustered_interval(clusters: Sequence[tuple[int, int]]) -> tuple[float, float]:
    """Give the 95 % interval of a rate whose draws come in clusters (Korn and Graubard).

    Clopper-Pearson at an effective sample size: the number of draws, divided by how much more the
    rate varies between clusters than it would between single draws. Where nothing or everything
    struck, that cannot be seen, and the number of clusters is taken, which is the cautious end.

    Parameters
    ----------
    clusters
        For each specimen, how many of its launches struck and how many there were.
    """
    from scipy.special import stdtrit
    from scipy.stats import beta

    count, draws = (sum(each[i] for each in clusters) for i in (0, 1))
    groups = len(clusters)
    if not draws:
        return 0.0, 1.0
    rate = count / draws
    size = float(groups)
    if 0 < rate < 1 and groups > 1:
        spread = sum((k - rate * n) ** 2 for k, n in clusters) * groups / (groups - 1) / draws**2
        size = min(float(draws), rate * (1 - rate) / spread) if spread > 0 else float(draws)
        size *= (stdtrit(max(draws - 1, 1), 0.975) / stdtrit(groups - 1, 0.975)) ** 2
    struck = rate * size
    low = 0.0 if struck == 0 else float(beta.ppf(0.025, struck, size - struck + 1))
    high = 1.0 if rate == 1 else float(beta.ppf(0.975, struck + 1, size - struck))
    return low, high


def write_report(
    place: Path,
    corpus: Sequence[Specimen],
    rows: Sequence[Row],
    *,
    about: Mapping[str, Any],
    second: Sequence[str],
) -> None:
    """Put the measured part between its marks, and leave the rest of the file as it is."""
    text = place.read_text() if place.exists() else f"# Verification\n\n{BEGIN}\n{END}\n"
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    place.write_text(f"{before}{BEGIN}\n{measured(corpus, rows, about, second=second)}{END}{after}")


def measured(
    corpus: Sequence[Specimen],
    rows: Sequence[Row],
    about: Mapping[str, Any],
    *,
    second: Sequence[str],
) -> str:
    """Write everything that was measured."""
    elsewhere = [row for row in rows if row.workload in second]
    rows = [row for row in rows if row.workload not in second]
    by_name = _by_name(rows)
    false = [each for each in corpus if not each.honest and not each.unmeasured]
    honest = [each for each in corpus if each.honest]
    sandboxes = sorted({row.sandbox for row in rows if row.sandbox})
    rules = sorted({row.rules for row in rows if row.rules})
    parts = [
        f"Contained by: {', '.join(sandboxes) or '-'}. Rules: {', '.join(map(str, rules)) or '-'}. "
        f"{len(rows)} launches judged.",
        "Contracts: " + "; ".join(f"{name} `{each.command}`" for name, each in about.items()) + ".",
        _rates(false, honest, by_name),
        "### False speedups",
        _false_table(false, by_name),
        "### Honest changes",
        _honest_table(honest, by_name),
        "### Written, and not measured here",
        _unmeasured([each for each in corpus if each.unmeasured]),
    ]
    for workload in second:
        there = [row for row in elsewhere if row.workload == workload]
        if there:
            parts += ["## The same on another workload", _elsewhere(workload, corpus, there, about)]
    return "\n\n".join(parts) + "\n"


def _by_name(rows: Sequence[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[row.specimen].append(row)
    return found


def _elsewhere(
    workload: str, corpus: Sequence[Specimen], rows: Sequence[Row], about: Mapping[str, Any]
) -> str:
    """Write the rates of another contract, and whatever ended otherwise than it should."""
    by_name = _by_name(rows)
    mine = [each for each in corpus if each.example == about[workload].example]
    false = [each for each in mine if not each.honest and not each.unmeasured]
    honest = [each for each in mine if each.honest]
    odd = [
        each
        for each in false
        if (row := _deciding(each, by_name)) is not None and row.ruling != "fail"
    ]
    return "\n\n".join([
        f"`{about[workload].command}`, {len(rows)} launches. No threshold was set by hand: what is allowed comes "
        "from its own null launches. Some specimens were written for the shapes of the first workload, and do "
        "not run here.",
        _rates(false, honest, by_name),
        _false_table(odd, by_name) if odd else "Every false specimen that ran was refused.",
        _honest_table(
            [each for each in honest if not all(row.accepted for row in by_name[each.name])], by_name
        ),
    ])  # fmt: skip


def _deciding(specimen: Specimen, by_name: Mapping[str, list[Row]]) -> Row | None:
    """Give the launch of a false specimen that counts: the last."""
    found = by_name.get(specimen.name)
    return found[-1] if found else None


def _rates(
    false: Sequence[Specimen], honest: Sequence[Specimen], by_name: Mapping[str, list[Row]]
) -> str:
    seen = [(each, row) for each in false if (row := _deciding(each, by_name)) is not None]
    counts = [(each, row) for each, row in seen if row.looks > LOOKS_FASTER]
    slow = [each.name for each, row in seen if row.looks <= LOOKS_FASTER]
    accepted = [
        each.name for each, row in counts if row.accepted and (row.speedup or 0) > LOOKS_FASTER
    ]
    logged = [each.name for each, row in counts if row.accepted and each.name not in accepted]
    unsure = [each.name for each, row in counts if row.ruling == "inconclusive"]
    clusters = [
        (sum(not row.accepted for row in by_name[each.name]), len(by_name[each.name]))
        for each in honest
        if each.name in by_name
    ]
    total, lost = sum(n for _, n in clusters), sum(k for k, _ in clusters)
    lines = [
        "| | count | rate [95 %] |", "| --- | --- | --- |",
        _rate("false speedups accepted", [(each.name in accepted, 1) for each, _ in counts]),
        _rate("false speedups inconclusive", [(each.name in unsure, 1) for each, _ in counts]),
        _rate("honest launches not accepted", clusters),
        "",
        f"{len(seen)} of {len(false)} false specimens were launched, and {len(counts)} of them look more than "
        f"{LOOKS_FASTER}x faster unjudged; {len(clusters)} of {len(honest)} honest ones were, {total} times, "
        f"and {lost} launches of theirs were not accepted. Intervals: Clopper-Pearson; launches of one "
        "specimen are one cluster (Korn and Graubard's effective sample size).",
        "",
        f"Accepted: {_named(accepted)}.", "",
        f"Inconclusive: {_named(unsure)}.", "",
        f"Passed, and by the parent's clock no faster: {_named(logged)}.", "",
        f"Not faster even unjudged, and so not counted: {_named(slow)}.",
    ]  # fmt: skip
    return "\n".join(lines)


def _rate(words: str, clusters: Sequence[tuple[int, int]]) -> str:
    count, draws = sum(int(k) for k, _ in clusters), sum(n for _, n in clusters)
    if not draws:
        return f"| {words} | 0 of 0 | - |"
    low, high = clustered_interval([(int(k), n) for k, n in clusters])
    return f"| {words} | {count} of {draws} | {count / draws:.1%} [{low:.1%}, {high:.1%}] |"


def _named(names: Sequence[str]) -> str:
    return ", ".join(f"`{each}`" for each in names) or "none"


def _false_table(specimens: Sequence[Specimen], by_name: Mapping[str, list[Row]]) -> str:
    lines = ["| specimen | kind | what it does | looks | verdict | spoke | first reason |",
             "| --- | --- | --- | --- | --- | --- | --- |"]  # fmt: skip
    for each in specimens:
        row = _deciding(each, by_name)
        said = "not launched | | |" if row is None else _verdict(row)
        looks = "" if row is None else _looks(row)
        lines.append(f"| `{each.name}` | {each.kind} | {each.does} | {looks} | {said}")
    return "\n".join(lines)


def _verdict(row: Row) -> str:
    ruling = {"pass": "**accepted**", "fail": "refused"}.get(row.ruling, row.ruling)
    return f"{ruling} | {', '.join(row.layers)} | {_short(row.first)} |"


def _looks(row: Row) -> str:
    said = f"{row.speedup:.2f}x" if row.speedup else "-"
    if (
        row.claimed is not None
        and math.isfinite(row.claimed)
        and row.claimed > 1.25 * (row.speedup or 0)
    ):
        said += f" ({row.claimed:.1f}x by its own log)"
    return said


def _short(text: str, most: int = 160) -> str:
    text = text.replace("|", "\\|").replace("\n", " ")
    return text if len(text) <= most else text[: most - 1].rsplit(" ", 1)[0] + " …"


def _honest_table(specimens: Sequence[Specimen], by_name: Mapping[str, list[Row]]) -> str:
    lines = ["| specimen | example | what it does | speedup | accepted | where not, why |",
             "| --- | --- | --- | --- | --- | --- |"]  # fmt: skip
    for each in specimens:
        mine = by_name.get(each.name, [])
        speeds = [row.speedup for row in mine if row.speedup]
        middle = f"{median(speeds):.2f}x" if speeds else ""
        passed = f"{sum(row.accepted for row in mine)} of {len(mine)}"
        why = "; ".join(
            dict.fromkeys(
                f"{row.ruling}: {', '.join(row.layers)}: {_short(row.first)}"
                for row in mine
                if not row.accepted
            )
        )
        lines.append(
            f"| `{each.name}` | {each.example} | {each.does} | {middle} | {passed} | {why} |"
        )
    return "\n".join(lines)


def _unmeasured(specimens: Sequence[Specimen]) -> str:
    lines = ["| specimen | kind | what it does | why not |", "| --- | --- | --- | --- |"]
    lines += [f"| `{s.name}` | {s.kind} | {s.does} | {s.unmeasured} |" for s in specimens]
    return "\n".join(lines)
