"""Layer 5: which dtypes computed and kept the numbers. A gate: no curve shows them all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from infrarsi.judge.case import Case
from infrarsi.judge.findings import fails, passes, unsure
from infrarsi.records.evidence import Evidence, MarkSeen
from infrarsi.records.task import Numerics
from infrarsi.records.verdict import Finding, Layer

_LAYER: Layer = "precision"
_CLASSES = ("parameters", "gradients", "optimizer_state", "matmul")
_SWITCHES = (
    "tf32", "matmul_precision", "reduced_precision", "reduced_accumulation", "fp16_accumulation",
    "fp32_precision", "fast_math", "flush_denormal",
)  # fmt: skip
"""Parts of the names of flags that set precision; other flags are facts about generators."""
_CALLS = "precision_calls"
"""The flag that lists calls of torch's setters, ``name(arguments)``, also those undone since."""
_AUTOCAST = "autocast_dtypes"
"""The flag that lists the dtypes that autocast was entered with."""
_STRICT = frozenset({"highest", "ieee", "none", "false", "0", ""})
"""Values of a switch that keep float32 arithmetic whole."""
_LOOSENESS = {"high": 1, "tf32": 1, "medium": 2, "bf16": 2, "bfloat16": 2}


def judge_precision(case: Case) -> list[Finding]:
    """Check the dtype census and the global precision switches.

    Parameters
    ----------
    case : Case
        ``case.task.numerics`` lists the dtypes allowed of each class.

    Notes
    -----
    Every dtype seen at any mark counts, however few its elements: also integers, of which
    quantised state is made. A class that the reference shows at a mark and the candidate does
    not is inconclusive; of matmuls in compiled code one mark is enough. A switch may be as loose
    as the reference's, or as ``numerics.tf32`` allows. When not to trust it: dtypes that live
    only between two marks are seen through matmul operands alone.
    """
    numerics = case.task.numerics
    mine, theirs = case.candidate.evidence, case.reference.evidence
    census = [_judge_class(kind, numerics, mine, theirs) for kind in _CLASSES]
    return [*census, _judge_switches(case), _judge_autocast(case)]


def _judge_class(kind: str, numerics: Numerics, mine: Evidence, theirs: Evidence) -> Finding:
    allowed = set(getattr(numerics, kind))
    words = kind.replace("_", " ")
    for mark in mine.marks:
        strange = sorted(_dtypes(mark, kind) - allowed)
        if strange:
            counts = ", ".join(f"{mark.census[kind][each]:,} {each}" for each in strange)
            return fails(
                _LAYER, kind,
                f"{words} at the mark after update {mark.update} held {counts}; the contract "
                f"(numerics.{kind}) allows {', '.join(sorted(allowed))} and nothing else",
                hint="allow the dtype in the contract's numerics if it is meant",
            )  # fmt: skip
    for mark in theirs.marks:
        if not _dtypes(mark, kind) or mark.update == 0:
            continue  # before the first update there is neither gradient nor state
        if kind == "matmul" and _out_of_sight(mine):
            continue
        other = mine.mark_at(mark.update)
        if other is not None and not _dtypes(other, kind):
            return unsure(
                _LAYER, kind,
                f"the reference showed its {words} at the mark after update {mark.update}, the "
                "candidate did not",
                hint="keep them where the witness can see them",
            )  # fmt: skip
    seen = set().union(*(_dtypes(mark, kind) for mark in mine.marks))
    if not seen and any(_dtypes(mark, kind) for mark in theirs.marks):
        return unsure(
            _LAYER, kind, f"no mark of the candidate showed its {words}", hint="run it again"
        )
    if not seen:
        return passes(_LAYER, kind, f"neither arm has {words} that the witness can see")
    return passes(_LAYER, kind, f"{words}: {', '.join(sorted(seen))}, as the contract allows")


def _out_of_sight(evidence: Evidence) -> bool:
    """Tell whether matmuls of compiled or captured code show at the first mark alone."""
    return any("compiled" in note or "captured" in note for note in evidence.notes)


def _dtypes(mark: MarkSeen, kind: str) -> set[str]:
    return {dtype for dtype, count in mark.census.get(kind, {}).items() if count > 0}


