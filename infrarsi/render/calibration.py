"""How what the models said before a trial stood up to it, in words."""

from __future__ import annotations

from infrarsi.records.report import TrialRow
from infrarsi.render import numbers
from infrarsi.render.document import Line, line
from infrarsi.render.rows import is_memory_failure

_LIKELY = 0.5


def calibration_lines(rows: tuple[TrialRow, ...]) -> tuple[Line, ...]:
    """Give a line on predicted times and one on predicted fits, where any met a measurement."""
    return (*_times(rows), *_fits(rows))


def _times(rows: tuple[TrialRow, ...]) -> tuple[Line, ...]:
    pairs = [(r.predicted_update_s, r.update_s) for r in rows]
    known = [(p, s) for p, s in pairs if p is not None and s is not None]
    if not known:
        return ()
    inside = sum(estimate.low <= seconds <= estimate.high for estimate, seconds in known)
    return (
        line(
            f"Predicted before measured: the time of {inside} of "
            f"{numbers.counted(len(known), 'trial')} fell inside the interval predicted for it."
        ),
    )


def _fits(rows: tuple[TrialRow, ...]) -> tuple[Line, ...]:
    """Hold the chance to fit, as it was told, against whether trials did."""
    told = [
        (row.p_fits, not is_memory_failure(row))
        for row in rows
        if row.p_fits is not None and (row.peak_bytes is not None or is_memory_failure(row))
    ]
    if not told:
        return ()
    expected = sum(chance for chance, _ in told)
    fitted = sum(fits for _, fits in told)
    right = sum((chance >= _LIKELY) == fits for chance, fits in told)
    return (
        line(
            f"Of {numbers.counted(len(told), 'trial')} whose chance to fit in memory was told "
            f"beforehand, {expected:.1f} were expected to fit and {fitted} did; fit or no fit was "
            f"told rightly of {right}."
        ),
    )
