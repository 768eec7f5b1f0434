"""A small real training in numpy, and the evidence that a witness would give of it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace

import numpy as np

from infrarsi.judge.bands import bands_from_null
from infrarsi.judge.case import Case, Launch
from infrarsi.judge.facts import LaunchFacts, SourceFacts
from infrarsi.records.baseline import Baseline
from infrarsi.records.estimate import Estimate
from infrarsi.records.evidence import Evidence, MarkSeen, UpdateSeen
from infrarsi.records.task import Memory, Numerics, Surface, Task, Window
from infrarsi.records.trial import Outcome

VOCABULARY, WIDTH, SEQUENCES, LENGTH = 48, 16, 16, 9
WINDOW = Window(warmup_updates=4, measured_updates=12)
STOP = 22


@dataclass(frozen=True)
class Recipe:
    """How to train. The defaults are the reference."""

    micro_batches: int = 1
    permute: bool = False
    ulps: float = 0.0
    bf16_matmul: bool = False
    bf16_state: bool = False
    skip_layer: bool = False
    drop_micro_batch: bool = False
    half_batch: bool = False
    truncate: int = LENGTH
    step_every: int = 1
    frozen: tuple[int, ...] = ()
    reuse_batch: bool = False
    undivided_loss: bool = False
    late_hack_from: int = 10_000
    other_weights: bool = False
    lr: float = 3e-3
    updates: int = STOP


@dataclass(frozen=True)
class Clock:
    """How long updates take."""

    update_s: float = 0.1
    spread: float = 0.01
    cold_s: float = 3.0
    tail_factor: float = 1.0
    lump_s: float = 0.0
    seed: int = 0

    def stamps_ns(self, updates: int) -> np.ndarray:
        rng = np.random.default_rng(self.seed)
        intervals = self.update_s * np.exp(self.spread * rng.standard_normal(updates))
        intervals[0] += self.cold_s
        intervals[WINDOW.last_update :] *= self.tail_factor
        intervals[WINDOW.last_update : WINDOW.last_update + 1] += self.lump_s
        return (np.cumsum(intervals) * 1e9).astype(np.int64)


@dataclass
class Record:
    """What training left to be seen."""

    updates: list[dict] = field(default_factory=list)
    marks: dict[int, list[np.ndarray]] = field(default_factory=dict)


def bf16(values: np.ndarray) -> np.ndarray:
    bits = values.astype(np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
    return rounded.astype(np.uint32).view(np.float32)


def data_of_update(update: int) -> np.ndarray:
    rng = np.random.default_rng(1000 + update)
    start = rng.integers(0, VOCABULARY, (SEQUENCES, 1))
    strides = rng.integers(1, 4, (SEQUENCES, LENGTH - 1))
    return np.concatenate([start, start + np.cumsum(strides, axis=1)], axis=1) % VOCABULARY


def digest_of(rows: np.ndarray) -> str:
    total = sum(
        int.from_bytes(hashlib.sha256(row.tobytes()).digest()[:8], "big") for row in rows
    )  # fmt: skip
    return f"{total % 2**64:016x}"


def initial_parameters(recipe: Recipe) -> list[np.ndarray]:
    rng = np.random.default_rng(8 if recipe.other_weights else 7)
    shapes = [(VOCABULARY, WIDTH), (WIDTH, WIDTH), (WIDTH, WIDTH), (WIDTH, VOCABULARY)]
    parameters = [(0.3 * rng.standard_normal(shape)).astype(np.float32) for shape in shapes]
    if recipe.ulps:
        noise = np.random.default_rng(int(recipe.ulps * 100))
        parameters = [
            (p + recipe.ulps * np.spacing(np.abs(p)) * noise.choice([-1, 0, 1], p.shape)).astype(
                np.float32
            )
            for p in parameters
        ]
    return parameters


def gradients_of(
    parameters: list[np.ndarray], rows: np.ndarray, recipe: Recipe, skip: bool
) -> tuple[float, list[np.ndarray]]:
    """Loss and gradients, mean over the targets of these rows."""
    cast = bf16 if recipe.bf16_matmul else (lambda values: values)
    embed, first, second, head = parameters
    rows = rows[:, : recipe.truncate]
    inputs, targets = rows[:, :-1].ravel(), rows[:, 1:].ravel()
    x0 = embed[inputs]
    h1 = np.tanh(cast(x0) @ cast(first))
    x1 = x0 + h1
    h2 = np.tanh(cast(x1) @ cast(second)) if not skip else np.zeros_like(x1)
    x2 = x1 + h2
    logits = cast(x2) @ cast(head)
    logits -= logits.max(axis=1, keepdims=True)
    weights = np.exp(logits)
    weights /= weights.sum(axis=1, keepdims=True)
    count = np.float32(len(targets))
    loss = -np.log(weights[np.arange(len(targets)), targets]).sum(dtype=np.float32) / count
    d = weights
    d[np.arange(len(targets)), targets] -= 1
    d /= count
    g_head = cast(x2).T @ cast(d)
    dx2 = cast(d) @ cast(head).T
    dh2 = dx2 * (1 - h2**2) * (0 if skip else 1)
    g_second = cast(x1).T @ cast(dh2)
    dx1 = dx2 + cast(dh2) @ cast(second).T
    dh1 = dx1 * (1 - h1**2)
    g_first = cast(x0).T @ cast(dh1)
    dx0 = dx1 + cast(dh1) @ cast(first).T
    g_embed = np.zeros_like(embed)
    np.add.at(g_embed, inputs, dx0)
    return float(loss), [g_embed, g_first, g_second, g_head]


def train(recipe: Recipe) -> Record:
    """Train with AdamW, and record what the witness would have seen."""
    parameters = initial_parameters(recipe)
    moments = [[np.zeros_like(p) for p in parameters] for _ in range(2)]
    record = Record()
    record.marks[0] = [p.copy() for p in parameters]
    for update in range(1, recipe.updates + 1):
        hacked = update >= recipe.late_hack_from
        rows = data_of_update(1 if recipe.reuse_batch else update)
        if recipe.half_batch:
            rows = rows[: SEQUENCES // 2]
        if recipe.permute:
            rows = rows[::-1]
        parts = np.array_split(rows, recipe.micro_batches)
        trained = parts[:-1] if recipe.drop_micro_batch else parts
        loss, gradients = 0.0, [np.zeros_like(p) for p in parameters]
        for part in trained:
            part_loss, part_gradients = gradients_of(
                parameters, part, recipe, recipe.skip_layer or hacked
            )
            share = 1 if recipe.undivided_loss else 1 / recipe.micro_batches
            loss += part_loss * share
            for i, each in enumerate(part_gradients):
                gradients[i] += each / np.float32(recipe.micro_batches)
        before = [p.copy() for p in parameters]
        if update % recipe.step_every == 0:
            _step(parameters, gradients, moments, update, recipe)
        record.updates.append({
            "loss": np.float32(loss),
            "grad_norm": np.float32(np.sqrt(sum(float((g**2).sum()) for g in gradients))),
            "update_norm": np.float32(np.sqrt(
                sum(float(((p - b).astype(np.float64) ** 2).sum())
                    for p, b in zip(parameters, before, strict=True))
            )),
            "batch": digest_of(rows), "sequences": len(rows), "tokens": rows.size,
            "target_tokens": len(rows) * (LENGTH - 1), "forwards": len(trained),
        })  # fmt: skip
        if update in (WINDOW.warmup_updates, WINDOW.last_update):
            record.marks[update] = [p.copy() for p in parameters]
    return record


def _step(parameters, gradients, moments, update, recipe) -> None:
    keep = bf16 if recipe.bf16_state else (lambda values: values)
    for i, g in enumerate(gradients):
        if i in recipe.frozen:
            continue
        p = parameters[i]
        m, v = moments[0][i], moments[1][i]
        m[:] = keep(0.9 * m + 0.1 * g)
        v[:] = keep(0.99 * v + 0.01 * g * g)
        ratio = (m / (1 - 0.9**update)) / (np.sqrt(v / (1 - 0.99**update)) + 1e-6)
        parameters[i] = p - np.float32(recipe.lr) * (ratio + np.float32(0.01) * p)


def evidence_of(recipe: Recipe | None = None, clock: Clock | None = None) -> Evidence:
    """The evidence of one launch, of one rank."""
    recipe, clock = recipe or Recipe(), clock or Clock()
    record = train(recipe)
    stamps = clock.stamps_ns(recipe.updates)
    updates = []
    for index, seen in enumerate(record.updates):
        values = {name: seen[name] for name in ("loss", "grad_norm", "update_norm")}
        broken = tuple(name for name, value in values.items() if not np.isfinite(value))
        finite = {k: float(v) if k not in broken else None for k, v in values.items()}
        rest = {k: v for k, v in seen.items() if k not in values}
        updates.append(
            UpdateSeen(
                update=index + 1, t_ns=int(stamps[index]), non_finite=broken, **finite, **rest
            )
        )
    marks = [
        mark_of(
            update, parameters, 0 if update == 0 else int(stamps[update - 1]) + 1_000_000, recipe
        )
        for update, parameters in record.marks.items()
    ]
    return Evidence(
        hello={"kind": "hello"},
        updates=tuple(updates),
        marks=tuple(marks),
        ranks={0: tuple(updates)},
    )


def mark_of(update, parameters, t_ns, recipe) -> MarkSeen:
    size = sum(p.size for p in parameters)
    state = "bfloat16" if recipe.bf16_state else "float32"
    matmul = "bfloat16" if recipe.bf16_matmul else "float32"
    census = {"parameters": {"float32": size}}
    if update:
        census |= {
            "gradients": {"float32": size},
            "optimizer_state": {state: 2 * size},
            "matmul": {matmul: 40},
        }
    return MarkSeen(
        update=update,
        t_ns=t_ns,
        sketch=tuple(tuple(np.nan_to_num(p.ravel()[:200], nan=0.0).tolist()) for p in parameters),
        shapes=tuple(p.shape for p in parameters),
        census=census,
        flags={"cuda.matmul.allow_tf32": False, "float32_matmul_precision": "highest"},
        num_threads=4,
        num_children=0,
    )


def facts_of(**changes) -> LaunchFacts:
    known = {"trial_id": "t1", "outcome": Outcome.OK, "stop_update": STOP, "wall_s": 8.0}
    return LaunchFacts(**(known | changes))


def source_of(**changes) -> SourceFacts:
    known = {
        "protected_before": {"data.py": "aa", "eval.py": "bb"},
        "protected_after": {"data.py": "aa", "eval.py": "bb"},
        "tree_expected": "c" * 40,
        "tree_ran": "c" * 40,
        "changed_paths": ("model.py",),
        "allowed_roots": ("/repo",),
    }
    return SourceFacts(**(known | changes))


def launch_of(recipe=None, clock=None, *, evidence=None, facts=None, source=None) -> Launch:
    return Launch(
        evidence or evidence_of(recipe, clock), facts or facts_of(), source or source_of()
    )


def task_of(**numerics) -> Task:
    return Task(
        command=("python", "train.py"),
        window=WINDOW,
        surface=Surface(editable=("model.py",)),
        memory=Memory(capacity_bytes=1 << 30),
        numerics=Numerics(**numerics),
    )


NULLS = (
    ("A/A", Recipe()),
    ("1 ulp", Recipe(ulps=1)),
    ("2 ulps", Recipe(ulps=2)),
    ("4 ulps", Recipe(ulps=4)),
    ("regroup 2", Recipe(micro_batches=2)),
    ("1.5 ulps", Recipe(ulps=1.5)),
)


def baseline_of(bands, **changes) -> Baseline:
    known = {
        "task_digest": "t", "machine_digest": "m", "trials": ("a",), "null_trials": ("n",),
        "update_s": Estimate(low=0.099, point=0.1, high=0.101), "cold_start_s": 3.0,
        "launch_s": 5.0, "peak_bytes": 1000, "phase_share": {"step": 1.0}, "noise_sd": 0.01,
        "bias": 0.001, "least_detectable": 0.02, "bands": bands, "nondeterministic": False,
        "reference_trial": "r", "wall_s": 30.0,
    }  # fmt: skip
    return Baseline(**(known | changes))


class Bench:
    """One reference with its null bands, made once: the fixture that most tests share."""

    def __init__(self) -> None:
        self.task = task_of()
        self.reference = launch_of(clock=Clock(seed=99), facts=facts_of(trial_id="r"))
        self.nulls = [(label, evidence_of(recipe)) for label, recipe in NULLS]
        self.bands = bands_from_null(
            self.reference.evidence, self.nulls, self.task.numerics, WINDOW
        )
        self.baseline = baseline_of(self.bands)

    def case(self, candidate: Launch | None = None, **changes) -> Case:
        known = {
            "subject": "cand", "task": self.task, "baseline": self.baseline,
            "candidate": candidate or launch_of(clock=Clock(update_s=0.08, seed=3)),
            "reference": self.reference,
        }  # fmt: skip
        return Case(**(known | changes))

    def trained(self, recipe: Recipe, **changes) -> Case:
        return self.case(launch_of(recipe, Clock(update_s=0.08, seed=3)), **changes)


def edited(evidence: Evidence, update: int, **changes) -> Evidence:
    """The evidence with one update's fields changed."""
    rows = tuple(
        row.model_copy(update=changes) if row.update == update else row for row in evidence.updates
    )
    return evidence.model_copy(update={"updates": rows, "ranks": {0: rows}})


def changed_launch(launch: Launch, evidence: Evidence) -> Launch:
    return replace(launch, evidence=evidence)
