"""Plots of awkward reports: nothing falls out of the picture, nothing is not a number."""

import math
import re
from xml.etree import ElementTree

import pytest
import report_samples as samples

from infrarsi.records.estimate import Estimate
from infrarsi.records.report import Confirmed, PairRow, Report
from infrarsi.records.verdict import Ruling
from infrarsi.render.bars import draw_cost, draw_phases
from infrarsi.render.confirmation_plot import draw_blocks, draw_launches, draw_strip
from infrarsi.render.drawing import Drawing, Scale, tick_words
from infrarsi.render.forest import draw_parts
from infrarsi.render.memory_plot import draw_memory
from infrarsi.render.search_plot import draw_search
from infrarsi.render.summary import render_svg_summary

ACROSS, DOWN = ("x", "cx", "x1", "x2"), ("y", "cy", "y1", "y2")


def read(drawing: Drawing) -> ElementTree.Element:
    root = ElementTree.fromstring(drawing.svg())
    for node in root.iter():
        for names, limit in ((ACROSS, drawing.width), (DOWN, drawing.height)):
            for name in names:
                if name in node.attrib and not inside_legend(node):
                    value = float(node.attrib[name])
                    assert math.isfinite(value)
                    assert -12 <= value <= limit + 12, (drawing.name, node.tag, node.attrib)
    assert not re.search(r"\b(nan|inf)\b", drawing.svg())
    return root


def inside_legend(node: ElementTree.Element) -> bool:
    return node.tag == "g"


def with_rows(report: Report, rows) -> Report:
    return report.model_copy(
        update={"trials": report.trials.model_copy(update={"rows": tuple(rows)})}
    )


def marks(root: ElementTree.Element) -> list[str]:
    return [title.text or "" for title in root.iter("title")][1:]


def test_every_trial_has_one_mark_that_says_what_it_is():
    report = samples.full_report()
    told = [words for words in marks(read(draw_search(report))) if words.startswith("Trial ")]
    assert len(told) == len(report.trials.rows)
    assert any("update 12 saw 4 sequences" in words for words in told)


@pytest.mark.parametrize("index", range(24))
def test_a_search_of_one_trial_can_be_drawn(index):
    report = samples.full_report()
    row = report.trials.rows[index].model_copy(update={"index": 1})
    only = with_rows(report, [row])
    assert len([each for each in marks(read(draw_search(only))) if each.startswith("Trial")]) == 1
    read(draw_search(only.model_copy(update={"reference_update_s": None, "winner": None})))


def test_a_long_search_with_times_far_apart_can_be_drawn():
    report = samples.full_report()
    row = report.trials.rows[1]
    rows = [row.model_copy(update={"index": n, "update_s": 1e-3 * 1.03**n}) for n in range(1, 301)]
    assert "(log)" in draw_search(with_rows(report, rows)).svg()
    read(draw_search(with_rows(report, rows)))


def test_a_refused_trial_never_lowers_the_line_of_the_best():
    report = samples.full_report()
    line = re.search(r'<path d="([^"]*)" class="best">', draw_search(report).svg())
    assert line is not None
    refused = [row.model_copy(update={"verdict": Ruling.FAIL}) for row in report.trials.rows]
    assert '<path d="' in draw_search(report).svg()
    again = draw_search(with_rows(report, refused)).svg()
    assert not re.search(r'<path d="[^"]*" class="best">', again)


def confirmed_with(blocks, speedup) -> Confirmed:
    confirmed = samples.full_report().confirmed
    assert confirmed is not None
    return confirmed.model_copy(update={"blocks": tuple(blocks), "speedup": speedup})


@pytest.mark.parametrize("ratio", [0.4, 0.999, 1.0, 1.0301, 1.5, 40.0])
@pytest.mark.parametrize("num_blocks", [1, 6, 24])
def test_confirmations_of_every_size_and_effect_can_be_drawn(ratio, num_blocks):
    blocks = [
        PairRow(
            block=n, order="ABBA", reference_s=(1.0, 1.0), winner_s=(1 / ratio,) * 2, ratio=ratio
        )
        for n in range(1, num_blocks + 1)
    ]
    speedup = Estimate(low=ratio * 0.999, point=ratio, high=ratio * 1.001)
    confirmed = confirmed_with(blocks, speedup)
    strip = draw_strip(confirmed)
    assert strip is not None
    for drawing in (strip, draw_blocks(confirmed), draw_launches(confirmed)):
        read(drawing)
    assert len(marks(read(draw_launches(confirmed)))) == 4 * num_blocks


