"""The witness is written for the oldest Python that may train, whichever runs the tests."""

import ast
import sys

import pytest

from infrarsi.execute.interpreter import OLDEST_PYTHON
from infrarsi.witness import ENTRY

SOURCES = sorted(ENTRY.rglob("*.py"))
NEWER = {
    "aclosing", "add_note", "aiter", "anext", "batched", "BaseExceptionGroup", "bit_count", "cbrt",
    "EllipsisType", "EncodingWarning", "ExceptionGroup", "exp2", "file_digest", "get_annotations",
    "hardlink_to", "KW_ONLY", "nonmember", "NoneType", "orig_argv", "pairwise", "ParamSpec",
    "ReprEnum", "stdlib_module_names", "StrEnum", "sumprod", "TaskGroup", "tomllib", "TypeAlias",
    "TypeGuard", "UnionType", "UTC",
}  # fmt: skip
"""Names of the standard library that came after Python 3.9."""
NEWER_ARGUMENTS = {"strict", "slots", "kw_only", "match_args", "weakref_slot"}


def tree_of(place):
    return ast.parse(place.read_text(encoding="utf-8"), str(place), feature_version=OLDEST_PYTHON)


@pytest.mark.parametrize("place", SOURCES, ids=lambda place: place.name)
def test_it_uses_nothing_that_came_later(place):
    names, arguments = set(), set()
    for node in ast.walk(tree_of(place)):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name):
                names.add(name)
            case ast.ImportFrom(names=imported) | ast.Import(names=imported):
                names.update(each.name for each in imported)
            case ast.keyword(arg=str(name)):
                arguments.add(name)
    assert not names & NEWER
    assert not arguments & NEWER_ARGUMENTS


@pytest.mark.parametrize("place", SOURCES, ids=lambda place: place.name)
def test_no_annotation_is_evaluated(place):
    tree = tree_of(place)
    lazily = any(
        isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in tree.body
    )
    annotated = [
        node for node in ast.walk(tree)
        if isinstance(node, ast.AnnAssign) or getattr(node, "annotation", None) is not None
        or getattr(node, "returns", None) is not None
    ]  # fmt: skip
    assert lazily or not annotated


@pytest.mark.parametrize("place", SOURCES, ids=lambda place: place.name)
def test_it_imports_the_standard_library_torch_and_itself_only(place):
    roots = set()
    for node in ast.walk(tree_of(place)):
        match node:
            case ast.Import(names=imported):
                roots.update(each.name.split(".")[0] for each in imported)
            case ast.ImportFrom(module=str(name), level=0):
                roots.add(name.split(".")[0])
    ours = {"infrarsi_traceable", "infrarsi_witness"}
    assert roots - ours - {"torch"} <= set(sys.stdlib_module_names)


def test_types_are_never_joined_at_run_time():
    for place in SOURCES:
        for node in ast.walk(tree_of(place)):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in {
                "isinstance",
                "issubclass",
            }:
                assert not any(isinstance(each, ast.BinOp) for each in ast.walk(node)), place
