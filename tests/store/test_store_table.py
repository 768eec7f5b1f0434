"""Tables as others write them: what is read, merged, left out, and refused."""

import pytest

from infrarsi.errors import TableError
from infrarsi.store.table import read_table

SIDECAR = """
table: cluster.csv
task: [model]
context: {model: category, layers: count, memory_gib: GiB}
knobs:
  micro_batch: {scale: log2, raises_memory: up}
  kernel: {scale: category}
derived: {tokens: micro_batch * 1024}
metric: {column: speed, direction: max, unit: tokens/s/GPU}
memory: {column: peak_gib, capacity: memory_gib, unit: GiB}
status: {column: status, ok: [ok, done], oom: oom}
"""
HEADER = "model,layers,memory_gib,micro_batch,kernel,speed,peak_gib,status"
ROWS = """
small,12,80,1,plain,100,10,ok
small,12,80,2,plain,150,20,done
small,12,80,4,plain,180,40,ok
small,12,80,8,plain,,,oom
small,12,80,1,fused,110,9,ok
small,12,80,2,fused,165,18,ok
small,12,80,4,fused,,,crashed
large,48,80,1,plain,20,60,ok
large,48,80,2,plain,,,oom
large,48,80,1,fused,22,58,ok
"""


@pytest.fixture
def write(tmp_path):
    def written(rows=ROWS, *, sidecar=SIDECAR, header=HEADER):
        (tmp_path / "cluster.csv").write_text(f"{header}\n{rows.strip()}\n")
        (tmp_path / "cluster.yaml").write_text(sidecar)
        return tmp_path / "cluster.yaml"

    return written


def refusal(place):
    with pytest.raises(TableError) as refused:
        read_table(place)
    assert refused.value.hint
    return f"{refused.value}; {refused.value.hint}"


def noted(table, words):
    return [note.rows for note in table.notes if words in note.what]


def test_tasks_hold_their_rows_context_and_capacity(write):
    table = read_table(write())
    small, large = table.tasks
    assert (small.name, len(small.rows), small.num_ok) == ("model=small", 7, 5)
    assert (large.context["layers"], large.capacity_bytes) == (48, 80 * 2**30)
    first = small.rows[0]
    assert first.knobs == {"micro_batch": 1, "kernel": "plain"}
    assert (first.status, first.value, first.peak_bytes) == ("ok", 0.01, 10 * 2**30)
    assert [row.status for row in small.rows[3:]] == ["oom", "ok", "ok", "failed"]


def test_the_table_is_found_by_its_csv_file_too(write):
    assert read_table(write()).digest == read_table(write().with_suffix(".csv")).digest


def test_less_is_better_where_the_direction_says_so(write):
    table = read_table(write(sidecar=SIDECAR.replace("max", "min")))
    assert table.tasks[0].rows[0].value == 100


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("kernel:", "kernl:", "did you mean 'kernel'"),
        ("[model]", "[modle]", "'modle'"),
        ("column: speed", "column: sped", "did you mean 'speed'"),
        ("capacity: memory_gib", "capacity: memory", "did you mean 'memory_gib'"),
        ("micro_batch * 1024", "micro_btch * 1024", "did you mean 'micro_batch'"),
    ],
)
def test_an_unknown_column_is_named_with_the_nearest(write, old, new, named):
    assert named in refusal(write(sidecar=SIDECAR.replace(old, new)))


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("scale: log2", "scale: log3", "scale"),
        ("direction: max", "direction: best", "direction"),
        ("{model: category", "{speed: count, model: category", "'speed' was measured"),
        ("micro_batch * 1024", "peak_gib * 2", "derived from 'peak_gib'"),
        ("micro_batch * 1024", "__import__('os')", "cannot read"),
        ("table: cluster.csv", "table: other.csv", "other.csv"),
        ("knobs:", "knobs: {}\nothers:", "knobs"),
    ],
)
def test_a_sidecar_that_cannot_be_meant_is_refused(write, old, new, named):
    assert named in refusal(write(sidecar=SIDECAR.replace(old, new)))


def test_a_table_without_a_sidecar_is_refused(tmp_path):
    (tmp_path / "alone.csv").write_text("a,b\n1,2\n")
    assert "alone.yaml" in refusal(tmp_path / "alone.csv")


def test_repeated_configurations_are_merged_by_the_median_of_those_that_ended_well(write):
    more = ROWS + "small,12,80,1,plain,300,12,ok\nsmall,12,80,1,plain,120,14,ok\n"
    table = read_table(write(more))
    first = table.tasks[0].rows[0]
    assert (len(table.tasks[0].rows), first.value) == (7, pytest.approx(1 / 120))
    assert first.peak_bytes == 12 * 2**30
    assert noted(table, "measured several times") == [3]


def test_one_that_ran_out_of_memory_beside_others_that_fitted_counts_as_fitting_and_is_said(write):
    table = read_table(write(ROWS + "small,12,80,4,plain,,,oom\n"))
    assert table.tasks[0].rows[2].status == "ok"
    assert noted(table, "ended well and otherwise") == [2]


