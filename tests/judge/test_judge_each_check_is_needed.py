"""For every check of every layer, evidence against which that check alone speaks.

Take a check away, or a layer, and its case here is accepted: nothing else would have refused it.
A check that is added without a case fails here too.
"""

import ast
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from synthetic_training import (
    STOP,
    WINDOW,
    Clock,
    Recipe,
    baseline_of,
    changed_launch,
    edited,
    evidence_of,
    facts_of,
    launch_of,
    source_of,
    task_of,
)
from test_judge_decide import confirmation_of, stopped_at, timed_launch
from test_judge_replay import moved_otherwise, scored

from infrarsi import judge
from infrarsi.judge.case import Launch
from infrarsi.judge.decide import judge_confirmation, judge_screen
from infrarsi.judge.facts import ChangedFile, PackageFacts
from infrarsi.judge.findings import join
from infrarsi.judge.recurrence import Session, judge_sessions
from infrarsi.records.verdict import Layer, Ruling

LAST = WINDOW.last_update
trained = cache(evidence_of)
"""What a recipe leaves by a clock, trained once for all cases."""
UNSKETCHED = task_of(metrics=("loss", "grad_norm", "update_norm"))


def honest(**launch):
    """A faster launch that trains as the reference does."""
    return launch_of(evidence=trained(Recipe(), Clock(update_s=0.08, seed=3)), **launch)


def screened(bench, launch=None, **case):
    launch = launch or honest()
    return judge_screen(bench.case(launch, **case))


def with_evidence(bench, change, **case):
    """Judge the honest launch with its evidence changed."""
    launch = honest()
    return screened(bench, changed_launch(launch, change(launch.evidence)), **case)


def with_values(bench, update, **values):
    return with_evidence(bench, lambda seen: edited(seen, update, **values))


def scaled(bench, metric, factor):
    def change(seen):
        row = next(each for each in seen.updates if each.update == 9)
        return edited(seen, 9, **{metric: factor * getattr(row, metric)})

    return with_evidence(bench, change)


def with_fields(bench, **fields):
    return with_evidence(bench, lambda seen: seen.model_copy(update=fields))


def with_marks(bench, change, **case):
    """Judge the honest launch with every mark changed by a function."""
    return with_evidence(
        bench,
        lambda seen: seen.model_copy(update={"marks": tuple(map(change, seen.marks))}),
        **case,
    )


def at_the_last_mark(bench, **fields):
    return with_marks(bench, lambda m: m.model_copy(update=fields) if m.update == LAST else m)


def in_another_dtype(bench, kind):
    def change(mark):
        if mark.update != LAST:
            return mark
        return mark.model_copy(update={"census": {**mark.census, kind: {"bfloat16": 64}}})

    return with_marks(bench, change)


def shifted(mark, by):
    parts = tuple(tuple(value + by for value in part) for part in mark.sketch)
    return mark.model_copy(update={"sketch": parts})


def still(bench):
    """The numbers go on, and the parameters stay what they were."""
    first = []

    def change(mark):
        first.append(mark.sketch)
        return mark.model_copy(update={"sketch": first[0]})

    return with_marks(bench, change, task=UNSKETCHED)


def smaller(bench):
    def change(mark):
        return mark.model_copy(update={"shapes": (*mark.shapes[:-1], (1, 1))})

    return with_marks(bench, change, task=UNSKETCHED)


def shorter(bench):
    """Fewer input tokens, where no targets are seen: it may be more than padding."""

    def untargeted(seen):
        for row in seen.updates:
            seen = edited(seen, row.update, target_tokens=None)
        return seen

    reference = changed_launch(bench.reference, untargeted(bench.reference.evidence))
    return with_evidence(
        bench, lambda seen: edited(untargeted(seen), 9, tokens=72), reference=reference
    )


def wide(bench):
    bands = tuple(each.model_copy(update={"limit": 1e3 * each.limit + 1}) for each in bench.bands)
    return screened(bench, baseline=baseline_of(bands))


def stamped(bench, intervals):
    stamps = 3 + np.cumsum(intervals)
    seen = trained(Recipe())
    rows = tuple(
        row.model_copy(update={"t_ns": int(t * 1e9)})
        for row, t in zip(seen.updates, stamps, strict=True)
    )
    marks = tuple(
        mark.model_copy(update={"t_ns": int(stamps[mark.update - 1] * 1e9) if mark.update else 0})
        for mark in seen.marks
    )
    changed = seen.model_copy(update={"updates": rows, "ranks": {0: rows}, "marks": marks})
    return screened(bench, launch_of(evidence=changed))


