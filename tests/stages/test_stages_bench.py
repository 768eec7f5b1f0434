"""Strategies replayed on made-up tables."""

import json
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from measured_tables import SIDECAR, changed, rows_of, write_table

from infrarsi.errors import TableError, UsageError
from infrarsi.records.bench import BenchPlan
from infrarsi.records.history import Observation
from infrarsi.records.table import MetricColumn
from infrarsi.render.bench import bench_markdown
from infrarsi.search.acquisition import Models
from infrarsi.search.lattice import Lattice
from infrarsi.stages.bench import bench
from infrarsi.stages.tables.other_tasks import OtherTasks, size_of
from infrarsi.stages.tables.replaying import _unit, pool_of, replay
from infrarsi.store.table import read_table


def run(place, output, *strategies, seeds=1, **plan):
    return bench(
        place, BenchPlan(**plan), strategies=strategies, seeds=seeds, output=output,
        tell=lambda _: None,
    )  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return write_table(tmp_path_factory.mktemp("table"), rows_of())


@pytest.fixture(scope="module")
def done(place, tmp_path_factory):
    return run(place, tmp_path_factory.mktemp("out"), "infrarsi", "random", trials=6, seeds=3)


def standing(report, strategy):
    return next(each for each in report.standings if each.strategy == strategy)


def test_formulas_with_constants_from_data_sheets_find_nearly_the_best_at_once(done):
    report, _ = done
    assert len(report.tasks) == 2
    assert all(task.formulas for task in report.tasks)
    ours, drawn = standing(report, "infrarsi"), standing(report, "random")
    assert ours.found[4].point > 0.95
    assert ours.worst[6][1] > 0.9
    assert drawn.found[4].point < 0.95 * ours.found[4].point
    assert drawn.ahead[4].point > 1.05


def test_intervals_hold_their_points_and_more_trials_find_no_less(done):
    report, _ = done
    for each in report.standings:
        points = [each.found[budget].point for budget in report.budgets]
        assert points == sorted(points)
        assert all(each.found[b].low <= each.found[b].point <= 1 for b in report.budgets)


def test_json_markdown_and_plot_say_the_same(done):
    _report, files = done
    stored = json.loads(files.json.read_text())
    point = stored["standings"][0]["found"]["4"]["point"]
    assert f"{point:.3f} (" in files.markdown.read_text()
    drawn = ET.fromstring(files.svg.read_text())
    said = [each.text for each in drawn.iter("{http://www.w3.org/2000/svg}title")]
    assert any(f"infrarsi after 4 trials: {point:.3f}" in text for text in said)


def test_the_same_command_makes_no_replay_twice_and_goes_on_after_a_torn_line(place, tmp_path):
    first, _ = run(place, tmp_path, "random", trials=4, seeds=2)
    journal = tmp_path / "replays.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    assert len(lines) == 4
    journal.write_text("".join(lines[:2]) + lines[2][:40])
    second, _ = run(place, tmp_path, "random", trials=4, seeds=2)
    kept = [(each.task, each.places) for each in first.replays]
    assert kept == [(each.task, each.places) for each in second.replays]
    again, _ = run(place, tmp_path, "random", trials=4, seeds=2)
    assert again.replays == second.replays


def test_another_plan_is_another_replay(place, tmp_path):
    run(place, tmp_path, "random", trials=3)
    run(place, tmp_path, "random", trials=3, noise_sd=0.1)
    assert len((tmp_path / "replays.jsonl").read_text().splitlines()) == 4


@pytest.mark.parametrize("strategy", ["hillclimb", "bestofk", "gp", "tpe"])
def test_every_rival_tries_rows_of_the_table_each_once(place, strategy):
    table = read_table(place)
    pool = pool_of(table.sidecar, table.tasks[0])
    made = replay(pool, BenchPlan(trials=7), strategy=strategy, task="a", seed=1)
    assert len(set(made.places)) == len(made.places) == 7
    again = replay(pool, BenchPlan(trials=7), strategy=strategy, task="a", seed=1)
    assert again.places == made.places


def test_a_search_may_try_only_its_share_of_a_small_task(place):
    table = read_table(place)
    task = table.tasks[0]
    small = pool_of(table.sidecar, task.__class__("small", {}, {}, task.rows[:10], None))
    made = replay(small, BenchPlan(trials=8, most_share=0.5), strategy="random", task="a", seed=0)
    assert len(made.steps) == 5


def test_with_noise_a_search_believes_what_it_was_told_and_counts_what_is_true(place):
    table = read_table(place)
    pool = pool_of(table.sidecar, table.tasks[0])
    plan = BenchPlan(trials=12, noise_sd=0.3)
    made = replay(pool, plan, strategy="random", task="a", seed=0)
    told = [step for step in made.steps if step.returned is not None]
    assert any(
        abs(step.returned / pool.rows[i].value - 1) > 0.05
        for step, i in zip(made.steps, made.places, strict=True)
        if step.returned is not None
    )
    assert made.best_at(12) == min(told, key=lambda step: step.returned).quality