def test_rows_that_lack_what_is_needed_are_left_out_and_counted(write):
    more = ROWS + (
        ",12,80,1,other,100,10,ok\n"  # no task
        "small,12,80,,other,100,10,ok\n"  # no number for a knob
        "small,12,80,1,other,,10,ok\n"  # went well, and no metric
        "small,12,80,1,other,100,10,\n"  # no status
        "small,12,80,1,,90,10,ok\n"  # a category may say nothing
    )
    table = read_table(write(more))
    assert noted(table, "left out") == [1, 1, 1, 1]
    assert table.tasks[0].rows[-1].knobs == {"micro_batch": 1, "kernel": None}


def test_a_peak_that_is_not_known_stays_unknown(write):
    table = read_table(write(ROWS.replace("100,10,ok", "100,,ok")))
    assert table.tasks[0].rows[0].peak_bytes is None


def test_context_that_differs_within_a_task_is_not_used_there(write):
    table = read_table(write(ROWS.replace("large,48,80,1,fused", "large,49,80,1,fused")))
    assert "layers" not in table.tasks[1].context
    assert noted(table, "not the same in all rows of a task") == [3]


@pytest.mark.parametrize(
    ("rows", "line"),
    [
        (ROWS.replace("small,12,80,2,plain", "small,12,80,two,plain"), "line 3"),
        (ROWS.replace("small,12,80,2,plain", "small,12,80,0,plain"), "line 3"),
        (ROWS.replace("150,20,done", "150,20,done,extra"), "line 3"),
        (ROWS.replace(",150,20,done", ",150"), "line 3"),
    ],
)
def test_a_cell_that_cannot_be_meant_is_refused_with_its_line(write, rows, line):
    assert line in refusal(write(rows))


LEAKY = "model,layers,memory_gib,micro_batch,kernel,speed,peak_gib,status,vocab"


def with_vocab(ok, failed):
    """Add a column that holds one thing where it went well, and another where it did not."""
    lines = []
    for number, line in enumerate(ROWS.strip().splitlines()):
        went_well = line.endswith((",ok", ",done"))
        value = ok[number % len(ok)] if went_well else failed[number % len(failed)]
        lines.append(f"{line},{value}")
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("ok", "failed", "how"),
    [
        (["32000", "50257"], [""], "blank"),
        (["32000", "50257"], ["0"], "'0' in all 3 rows that failed"),
        (["True"], ["False"], "rows that failed"),
        (["7"], ["1", "2"], "rows that went well"),
    ],
)
@pytest.mark.parametrize("role", ["context", "knobs"])
def test_a_column_that_gives_the_outcome_away_is_refused(write, ok, failed, how, role):
    entry = {"context": ("{model: category,", "{model: category, vocab: count,"),
             "knobs": ("  kernel:", "  vocab: {scale: category}\n  kernel:")}[role]  # fmt: skip
    place = write(with_vocab(ok, failed), sidecar=SIDECAR.replace(*entry), header=LEAKY)
    said = refusal(place)
    assert "'vocab'" in said
    assert "gives the outcome away" in said
    assert how in said


def test_the_same_column_is_no_harm_where_nothing_uses_it(write):
    assert read_table(write(with_vocab(["1"], [""]), header=LEAKY)).tasks


def test_a_column_that_a_derived_quantity_uses_is_looked_at_too(write):
    sidecar = SIDECAR.replace("micro_batch * 1024", "micro_batch * vocab")
    rows = with_vocab(["32000", "50257"], [""])
    assert "'vocab'" in refusal(write(rows, sidecar=sidecar, header=LEAKY))


ALWAYS = """
small,12,80,1,plain,100,10,ok
small,12,80,2,plain,150,20,ok
small,12,80,8,plain,,,oom
small,12,80,8,fused,,,oom
small,12,80,1,fused,110,9,ok
"""


def test_the_hungriest_value_of_a_knob_may_be_the_one_that_always_fails(write):
    assert read_table(write(ALWAYS)).tasks[0].num_ok == 3
    silent = SIDECAR.replace(", raises_memory: up", "")
    assert "'micro_batch'" in refusal(write(ALWAYS, sidecar=silent))
    wrong = SIDECAR.replace("raises_memory: up", "raises_memory: down")
    assert "'micro_batch'" in refusal(write(ALWAYS, sidecar=wrong))
    said = SIDECAR.replace("raises_memory: up", "may_decide: true")
    assert read_table(write(ALWAYS, sidecar=said)).tasks


def test_a_table_of_failures_alone_is_read_and_holds_nothing_that_went_well(write):
    rows = "\n".join(line for line in ROWS.splitlines() if line.endswith("oom"))
    assert [task.num_ok for task in read_table(write(rows)).tasks] == [0, 0]


def test_a_thousand_rows_a_task_are_read_as_they_stand(write):
    rows = "\n".join(f"small,12,80,{2 ** (i % 10)},k{i},{100 + i},10,ok" for i in range(1000))
    assert len(read_table(write(rows)).tasks[0].rows) == 1000
