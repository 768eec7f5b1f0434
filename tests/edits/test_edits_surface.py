from __future__ import annotations

import pytest

from infrarsi.edits import within_surface
from infrarsi.records.task import Surface


@pytest.mark.parametrize(
    ("path", "glob", "inside"),
    [
        ("train.py", "*.py", True),
        ("src/train.py", "*.py", False),
        ("src/train.py", "**/*.py", True),
        ("train.py", "**/*.py", True),
        ("src/a/b/train.py", "src/**/*.py", True),
        ("src/train.py", "src/**/*.py", True),
        ("src2/train.py", "src/**/*.py", False),
        ("src/a/b.txt", "src/**", True),
        ("src", "src/**", False),
        ("src/a.py", "src/", True),
        ("src/a.py", "src/?.py", True),
        ("src/ab.py", "src/?.py", False),
        ("src/a.py", "src/[ab].py", True),
        ("src/c.py", "src/[!ab].py", True),
        ("src/a.py", "src/[!ab].py", False),
        ("a.b/c+d.py", "a.b/c+d.py", True),
        ("aXb/c.py", "a.b/c.py", False),
    ],
)
def test_globs_match_as_people_read_them(path: str, glob: str, inside: bool):
    assert within_surface(path, Surface(editable=(glob,))) is inside


@pytest.mark.parametrize(
    "path",
    ["/etc/passwd", "../x.py", "a/../../x.py", "./x.py", "a//x.py", ".git/config", "sub/.GIT/hooks/x",
     ".infrarsi/ledger.jsonl", "a\\..\\x.py", "C:/x.py", "a\nb.py", "", "a/"],
)  # fmt: skip
def test_paths_that_leave_the_tree_are_refused(path: str):
    assert not within_surface(path, Surface(editable=("**",)))


def test_protected_wins_over_editable():
    surface = Surface(editable=("**/*.py",), protected=("eval/**",))
    assert within_surface("model.py", surface)
    assert not within_surface("eval/metric.py", surface)
