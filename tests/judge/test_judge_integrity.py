from dataclasses import replace

import pytest
from synthetic_training import Recipe, changed_launch, launch_of, source_of

from infrarsi.judge.facts import SourceFacts
from infrarsi.judge.integrity import judge_integrity


def rulings(case):
    return {each.check: each.ruling.value for each in judge_integrity(case)}


def sourced(bench, **changes):
    return bench.case(launch_of(Recipe(), source=source_of(**changes)))


def loaded(bench, *files, by_reference=(), there=True, own=()):
    """A case whose candidate loads files; those of the tree were in it from the beginning."""
    kept = sourced(bench).candidate.source.protected_before
    inside = {file.removeprefix("/repo/"): "cc" for file in files if there}
    both = {**kept, "model.py": "cc", **inside}
    case = sourced(bench, protected_before=both, protected_after=both)
    evidence = case.candidate.evidence.model_copy(
        update={"loaded_files": files, "own_modules": own}
    )
    reference = bench.reference.evidence.model_copy(update={"loaded_files": by_reference})
    return replace(
        case,
        candidate=changed_launch(case.candidate, evidence),
        reference=changed_launch(bench.reference, reference),
    )


def test_untouched_surroundings_pass(bench):
    assert set(rulings(sourced(bench)).values()) == {"pass"}


@pytest.mark.parametrize("after", [
    {"data.py": "zz", "eval.py": "bb"}, {"data.py": "aa"},
    {"data.py": "aa", "eval.py": "bb", "new.py": "cc"},
])  # fmt: skip
def test_a_protected_file_changed_deleted_or_added_fails(bench, after):
    assert rulings(sourced(bench, protected_after=after))["protected"] == "fail"


def test_another_tree_than_was_meant_fails(bench):
    assert rulings(sourced(bench, tree_ran="d" * 40))["tree"] == "fail"


@pytest.mark.parametrize("field", ["protected_after", "tree_ran", "tree_expected", "leftovers"])
def test_what_nobody_looked_at_is_inconclusive(bench, field):
    assert "inconclusive" in rulings(sourced(bench, **{field: None})).values()


def test_without_any_facts_the_source_is_inconclusive(bench):
    case = sourced(bench)
    bare = replace(case, candidate=replace(case.candidate, source=None))
    assert rulings(bare)["source"] == "inconclusive"


@pytest.mark.parametrize(("field", "check"), [
    ("outside_surface", "surface"), ("odd_entries", "surface"), ("leftovers", "leftovers"),
    ("environment_differences", "environment"),
])  # fmt: skip
def test_anything_beyond_the_surface_fails_and_is_named(bench, field, check):
    findings = judge_integrity(sourced(bench, **{field: ("the thing",)}))
    (found,) = [each for each in findings if each.ruling == "fail"]
    assert found.check == check
    assert "the thing" in found.reason


@pytest.mark.parametrize("file", [
    "/elsewhere/model.py", "/repo/../elsewhere/model.py", "/repository/model.py",
    "/tmp/fast_torch.py", "/dev/shm/cache.py",
])  # fmt: skip
def test_a_module_from_outside_the_tree_fails(bench, file):
    assert rulings(loaded(bench, file))["loaded_files"] == "fail"


@pytest.mark.parametrize("file", [
    "/repo/sitecustomize.py", "/repo/sub/usercustomize.py", "/repo/conftest.py", "/repo/torch.py",
    "/repo/time.py", "/repo/numpy/__init__.py", "/repo/model.pyc",
])  # fmt: skip
def test_a_module_that_stands_in_for_another_fails(bench, file):
    assert rulings(loaded(bench, file))["loaded_files"] == "fail"


@pytest.mark.parametrize("file", [
    "/repo/model.py", "/repo/nanogpt/random.py", "/repo/data/tokenize.py",
    "/repo/__pycache__/model.cpython-311.pyc",
])  # fmt: skip
def test_a_module_of_the_repository_passes(bench, file):
    assert rulings(loaded(bench, file))["loaded_files"] == "pass"


def test_a_module_that_the_launch_wrote_itself_fails_and_one_that_the_reference_makes_too_does_not(
    bench,
):
    case = loaded(bench, "/repo/_k.py", there=False)
    (found,) = [each for each in judge_integrity(case) if each.check == "loaded_files"]
    assert found.ruling == "fail"
    assert "_k.py" in found.reason
    generated = loaded(bench, "/repo/_k.py", by_reference=("/other/_k.py",), there=False)
    assert rulings(generated)["loaded_files"] == "pass"


def test_a_module_of_the_interpreters_name_in_a_folder_of_the_script_fails(bench):
    case = loaded(bench, "/repo/src/numbers.py", own=("numbers",))
    assert rulings(case)["loaded_files"] == "fail"
    assert rulings(loaded(bench, "/repo/src/heads.py", own=("heads",)))["loaded_files"] == "pass"


def test_code_of_the_users_checkout_fails_though_the_reference_loads_it_too(bench):
    """An editable install of an uncontained trial: what ran was not the trial's code."""
    theirs = "/home/me/repo/src/mine/model.py"
    roots = ("/home/me/repo/.infrarsi/trees/t0001", "/scratch")
    for checkout, ruling in (("/home/me/repo", "fail"), (None, "pass")):
        case = loaded(bench, theirs, by_reference=(theirs,))
        source = case.candidate.source.model_copy(
            update={"checkout": checkout, "allowed_roots": roots}
        )
        case = replace(case, candidate=replace(case.candidate, source=source))
        assert rulings(case)["loaded_files"] == ruling
    own = f"{roots[0]}/src/mine/model.py"
    case = loaded(bench, own)
    there = {"src/mine/model.py": "cc"}
    source = source.model_copy(
        update={"checkout": "/home/me/repo", "protected_before": there, "protected_after": there}
    )
    case = replace(case, candidate=replace(case.candidate, source=source))
    assert rulings(case)["loaded_files"] == "pass"


def test_what_the_reference_loads_too_passes(bench):
    files = ("/opt/shared/plugin.py", "/reference/copy/random.py")
    case = loaded(bench, files[0], "/repo/random.py", by_reference=files)
    assert rulings(case)["loaded_files"] == "pass"


@pytest.mark.parametrize(("lines", "ruling"), [(0, "pass"), (1, "inconclusive"), (2, "fail")])
def test_lines_on_the_channel_that_are_no_events_are_forgeries(bench, lines, ruling):
    case = sourced(bench)
    evidence = case.candidate.evidence.model_copy(update={"malformed": lines})
    case = replace(case, candidate=changed_launch(case.candidate, evidence))
    assert rulings(case)["channel"] == ruling


def test_facts_can_be_stored_and_read_back():
    facts = source_of(leftovers=None)
    assert SourceFacts.from_bytes(facts.to_bytes()) == facts
