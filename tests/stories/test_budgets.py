"""Limits, estimates and upgrades, through the command line."""

import json

import pytest
from ledgers import rewrite_baseline

from infrarsi.stages.history import History
from infrarsi.store.ledger import read_ledger

pytestmark = pytest.mark.training


def upgrade_since(user, **before):
    """Write the ledger as it would be had the machine been another one when it was measured."""
    rewrite_baseline(user, lambda body: {**body, "machine": {**body["machine"], **before}})


def test_an_estimate_comes_before_the_run_and_dollars_need_a_price(measured):
    length = len(read_ledger(measured.root / ".infrarsi").events)
    said = measured.infrarsi("run", "--estimate").stdout
    assert "expected of the search" in said
    assert "expected of the confirmation" in said
    said = measured.refused("run", "--max-usd", "5", code=2)
    assert "plan.prices.usd_per_machine_hour" in said
    measured.edit_contract(lambda c: c["plan"]["prices"].update(usd_per_machine_hour=36.0))
    expected = json.loads(measured.infrarsi("run", "--estimate", "--max-usd", "5", "--json").stdout)
    wall, usd = expected["search_wall_s"], expected["search_usd"]
    assert 0 < wall["low"] <= wall["point"] <= wall["high"]
    assert usd["point"] == pytest.approx(wall["point"] / 100)
    assert "--max-usd cannot be -1" in measured.refused("run", "--max-usd", "-1", code=2)
    status = json.loads(measured.infrarsi("status", "--json").stdout)
    assert status["total_usd"] > 0, "doctor has cost something"
    assert len(read_ledger(measured.root / ".infrarsi").events) == length


def test_an_upgrade_since_the_baseline_is_refused_by_name_and_asks_for_a_new_one(measured):
    upgrade_since(measured, torch="2.2.0", kernel="1.0")
    then = History.of(read_ledger(measured.root / ".infrarsi").events).machine
    for command in ("run", "apply"):
        said = measured.refused(command, code=2)
        assert f"torch {then.torch} -> " in said
        assert "kernel 1.0 -> " in said
        assert "infrarsi doctor" in said