def _judge_switches(case: Case) -> Finding:
    mine, theirs = _switches(case.candidate.evidence), _switches(case.reference.evidence)
    if not mine and theirs:
        return unsure(
            _LAYER, "switches", "the precision switches of the candidate were not seen",
            hint="run the trial again",
        )  # fmt: skip
    allowed = case.task.numerics.tf32
    loosened = [
        f"{name} = {each.value} at the mark after update {each.update} (the reference: "
        f"{theirs[name].value if name in theirs else 'not set'})"
        for name, each in sorted(mine.items())
        if each.level > max(_level_of(name, theirs), allowed and _is_tf32(name))
    ]
    if loosened:
        return fails(
            _LAYER, "switches",
            f"precision was loosened: {', '.join(loosened)}; allowed is what the reference runs "
            f"with{' or TF32' if allowed else ''} (the contract's numerics.tf32 is "
            f"{'on' if allowed else 'off'})",
            hint="allow tf32 in the contract's numerics if it is meant",
        )  # fmt: skip
    return passes(
        _LAYER, "switches",
        "no precision switch is looser than the reference's"
        f"{' or TF32, which the contract allows' if allowed else ''}",
    )  # fmt: skip


def _is_tf32(name: str) -> bool:
    """Tell whether a switch says how float32 products are rounded, and nothing else."""
    return any(part in name for part in ("tf32", "matmul_precision", "fp32_precision"))


@dataclass(frozen=True)
class _Switch:
    """A precision switch where it was loosest."""

    level: int
    """0 keeps float32 whole."""
    value: str
    update: int
    """The mark after this update shows it first."""


def _level_of(name: str, reference: dict[str, _Switch]) -> int:
    """Give the level that the reference ran a switch at; a setter's call sets a switch."""
    # Convolutions on TF32 are cudnn's default: calling its setter with it loosens nothing.
    same = [name] + ([each for each in reference if "cudnn" in each] if "cudnn" in name else [])
    same += [each for each in reference if "reduced" in each and "reduced" in name]
    return max((reference[each].level for each in same if each in reference), default=0)


def _judge_autocast(case: Case) -> Finding:
    """Check the dtypes that autocast was entered with, also between marks."""
    if not any(mark.flags for mark in case.candidate.evidence.marks):
        return unsure(
            _LAYER, "autocast", "no mark of the candidate says whether autocast was entered",
            hint="run the trial again",
        )  # fmt: skip
    mine, theirs = (
        _listed(each.evidence, _AUTOCAST, ",") for each in (case.candidate, case.reference)
    )
    strange = sorted(mine - theirs - set(case.task.numerics.matmul))
    if strange:
        return fails(
            _LAYER, "autocast",
            f"autocast was entered with {', '.join(strange)} by the mark after update "
            f"{_first_mark(case.candidate.evidence, _AUTOCAST, strange)}; the contract "
            f"(numerics.matmul) allows {', '.join(case.task.numerics.matmul)}, the reference "
            f"entered it with {', '.join(sorted(theirs)) or 'nothing'}",
            hint="allow the dtype in the contract's numerics if it is meant",
        )  # fmt: skip
    return passes(_LAYER, "autocast", f"autocast: {', '.join(sorted(mine)) or 'not entered'}")


def _listed(evidence: Evidence, flag: str, separator: str) -> set[str]:
    """Give the entries that a listing flag holds over all marks."""
    texts = [mark.flags.get(flag) for mark in evidence.marks]
    return {
        entry.strip()
        for text in texts
        if isinstance(text, str)
        for entry in text.split(separator)
        if entry.strip()
    }


def _first_mark(evidence: Evidence, flag: str, entries: Sequence[str]) -> int:
    """Give the first mark at which a listing flag names one of these, which one does."""
    return next(
        mark.update
        for mark in evidence.marks
        if any(entry in str(mark.flags.get(flag) or "") for entry in entries)
    )


def _switches(evidence: Evidence) -> dict[str, _Switch]:
    """Give each switch where it was loosest, over all marks."""
    found: dict[str, _Switch] = {}
    for mark in evidence.marks:
        for name, value in mark.flags.items():
            if name in {_CALLS, _AUTOCAST} or value is None:
                continue
            if _sets_precision(name):
                _keep_loosest(found, name, str(value), mark.update)
    for call in sorted(_listed(evidence, _CALLS, ";")):
        update = _first_mark(evidence, _CALLS, [call])
        name, _, arguments = call.rstrip(")").partition("(")
        if _sets_precision(name):
            *where, value = arguments.split(", ")
            switch = ".".join([name.removeprefix("set_"), *where])
            _keep_loosest(found, switch, value, update)
    return found


@lru_cache(maxsize=256)
def _sets_precision(name: str) -> bool:
    return any(part in name for part in _SWITCHES)


def _keep_loosest(found: dict[str, _Switch], name: str, value: str, update: int) -> None:
    text = value.lower()
    level = 0 if text in _STRICT else _LOOSENESS.get(text, 1)
    if name not in found or level > found[name].level:
        found[name] = _Switch(level, value, update)
