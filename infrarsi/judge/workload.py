"""Layer 2: the same sequences, the same targets, the same number of updates, all learnt from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Literal, TypeAlias

import numpy as np

from infrarsi.judge.case import Case, Launch
from infrarsi.judge.findings import fails, passes, unsure
from infrarsi.judge.series import Sketch, length_of, rows_of
from infrarsi.records.evidence import Evidence, UpdateSeen
from infrarsi.records.verdict import Finding, Layer

_LAYER: Layer = "workload"
_Count: TypeAlias = Literal["sequences", "tokens", "target_tokens"]
_Batch: TypeAlias = tuple[str, ...] | None
"""The digests of all ranks, sorted: which rank saw a sequence does not matter."""
_MOVED = 16 * float(np.finfo(np.float32).eps)
"""A tensor of the reference has moved when its displacement exceeds this share of its norm."""


def judge_workload(case: Case) -> list[Finding]:
    """Check that the candidate trains the same model on the same data, update by update.

    Parameters
    ----------
    case : Case
        The candidate's launch and the reference's, of the same seed and data.

    Notes
    -----
    Compared are all updates up to the window's end, and those after it that both arms ended.
    When not to trust it: the batch digest is taken where the outermost model is called, so it
    does not see work skipped *inside* the model; numerics does.
    """
    silent = judge_presence(case)
    if silent:
        return silent
    return [
        judge_batches(case),
        *(_judge_count(case, name) for name in ("sequences", "tokens", "target_tokens")),
        _judge_size(case),
        *_judge_movement(case),
    ]


def judge_presence(case: Case) -> list[Finding]:
    """Say what is missing before anything can be compared; empty where nothing is."""
    last = case.task.window.last_update
    for arm, launch in (("candidate", case.candidate), ("reference", case.reference)):
        evidence = launch.evidence
        if evidence.hello is None:
            return [
                unsure(
                    _LAYER, "witness", f"the witness never spoke in the {arm}'s launch",
                    hint="the program may start Python with -I, -S or -E, reset PYTHONPATH, or "
                    "never train; nothing is known about what it did",
                )
            ]  # fmt: skip
        if evidence.greeted and evidence.missing_ranks:
            missing = ", ".join(map(str, evidence.missing_ranks[:8]))
            return [
                unsure(
                    _LAYER, "ranks",
                    f"of {evidence.world_size} ranks in the {arm}'s launch, "
                    f"{len(evidence.missing_ranks)} never spoke: rank {missing}",
                    hint="every rank must train where the witness can see it; nothing is known "
                    "about what the silent ones did",
                )
            ]  # fmt: skip
        seen = min(len(rows) for rows in rows_of(evidence))
        if seen < last:
            return [
                unsure(
                    _LAYER, "updates",
                    f"the witness counted {seen} updates in the {arm}'s launch; the window ends "
                    f"at update {last}",
                    hint="the launch made fewer optimizer steps than it claims, ended too soon, "
                    "or steps where the witness cannot see",
                )
            ]  # fmt: skip
    return []


def judge_batches(case: Case) -> Finding:
    """Check that every update that both arms made saw the same multiset of sequences."""
    alone, mine, theirs = _paired(case)
    last = case.task.window.last_update
    for arm, digests in (("candidate", mine), ("reference", theirs)):
        missing = [i + 1 for i, each in enumerate(digests[:last]) if each is None]
        if missing:
            return unsure(
                _LAYER, "batch_digest",
                f"the {arm}'s batch of update {missing[0]} was not seen "
                f"({len(missing)} of {last} updates)",
                hint="the witness hashes integer inputs of the outermost model; where batches "
                "reach the model another way, the data cannot be compared",
            )  # fmt: skip
    pairs = list(zip(mine, theirs, strict=False))
    wrong = _differing(mine, theirs)
    if wrong:
        words = (
            f"update {wrong[0]} did not train on the reference's batch "
            f"({len(wrong)} of {len(pairs)} updates differ, none may): "
            f"{_digests_in_words(wrong[0], mine, theirs)}{_explain(wrong[0], mine, theirs)}"
        )
        if batches_moved(case) is not None:
            return unsure(
                _LAYER, "batch_digest",
                f"{words}; but the data are drawn from the program's global generator, as a null "
                "launch that stirred it showed: a change that draws other numbers moves them",
                hint="give the data a generator of their own (torch.Generator) and lock anew, or "
                "keep the order in which numbers are drawn",
            )  # fmt: skip
        return fails(
            _LAYER, "batch_digest", words,
            hint="the global batch of every update must hold the same sequences; regrouping "
            "and permuting inside an update are allowed",
        )  # fmt: skip
    what = "token ids" if alone else "batches"
    note = "; targets enter the model in one arm only, and are judged by the loss" if alone else ""
    return passes(
        _LAYER, "batch_digest",
        f"the {what} of all {len(pairs)} updates equal the reference's{note}",
    )  # fmt: skip


def batches_moved(case: Case) -> int | None:
    """Give the first update whose batch other random numbers explain; ``None`` where none is.

    Only where data are drawn from the program's global generator, as a null launch that stirred it
    showed, and where the batch is none that either arm saw at another update.
    """
    randomness = case.baseline.randomness if case.baseline else None
    first = randomness.data_from if randomness else None
    if first is None:
        return None
    _, mine, theirs = _paired(case)
    wrong = _differing(mine, theirs)
    if not wrong or wrong[0] < first or _explain(wrong[0], mine, theirs):
        return None
    return wrong[0]


def _paired(case: Case) -> tuple[bool, list[_Batch], list[_Batch]]:
    """Give both arms' digests, and whether they are of the ids alone."""
    # A patch may move the loss into the model, and the targets with it: ids are compared alone
    # then, and the targets are left to the loss.
    alone = _sees_targets(case.candidate.evidence) != _sees_targets(case.reference.evidence)
    mine, theirs = (
        _digests(each.evidence, ids_alone=alone) for each in (case.candidate, case.reference)
    )
    return alone, mine, theirs


