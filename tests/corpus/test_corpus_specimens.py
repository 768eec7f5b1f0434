"""Each specimen of the corpus applies to its example and is Python; what they do is the bench's to see."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from specimen import KINDS, read_corpus

from infrarsi.edits import apply_edits
from infrarsi.edits.combine import is_python
from infrarsi.judge.audit import judge_audit
from infrarsi.judge.facts import ChangedFile
from infrarsi.records.verdict import Ruling

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
CORPUS = read_corpus()
ONLY_ON_A_GPU_OR_AT_ANOTHER_PLACE = {"T10", "T11", "T12", "I10"}
"""Kinds that no patch of these examples shows on a CPU: state on a device, the order
of arms, the owner's own reference, what outlives a launch. docs/verification.md says where they are."""


@cache
def files_of(example):
    folder = EXAMPLES / example
    kept = [each for each in folder.rglob("*") if each.suffix in {".py", ".yaml", ".json"}]
    return {each.relative_to(folder).as_posix(): each.read_bytes() for each in kept
            if "data/" not in each.as_posix()}  # fmt: skip


@pytest.mark.parametrize("specimen", CORPUS, ids=lambda each: each.name)
def test_a_specimen_applies_to_its_example_and_gives_python(specimen):
    changed = apply_edits(files_of(specimen.example), specimen.edits)
    assert {edit.path for edit in specimen.edits} == set(changed)
    assert [path for path, text in changed.items() if not is_python(path, text)] == []
    assert specimen.edits or specimen.knobs or specimen.does.startswith("Nothing")


def test_names_stand_once_and_kinds_are_known():
    names = Counter(each.name for each in CORPUS)
    assert [name for name, count in names.items() if count > 1] == []
    assert {each.kind for each in CORPUS} <= KINDS
    assert all(each.layers for each in CORPUS if not each.honest)


def test_there_are_enough_of_every_kind_that_a_patch_on_a_cpu_can_show():
    false = [each for each in CORPUS if not each.honest and not each.unmeasured]
    assert len(false) >= 60
    assert sum(each.honest for each in CORPUS) >= 24
    shown = {each.kind for each in false}
    assert KINDS - {"H"} - ONLY_ON_A_GPU_OR_AT_ANOTHER_PLACE - shown == set()
    assert {each.example for each in false} >= {"tiny_gpt", "tiny_moe", "hf_trainer"}


@pytest.mark.parametrize(
    "specimen", [each for each in CORPUS if each.honest], ids=lambda each: each.name
)
def test_the_audit_has_nothing_against_an_honest_specimen(specimen):
    changed = [
        ChangedFile(path=each.path, before=each.search or None, after=each.replace)
        for each in specimen.edits
    ]
    assert [f.reason for f in judge_audit(changed) if f.ruling is not Ruling.PASS] == []
