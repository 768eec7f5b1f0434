"""A verdict says how the launches were contained that it rests on."""

from dataclasses import replace

from synthetic_training import facts_of, launch_of
from test_judge_decide import confirmation_of

from infrarsi.judge.decide import judge_confirmation, judge_screen
from infrarsi.records.verdict import Verdict


def under(launch, tier):
    return replace(launch, facts=launch.facts.model_copy(update={"sandbox": tier}))


def test_a_verdict_says_how_its_launches_were_contained(bench):
    verdict = judge_screen(bench.case(launch_of(facts=facts_of(sandbox="bubblewrap"))))
    assert verdict.sandbox == ("bubblewrap",)
    assert Verdict.from_bytes(verdict.to_bytes()) == verdict


def test_one_uncontained_launch_of_a_confirmation_is_named(bench):
    case = confirmation_of(bench)
    launches = [
        tuple(under(each, "bubblewrap" if i or b else "process group") for i, each in
              enumerate(block.launches)) for b, block in enumerate(case.blocks)
    ]  # fmt: skip
    blocks = tuple(
        replace(block, launches=each) for block, each in zip(case.blocks, launches, strict=True)
    )
    verdict = judge_confirmation(replace(case, blocks=blocks))
    assert verdict.sandbox == ("bubblewrap", "process group")


def test_a_verdict_from_before_that_was_recorded_keeps_its_bytes(bench):
    verdict = judge_screen(bench.case())
    assert verdict.sandbox == ()
    assert b"sandbox" not in verdict.to_bytes()
