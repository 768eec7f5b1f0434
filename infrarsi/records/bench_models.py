"""How well the models of time and memory predict what a table holds."""

from __future__ import annotations

from infrarsi.records.base import Record


class MemoryScore(Record):
    """One way to learn memory, from so many trials of a task, scored on the task's other rows."""

    way: str
    """``tobit``: an OOM lies above the capacity; ``dropped``: OOMs teach nothing; ``capacity``: an
    OOM took just the capacity."""
    observed: int
    chosen: str
    """``random`` rows, or those of a ``search``."""
    num_tasks: int
    num_rows: int
    fit_error: float
    """Share of rows whose fit or no fit was told wrongly."""
    log_likelihood: float
    """Mean log probability of what happened: fit or no fit."""
    coverage: float | None
    """Share of measured peaks inside the 90 % interval; ``None``: none was measured."""
    peak_log_error: float | None
    """Median of |log(predicted / measured)| of peaks."""


class TimeScore(Record):
    """One way to predict time, scored on a model size that it saw nothing of."""

    way: str
    """``formula and process``, ``process`` or ``forest``."""
    left_out: str
    """The size, or ``all``: the mean over sizes."""
    num_rows: int
    median_log_error: float
    """Median of |log(predicted / measured)|."""
    rank_correlation: float | None
    """Spearman's, over the size's rows."""
    coverage: float | None
    """Share inside the 90 % interval, where the way gives one."""


class Agreement(Record):
    """How our Tobit fit compares with lifelines' on the same rows and columns, without priors."""

    num_fits: int
    num_converged: int
    """Fits of lifelines that converged."""
    largest_difference: float | None
    """Of any coefficient, in standard errors, where it converged."""
    median_difference: float | None
    ours_s: float
    theirs_s: float


class ModelReport(Record):
    """Everything that `bench --models` found."""

    table: str
    table_digest: str
    memory: tuple[MemoryScore, ...]
    time: tuple[TimeScore, ...]
    agreement: Agreement | None
    notes: tuple[str, ...] = ()
