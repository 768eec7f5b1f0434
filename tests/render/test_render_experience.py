"""The report says which packs a search started from, and how much they weighed."""

import pytest
import report_samples as samples

from infrarsi.records.experience import Source
from infrarsi.records.report import ExperienceUsed
from infrarsi.render.html import render_html
from infrarsi.render.markdown import render_markdown

SOURCE = Source(pack="0123456789ab", label="tiny_moe", device="a processor", distance=0.414,
                num_compared=14, num_lessons=31)  # fmt: skip
USED = ExperienceUsed(sources=(SOURCE,), num_beliefs=9, num_guided=7, first_in_time=0.7,
                      last_in_time=0.4321, first_in_memory=0.7, last_in_memory=0.051)  # fmt: skip


def written(used):
    report = samples.full_report().model_copy(update={"experience": used})
    return render_markdown(report), render_html(report)


def test_packs_and_weights_stand_in_both_forms():
    for text in written(USED):
        for said in ("tiny_moe", "0123456789ab", "0.41", "31", "9 patches and settings", "7 trials",
                     "from 0.70 to 0.43", "from 0.70 to 0.05", "No figure of this report"):  # fmt: skip
            assert said in text


@pytest.mark.parametrize(
    ("note", "said"),
    [("switched off", "No experience was used: switched off"), ("", "no pack said anything")],
)
def test_that_none_was_used_is_said_with_its_reason(note, said):
    for text in written(ExperienceUsed(sources=(), num_beliefs=0, note=note)):
        assert said in text


def test_a_search_without_a_bank_has_no_such_section():
    for text in written(None):
        assert "Experience from other searches" not in text
