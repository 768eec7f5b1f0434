"""What ships is sound, and names nobody and no place."""

from infrarsi.bank.folders import read_bank, shipped_bank
from infrarsi.bank.packs import file_name, pack_text

PACKS = read_bank(shipped_bank(), strictly=True).packs


def test_packs_of_several_searches_ship_failures_among_them():
    assert len({pack.label for pack in PACKS}) >= 4
    outcomes = {lesson.outcome for pack in PACKS for lesson in pack.lessons}
    assert {"confirmed", "accepted", "refused", "oom"} <= outcomes


def test_they_stand_in_their_one_form_under_their_own_names():
    for pack in PACKS:
        place = shipped_bank() / file_name(pack)
        assert place.read_text(encoding="utf-8") == pack_text(pack)


def test_nothing_private_is_in_them():
    for pack in PACKS:
        for line in pack_text(pack).splitlines():
            assert line.startswith("#") or not {"/", "\\", "@", "~"} & set(line)