def backwards(bench):
    intervals = np.full(STOP, 0.08)
    intervals[8:10] = (0.18, -0.02)
    return stamped(bench, intervals)


def slowing(bench):
    place = np.arange(STOP)
    return stamped(bench, np.where((place >= 10) & (place < LAST), 0.14, 0.08))


def queued(bench):
    def change(mark):
        return mark.model_copy(update={"t_ns": mark.t_ns + 10**9}) if mark.update == LAST else mark

    return with_marks(bench, change)


def impossible(bench):
    quick = baseline_of(bench.bands, flops_per_update=1e12, peak_flops=1e12)
    return screened(bench, baseline=quick)


def confirmed(bench, **changes):
    return judge_confirmation(confirmation_of(bench, **changes))


def with_launches(bench, change):
    """Judge a confirmation whose launches are changed by a function of block, place and arm."""
    case = confirmation_of(bench)
    blocks = tuple(
        replace(block, launches=tuple(
            change(number, place, letter, launch)
            for place, (letter, launch) in enumerate(zip(block.order, block.launches, strict=True))
        ))
        for number, block in enumerate(case.blocks)
    )  # fmt: skip
    return judge_confirmation(replace(case, blocks=blocks))


def kept_as_it_was(old, new):
    """The new launch under the old one's name, with the state that it kept."""
    kept = new.evidence.model_copy(update={"kept": old.evidence.kept})
    facts = new.facts.model_copy(update={"trial_id": old.facts.trial_id})
    return replace(new, evidence=kept, facts=facts)


def put_off_by_the_stop(bench):
    """Launches that stop later take longer before their window, and never after it."""

    def change(number, place, _letter, launch):
        if (number + place) % 2:
            return stopped_at(launch, STOP - 1)
        late = 500_000_000
        rows = tuple(
            row.model_copy(update={"t_ns": row.t_ns + late * (row.update > 1)})
            for row in launch.evidence.updates
        )
        marks = tuple(
            mark.model_copy(update={"t_ns": mark.t_ns + late * (mark.update > 1)})
            for mark in launch.evidence.marks
        )
        seen = launch.evidence.model_copy(
            update={"updates": rows, "ranks": {0: rows}, "marks": marks}
        )
        facts = launch.facts.model_copy(update={"wall_s": launch.facts.wall_s + 0.5})
        return replace(launch, evidence=seen, facts=facts)

    return with_launches(bench, change)


def trained_ahead(bench):
    def change(number, _place, letter, launch):
        if letter == "A":
            return launch
        clock = Clock(update_s=0.08, cold_s=9.0, seed=number)
        return kept_as_it_was(launch, timed_launch(Recipe(), clock, "x"))

    return with_launches(bench, change)


def put_off_a_little(bench):
    """No more in one launch than launches differ by, and alike in all."""
    clock = Clock(update_s=0.08, tail_factor=1.3)
    return confirmed(bench, clock=clock, baseline=baseline_of(bench.bands, noise_sd=0.2))


def replayed(bench, **values):
    """The reference's code finds something else in a replayed update than the winner said."""
    case = confirmation_of(bench)
    launch = case.replay.of_winner
    seen = edited(launch.evidence, 20, **values)
    forged = replace(case.replay, of_winner=replace(launch, evidence=seen))
    return judge_confirmation(replace(case, replay=forged))


def changed_source(bench, text):
    changed = (ChangedFile(path="model.py", before="", after=text),)
    return screened(bench, changed=changed)


def sourced(**facts):
    return lambda bench: screened(bench, honest(source=source_of(**facts)))


def unsourced(bench):
    launch = honest()
    return screened(bench, Launch(launch.evidence, launch.facts, None))


def imported(bench):
    """A package that the reference does not import, and that was not there when it was measured."""
    known = bench.reference.evidence.model_copy(update={"packages": ("torch",)})
    seen = trained(Recipe(), Clock(update_s=0.08, seed=3))
    seen = seen.model_copy(update={"packages": ("einops", "torch")})
    facts = PackageFacts(strange={"einops": "einops was not installed then"})
    return screened(
        bench, launch_of(evidence=seen, source=source_of(packages=facts)),
        reference=changed_launch(bench.reference, known),
    )  # fmt: skip


def in_sessions(bench, second_s, *, gap_s=9 * 3600.0):
    """A confirmation in two sessions; the winner is as fast as this in the second."""
    sessions = [
        Session(confirmation_of(bench, winner_s=each), number * gap_s, number * gap_s + 60)
        for number, each in enumerate((0.08, second_s))
    ]
    return judge_sessions(sessions, planned=2, gap_s=8 * 3600.0)


