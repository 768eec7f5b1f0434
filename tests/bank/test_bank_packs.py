"""Packs are files that people read, that git merges, and in which nothing is altered unseen."""

import subprocess
from pathlib import Path

import pytest
from pack_samples import RECOMPUTE, SDPA, hardware, lesson, pack

from infrarsi.bank.folders import read_bank, user_bank
from infrarsi.bank.merging import merged
from infrarsi.bank.packs import pack_text, parse_pack, read_pack, write_pack
from infrarsi.errors import BankError
from infrarsi.records.experience import Atom

MANY = [lesson(Atom(patch=f"recipe_{number}"), evidence=(number,)) for number in range(12)]


def refused(content, *, said):
    with pytest.raises(BankError, match=said) as caught:
        parse_pack(content.encode(), name="theirs.yaml")
    assert "theirs.yaml" in str(caught.value)
    assert caught.value.hint


def git(root, *arguments):
    identity = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    return subprocess.run(
        ["git", *identity, *arguments], cwd=root, capture_output=True, text=True, check=True
    ).stdout


def test_a_pack_reads_back_as_it_was_written(tmp_path):
    whole = pack(
        lesson(SDPA, memory=-0.1), lesson(RECOMPUTE, outcome="oom", time=None, log_memory_above=0.4),
        lesson(Atom(knob="malloc", before=None, after="x=0:y=1"), beside=(SDPA,), evidence=(1, 2)),
        lesson(Atom(knob="lr", before=1, after=1.0), outcome="refused", why="numerics: loss"),
        lesson(Atom(patch="mine", proposer="language"), outcome="failed", time=None, why="hung"),
    )  # fmt: skip
    place = write_pack(tmp_path / "new" / "bank", whole)
    assert place.name == "tiny-0123456789ab.yaml"
    assert read_pack(place) == whole
    assert read_bank(place.parent).packs == (whole,)


def test_the_text_of_a_pack_does_not_depend_on_the_order_of_its_lessons():
    assert pack_text(pack(*MANY)) == pack_text(pack(*reversed(MANY)))


def test_git_merges_line_by_line_what_two_people_have_learnt(tmp_path):
    git(tmp_path, "init", "-q", "-b", "main")
    (tmp_path / ".gitattributes").write_text("*.yaml merge=union\n")
    people = {"main": MANY[:6], "theirs": MANY[:9], "ours": [*MANY[:6], *MANY[9:]]}
    for number, (person, known) in enumerate(people.items()):
        if number:
            git(tmp_path, "checkout", "-q", "-b", person, "main")
        write_pack(tmp_path, pack(*known))
        write_pack(tmp_path, pack(*known, id=f"{number:012x}", label=person))
        git(tmp_path, "add", "-A")
        git(tmp_path, "commit", "-qm", person)
    git(tmp_path, "merge", "-q", "-m", "both", "theirs")
    bank = read_bank(tmp_path, strictly=True)
    assert {each.label for each in bank.packs} == {*people, "tiny"}
    joint = next(each for each in bank.packs if each.label == "tiny")
    assert joint == pack(*MANY)


def test_a_lesson_that_a_merge_left_twice_is_taken_once():
    text = pack_text(pack(*MANY))
    twice = text + text.partition("lessons:\n")[2]
    assert parse_pack(twice.encode(), name="x") == pack(*MANY)


def test_of_two_accounts_the_one_that_rests_on_all_the_evidence_counts():
    before, after = lesson(time=-0.2, evidence=(1,)), lesson(time=-0.25, evidence=(1, 2))
    for pair in ((before, after), (after, before)):
        assert parse_pack(pack_text(pack(*pair)).encode(), name="x").lessons == (after,)


def test_accounts_that_clash_are_an_error():
    text = pack_text(pack(lesson(time=-0.2, evidence=(1,)), lesson(time=0.3, evidence=(2,))))
    refused(text, said=r"the lessons \w+ and \w+ clash: both are about \+sdpa")


def test_packs_of_one_id_and_two_machines_clash_and_the_bank_tells(tmp_path):
    write_pack(tmp_path, pack(MANY[0]))
    write_pack(tmp_path, pack(MANY[1], label="other", machine=hardware(num=8)))
    bank = read_bank(tmp_path)
    assert len(bank.packs) == 1
    assert "share the id 0123456789ab" in str(bank.faults[0])
    with pytest.raises(BankError, match="not of the same training on the same machine"):
        read_bank(tmp_path, strictly=True)


def test_packs_of_one_search_are_joined_and_those_of_others_stay():
    other = pack(MANY[0], id="f" * 12)
    joined = merged([pack(*MANY[:2]), other, pack(*MANY[1:4])])
    assert joined == (pack(*MANY[:4]), other)


def test_an_altered_lesson_does_not_match_its_digest():
    text = pack_text(pack(lesson(time=-0.2)))
    refused(text.replace("mean: -0.2", "mean: -0.9"), said="not what its digest says")
    refused(text.replace("0" * 12, "1" * 12, 1), said="not what its digest says")


def test_a_pack_of_another_version_is_not_guessed_at():
    text = pack_text(pack(*MANY)).replace("schema_version: 1", "schema_version: 7")
    refused(text, said="version 7, and this InfraRSI reads version 1")
    refused("label: x\n", said="version None")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("<<<<<<< ours\nid: 1\n=======\n", "not valid YAML"),
        ("a: [", "not valid YAML"),
        ("- 1\n- 2\n", "holds no pack"),
        ("", "holds no pack"),
        ("schema_version: 1\nid: short\n", "id: String should match"),
        ("schema_version: 1\nlessons: 3\n", "Field required"),
    ],
)
def test_what_is_no_pack_is_said_in_a_sentence(content, said):
    refused(content, said=said)


def test_an_atom_is_a_patch_or_a_knob():
    text = pack_text(pack(lesson(SDPA))).replace("patch: sdpa", "patch: sdpa, knob: x")
    refused(text, said="an atom is a patch or a knob")


def test_a_bank_that_cannot_be_written_is_an_error_with_a_way_out(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(BankError, match="nothing can be written to the bank") as caught:
        write_pack(tmp_path / "file", pack(*MANY))
    assert "--no-bank" in caught.value.hint
    with pytest.raises(BankError, match="cannot be read"):
        read_pack(tmp_path / "absent.yaml")


def test_a_broken_pack_is_passed_over_and_told(tmp_path):
    write_pack(tmp_path, pack(*MANY))
    (tmp_path / "broken.yaml").write_text("a: [")
    bank = read_bank(tmp_path)
    assert bank.packs == (pack(*MANY),)
    assert "broken.yaml is not valid YAML" in str(bank.faults[0])
    assert read_bank(tmp_path / "absent").packs == ()


def test_the_users_bank_is_named_else_where_data_of_programs_lies(monkeypatch, tmp_path):
    monkeypatch.setenv("INFRARSI_BANK", str(tmp_path))
    assert user_bank() == tmp_path
    monkeypatch.setenv("INFRARSI_BANK", "")
    assert user_bank() is None
    monkeypatch.delenv("INFRARSI_BANK")
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert user_bank() == Path("/data/infrarsi/bank")
    monkeypatch.setenv("XDG_DATA_HOME", "not/absolute")
    assert user_bank() == Path.home() / ".local/share/infrarsi/bank"
