import io
import subprocess
import sys

import report_samples as samples
from rich.console import Console

from infrarsi.records.baseline import Band, Baseline
from infrarsi.records.plan import Contract
from infrarsi.records.task import ConfigKey, Environment, Flag, Knob, Memory, Surface, Task
from infrarsi.records.verdict import Finding, Ruling, Verdict
from infrarsi.render.console import (
    baseline_table,
    contract_summary,
    error_text,
    findings_table,
    trials_table,
    verdict_panel,
)
from infrarsi.render.live import SearchView


class Terminal(io.StringIO):
    """A stand-in for a terminal's stream."""

    def isatty(self) -> bool:
        return True


def printed(thing, width: int = 140) -> str:
    stream = io.StringIO()
    Console(file=stream, width=width).print(thing)
    return stream.getvalue()


def baseline() -> Baseline:
    return Baseline(
        task_digest="a", machine_digest="b", trials=("1", "2", "3"), null_trials=(),
        update_s=samples.around(0.3124, 0.01), cold_start_s=4.2, launch_s=24.0,
        peak_bytes=3 * samples.GIB, phase_share={"forward": 0.4, "backward": 0.6}, noise_sd=0.011,
        bias=0.0004, least_detectable=0.021,
        bands=(Band(metric="loss", limit=4e-6, source="12 null launches"),),
        nondeterministic=False, reference_trial="1", wall_s=790.0,
    )  # fmt: skip


def test_a_baseline_shows_its_noise_and_what_was_not_measured():
    text = printed(baseline_table(baseline()))
    for words in ("312 ms [309, 316]", "3 equal launches", "13 min 10 s", "2.1%", "0.040%"):
        assert words in text
    assert "4.0e-06" in text
    assert text.splitlines()[[("FLOP" in each) for each in text.splitlines()].index(True)].count(
        "not measured"
    )


def test_trials_say_why_each_was_refused():
    text = printed(trials_table(samples.full_report()), width=220)
    assert text.count("refused") >= 5
    assert "the contract allows float32" in text


def test_a_verdict_panel_shows_the_interval_and_the_threshold():
    text = printed(verdict_panel(samples.full_report()))
    assert "Accepted" in text
    assert "[2.29, 2.34]" in text
    assert "2.292x > 1.030x" in text


def test_findings_show_reason_and_hint():
    finding = Finding(
        layer="numerics",
        check="loss",
        ruling=Ruling.INCONCLUSIVE,
        reason="too few",
        hint="run more",
    )
    verdict = Verdict(
        subject="abc", kind="confirm", ruling=Ruling.INCONCLUSIVE, findings=(finding,), rules=1,
        speedup=samples.around(1.5, 0.01),
    )  # fmt: skip
    text = printed(findings_table(verdict))
    assert "too few" in text
    assert "run more" in text
    assert "1.50x [1.48, 1.52]" in text


def test_an_error_says_what_to_do():
    assert printed(error_text("It broke.", "Mend it.")).splitlines() == [
        "Error: It broke.",
        "What to do: Mend it.",
    ]


def test_a_contract_shows_how_each_knob_reaches_the_program():
    knobs = (
        Knob(name="mb", reach=Flag(flag="--mb"), values=(4, 8), default=4),
        Knob(name="omp", reach=Environment(variable="OMP_NUM_THREADS"), values=(1,), default=1),
        Knob(name="rc", reach=ConfigKey(file="c.yaml", key="t.rc"), values=(True,), default=True),
    )
    contract = Contract(
        name="tiny",
        task=Task(
            command=("python", "my train.py"),
            surface=Surface(editable=("model.py",), knobs=knobs, constraints=("mb >= 4",)),
            memory=Memory(capacity_bytes=6 * samples.GIB),
        ),
    )
    text = printed(contract_summary(contract, ["rehearsed: 3 updates"]))
    for words in (
        "python 'my train.py'", "flag --mb; now 4", "environment variable OMP_NUM_THREADS",
        "t.rc in c.yaml", "mb >= 4", "11 to 30", "rehearsed: 3 updates", "6.00 GiB",
    ):  # fmt: skip
        assert words in text


def test_markup_and_escape_sequences_in_texts_do_nothing():
    hostile = "[bold red]x[/] \x1b[2J\x1b]0;title\x07"
    row = (
        samples.full_report().trials.rows[0].model_copy(update={"change": hostile, "why": hostile})
    )
    for thing in (trials_table([row]), error_text(hostile, hostile)):
        text = printed(thing)
        assert "\x1b" not in text
        assert "\x07" not in text
        assert "[bold red]x[/]" in text


def show_some(view: SearchView) -> None:
    with view:
        view.show_trial(1, "+sdpa", reason="probe of sdpa")
        view.show_trial(1, "+sdpa", status="passed", update_s=0.243, speedup=1.29)
        view.show_best("+sdpa", update_s=0.243, speedup=1.29)
        view.show_best("+sdpa", update_s=0.243, speedup=1.29)
        view.show_trial(2, "recompute=False", status="oom", why="out of memory " * 12)
        view.show_note("[stopping] early")


def test_away_from_a_terminal_each_finished_trial_is_one_plain_line():
    stream = io.StringIO()
    show_some(SearchView(Console(file=stream, width=40)))
    lines = stream.getvalue().splitlines()
    assert lines[0] == "trial 1: +sdpa: passed; 243 ms, 1.29x"
    assert lines[1] == "best so far: +sdpa (243 ms per update, screening 1.29x)"
    assert lines[2].startswith("trial 2: recompute=False: oom; out of memory")
    assert lines[3:] == ["[stopping] early"]


def test_forced_colour_in_a_pipe_moves_no_cursor():
    stream = io.StringIO()
    show_some(SearchView(Console(file=stream, force_terminal=True, width=100)))
    assert "\x1b[" not in stream.getvalue().replace("\x1b[0m", "")


def test_on_a_terminal_the_table_is_redrawn():
    stream = Terminal()
    console = Console(file=stream, force_terminal=True, width=100, _environ={"TERM": "xterm"})
    show_some(SearchView(console, live=True))
    text = stream.getvalue()
    assert "\x1b[2K" in text
    assert "1 oom, 1 passed" in text
    assert text.rstrip().endswith("\x1b[?25h"), "the cursor is shown again"


def test_no_color_is_honoured_on_a_terminal():
    environment = {"TERM": "xterm", "NO_COLOR": "1"}
    stream = Terminal()
    console = Console(file=stream, force_terminal=True, width=100, _environ=environment)
    show_some(SearchView(console, live=True))
    assert "\x1b[32m" not in stream.getvalue()
    assert "\x1b[35m" not in stream.getvalue()


def test_a_view_is_closed_when_the_search_fails():
    stream = Terminal()
    console = Console(file=stream, force_terminal=True, width=100, _environ={"TERM": "xterm"})
    view = SearchView(console, live=True)
    try:
        with view:
            view.show_trial(1, "+sdpa")
            raise KeyError("interrupted")
    except KeyError:
        pass
    assert stream.getvalue().rstrip().endswith("\x1b[?25h")


def test_importing_the_room_loads_no_rich():
    code = (
        "import sys, infrarsi.render.console, infrarsi.render.live, infrarsi.render.html,"
        "infrarsi.render.markdown, infrarsi.render.summary; print('rich' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
