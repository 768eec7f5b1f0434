"""A knob without a visible effect is told in every form of the report, and no more than was seen."""

import report_samples as samples

from infrarsi.records.effect import KnobEffect
from infrarsi.render.html import render_html
from infrarsi.render.markdown import render_markdown

IGNORED = KnobEffect(
    knob="micro", reached_by="--micro", values=(4, 8), default=2, together_with=("accum",),
    compared="the same forwards an update (4) and rows a forward (2)", trials=("t0005", "t0001"),
)  # fmt: skip


def test_it_stands_in_markdown_and_html():
    report = samples.full_report().model_copy(update={"silent_knobs": (IGNORED,)})
    for text in (render_markdown(report), render_html(report)):
        assert "Settings without a visible effect" in text
        assert "the same forwards an update (4) and rows a forward (2)" in text
        assert "turned together with accum" in text
        assert "4, 8" in text
        assert "This is no verdict" in text
    assert '"reached_by":"--micro"' in report.model_dump_json()


def test_a_report_in_which_all_had_an_effect_says_nothing_of_it():
    assert "visible effect" not in render_markdown(samples.full_report())
