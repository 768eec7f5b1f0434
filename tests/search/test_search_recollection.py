"""Lessons of other searches become beliefs about this one, against its own reference."""

import numpy as np
import pytest
from truths import knob

from infrarsi.records.candidate import Effect
from infrarsi.records.experience import Atom, Hardware, Lesson, Pack, TrainingContext, ordered
from infrarsi.search.recollection import recollect

CONTEXT = TrainingContext(kind="k", matmul=("float32",))
MACHINE = Hardware(device="cpu", name="x", num=2, memory_bytes=10**9, python="3.11", torch="2.13")


def lesson(*atoms, outcome="accepted", time=None, sd=0.01, memory=None, above=None, beside=()):
    return Lesson.of(
        atoms=atoms, beside=beside, outcome=outcome, log_memory=memory, log_memory_above=above,
        log_time=None if time is None else Effect(mean=time, sd=sd),
    )  # fmt: skip


def pack(*lessons, context=CONTEXT):
    return Pack(id="0" * 12, label="x", context=context, hardware=MACHINE, lessons=ordered(lessons))


def patch(name, proposer="patchbook"):
    return Atom(patch=name, proposer=proposer)


def turned(name, before, after):
    return Atom(knob=name, before=before, after=after)


def beliefs(*packs, knobs=(), distance=0.0, matmul=("float32",)):
    return recollect([(each, distance) for each in packs], knobs, matmul=matmul)


def belief(*packs, **options):
    (found,) = beliefs(*packs, **options)
    return found


def test_effects_of_atoms_that_were_always_tried_together_are_told_apart():
    true = {"a": -0.3, "b": 0.1, "c": 0.0}
    together = [("a",), ("a", "b"), ("b", "c"), ("a", "b", "c")]
    rows = [
        lesson(*map(patch, names), time=sum(true[n] for n in names), memory=true[names[0]])
        for names in together
    ]
    found = {each.patch: each for each in beliefs(pack(*rows))}
    for name, effect in true.items():
        assert found[name].log_time.mean == pytest.approx(effect, abs=0.03)
    assert found["a"].log_time.sd < 0.1


def test_a_lesson_beside_others_counts_for_what_was_added_alone():
    rows = [lesson(patch("a"), beside=(patch("b"),), time=-0.2), lesson(patch("b"), time=0.4)]
    found = {each.patch: each.log_time.mean for each in beliefs(pack(*rows))}
    assert found == pytest.approx({"a": -0.2, "b": 0.4}, abs=0.01)


def test_a_knob_counts_against_this_searchs_default_and_not_the_packs():
    known = pack(lesson(turned("recompute", True, False), time=-0.3, memory=0.5))
    same = belief(known, knobs=[knob("recompute", (True, False), True)])
    assert same.value is False
    assert same.log_time.mean == pytest.approx(-0.3, abs=0.01)
    turned_about = belief(known, knobs=[knob("recompute", (True, False), False)])
    assert turned_about.value is True
    assert turned_about.log_time.mean == pytest.approx(0.3, abs=0.01)
    assert turned_about.log_memory.mean < -0.3


def test_sizes_between_those_tried_are_interpolated_and_others_go_by_their_factor():
    known = pack(lesson(turned("micro", 2, 8), time=-0.4))
    within = belief(known, knobs=[knob("micro", (2, 4), 2)])
    assert within.log_time.mean == pytest.approx(-0.2, abs=0.01)
    by_factor = beliefs(known, knobs=[knob("micro", (16, 64, 512), 16)])
    assert [each.value for each in by_factor] == [64]
    assert by_factor[0].log_time.mean == pytest.approx(-0.4, abs=0.01)
    assert by_factor[0].log_time.sd > within.log_time.sd / 2


def test_values_are_told_apart_by_their_type_and_unknown_ones_get_no_belief():
    known = pack(lesson(turned("x", "a", "1"), time=-0.4))
    assert beliefs(known, knobs=[knob("x", ("a", "b", True, 1), "a"), knob("y", (1, 2), 1)]) == ()