def short(bench):
    seen = evidence_of(Recipe(updates=LAST - 1), Clock(update_s=0.08))
    return screened(bench, launch_of(evidence=seen, facts=facts_of(stop_update=LAST - 1)))


FAIL, DOUBT = Ruling.FAIL, Ruling.INCONCLUSIVE
CASES = {
    ("integrity", "source"): (unsourced, DOUBT),
    ("integrity", "protected"): (sourced(protected_after={"data.py": "x", "eval.py": "bb"}), FAIL),
    ("integrity", "tree"): (sourced(tree_ran="d" * 40), FAIL),
    ("integrity", "surface"): (sourced(outside_surface=("data.py",)), FAIL),
    ("integrity", "environment"): (sourced(environment_differences=("FAST",)), FAIL),
    ("integrity", "leftovers"): (sourced(leftovers=("process 7",)), FAIL),
    ("integrity", "loaded_files"): (lambda b: with_fields(b, loaded_files=("/else/x.py",)), FAIL),
    ("integrity", "packages"): (
        sourced(packages=PackageFacts(changed=("numpy 1.0 -> 2.0",)), checkout="/checkout"), FAIL,
    ),
    ("integrity", "imports"): (imported, FAIL),
    ("integrity", "channel"): (lambda b: with_fields(b, malformed=5), FAIL),
    ("audit", "source"): (lambda b: changed_source(b, "import ctypes\n"), FAIL),
    ("audit", "schedule"): (
        lambda b: changed_source(b, "lr = 0.001 * min(1.0, step / 50)\n"), DOUBT,
    ),
    ("audit", "unreached"): (lambda b: changed_source(b, "if step > 100:\n    y = x\n"), DOUBT),
    ("workload", "witness"): (lambda b: with_fields(b, hello=None), DOUBT),
    ("workload", "ranks"): (lambda b: with_fields(b, world_size=2, greeted=(0,)), DOUBT),
    ("workload", "updates"): (short, DOUBT),
    ("workload", "batch_digest"): (lambda b: with_values(b, 9, batch="f" * 16), FAIL),
    ("workload", "sequences"): (lambda b: with_values(b, 9, sequences=8), FAIL),
    ("workload", "tokens"): (shorter, FAIL),
    ("workload", "target_tokens"): (lambda b: with_values(b, 9, target_tokens=64), FAIL),
    ("workload", "model_size"): (smaller, FAIL),
    ("workload", "movement"): (still, FAIL),
    ("numerics", "loss"): (lambda b: scaled(b, "loss", 1.01), FAIL),
    ("numerics", "grad_norm"): (lambda b: scaled(b, "grad_norm", 2), FAIL),
    ("numerics", "update_norm"): (lambda b: scaled(b, "update_norm", 2), FAIL),
    ("numerics", "sketch"): (
        lambda b: with_marks(b, lambda m: shifted(m, 0.1) if m.update == LAST else m), FAIL,
    ),
    ("numerics", "start"): (lambda b: with_marks(b, lambda m: shifted(m, 0.1)), FAIL),
    ("numerics", "power"): (wide, DOUBT),
    ("precision", "parameters"): (lambda b: in_another_dtype(b, "parameters"), FAIL),
    ("precision", "gradients"): (lambda b: in_another_dtype(b, "gradients"), FAIL),
    ("precision", "optimizer_state"): (lambda b: in_another_dtype(b, "optimizer_state"), FAIL),
    ("precision", "matmul"): (lambda b: in_another_dtype(b, "matmul"), FAIL),
    ("precision", "switches"): (
        lambda b: at_the_last_mark(b, flags={"cuda.matmul.allow_tf32": True}), FAIL,
    ),
    ("precision", "autocast"): (
        lambda b: at_the_last_mark(b, flags={"autocast_dtypes": "bfloat16"}), FAIL,
    ),
    ("timing", "outcome"): (
        lambda b: screened(b, honest(facts=facts_of(outcome="hung", reason="x"))), DOUBT,
    ),
    ("timing", "stamps"): (backwards, FAIL),
    ("timing", "tail"): (
        lambda b: screened(b, launch_of(Recipe(), Clock(update_s=0.08, tail_factor=2))), FAIL,
    ),
    ("timing", "unfinished"): (queued, FAIL),
    ("timing", "halves"): (slowing, DOUBT),
    ("timing", "flop_floor"): (impossible, FAIL),
    ("timing", "slope"): (put_off_by_the_stop, FAIL),
    ("timing", "ahead"): (trained_ahead, DOUBT),
    ("timing", "tails"): (put_off_a_little, FAIL),
    ("timing", "speedup"): (lambda b: confirmed(b, winner_s=0.1), FAIL),
    ("timing", "design"): (lambda b: confirmed(b, planned_blocks=7), DOUBT),
    ("timing", "apart"): (lambda b: in_sessions(b, 0.08, gap_s=60.0), DOUBT),
    ("timing", "recurrence"): (lambda b: in_sessions(b, 0.06), DOUBT),
    ("timing", "reference_rate"): (lambda b: confirmed(b, ref_clock=Clock(update_s=0.3)), DOUBT),
    ("replay", "replayed"): (
        lambda b: judge_confirmation(replace(confirmation_of(b), replay=None)), DOUBT,
    ),
    ("replay", "batches"): (lambda b: replayed(b, batch="f" * 16), FAIL),
    ("replay", "loss"): (lambda b: replayed(b, loss=1.234), FAIL),
    ("replay", "grad_norm"): (lambda b: replayed(b, grad_norm=7.0), FAIL),
    ("replay", "one_update"): (
        lambda b: judge_confirmation(moved_otherwise(confirmation_of(b), (1.0, 1.0), said=0.0)),
        FAIL,
    ),
    ("replay", "unseen"): (
        lambda b: judge_confirmation(scored(confirmation_of(b), 1.01)), FAIL,
    ),
}  # fmt: skip

