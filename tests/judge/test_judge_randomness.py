"""Numbers drawn by chance: what another draw explains is a doubt, and nothing more is."""

from functools import cache

import numpy as np
import pytest
from synthetic_training import (
    NULLS,
    WINDOW,
    Clock,
    Recipe,
    baseline_of,
    edited,
    evidence_of,
    launch_of,
    task_of,
)

from infrarsi.judge.decide import judge_screen
from infrarsi.judge.randomness import STIRRED, is_stirred, randomness_of
from infrarsi.records.baseline import Control, Randomness
from infrarsi.stages.calibrating.calibration import calibrate

trained = cache(evidence_of)
DRAWN = ("loss", "grad_norm", "update_norm")
LABEL = f"weights disturbed by 4 ulp, {STIRRED}"


def redrawn(evidence, seed, *, size=0.01):
    """The same training with another draw of its dropout."""
    rng = np.random.default_rng(seed)
    for row in evidence.updates:
        values = {
            name: getattr(row, name) * float(np.exp(size * rng.uniform(0.5, 1)))
            for name in DRAWN
        }  # fmt: skip
        evidence = edited(evidence, row.update, **values)
    return evidence


def other_batches(evidence, first):
    for update in range(first, len(evidence.updates) + 1):
        evidence = edited(evidence, update, batch=f"{update:016x}")
    return evidence


def calibrated(bench, stirred):
    equal = [bench.reference.evidence, *(trained(Recipe(), Clock(seed=s)) for s in (1, 2, 3))]
    nulls = [(label, trained(recipe)) for label, recipe in NULLS[1:]]
    return calibrate(bench.task, equal, [*nulls, (LABEL, stirred)])


def judged(bench, evidence, randomness, **changes):
    baseline = baseline_of(bench.bands, randomness=randomness, **changes)
    return judge_screen(bench.case(launch_of(evidence=evidence), baseline=baseline))


@pytest.fixture(scope="module")
def honest():
    return trained(Recipe(permute=True), Clock(update_s=0.08, seed=3))


def test_where_nothing_is_drawn_the_stirred_launch_is_one_of_the_nulls(bench):
    found = calibrated(bench, trained(Recipe(ulps=4)))
    assert found.randomness == Randomness()
    assert all(LABEL in band.source and "9 null launches" in band.source for band in found.bands)


def test_dropout_is_found_and_does_not_widen_the_bands(bench):
    found = calibrated(bench, redrawn(trained(Recipe(ulps=4)), seed=1))
    assert found.randomness.data_from is None
    assert set(found.randomness.redraw) == set(DRAWN)
    assert 0.004 < found.randomness.redraw["loss"] < 0.011
    assert all(band.limit < 1e-3 for band in found.bands if band.metric == "loss")
    assert all("8 null launches" in band.source for band in found.bands)


def test_data_from_the_global_generator_are_found(bench):
    found = calibrated(bench, other_batches(trained(Recipe(ulps=4)), 2))
    assert found.randomness == Randomness(data_from=2)
    assert all("8 null launches" in band.source for band in found.bands)


def test_a_label_says_whether_the_generators_were_stirred():
    assert is_stirred(LABEL)
    assert not is_stirred("weights disturbed by 4 ulp")


def test_a_change_that_draws_dropout_otherwise_is_a_doubt_with_what_would_settle_it(bench, honest):
    found = randomness_of(redrawn(honest, 1), bench.reference.evidence, bench.bands, WINDOW)
    verdict = judged(bench, redrawn(honest, 2), found)
    assert verdict.ruling == "inconclusive"
    assert {each.check for each in verdict.reasons} == set(DRAWN)
    for each in verdict.reasons:
        assert "dropout" in each.reason
        assert "dropout to 0" in each.hint
    assert judged(bench, redrawn(honest, 2), Randomness()).ruling == "fail"


