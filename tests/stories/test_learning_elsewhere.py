"""What outlives a search: a table of a sweep, and a pack of experience for the next one."""

import csv
import json

import pytest
from further import make_put_forward

from infrarsi.store.ledger import read_ledger

pytestmark = pytest.mark.training


def rows_of(place):
    with place.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_sweep_goes_on_where_it_was_and_its_table_is_one_that_bench_replays(user_at, tmp_path):
    user = user_at(make_put_forward(tmp_path / "training"))
    place = tmp_path / "out" / "speaking.csv"
    first = user.infrarsi("sweep", "-o", str(place), "--sample", "4", "--max-trials", "1")
    assert "1 of " in first.stderr
    [reference] = rows_of(place)
    assert reference["status"] == "ok"
    user.infrarsi("sweep", "-o", str(place), "--sample", "4")
    rows = rows_of(place)
    assert len(rows) == 4
    assert rows[0] == reference, "what was measured is not measured again"
    launches = [
        each for each in read_ledger(user.root / ".infrarsi").of_kind("trial_started")
        if each.body["purpose"] == "sweep"
    ]  # fmt: skip
    assert len(launches) == 4
    done = user.infrarsi(
        "bench", "--table", str(place), "--strategy", "random", "--trials", "2", "--seeds", "1",
        "--least-rows", "2", "--least-ok", "1", "-o", str(tmp_path / "bench"), "--json",
    )  # fmt: skip
    assert len(json.loads(done.stdout)["replays"][0]["steps"]) == 2
    user.leaves_nothing()


def test_what_a_search_has_taught_another_repository_starts_from(user_at, tmp_path):
    bank = str(tmp_path / "bank")
    for name in ("teacher", "pupil"):
        user = user_at(make_put_forward(tmp_path / name))
        before = len(read_ledger(user.root / ".infrarsi").events)
        user.infrarsi("run", "--bank", bank, "--max-trials", "3")
        events = read_ledger(user.root / ".infrarsi").events[before:]
        used = [each.body for each in events if each.kind == "recalled"]
        if name == "teacher":
            assert not any(each["beliefs"] for each in used)
    packs = json.loads(user.infrarsi("bank", "list", "--bank", bank, "--json").stdout)
    assert len(packs) == 2
    assert used[-1]["beliefs"], "the first search's pack"
    user.infrarsi("report")
    report = json.loads((user.root / ".infrarsi" / "report" / "report.json").read_text())
    assert report["experience"]["num_beliefs"] == len(used[-1]["beliefs"])
