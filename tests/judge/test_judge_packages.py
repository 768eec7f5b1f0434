"""Layer 1: a candidate changes no installed package, and what it imports beyond is named."""

from functools import cache

import pytest
from synthetic_training import Clock, Recipe, changed_launch, evidence_of, launch_of, source_of

from infrarsi.judge.decide import judge_screen
from infrarsi.judge.facts import ChangedFile, PackageFacts
from infrarsi.judge.integrity import judge_integrity

MEASURED = ("numpy", "torch")
trained = cache(evidence_of)


def case_of(bench, imports, *, own=(), checkout=None, **facts):
    """A launch that imports these, against a reference that imports torch and numpy."""
    known = bench.reference.evidence.model_copy(
        update={"packages": MEASURED, "own_modules": ("model",)}
    )
    seen = trained(Recipe(), Clock(update_s=0.08, seed=3))
    seen = seen.model_copy(update={"packages": imports, "own_modules": ("model", *own)})
    told = PackageFacts(**facts)
    launch = launch_of(evidence=seen, source=source_of(packages=told, checkout=checkout))
    return bench.case(launch, reference=changed_launch(bench.reference, known))


def finding(case, check):
    return next(each for each in judge_integrity(case) if each.check == check)


def test_what_the_reference_imports_too_needs_no_word(bench):
    found = finding(case_of(bench, MEASURED, num_installed=40), "imports")
    assert found.ruling == "pass"
    assert "no package that the reference does not" in found.reason


def test_what_is_imported_beyond_the_reference_is_named_with_its_version(bench):
    case = case_of(bench, (*MEASURED, "sympy"), owners={"sympy": "sympy 1.14.0"})
    found = finding(case, "imports")
    assert found.ruling == "pass"
    assert "beyond what the reference imports: sympy 1.14.0" in found.reason


@pytest.mark.parametrize("why", [
    "einops was not installed then", "it belongs to no installed distribution",
    "einops 0.8 -> 0.9", "einops/layers.py is not the file that einops 0.8 installed",
])  # fmt: skip
def test_what_was_not_installed_so_when_the_reference_was_measured_is_refused(bench, why):
    found = finding(case_of(bench, (*MEASURED, "einops"), strange={"einops": why}), "imports")
    assert found.ruling == "fail"
    assert f"einops ({why})" in found.reason
    assert "doctor" in found.hint


def test_an_upgrade_that_both_arms_import_is_not_held_against_the_candidate(bench):
    found = finding(case_of(bench, MEASURED, strange={"numpy": "numpy 1.26 -> 2.0"}), "imports")
    assert found.ruling == "inconclusive"
    assert "numpy 1.26 -> 2.0" in found.reason


def test_a_module_of_the_tree_in_place_of_an_installed_package_is_refused(bench):
    facts = {"installed": ("einops", "numpy", "torch")}
    assert finding(case_of(bench, MEASURED, own=("helpers",), **facts), "imports").ruling == "pass"
    found = finding(case_of(bench, MEASURED, own=("einops",), **facts), "imports")
    assert found.ruling == "fail"
    assert "einops" in found.reason


def test_packages_that_change_during_an_uncontained_launch_are_its_doing(bench):
    change = {"changed": ("einops none -> 0.8",)}
    alone = finding(case_of(bench, MEASURED, checkout="/checkout", **change), "packages")
    assert alone.ruling == "fail"
    assert "einops none -> 0.8" in alone.reason
    contained = finding(case_of(bench, MEASURED, **change), "packages")
    assert contained.ruling == "inconclusive"
    assert "contained" in contained.reason


def test_a_launch_from_before_packages_were_looked_at_says_so(bench):
    found = finding(bench.case(), "packages")
    assert found.ruling == "pass"
    assert "not looked at" in found.reason


def test_a_new_module_under_an_installed_name_is_refused_by_its_path(bench):
    for path, ruling in (
        ("einops.py", "fail"),
        ("einops/__init__.py", "fail"),
        ("mine.py", "pass"),
    ):
        case = case_of(bench, MEASURED, installed=("einops",))
        changed = (ChangedFile(path=path, before=None, after="x = 1\n"),)
        verdict = judge_screen(
            bench.case(case.candidate, reference=case.reference, changed=changed)
        )
        assert verdict.ruling == ruling, (path, verdict.reasons)
