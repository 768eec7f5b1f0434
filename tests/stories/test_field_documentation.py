"""Every case of docs/field.md names tests that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROWS = [line for line in (ROOT / "docs" / "field.md").read_text(encoding="utf-8").splitlines()
        if line.startswith("| ") and not line.startswith(("| case", "| ---"))]  # fmt: skip


@pytest.fixture(scope="module")
def tests():
    sources = (place.read_text(encoding="utf-8") for place in (ROOT / "tests").rglob("test_*.py"))
    return {name for source in sources for name in re.findall(r"^def (test_\w+)", source, re.M)}


def test_every_case_has_a_test_that_exists(tests):
    for row in ROWS:
        named = re.findall(r"`(test_\w+)`", row)
        assert named, row
        assert set(named) <= tests, set(named) - tests


def test_no_field_test_is_left_out_of_the_page():
    page = "\n".join(ROWS)
    for room in ("trials", "repositories"):
        source = (Path(__file__).parent / f"test_field_{room}.py").read_text(encoding="utf-8")
        for name in re.findall(r"^def (test_\w+)", source, re.M):
            assert f"`{name}`" in page, name
