"""A sweep of a real training, stopped and gone on with, and its table replayed."""

import csv
import subprocess
import time

import pytest

pytestmark = pytest.mark.training


def rows_of(place):
    return list(csv.DictReader(place.open())) if place.exists() else []


def test_a_sweep_goes_on_where_it_was_stopped_and_its_table_can_be_replayed(measured, tmp_path):
    table = tmp_path / "swept.csv"
    typed = ("sweep", "--sample", "4", "--seed", "2", "-o", str(table))
    process = measured.start(*typed)
    while not rows_of(table) and process.poll() is None:
        time.sleep(0.1)
    process.kill()
    process.wait()
    begun = rows_of(table)
    assert begun
    assert len(begun) < 4
    said = measured.infrarsi(*typed)
    assert "4 of 4 measured" in said.stderr
    rows = rows_of(table)
    assert [row["trial"] for row in rows[: len(begun)]] == [row["trial"] for row in begun]
    assert len({tuple(sorted(row.items())) for row in rows}) == 4
    assert rows[0]["status"] == "ok"
    assert float(rows[0]["update_s"]) > 0
    assert float(rows[0]["peak_gib"]) < float(rows[0]["capacity_gib"])
    again = measured.infrarsi(*typed)
    assert rows_of(table) == rows
    assert "4 of 4 measured" in again.stderr
    bench = ["bench", "--table", str(table), "--strategy", "random", "--trials", "3",
             "--least-rows", "4", "--least-ok", "1", "-o", str(tmp_path / "out")]  # fmt: skip
    assert "| random |" in measured.infrarsi(*bench).stdout
    measured.leaves_nothing()


def test_a_sweep_of_what_is_not_there_is_refused(measured):
    assert "there is no knob 'speed'" in measured.refused("sweep", "--knob", "speed", code=2)
    assert "no CSV file" in measured.refused("sweep", "-o", "table.txt", code=2)
    status = subprocess.run(["git", "status", "--porcelain"], cwd=measured.root,
                            capture_output=True, text=True, check=True)  # fmt: skip
    assert "csv" not in status.stdout
