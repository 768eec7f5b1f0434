"""Our Tobit fit beside lifelines' log-normal accelerated failure time model."""

from __future__ import annotations

import importlib.util
import time
import warnings

import numpy as np

from infrarsi.records.bench_models import Agreement
from infrarsi.search.features import memory_columns
from infrarsi.search.lattice import Lattice
from infrarsi.search.mixture import Bools, Floats
from infrarsi.search.tobit import TobitData, TobitPrior, fit_tobit
from infrarsi.stages.tables.replaying import Pool, pool_of
from infrarsi.store.table import Table

_LEAST_MEASURED = 10
_WEAK = 1e3


def agreement_with_lifelines(table: Table) -> Agreement | None:
    """Fit both on every task with measured peaks; ``None`` where lifelines is not installed."""
    if importlib.util.find_spec("lifelines") is None:
        return None
    differences, ours_s, theirs_s, tried = [], 0.0, 0.0, 0
    for task in table.tasks:
        found = _columns(pool_of(table.sidecar, task))
        if found is None:
            continue
        tried += 1
        columns, logs, above = found
        num = columns.shape[1]
        prior = TobitPrior(
            np.zeros(num), np.full(num, _WEAK), np.zeros(num, dtype=np.int64), log_sigma_sd=_WEAK
        )
        started = time.perf_counter()
        ours = fit_tobit(TobitData(columns, logs, above.astype(np.int64)), prior)
        ours_s += time.perf_counter() - started
        started = time.perf_counter()
        theirs = _theirs(columns, logs, above)
        theirs_s += time.perf_counter() - started
        if theirs is not None:
            coefficients, errors = theirs
            differences.append(float(np.abs((ours.coefficients - coefficients) / errors).max()))
    return Agreement(
        num_fits=tried, num_converged=len(differences),
        largest_difference=max(differences) if differences else None,
        median_difference=float(np.median(differences)) if differences else None,
        ours_s=ours_s, theirs_s=theirs_s,
    )  # fmt: skip


def _columns(pool: Pool) -> tuple[Floats, Floats, Bools] | None:
    """Give a task's design, whose columns are independent, its log peaks and which are censored."""
    used = [
        i for i, row in enumerate(pool.rows) if row.status == "oom" or row.peak_bytes is not None
    ]
    above = np.array([pool.rows[i].status == "oom" for i in used], dtype=np.bool_)
    lattice = Lattice(pool.space, pool=pool.points)
    table = memory_columns(lattice).of(pool.points[used])
    columns: list[Floats] = [np.ones(len(used))]
    for column in table.T:
        wider = np.column_stack([*columns, column])
        if np.linalg.matrix_rank(wider[~above]) == wider.shape[1]:
            columns.append(column)
    if (~above).sum() < max(_LEAST_MEASURED, 2 * len(columns)):
        return None
    capacity = float(np.log(pool.space.capacity_bytes))
    logs = [
        capacity if is_above else float(np.log(pool.rows[i].peak_bytes or 1))
        for i, is_above in zip(used, above, strict=True)
    ]
    # In units of the median: lifelines loses its way among numbers of 1e10.
    centred = np.array(logs) - float(np.median(logs))
    return np.column_stack(columns), centred, above


def _theirs(columns: Floats, logs: Floats, above: Bools) -> tuple[Floats, Floats] | None:
    """Give lifelines' coefficients and standard errors, or ``None`` where it does not converge."""
    from lifelines import LogNormalAFTFitter
    from lifelines.exceptions import ConvergenceError, ConvergenceWarning
    from pandas import DataFrame

    frame = DataFrame({f"x{i}": columns[:, i] for i in range(1, columns.shape[1])})
    frame["peak"], frame["measured"] = np.exp(logs), ~above
    names = ["Intercept", *(f"x{i}" for i in range(1, columns.shape[1]))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", ConvergenceWarning)
        try:
            fitted = LogNormalAFTFitter().fit(frame, duration_col="peak", event_col="measured")
            mu, errors = fitted.params_["mu_"], fitted.standard_errors_["mu_"]
        except (ConvergenceError, ConvergenceWarning, ValueError, np.linalg.LinAlgError):
            return None
    found = np.array([float(mu[name]) for name in names])
    spread = np.array([float(errors[name]) for name in names])
    usable = bool(np.isfinite(found).all() and np.isfinite(spread).all() and (spread > 0).all())
    return (found, spread) if usable else None
