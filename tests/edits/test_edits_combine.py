from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infrarsi.edits import combine, edits_between, incompatible_pairs
from infrarsi.errors import EditError
from infrarsi.records.candidate import Edit, Patch

BASE = b"import torch\n\n\ndef f(x):\n    y = x + 1\n    z = y * 2\n    return z\n"


def _patch(name: str, after: bytes, before: bytes = BASE, conflicts: tuple[str, ...] = ()) -> Patch:
    return Patch(
        name=name,
        proposer="test",
        edits=edits_between("m.py", before, after),
        summary="",
        conflicts=conflicts,
    )


def test_patches_of_different_lines_are_merged():
    one = _patch("one", BASE.replace(b"x + 1", b"x + 3"))
    two = _patch("two", BASE.replace(b"return z", b"return -z"))
    merged = combine({"m.py": BASE}, [one, two])["m.py"]
    assert merged == BASE.replace(b"x + 1", b"x + 3").replace(b"return z", b"return -z")


def test_an_import_that_both_insert_is_kept_once():
    start = BASE.replace(b"import torch\n", b"import torch\nimport math\n")
    one = _patch("one", start.replace(b"x + 1", b"x + math.e"))
    two = _patch("two", start.replace(b"return z", b"return math.pi"))
    merged = combine({"m.py": BASE}, [one, two])["m.py"]
    assert merged.count(b"import math\n") == 1
    assert b"math.e" in merged
    assert b"math.pi" in merged


def test_different_insertions_at_one_place_stand_in_name_order():
    one = _patch("b", BASE.replace(b"import torch\n", b"import torch\nimport os\n"))
    two = _patch("a", BASE.replace(b"import torch\n", b"import torch\nimport sys\n"))
    merged = combine({"m.py": BASE}, [one, two])["m.py"]
    assert merged.startswith(b"import torch\nimport sys\nimport os\n")


def test_a_conflict_names_both_patches():
    one = _patch("one", BASE.replace(b"x + 1", b"x + 3"))
    two = _patch("two", BASE.replace(b"x + 1", b"x + 4"))
    with pytest.raises(EditError, match=r"one and two both change m\.py"):
        combine({"m.py": BASE}, [one, two])
    assert incompatible_pairs({"m.py": BASE}, [two, one]) == (("one", "two"),)


def test_declared_conflicts_are_pairs():
    one = _patch("one", BASE.replace(b"x + 1", b"x + 3"), conflicts=("two",))
    two = _patch("two", BASE.replace(b"return z", b"return -z"))
    assert incompatible_pairs({"m.py": BASE}, [one, two]) == (("one", "two"),)


def test_a_merge_that_is_not_python_is_a_pair():
    one = _patch("one", BASE.replace(b"    y = x + 1\n", b"    if x:\n        y = x + 1\n"))
    two = _patch("two", BASE.replace(b"    z = y", b"      z = y"))
    third = _patch("three", BASE.replace(b"return z", b"return -z"))
    # Patch two alone does not compile either: every pair with it is out.
    assert incompatible_pairs({"m.py": BASE}, [one, two, third]) == (
        ("one", "two"),
        ("three", "two"),
    )


def test_two_patches_that_make_the_same_file_must_agree():
    def make(name: str, content: str) -> Patch:
        return Patch(
            name=name,
            proposer="t",
            edits=(Edit(path="n.py", search="", replace=content),),
            summary="",
        )

    assert combine({}, [make("a", "x = 1\n"), make("b", "x = 1\n")]) == {"n.py": b"x = 1\n"}
    with pytest.raises(EditError, match="a and b"):
        combine({}, [make("a", "x = 1\n"), make("b", "x = 2\n")])


def test_two_additions_after_a_missing_last_newline_are_refused():
    base = b"x = 1"
    one, two = _patch("one", b"x = 1\ny = 2", base), _patch("two", b"x = 1\nz = 2", base)
    with pytest.raises(EditError, match="one and two"):
        combine({"m.py": base}, [one, two])


def test_a_patch_that_does_not_apply_is_named():
    patch = Patch(
        name="late", proposer="t", summary="", edits=(Edit(path="m.py", search="gone", replace=""),)
    )
    with pytest.raises(EditError, match="patch late does not apply"):
        combine({"m.py": BASE}, [patch])


_LINES = st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=8)


@given(base=_LINES, versions=st.lists(_LINES, min_size=2, max_size=3), seed=st.randoms())
def test_the_order_of_patches_does_not_matter(base, versions, seed):
    def text(lines: list[str]) -> bytes:
        return "".join(line + "\n" for line in lines).encode()

    before = text(base)
    patches = [
        _patch(f"p{n}", text(lines), before) for n, lines in enumerate(versions) if lines != base
    ]
    shuffled = list(patches)
    seed.shuffle(shuffled)

    def outcome(order: list[Patch]) -> object:
        try:
            return combine({"m.py": before}, order)
        except EditError as error:
            return str(error)

    assert outcome(patches) == outcome(shuffled)