def _differing(mine: Sequence[_Batch], theirs: Sequence[_Batch]) -> list[int]:
    pairs = enumerate(zip(mine, theirs, strict=False), start=1)
    return [update for update, (a, b) in pairs if a and b and not _same_batch(a, b)]


def _digests_in_words(update: int, mine: Sequence[_Batch], theirs: Sequence[_Batch]) -> str:
    """Give the hashes of what each arm's update saw, a rank after the other."""
    pair = [", ".join(each[update - 1] or ()) for each in (mine, theirs)]
    return f"its sequences hash to {pair[0]}, the reference's to {pair[1]}"


def _explain(update: int, mine: Sequence[_Batch], theirs: Sequence[_Batch]) -> str:
    """Say where a wrong batch came from, where it can be told."""
    batch = mine[update - 1]
    earlier = [i + 1 for i, each in enumerate(mine[: update - 1]) if each == batch]
    if earlier:
        return f"; it saw the batch of its own update {earlier[-1]} again"
    elsewhere = [i + 1 for i, each in enumerate(theirs) if each == batch]
    return f"; it saw the reference's batch of update {elsewhere[0]}" if elsewhere else ""


def _sees_targets(evidence: Evidence) -> bool:
    return any(row.target_tokens is not None for row in evidence.updates)


def _digests(evidence: Evidence, *, ids_alone: bool) -> list[_Batch]:
    found: list[_Batch] = []
    ranks = rows_of(evidence)
    if len(ranks) == 1:
        alone = [row.inputs if ids_alone else row.batch for row in ranks[0]]
        return [None if digest is None else (digest,) for digest in alone]
    for rows in zip(*ranks, strict=False):
        digests = (row.inputs if ids_alone else row.batch for row in rows)
        parts = [digest for digest in digests if digest is not None]
        found.append(tuple(sorted(parts)) if len(parts) == len(rows) else None)
    return found


def _same_batch(left: tuple[str, ...], right: tuple[str, ...]) -> bool:
    """Compare the ranks' digests, and their sum where sequences moved between ranks.

    Digests that are sums of sequence hashes modulo a power of two add up over ranks; of any
    other digest the sums differ, and the batches count as different.
    """
    if left == right:
        return True
    width = len(left[0])
    if any(len(each) != width for each in left + right) or len(left) + len(right) == 2:
        return False
    try:
        sums = [sum(int(each, 16) for each in side) % 16**width for side in (left, right)]
    except ValueError:
        return False
    return bool(sums[0] == sums[1])


def _judge_count(case: Case, name: _Count) -> Finding:
    mine, theirs = _counts(case.candidate.evidence, name), _counts(case.reference.evidence, name)
    words = name.replace("_", " ")
    last = case.task.window.last_update
    if all(each is None for each in theirs):
        return passes(_LAYER, name, f"the reference's {words} cannot be counted; not compared")
    pairs = list(zip(mine, theirs, strict=False))
    unseen = [i + 1 for i, (a, b) in enumerate(pairs[:last]) if a is None and b is not None]
    if unseen:
        return unsure(
            _LAYER, name,
            f"the {words} of update {unseen[0]} were not seen, though the reference's were",
            hint="the change hides them from the witness: keep them where the model is called",
        )  # fmt: skip
    wrong = [i for i, (a, b) in enumerate(pairs) if a is not None and b is not None and a != b]
    if name == "tokens" and wrong and _only_padding(case, wrong):
        reason = "input tokens differ by padding only: the sequences and the targets are equal"
        return passes(_LAYER, name, reason)
    if wrong:
        a, b = pairs[wrong[0]]
        return fails(
            _LAYER, name,
            f"update {wrong[0] + 1} had {a} {words}, the reference {b} "
            f"({len(wrong)} of {len(pairs)} updates differ, none may)",
        )  # fmt: skip
    return passes(_LAYER, name, f"the {words} of all {len(pairs)} updates equal the reference's")