def test_the_pool_can_be_completed_with_what_surely_runs_out(tmp_path):
    rows = [row for row in rows_of(gpus=(16,), sizes=(7.0,))]
    hungriest = [r for r in rows if r["status"] == "oom" and r["micro_batch"] == 8 and r["tp"] == 1]
    fewer = [row for row in rows if row not in hungriest]
    table = read_table(write_table(tmp_path, fewer))
    plain, completed = (
        pool_of(table.sidecar, table.tasks[0], complete=each) for each in (False, True)
    )
    added = completed.rows[len(plain.rows) :]
    assert added
    assert all(row.status == "oom" for row in added)
    real = [{name: row[name] for name in SIDECAR["knobs"]} for row in hungriest]
    assert all(row.knobs in real for row in added)


def test_what_other_sizes_teach_is_no_worse_than_nothing(place, tmp_path):
    report, _ = run(place, tmp_path, "infrarsi", trials=3, beliefs="experience")
    assert standing(report, "infrarsi").found[2].point > 0.9


def test_ooms_are_learnt_where_nobody_knows_how_much_memory_there_was(tmp_path):
    sidecar = {name: each for name, each in SIDECAR.items() if name != "memory"}
    table = read_table(write_table(tmp_path, rows_of(sizes=(7.0,)), sidecar=sidecar))
    pool = pool_of(table.sidecar, table.tasks[0])
    lattice = Lattice(pool.space, pool=pool.points)
    ooms = [each for each in pool.rows if each.status == "oom"]
    fitted = [each for each in pool.rows if each.status == "ok"]
    assert len(ooms) >= 4
    seen = [
        Observation(
            candidate=pool.candidate_of(row), status=row.status, update_s=row.value, cost_s=1.0
        )
        for row in (*ooms[::2], *fitted[::4])
    ]  # fmt: skip
    models = Models(lattice, seen)
    chance = dict(
        zip(map(tuple, lattice.pool.tolist()), models.memory.p_fits(lattice.pool), strict=True)
    )
    ran_out, stayed = (
        np.mean([chance[lattice.point_of(pool.candidate_of(row))] for row in rows])
        for rows in (ooms, fitted)
    )
    assert ran_out < 0.3
    assert stayed > 0.8


@pytest.mark.parametrize(("carried", "left_off"), [("1", "0"), ("yes", "no"), ("True", "")])
def test_a_patch_is_carried_or_not_however_that_is_written(tmp_path, carried, left_off):
    rows = []
    for row in rows_of(sizes=(1.1,)):
        faster = dict(row, fused=carried)
        if faster["tokens_per_s_per_gpu"] != "":
            faster["tokens_per_s_per_gpu"] = 1.5 * float(row["tokens_per_s_per_gpu"])
        rows += [dict(row, fused=left_off), faster]
    knobs = {**SIDECAR["knobs"], "fused": {"patch": True}}
    table = read_table(write_table(tmp_path, rows, sidecar={**SIDECAR, "knobs": knobs}))
    pool = pool_of(table.sidecar, table.tasks[0])
    assert len(pool.places) == len(pool.rows) == len(rows)
    assert sorted(set(pool.points[:, -1].tolist())) == [0, 1]


@pytest.mark.parametrize(("cell", "knob", "words"), [
    ("maybe", {"patch": True}, "does not say whether"),
    ("full", {"raises_memory": "down"}, "words have no order"),
])  # fmt: skip
def test_a_cell_that_says_nothing_of_a_patch_or_an_order_is_refused(tmp_path, cell, knob, words):
    rows = [dict(row, extra=cell) for row in rows_of(sizes=(1.1,))]
    sidecar = {**SIDECAR, "knobs": {**SIDECAR["knobs"], "extra": knob}}
    with pytest.raises(TableError, match=words):
        read_table(write_table(tmp_path, rows, sidecar=sidecar))


@pytest.mark.parametrize(("metric", "unit"), [
    ({"column": "x", "direction": "max", "unit": "tokens/s/GPU"}, "token/GPU"),
    ({"column": "tokens_per_s", "direction": "max"}, "work"),
    ({"column": "samples_s", "direction": "max", "unit": "samples/s"}, "work"),
    ({"column": "speed", "direction": "max", "unit": "steps/s"}, ""),
    ({"column": "it_per_s", "direction": "max", "unit": "it/s"}, ""),
    ({"column": "step_time_s", "direction": "min", "unit": "s"}, ""),
    ({"column": "ms_per_token", "direction": "min", "unit": "ms/token"}, "work"),
    ({"column": "s_per_sample", "direction": "min", "unit": "s"}, "work"),
    ({"column": "throughput", "direction": "max"}, "work"),
])  # fmt: skip
def test_what_a_metric_is_the_time_of_is_told_by_its_unit(metric, unit):
    assert _unit(MetricColumn(**metric)) == unit


