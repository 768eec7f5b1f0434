"""Edits as proposers send them in the field: applied exactly, or refused whole with feedback."""

import pytest
from pydantic import ValidationError

from infrarsi.edits.apply import apply_edits
from infrarsi.errors import EditError
from infrarsi.records.candidate import Edit, Patch

CODE = b"def norm(x):\n    return x / x.norm()\n"


def applied(before, search, replace, path="model.py"):
    return apply_edits({path: before}, [Edit(path=path, search=search, replace=replace)])[path]


def feedback(before, search, replace="changed"):
    with pytest.raises(EditError) as error:
        applied(before, search, replace)
    return f"{error.value} -> {error.value.hint}"


def test_a_line_of_equal_signs_inside_the_code_is_code():
    before = b'"""\nTitle\n=======\n"""\n<<<<<<< SEARCH\n'
    after = applied(before, "Title\n=======\n", "Title\n=======\n>>>>>>> REPLACE\n")
    assert after == b'"""\nTitle\n=======\n>>>>>>> REPLACE\n"""\n<<<<<<< SEARCH\n'


def test_a_patch_already_applied_is_said_to_be_so():
    done = CODE.replace(b"x.norm()", b"x.norm().clamp(min=1e-6)")
    said = feedback(done, "return x / x.norm()\n", "return x / x.norm().clamp(min=1e-6)\n")
    assert "The replacement stands there already" in said


def test_double_indentation_is_named_with_its_line():
    said = feedback(CODE, "        return x / x.norm()\n")
    assert "Line 2 differs only in white space" in said


def test_tabs_for_spaces_are_named_with_their_line():
    said = feedback(CODE, "\treturn x / x.norm()\n")
    assert "Line 2 differs only in white space" in said
    assert r"\t" in said


def test_a_byte_order_mark_stays_where_it_is():
    before = b"\xef\xbb\xbf" + CODE
    assert applied(before, "x.norm()", "1.0") == b"\xef\xbb\xbf" + CODE.replace(b"x.norm()", b"1.0")


def test_a_file_without_a_newline_at_its_end_gets_none():
    before = CODE.rstrip(b"\n")
    assert applied(before, "x.norm()", "1.0") == before.replace(b"x.norm()", b"1.0")


def test_a_file_is_created_with_the_bytes_that_are_given():
    edit = Edit(path="fast/rope.py", search="", replace="turns = 1\r\n")
    assert apply_edits({}, [edit]) == {"fast/rope.py": b"turns = 1\r\n"}


def test_a_file_that_is_gone_under_its_old_name_is_named():
    with pytest.raises(EditError, match=r"the edit's file old\.py does not exist"):
        apply_edits({"new.py": CODE}, [Edit(path="old.py", search="x", replace="y")])


def test_an_empty_diff_is_no_patch():
    with pytest.raises(ValidationError, match="at least 1 item"):
        Patch(name="nothing", proposer="test", edits=(), summary="nothing")