def _only_padding(case: Case, wrong: Sequence[int]) -> bool:
    """Tell whether packing explains other token counts: same sequences, same known targets."""
    arms = (case.candidate.evidence, case.reference.evidence)
    digests = [_digests(arm, ids_alone=False) for arm in arms]
    targets = [_counts(arm, "target_tokens") for arm in arms]
    return all(
        digests[0][i] is not None
        and digests[0][i] == digests[1][i]
        and targets[0][i] is not None
        and targets[0][i] == targets[1][i]
        for i in wrong
    )


def _counts(evidence: Evidence, name: _Count) -> list[int | None]:
    def count(rows: Sequence[UpdateSeen]) -> int | None:
        parts = [getattr(row, name) for row in rows]
        return None if any(part is None for part in parts) else sum(parts)

    ranks = rows_of(evidence)
    if len(ranks) == 1:
        return [getattr(row, name) for row in ranks[0]]
    return [count(rows) for rows in zip(*ranks, strict=False)]


def _judge_size(case: Case) -> Finding:
    sizes = [_num_parameters(launch) for launch in (case.candidate, case.reference)]
    if sizes[0] is None or sizes[1] is None:
        return unsure(
            _LAYER, "model_size", "the parameters were not seen at any mark",
            hint="run the trial again; the witness saw no model",
        )  # fmt: skip
    if sizes[0] != sizes[1]:
        if any(len(rows_of(each.evidence)) > 1 for each in (case.candidate, case.reference)):
            return unsure(
                _LAYER, "model_size",
                f"rank 0 holds {sizes[0]:,} parameters, the reference's rank 0 {sizes[1]:,}",
                hint="the two arms shard differently: compare them at one sharding",
            )  # fmt: skip
        return fails(
            _LAYER, "model_size",
            f"the model has {sizes[0]:,} parameters at its marks, the reference {sizes[1]:,}; they "
            "must be the same",
        )  # fmt: skip
    return passes(_LAYER, "model_size", f"both models have {sizes[0]:,} parameters")


def _num_parameters(launch: Launch) -> int | None:
    shapes = [mark.shapes for mark in launch.evidence.marks if mark.shapes]
    if not shapes:
        return None
    return min(map(_size_of, shapes))


@lru_cache(maxsize=64)
def _size_of(shapes: tuple[tuple[int, ...], ...]) -> int:
    return sum(map(math.prod, shapes))


def _judge_movement(case: Case) -> list[Finding]:
    """Check that counted updates moved the parameters that the reference moved."""
    mine, theirs = case.candidate.sketches, case.reference.sketches
    shared = sorted(set(mine) & set(theirs))
    if len(shared) < 2:
        return [
            unsure(
                _LAYER, "movement", "fewer than two marks show the parameters in both arms",
                hint="run the trial again; the updates counted cannot be told from none",
            )
        ]  # fmt: skip
    for start, end in pairwise(shared):
        moved = [not np.array_equal(arm[end].values, arm[start].values) for arm in (mine, theirs)]
        if moved[1] and not moved[0]:
            return [
                fails(
                    _LAYER, "movement",
                    f"{end - start} updates were counted from {start} to {end}, and no sampled "
                    f"parameter changed, of {len(mine[end].values):,} elements; the reference's "
                    f"moved by {_moved(theirs[start], theirs[end]):.2g} (L2)",
                )
            ]  # fmt: skip
    still = _still_tensors(case, shared[0], shared[-1])
    if still:
        return [
            fails(
                _LAYER, "movement",
                f"{len(still)} parameters that the reference trains never moved between updates "
                f"{shared[0]} and {shared[-1]}; the first is number {still[0]} in order, of shape "
                f"{_shape_of(theirs[shared[0]], still[0])}; what moves in the reference (by over "
                f"{_MOVED:.1g} of its norm, 16 float32 epsilons) must move",
            )
        ]  # fmt: skip
    return [passes(_LAYER, "movement", "the parameters moved between marks as updates went by")]


def _moved(start: Sketch, end: Sketch) -> float:
    return length_of(end.values - start.values)


def _shape_of(sketch: Sketch, number: int) -> str:
    shape = sketch.shapes[number] if number < len(sketch.shapes) else ()
    return " x ".join(map(str, shape)) or "one number"


def _still_tensors(case: Case, start: int, end: int) -> list[int]:
    mine, theirs = case.candidate.sketches, case.reference.sketches
    if not all(mine[start].fits(each) for each in (mine[end], theirs[start], theirs[end])):
        return []
    sizes = np.array(mine[start].sizes)
    if not sizes.size or not sizes.all():
        return []
    edges = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    moved = np.add.reduceat((mine[end].values - mine[start].values) ** 2, edges)
    expected = np.add.reduceat((theirs[end].values - theirs[start].values) ** 2, edges)
    size = np.add.reduceat(theirs[start].values ** 2, edges)
    return [int(i) for i in np.flatnonzero((moved == 0) & (expected > _MOVED**2 * size))]