def test_launches_stand_in_the_order_in_which_they_ran():
    block = PairRow(
        block=1, order="BAAB", reference_s=(0.31, 0.32), winner_s=(0.13, 0.14), ratio=2.33
    )
    told = marks(read(draw_launches(confirmed_with([block], None))))
    assert [words.split(": ")[1] for words in told] == [
        "130 ms per update",
        "310 ms per update",
        "320 ms per update",
        "140 ms per update",
    ]


def test_a_launch_that_the_order_does_not_name_is_still_drawn():
    block = PairRow(block=1, order="AB", reference_s=(0.3, 0.3, 0.3), winner_s=(0.1,), ratio=3.0)
    assert len(marks(read(draw_launches(confirmed_with([block], None))))) == 4


def test_without_a_speedup_there_is_no_strip():
    assert draw_strip(confirmed_with([], None)) is None


def test_a_launch_out_of_memory_rises_from_the_capacity():
    report = samples.full_report()
    root = read(draw_memory(report))
    told = [words for words in marks(root) if "ran out of memory" in words]
    assert len(told) == 4
    line = next(node for node in root.iter("line") if node.attrib["class"] == "capacity")
    arrows = [
        node for node in root.iter("path")
        if node.attrib.get("class") == "mark stroke memory" and "v-15" in node.attrib["d"]
    ]  # fmt: skip
    heights = [float(node.attrib["d"].split("v")[0].split(" ")[1]) for node in arrows]
    assert heights.count(float(line.attrib["y1"])) == 4


def test_wild_predictions_of_memory_stay_in_the_picture():
    report = samples.full_report()
    wild = Estimate(low=1.0, point=5e11, high=1e15)
    rows = [row.model_copy(update={"predicted_peak_bytes": wild}) for row in report.trials.rows]
    read(draw_memory(with_rows(report, rows)))
    tiny = [row.model_copy(update={"peak_bytes": 1024**2}) for row in report.trials.rows[1:3]]
    read(draw_memory(with_rows(report, tiny)))


def test_a_winner_whose_phases_were_not_measured_gets_no_bar():
    phases = samples.full_report().phases
    unmeasured = [phase.model_copy(update={"winner_s": None}) for phase in phases]
    assert len(marks(read(draw_phases(unmeasured)))) == len(phases)
    assert len(marks(read(draw_phases(phases)))) == 2 * len(phases)


def test_many_phases_and_purposes_can_be_drawn():
    phase = samples.full_report().phases[0]
    many = [phase.model_copy(update={"phase": f"phase {n}"}) for n in range(25)]
    read(draw_phases(many))
    read(draw_cost(samples.full_report().cost))


def test_parts_with_no_interval_leave_a_row_of_words():
    report = samples.full_report()
    assert report.winner is not None
    parts = [part.model_copy(update={"gain": None}) for part in report.winner.parts]
    assert draw_parts(parts).svg().count("not measured") >= len(parts)
    read(draw_parts(parts))


@pytest.mark.parametrize(
    "make",
    [samples.full_report, samples.bare_report, samples.refused_report, samples.winnerless_report],
)
def test_the_summary_is_one_svg_file_that_fetches_nothing(make):
    text = render_svg_summary(make())
    root = ElementTree.fromstring(text)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert text.count("://") == 1, "only the name of the format itself"
    assert not {"script", "image", "use"} & {node.tag.split("}")[1] for node in root.iter()}


def test_the_summary_says_the_verdict_with_its_interval():
    text = render_svg_summary(samples.full_report())
    assert "2.31x [2.29, 2.34]" in text
    assert "[2.29,\N{NO-BREAK SPACE}2.34]" in text
    assert "threshold 1.030x" in text


@pytest.mark.parametrize(
    ("low", "high", "log"), [(0, 1, False), (3, 3, False), (0.001, 900, True), (1, 3, True)]
)
def test_a_scale_has_ticks_inside_and_told_apart(low, high, log):
    scale = Scale(low, high, start=0, end=100, log=log)
    ticks = scale.ticks()
    assert len(ticks) >= 2
    assert all(-1e-6 <= scale(tick) <= 100 + 1e-6 for tick in ticks)
    assert len(set(tick_words(ticks))) == len(ticks)
