"""sweep: the candidates of a contract measured one by one, into a table that `bench` replays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from infrarsi.errors import UsageError
from infrarsi.records.candidate import Candidate, Patch
from infrarsi.records.history import Space
from infrarsi.records.plan import Contract
from infrarsi.records.table import MemoryColumn, MetricColumn, Sidecar, StatusColumn, TableKnob
from infrarsi.records.task import Knob
from infrarsi.records.trial import Trial
from infrarsi.search.lattice import Lattice
from infrarsi.stages.doctor import require_baseline
from infrarsi.stages.history import History, Screening
from infrarsi.stages.judging import measured_update_s, screen
from infrarsi.stages.launching.trial import Request, perform_trial
from infrarsi.stages.measured import status_of
from infrarsi.stages.naming import words_of
from infrarsi.stages.searching.parts import space_of
from infrarsi.stages.searching.propose import propose
from infrarsi.stages.workspace import Workspace
from infrarsi.store.table import written

_GIB = 2**30
_DRAWS = 40
"""How often as many candidates as are wanted are drawn from a space too large to list."""
_FIXED = (
    "contract", "cpu", "num_cpus", "capacity_gib", "update_s", "peak_gib", "status", "reason",
    "wall_s", "trial",
)  # fmt: skip
"""Columns besides knobs and patches."""


@dataclass(frozen=True)
class Swept:
    """What a sweep came to."""

    table: Path
    sidecar: Path
    num_planned: int
    num_measured: int
    """Candidates of the plan that were launched, however they ended."""
    by_status: dict[str, int]


def sweep(
    workspace: Workspace, *, sample: int | None, seed: int, output: Path | None,
    knobs: Sequence[str] = (), patches: Sequence[str] = (), max_trials: int | None = None,
    tell: Callable[[str], None],
) -> Swept:  # fmt: skip
    """Measure a grid of knobs and patches, or a seeded sample of it; the same command goes on.

    Every launch is judged as in a search: what the judge refuses counts as failed. The table is
    written after each, so that a stop loses nothing.

    Parameters
    ----------
    workspace
        The locked repository, with a baseline on this machine.
    sample
        How many candidates, the reference among them; ``None``: all of them.
    seed
        Draws the sample and the order.
    output
        The CSV file; ``None``: in the state folder, by the contract's name.
    knobs, patches
        Names to turn; none: all of them.
    max_trials
        Launches of this command at most.

    Raises
    ------
    UsageError
        There is no baseline, a name is unknown, or the grid is too large to measure whole.
    """
    history = History.of(workspace.ledger.events)
    require_baseline(workspace, history)
    if not history.proposed:
        history.fold(workspace.begin("sweep"))
        history.fold(workspace.ledger.append("proposed", propose(workspace)))
    space = _narrowed(space_of(workspace.contract, history), knobs, patches)
    if not space.patches and all(len(knob.values) < 2 for knob in space.knobs):
        raise UsageError(
            "there is nothing to turn: no knob with two values, and no patch",
            hint="name knobs in infrarsi.yaml (task.surface.knobs), or let the patchbook propose",
        )
    planned = candidates_of(space, sample, seed=seed)
    table = output or workspace.folder / f"{workspace.contract.name}-sweep.csv"
    table.parent.mkdir(parents=True, exist_ok=True)
    done = {trial.candidate.digest(): trial for trial in history.trials_for("sweep")}
    todo = [each for each in planned if each.digest() not in done]
    writer = _Writer(workspace, history, space, table)
    if todo and max_trials != 0:
        history.fold(workspace.begin("sweep"))
    for candidate in todo[:max_trials]:
        trial = _measure(workspace, history, candidate)
        done[candidate.digest()] = trial
        status = writer.write([done[each.digest()] for each in planned if each.digest() in done])
        words = words_of(candidate, workspace.contract.task.surface.default_knobs())
        count = sum(each.digest() in done for each in planned)
        tell(f"{count} of {len(planned)}: {words}: {status[trial.trial_id]}")
    status = writer.write([done[each.digest()] for each in planned if each.digest() in done])
    counts = {name: list(status.values()).count(name) for name in dict.fromkeys(status.values())}
    return Swept(table, table.with_suffix(".yaml"), len(planned), len(status), counts)


def candidates_of(space: Space, sample: int | None, *, seed: int) -> tuple[Candidate, ...]:
    """Give the candidates to measure in their order: the reference, then a seeded shuffle.

    Raises
    ------
    UsageError
        All are wanted, and there are more than can be listed.
    """
    lattice, rng = Lattice(space), np.random.default_rng([seed, 11])
    listing = lattice.listing()
    if listing is None and sample is None:
        raise UsageError(
            f"the grid holds about {lattice.size():,.0f} candidates, too many to measure",
            hint="give --sample N, or name fewer knobs and patches with --knob and --patch",
        )
    rows: list[tuple[int, ...]] = [lattice.reference]
    if listing is not None:
        rows += map(tuple, listing[rng.permutation(len(listing))].tolist())
    else:
        assert sample is not None
        for _ in range(_DRAWS):
            rows += map(tuple, lattice.sample(sample, rng).tolist())
            if len(dict.fromkeys(rows)) >= sample:
                break
    distinct = [point for point in dict.fromkeys(rows) if lattice.is_feasible(point)]
    return tuple(lattice.candidate_of(point) for point in distinct[:sample])


def _narrowed(space: Space, knobs: Sequence[str], patches: Sequence[str]) -> Space:
    """Leave what is not named at its default, and out."""
    known = {"knob": [k.name for k in space.knobs], "patch": [p.name for p in space.patches]}
    for kind, names in (("knob", knobs), ("patch", patches)):
        for name in names:
            if name not in known[kind]:
                listed = ", ".join(known[kind]) or "none"
                raise UsageError(f"there is no {kind} {name!r}", hint=f"there are: {listed}")
    if not knobs and not patches:
        return space
    turned = tuple(
        knob if knob.name in knobs else knob.model_copy(update={"values": (knob.default,)})
        for knob in space.knobs
    )
    carried = tuple(patch for patch in space.patches if patch.name in patches)
    return space.model_copy(update={"knobs": turned, "patches": carried})


def _measure(workspace: Workspace, history: History, candidate: Candidate) -> Trial:
    number = len(history.trials_for("sweep"))
    request = Request(candidate, "sweep", replicate=number, remarks={"reason": "sweep"})
    seen = len(workspace.ledger.events)
    trial = perform_trial(workspace, request, patches=history.patches)
    for event in workspace.ledger.events[seen:]:
        history.fold(event)
    return trial


class _Writer:
    """Writes the table, and judges each trial once."""

    def __init__(self, workspace: Workspace, history: History, space: Space, table: Path) -> None:
        self._workspace, self._history, self._table = workspace, history, table
        self._knobs = [knob for knob in space.knobs if len(knob.values) > 1]
        self._patches = [patch.name for patch in space.patches]
        self._rows: dict[str, dict[str, Any]] = {}
        sidecar = _sidecar(workspace.contract, self._knobs, space.patches, table.name)
        text = yaml.safe_dump(sidecar, sort_keys=False, allow_unicode=True)
        table.with_suffix(".yaml").write_text(text, encoding="utf-8")

    def write(self, trials: Sequence[Trial]) -> dict[str, str]:
        """Write the rows of these trials; give each trial's status."""
        for trial in trials:
            if trial.trial_id not in self._rows:
                self._rows[trial.trial_id] = self._row(trial)
        rows = [self._rows[trial.trial_id] for trial in trials]
        names = [*(knob.name for knob in self._knobs), *self._patches]
        written(rows, [*_FIXED[:4], *names, *_FIXED[4:]], self._table)
        return {trial.trial_id: self._rows[trial.trial_id]["status"] for trial in trials}

    def _row(self, trial: Trial) -> dict[str, Any]:
        verdict = screen(self._workspace, self._history, trial)
        update_s = measured_update_s(self._workspace, trial)
        status = status_of(Screening(trial, "sweep", None, verdict, update_s))
        reasons = [f"{each.layer}: {each.reason}" for each in verdict.reasons] if verdict else []
        contract, machine = self._workspace.contract, self._history.machine
        ok = status == "ok" and update_s is not None
        peak = trial.peak_bytes / _GIB if ok and trial.peak_bytes is not None else None
        return {
            "contract": contract.name, "cpu": machine.cpu if machine else "",
            "num_cpus": machine.num_cpus if machine else "",
            "capacity_gib": f"{contract.task.memory.capacity_bytes / _GIB:.4f}",
            **{knob.name: trial.candidate.knobs[knob.name] for knob in self._knobs},
            **{name: name in trial.candidate.patches for name in self._patches},
            "update_s": f"{update_s:.6g}" if ok else "",
            "peak_gib": f"{peak:.4f}" if peak is not None else "",
            "status": status if ok or status != "ok" else "failed",
            "reason": trial.reason or "; ".join(reasons), "wall_s": f"{trial.wall_s:.2f}",
            "trial": trial.trial_id,
        }  # fmt: skip


