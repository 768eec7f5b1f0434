"""doctor says what its checks see, what is drawn by chance, and what was installed."""

import pytest
from ledgers import rewrite_baseline

from infrarsi.stages.history import History
from infrarsi.stages.launching.trial import evidence_of, source_of
from infrarsi.stages.report import build_report
from infrarsi.stages.workspace import read_workspace

pytestmark = pytest.mark.training


def test_known_falsifications_are_made_on_request_and_what_saw_them_is_stated(measured):
    said = measured.infrarsi("doctor", "--controls").stdout
    workspace = read_workspace(measured.root)
    history = History.of(workspace.ledger.events)
    controls = {each.kind: each for each in history.baseline.controls}
    assert set(controls) == {"coarse_gradients", "stale_gradients", "frozen_tensor"}
    assert all(each.applied for each in controls.values())
    for kind in ("stale_gradients", "frozen_tensor"):
        assert any("numerics" in check for check in controls[kind].seen_by), controls[kind]
    seen = sum(bool(each.seen_by) for each in controls.values())
    assert f"{seen} of 3" in said
    report = build_report(workspace, history)
    assert "one parameter that is not trained (by numerics" in report.checks
    assert ("CANNOT see" in report.checks) == (seen < 3)
    assert report.cost.by_purpose_s["control"] > 0


def test_what_was_installed_and_imported_is_on_record_and_another_package_is_refused(measured):
    workspace = read_workspace(measured.root)
    history = History.of(workspace.ledger.events)
    baseline = history.baseline
    assert baseline.randomness.is_none
    assert {"torch", "numpy"} <= set(baseline.packages)
    assert "torch" in baseline.imports
    reference = history.trials[baseline.reference_trial]
    assert "torch" in evidence_of(workspace, reference).packages
    facts = source_of(workspace, reference).packages
    assert facts.owners["torch"].startswith("torch ")
    assert facts.changed == ()
    assert "numpy" in facts.installed
    numbered(measured, torch="0.1 abc", anything="3.0 def")
    said = measured.refused("run", code=2)
    assert "torch 0.1 -> " in said
    assert "anything" not in said, "nothing imports it"


def numbered(user, **states):
    """Write the ledger as it would be had other versions been installed when it was measured."""

    def otherwise(body):
        known = body["baseline"]
        return {**body, "baseline": {**known, "packages": {**known["packages"], **states}}}

    rewrite_baseline(user, otherwise)