def test_the_models_size_is_known_by_its_other_names_too(tmp_path):
    rows = [
        {("num_params_b" if k == "params_b" else k): v for k, v in row.items()}
        for row in rows_of(gpus=(8, 16))
    ]
    named = {**SIDECAR, "task": ["num_params_b", "num_gpus"]}
    named["context"] = {
        ("num_params_b" if k == "params_b" else k): v for k, v in SIDECAR["context"].items()
    }
    table = read_table(write_table(tmp_path, rows, sidecar=named))
    sizes = {size_of(task) for task in table.tasks}
    assert sizes == {1.1, 7.0}
    asked = []
    others = OtherTasks(table)
    others._beliefs = lambda task: asked.append(size_of(task))
    others.true_of(table.tasks[0])
    assert size_of(table.tasks[0]) not in asked
    assert asked


def test_trials_chosen_at_once_differ_and_find_nearly_what_single_ones_do(place, tmp_path):
    report, _ = run(place, tmp_path, "infrarsi", "random", trials=8, batch=4)
    assert standing(report, "infrarsi").found[8].point > 0.95
    assert all(len(set(each.places)) == 8 for each in report.replays)
    assert "4 chosen at once" in bench_markdown(report)


@pytest.mark.parametrize("how", ["shuffled", "inverted", "time-inverted"])
def test_what_other_sizes_teach_falsely_costs_at_most_three_per_cent(place, tmp_path, how):
    report, _ = run(place, tmp_path, "infrarsi", trials=12, beliefs=how)
    assert standing(report, "infrarsi").found[12].point > 0.97
    assert f"teach them, {how}" in bench_markdown(report)


def test_coefficients_learnt_elsewhere_weigh_less_the_worse_they_explain_the_trials(place):
    table = read_table(place)
    pool = pool_of(table.sidecar, table.tasks[0])
    others = OtherTasks(table)
    true = others.for_task(table.tasks[0], misled="experience", seed=0)
    false = others.for_task(table.tasks[0], misled="inverted", seed=0)
    lattice = Lattice(pool.space, pool=pool.points)
    rows = [each for each in pool.rows if each.status == "ok"][::5]
    seen = [
        Observation(
            candidate=pool.candidate_of(row), status="ok", update_s=row.value,
            peak_bytes=row.peak_bytes, cost_s=1.0,
        )
        for row in rows
    ]  # fmt: skip
    assert len(seen) >= 4
    trusted, doubted = (Models(lattice, seen, learnt=each).trust for each in (true, false))
    assert trusted[0] > 0.5 > doubted[0]
    assert Models(lattice, [], learnt=false).trust == pytest.approx((0.7, 0.7)), (
        "before any trial nobody knows"
    )


def test_constants_that_are_wrong_by_two_are_learnt_away(place, tmp_path):
    report, _ = run(place, tmp_path, "infrarsi", trials=6, constants=2.0)
    assert standing(report, "infrarsi").found[6].point > 0.9


def test_without_formulas_it_still_learns(place, tmp_path):
    report, _ = run(place, tmp_path, "infrarsi", "random", trials=6, seeds=3, formulas=False)
    assert standing(report, "infrarsi").found[6].point > standing(report, "random").found[6].point


def test_configonly_leaves_patches_off_and_is_held_against_the_whole(tmp_path):
    rows = []
    for row in rows_of(sizes=(1.1,)):
        for fused in (False, True):
            speed = row["tokens_per_s_per_gpu"]
            faster = f"{float(speed) * (1.3 if fused else 1):.3f}" if speed else ""
            rows.append({**row, "fused": fused, "tokens_per_s_per_gpu": faster})
    knobs = {**SIDECAR["knobs"], "fused": {"scale": "category", "patch": True}}
    place = write_table(tmp_path, rows, changed(knobs=knobs))
    report, _ = run(place, tmp_path / "out", "configonly", "infrarsi", trials=6)
    assert 0.7 < standing(report, "configonly").found[6].point < 0.78
    assert standing(report, "infrarsi").found[6].point > 0.95


def test_what_cannot_be_replayed_is_refused(place, tmp_path):
    with pytest.raises(UsageError, match="no strategy 'best'"):
        run(place, tmp_path, "best")
    few = write_table(tmp_path / "few", list(rows_of(sizes=(1.1,)))[:5])
    with pytest.raises(TableError, match="no task"):
        run(few, tmp_path, "random")
