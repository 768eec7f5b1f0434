from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infrarsi.edits import apply_edits, edits_between
from infrarsi.errors import EditError
from infrarsi.records.candidate import Edit


def _edit(search: str, replace: str, path: str = "a.py") -> Edit:
    return Edit(path=path, search=search, replace=replace)


def test_only_the_named_place_changes():
    files = {"a.py": b"x = 1\ny = 2\n", "b.py": b"z = 3\n"}
    assert apply_edits(files, [_edit("y = 2", "y = 5")]) == {"a.py": b"x = 1\ny = 5\n"}


@pytest.mark.parametrize(
    "before",
    [
        b"a = 1\r\nb = 2\r\n",
        b"\xef\xbb\xbfa = 1\nb = 2",
        b"\ta = 1\n\tb = 2\n\n\n",
        b"a = 1\rb = 2\x0c\n",
    ],
)
def test_bytes_outside_the_place_are_kept(before: bytes):
    assert apply_edits({"a.py": before}, [_edit("a = 1", "a = 7")]) == {
        "a.py": before.replace(b"a = 1", b"a = 7")
    }


def test_the_order_of_edits_does_not_matter_and_none_sees_another():
    files = {"a.py": b"one\ntwo\n"}
    edits = [_edit("one", "two"), _edit("two", "one")]
    assert apply_edits(files, edits) == {"a.py": b"two\none\n"}
    assert apply_edits(files, edits[::-1]) == {"a.py": b"two\none\n"}


def test_an_absent_search_names_the_nearest_line():
    with pytest.raises(EditError, match=r"is not in a\.py") as caught:
        apply_edits(
            {"a.py": b"import os\nloss = model(x, y)\n"}, [_edit("loss = model(x,y)\n", "")]
        )
    assert "2" in caught.value.hint
    assert "loss = model(x, y)" in caught.value.hint


def test_an_absent_search_that_differs_in_indentation_says_so():
    with pytest.raises(EditError) as caught:
        apply_edits({"a.py": b"if a:\n    b = 1\n"}, [_edit("if a:\n        b = 1\n", "")])
    assert "white space" in caught.value.hint


def test_a_search_in_lf_for_a_crlf_file_says_so():
    with pytest.raises(EditError) as caught:
        apply_edits({"a.py": b"a = 1\r\nb = 2\r\n"}, [_edit("a = 1\nb = 2\n", "")])
    assert "CRLF" in caught.value.hint


def test_a_search_that_stands_twice_names_both_lines():
    with pytest.raises(EditError, match="lines 1 and 3"):
        apply_edits({"a.py": b"x = 1\ny = 2\nx = 1\n"}, [_edit("x = 1", "x = 2")])


def test_matches_that_overlap_count_as_two():
    with pytest.raises(EditError, match="more than once"):
        apply_edits({"a.py": b"aaa\n"}, [_edit("aa", "b")])


def test_one_bad_edit_refuses_all():
    with pytest.raises(EditError):
        apply_edits({"a.py": b"x\n"}, [_edit("x", "y"), _edit("q", "r")])


def test_edits_that_overlap_are_refused():
    with pytest.raises(EditError, match="overlap"):
        apply_edits({"a.py": b"abc\n"}, [_edit("ab", "1"), _edit("bc", "2")])


def test_a_missing_file_is_refused():
    with pytest.raises(EditError, match="does not exist"):
        apply_edits({}, [_edit("x", "y")])


def test_a_new_file_must_not_exist():
    assert apply_edits({}, [_edit("", "x = 1\n")]) == {"a.py": b"x = 1\n"}
    with pytest.raises(EditError, match="exists"):
        apply_edits({"a.py": b"x = 0\n"}, [_edit("", "x = 1\n")])


def test_a_file_that_is_not_utf8_is_refused_clearly():
    with pytest.raises(EditError, match="not UTF-8"):
        apply_edits({"a.py": b"x = '\xe9'\n"}, [_edit("x", "y")])


def test_an_edit_that_changes_nothing_changes_no_file():
    assert apply_edits({"a.py": b"x\n"}, [_edit("x", "x")]) == {}


_LINES = st.lists(
    st.sampled_from(["a", "b", "a\r", "\ta", "", "\ufeffa", "é", "  b", "aa", "\x0c"]), max_size=12
)
_TEXTS = st.builds(
    lambda lines, end: ("\n".join(lines) + end).encode(), _LINES, st.sampled_from(["", "\n"])
)


@given(before=_TEXTS, after=_TEXTS)
def test_edits_between_two_texts_turn_one_into_the_other(before: bytes, after: bytes):
    edits = edits_between("f", before, after)
    assert apply_edits({"f": before}, edits).get("f", before) == after


@given(before=_TEXTS, after=_TEXTS)
def test_each_search_text_stands_once(before: bytes, after: bytes):
    text = before.decode()
    for edit in edits_between("f", before, after):
        if edit.search:
            first = text.find(edit.search)
            assert first >= 0
            assert text.find(edit.search, first + 1) < 0


def test_edits_are_small():
    before = "".join(f"line {n}\n" for n in range(100))
    after = before.replace("line 50\n", "line fifty\n")
    (edit,) = edits_between("f", before.encode(), after.encode())
    assert edit.search == "line 50\n"


def test_an_insertion_where_two_edits_would_meet_is_made_once():
    before = b"u0\nu1\nb\nu3\nb\nu5\n"
    after = b"u0\nu1\nnew\nb\nu3\nc\nu5\n"
    assert apply_edits({"f": before}, edits_between("f", before, after)) == {"f": after}