SPEAKS_TOO = {("workload", "updates"): {("timing", "stamps")}}
"""What the same evidence cannot but set off as well: a launch too short has too few stamps."""


@pytest.mark.parametrize("check", CASES, ids="/".join)
def test_without_this_check_its_case_would_be_accepted(bench, check):
    make, ruling = CASES[check]
    verdict = make(bench)
    said = {(each.layer, each.check): each for each in verdict.reasons if each.check != "silent"}
    assert set(said) == {check} | SPEAKS_TOO.get(check, set()), [e.reason for e in said.values()]
    assert said[check].ruling is ruling
    assert verdict.ruling is ruling
    others = [each for each in verdict.findings if (each.layer, each.check) not in said]
    assert join([each for each in others if each.check != "silent"]) is Ruling.PASS


ON_REQUEST = {("numerics", "horizon"), ("numerics", "horizon_batches")}
"""What `apply --horizon` alone asks: no part of a launch's verdict; see test_judge_horizon."""

VARIED = {
    ("numerics", "metric"): ("loss", "grad_norm", "update_norm", "sketch"),
    ("replay_numbers", "metric"): ("loss", "grad_norm"),
    ("workload", "name"): ("sequences", "tokens", "target_tokens"),
    ("precision", "kind"): ("parameters", "gradients", "optimizer_state", "matmul"),
}
"""What a check's name may be where the source has a variable for it."""


def constants_of(tree):
    """The texts that a module gives names to, its layer among them."""
    named = {}
    for node in tree.body:
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str() as text))
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.Constant(value=str() as text))
            ):
                named[name] = text
    return named


def checks_of(module, node, constants):
    match node:
        case ast.Constant(value=str() as name):
            return (name,)
        case ast.Attribute(value=ast.Name(id="Metric"), attr=name):
            return (name.lower(),)
        case ast.Name(id=name):
            return (constants[name],) if name in constants else VARIED[module, name]
    raise AssertionError(f"the name of a check in {module} cannot be told: {ast.dump(node)}")


def in_the_source(path):
    """Every check of a module that may keep a candidate from passing."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    constants = constants_of(tree)
    own = constants.get("_LAYER")
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="fails" | "unsure"), args=[layer, check, *_]):
                named = layer.value if isinstance(layer, ast.Constant) else own
                found = checks_of(path.stem, check, constants)
                yield from ((named, each) for each in found if each != "silent")
            case ast.Dict(keys=keys, values=values):
                names = [getattr(key, "value", None) for key in keys]
                if {"layer", "check"} <= set(names):
                    yield own, values[names.index("check")].value


def test_every_check_of_the_judge_has_a_case():
    folder = Path(judge.__file__).parent
    written = {each for path in sorted(folder.glob("*.py")) for each in in_the_source(path)}
    assert written - set(CASES) - ON_REQUEST == set(), "checks without a case"
    assert set(CASES) - written == set(), "cases of checks that are gone"


def test_every_layer_has_a_case_that_it_alone_refuses():
    refusing = {layer for (layer, check), (_, ruling) in CASES.items()
                if ruling is FAIL and (layer, check) not in SPEAKS_TOO}  # fmt: skip
    assert refusing == set(get_args(Layer))


def test_a_layer_with_nothing_to_say_is_a_doubt_and_no_pass(bench):
    verdict = with_fields(bench, hello=None)
    silent = {each.layer for each in verdict.reasons if each.check == "silent"}
    assert silent == {"numerics", "precision"}