def test_what_another_draw_does_not_explain_is_refused_as_ever(bench, honest):
    found = Randomness(redraw=dict.fromkeys(DRAWN, 0.01))
    assert judged(bench, redrawn(honest, 2, size=0.019), found).ruling == "inconclusive"
    assert judged(bench, redrawn(honest, 2, size=0.1), found).ruling == "fail"
    hacked = trained(Recipe(skip_layer=True), Clock(update_s=0.08, seed=3))
    assert judged(bench, hacked, Randomness(redraw={"loss": 1e-4})).ruling == "fail"


def test_batches_that_other_numbers_would_draw_are_a_doubt_and_so_is_what_follows(bench, honest):
    drawn = Randomness(data_from=2)
    late = other_batches(honest, 5)
    for row in late.updates[4:]:
        late = edited(late, row.update, loss=row.loss * 1.3, grad_norm=row.grad_norm * 1.3)
    verdict = judged(bench, late, drawn)
    assert verdict.ruling == "inconclusive"
    assert {each.check for each in verdict.reasons} == {"batch_digest", "loss", "grad_norm"}
    assert all("drawn" in each.reason and each.hint for each in verdict.reasons)
    assert judged(bench, late, Randomness()).ruling == "fail"


def test_chance_excuses_no_batch_seen_twice_and_nothing_before_it(bench, honest):
    drawn = Randomness(data_from=2)
    again = edited(honest, 9, batch=honest.updates[2].batch)
    assert judged(bench, again, drawn).ruling == "fail"
    early = edited(other_batches(honest, 9), 4, loss=honest.updates[3].loss * 1.1)
    verdict = judged(bench, early, drawn)
    assert verdict.ruling == "fail"
    assert "after update 4" in next(e.reason for e in verdict.reasons if e.check == "loss")
    first = judged(bench, other_batches(honest, 1), drawn)
    assert first.ruling == "fail", "before anything was drawn in the forward"


def test_kernels_that_repeat_nothing_widen_the_bands_by_what_they_differ(bench):
    """Equal launches are nulls too: the noise of atomics is in the bands."""
    task = task_of()
    equal = [bench.reference.evidence]
    equal += [redrawn(trained(Recipe(), Clock(seed=s)), s, size=1e-3) for s in (1, 2, 3)]
    noisy = calibrate(task, equal, [("1 ulp", trained(Recipe(ulps=1)))])
    band = next(each for each in noisy.bands if each.metric == "loss")
    assert 1e-3 < band.limit < 1e-2
    candidate = redrawn(trained(Recipe(permute=True), Clock(update_s=0.08)), 9, size=1e-3)
    baseline = baseline_of(noisy.bands, nondeterministic=True)
    case = bench.case(launch_of(evidence=candidate), baseline=baseline)
    assert judge_screen(case).ruling == "pass"
    case = bench.case(launch_of(Recipe(skip_layer=True), Clock(update_s=0.08)), baseline=baseline)
    assert judge_screen(case).ruling == "fail"


def control(kind, *seen_by, applied=True):
    return Control(kind=kind, what=kind, trial_id="t9", seen_by=seen_by, applied=applied)


def power_of(bench, honest, *controls):
    verdict = judged(bench, honest, None, controls=controls)
    return next(each for each in verdict.findings if each.check == "power")


def test_falsifications_that_no_check_sees_leave_everything_open(bench, honest):
    blind = power_of(bench, honest, control("coarse_gradients"), control("frozen_tensor"))
    assert blind.ruling == "inconclusive"
    assert "coarse_gradients, frozen_tensor" in blind.reason
    assert blind.hint


def test_what_the_checks_cannot_see_is_said_where_they_see_others(bench, honest):
    some = power_of(bench, honest, control("coarse_gradients"), control("frozen_tensor", "loss"))
    assert some.ruling == "pass"
    assert "not seen of what doctor tried: coarse_gradients" in some.reason
    beyond = power_of(bench, honest, control("coarse_gradients", applied=False))
    assert beyond.ruling == "pass", "what could not be made says nothing"
