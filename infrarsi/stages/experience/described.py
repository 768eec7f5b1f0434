"""Describing a search in figures that can be compared with another's: its training and machine."""

from __future__ import annotations

import hashlib
from collections import Counter

from infrarsi.bank.accelerators import data_sheet
from infrarsi.frameworks.catalogue import role_of
from infrarsi.records.baseline import Baseline
from infrarsi.records.experience import Hardware, TrainingContext
from infrarsi.records.machine import Machine
from infrarsi.records.plan import Contract
from infrarsi.stages.history import History
from infrarsi.stages.launching.trial import evidence_of
from infrarsi.stages.workspace import Workspace


def pack_id(workspace: Workspace, machine: Machine) -> str:
    """Give the id of the pack of a search: of the locked task, its commit and the machine."""
    said = f"{workspace.lock.task_digest}/{workspace.lock.commit}/{machine.digest()}"
    return hashlib.sha256(said.encode()).hexdigest()[:12]


def context_of(workspace: Workspace, history: History) -> TrainingContext:
    """Describe the training, as the reference's launch showed it."""
    task, baseline = workspace.contract.task, history.baseline
    assert baseline is not None, "a search has a baseline"
    evidence = evidence_of(workspace, history.trials[baseline.reference_trial])
    shapes = evidence.marks[0].shapes if evidence.marks else ()
    sizes = Counter(size for shape in shapes if len(shape) > 1 for size in shape)
    return TrainingContext(
        kind=f"{task.objective.metric}, {task.memory.unit}",
        num_parameters=baseline.num_parameters, num_tensors=len(shapes) or None,
        width=max(sizes, key=lambda size: (sizes[size], size), default=None),
        longest=max(sizes, default=None),
        tokens_per_update=task.workload.tokens_per_update or evidence.tokens_per_update,
        num_ranks=evidence.world_size or 1, matmul=tuple(sorted(task.numerics.matmul)),
        memory_share=round(baseline.peak_bytes / task.memory.capacity_bytes, 3) or None,
    )  # fmt: skip


def hardware_of(contract: Contract, machine: Machine, baseline: Baseline) -> Hardware:
    """Describe the machine in figures that can be compared with another's."""
    memory = contract.task.memory
    uses_gpus = memory.unit == "cuda_allocated" and bool(machine.accelerators)
    peaks: dict[str, float | None] = {"float32": baseline.peak_flops}
    sheet = data_sheet(machine.accelerators[0].name) if uses_gpus else None
    if sheet is not None:
        peaks |= {"bfloat16": sheet.bfloat16, "float16": sheet.float16}
    return Hardware(
        device="cuda" if uses_gpus else "cpu",
        name=machine.accelerators[0].name if uses_gpus else machine.cpu,
        num=len(machine.accelerators) if uses_gpus else machine.num_cpus,
        memory_bytes=memory.capacity_bytes,
        bandwidth_bytes_s=sheet.bandwidth_bytes_s if sheet else None,
        interconnect_bytes_s=sheet.interconnect_bytes_s if sheet else None,
        peak_flops={name: float(f"{peak:.3g}") for name, peak in peaks.items() if peak},
        python=_minor(machine.python), torch=_minor(machine.torch),
        cuda=_minor(machine.cuda) if machine.cuda else None,
    )  # fmt: skip


def roles_of(contract: Contract) -> dict[str, str]:
    """Give what the knobs of a contract are, by name, as far as it is known."""
    found = {knob.name: role_of(knob) for knob in contract.task.surface.knobs}
    return {name: role for name, role in found.items() if role is not None}


def _minor(version: str) -> str:
    """Give a version without its patch level: ``2.13`` of ``2.13.0+cpu``."""
    return ".".join(version.split("+", maxsplit=1)[0].split(".")[:2])
