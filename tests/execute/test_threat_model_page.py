"""Every claim of docs/threat-model.md names tests that exist, and none of its tests is left out."""

import re
from pathlib import Path

import pytest

from infrarsi.execute.sandbox import Tier

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "threat-model.md").read_text(encoding="utf-8")
ROWS = [
    line for line in PAGE.splitlines()
    if line.startswith("| ") and not line.startswith("| ---") and not line.endswith("| test |")
]  # fmt: skip
NAMED = r"^def (test_\w+)"


def test_every_claim_names_a_test_that_exists():
    sources = (place.read_text(encoding="utf-8") for place in (ROOT / "tests").rglob("test_*.py"))
    known = {name for source in sources for name in re.findall(NAMED, source, re.M)}
    assert len(ROWS) > 20
    for row in ROWS:
        assert re.findall(r"`(test_\w+)`", row), row
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    assert named <= known, named - known


def test_no_test_of_a_claim_is_left_out():
    source = (Path(__file__).parent / "test_sandbox_claims.py").read_text(encoding="utf-8")
    for name in re.findall(NAMED, source, re.M):
        assert f"`{name}`" in PAGE, name


@pytest.mark.parametrize("tier", list(Tier))
def test_every_tier_has_its_section_with_what_it_does_not_stop(tier):
    section = PAGE.split(f"## Tier `{tier.value}`")[1].split("\n## ")[0]
    assert "What it does not stop" in section