def test_a_knob_that_is_called_otherwise_is_known_by_what_it_is():
    atom = Atom(knob="recompute", role="recompute", before=True, after=False)
    known = pack(lesson(atom, time=-0.3))
    there = knob("gradient_checkpointing", (False, True), True)
    assert beliefs(known, knobs=[there]) == ()
    roles = {"gradient_checkpointing": "recompute"}
    (found,) = recollect([(known, 0.0)], [there], roles=roles)
    assert (found.knob, found.value) == ("gradient_checkpointing", False)
    assert found.log_time.mean == pytest.approx(-0.3, abs=0.01)
    by_name = belief(known, knobs=[knob("recompute", (False, True), True)])
    assert found.log_time.sd > by_name.log_time.sd


def test_an_out_of_memory_is_a_lower_bound():
    known = pack(
        lesson(turned("recompute", True, False), outcome="oom", above=0.6),
        lesson(patch("sdpa"), memory=-0.3),
    )
    hungry, saving = sorted(
        beliefs(known, knobs=[knob("recompute", (True, False), True)]),
        key=lambda each: -each.log_memory.mean,
    )
    assert hungry.log_memory.mean > 0.5
    assert hungry.log_time is None
    assert saving.log_memory.mean == pytest.approx(-0.3, abs=0.1)


def test_the_farther_a_pack_the_wider_what_it_says():
    known = pack(lesson(patch("a"), time=-0.2))
    near, far = (belief(known, distance=each).log_time for each in (0.0, 2.0))
    assert near.mean == pytest.approx(far.mean)
    assert far.sd > 3 * near.sd


def test_packs_that_agree_narrow_and_packs_that_contradict_each_other_widen():
    one, same, other = (pack(lesson(patch("a"), time=time)) for time in (-0.3, -0.3, 0.3))
    alone, agreed, torn = (belief(*packs) for packs in ([one], [one, same], [one, other]))
    assert agreed.log_time.sd < alone.log_time.sd < torn.log_time.sd
    assert agreed.num_packs == torn.num_packs == 2
    assert abs(torn.log_time.mean) < 1e-6


def test_a_refusal_speaks_against_what_nothing_acquits():
    known = pack(
        lesson(patch("good"), patch("bad"), outcome="refused", time=None),
        lesson(patch("good"), time=-0.1),
        lesson(patch("other"), outcome="failed"),
    )
    found = {each.patch: each.refused for each in beliefs(known)}
    assert found["bad"] == found["other"] > 0.6
    assert found["good"] == 0
    elsewhere = {each.patch: each.refused for each in beliefs(known, distance=1.5)}
    assert 0 < elsewhere["bad"] < found["bad"]


def test_a_refusal_under_another_precision_says_nothing():
    known = pack(lesson(patch("cast"), outcome="refused"))
    assert beliefs(known, matmul=("bfloat16", "float32")) == ()


def test_refused_times_teach_no_effect():
    found = belief(pack(lesson(patch("skip"), outcome="refused", time=-1.0)))
    assert found.log_time is None


def test_patches_that_a_model_wrote_mean_nothing_elsewhere():
    mixed = lesson(patch("mine", "language"), patch("sdpa"), time=-0.5)
    assert beliefs(pack(lesson(patch("mine", "language"), time=-0.5), mixed)) == ()


def test_what_hardly_anything_was_told_of_gets_no_belief():
    many = [patch(f"p{number}") for number in range(12)]
    assert beliefs(pack(lesson(*many, time=-0.5))) == ()


def test_intervals_of_beliefs_hold_the_truth_about_as_often_as_they_say():
    rng = np.random.default_rng(3)
    names = [f"p{number}" for number in range(5)]
    inside = []
    for _ in range(60):
        true = dict(zip(names, rng.normal(-0.05, 0.15, len(names)), strict=True))
        rows = []
        for _ in range(8):
            chosen = [name for name in names if rng.random() < 0.5] or names[:1]
            time = sum(true[name] for name in chosen) + rng.normal(0, 0.01)
            rows.append(lesson(*map(patch, chosen), time=time))
        unique = {row.subject: row for row in rows}
        for each in beliefs(pack(*unique.values())):
            error = each.log_time.mean - true[each.patch]
            inside.append(abs(error) <= 1.96 * each.log_time.sd)
    assert len(inside) > 200
    assert np.mean(inside) > 0.93