def _sidecar(
    contract: Contract, knobs: Sequence[Knob], patches: Sequence[Patch], table: str
) -> dict[str, Any]:
    """Say what the columns mean, in the form that every table's sidecar has."""
    described = {knob.name: described_knob(knob) for knob in knobs}
    described |= {
        patch.name: TableKnob(
            scale="category", patch=True, may_decide=True, log_time=patch.log_time,
            log_memory=patch.log_memory,
        )
        for patch in patches
    }  # fmt: skip
    sidecar = Sidecar(
        table=table, task=("contract", "num_cpus", "capacity_gib"), context={"cpu": "category"},
        knobs=described, metric=MetricColumn(column="update_s", direction="min", unit="s/update"),
        memory=MemoryColumn(column="peak_gib", capacity="capacity_gib", unit="GiB"),
        status=StatusColumn(column="status", ok=("ok",), oom=("oom",)),
    )  # fmt: skip
    return sidecar.model_dump(mode="json", exclude_defaults=True)


def described_knob(knob: Knob) -> TableKnob:
    """Give a knob's scale, and the way memory goes along its values in their natural order."""
    numbers = [float(v) for v in knob.values if isinstance(v, int | float)]
    if len(numbers) < len(knob.values):
        return TableKnob(scale="category", may_decide=True)
    rising = numbers == sorted(numbers)
    way = knob.raises_memory if rising or numbers == sorted(numbers, reverse=True) else None
    if way is not None and not rising:
        way = "down" if way == "up" else "up"
    doubles = min(numbers) > 0 and max(numbers) >= 4 * min(numbers)
    return TableKnob(scale="log2" if doubles else "ordinal", raises_memory=way, may_decide=True)
