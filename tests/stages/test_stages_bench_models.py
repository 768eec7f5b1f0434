"""Models scored on a made-up table."""

import json

import pytest
from measured_tables import rows_of, write_table

from infrarsi.errors import TableError
from infrarsi.stages.tables.models import bench_models


@pytest.fixture(scope="module")
def scored(tmp_path_factory):
    place = write_table(
        tmp_path_factory.mktemp("table"), rows_of(gpus=(16,), sizes=(1.1, 3.0, 7.0))
    )
    output = tmp_path_factory.mktemp("out")
    return bench_models(place, seeds=1, output=output, observed=(6,), tell=lambda _: None)


def test_every_way_is_scored_on_the_same_rows(scored):
    report, _ = scored
    by_rows = {}
    for each in report.memory:
        by_rows.setdefault((each.chosen, each.observed), set()).add((each.num_rows, each.num_tasks))
        assert 0 <= each.fit_error <= 1
        assert each.log_likelihood < 0
    assert all(len(rows) == 1 for rows in by_rows.values())
    assert {chosen for chosen, _ in by_rows} == {"random", "search"}


def test_the_formula_predicts_a_size_that_it_never_saw_better_than_what_only_interpolates(scored):
    report, _ = scored
    error = {each.way: each.median_log_error for each in report.time if each.left_out == "all"}
    assert error["formula and process"] < 0.25
    assert error["formula and process"] < min(error["process"], error["forest"])


def test_it_agrees_with_lifelines_where_that_converges(scored):
    report, _ = scored
    assert report.agreement.num_converged > 0
    assert report.agreement.median_difference < 0.05


def test_the_files_hold_what_was_given(scored):
    report, (stored, written) = scored
    assert len(json.loads(stored.read_text())["memory"]) == len(report.memory)
    assert "lifelines' LogNormalAFTFitter converged" in written.read_text()


def test_a_table_without_memory_or_sizes_is_refused(tmp_path):
    (tmp_path / "t.csv").write_text("a,speed,status\n1,2,ok\n2,3,ok\n")
    (tmp_path / "t.yaml").write_text(
        "table: t.csv\nknobs: {a: {scale: linear}}\n"
        "metric: {column: speed, direction: max}\nstatus: {column: status, ok: ok}\n"
    )
    with pytest.raises(TableError, match="nothing to score"):
        bench_models(tmp_path / "t.csv", seeds=1, output=tmp_path, tell=lambda _: None)
