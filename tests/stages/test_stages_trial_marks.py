"""Which marks the witness is asked for."""

from types import SimpleNamespace

import pytest

from infrarsi.records.candidate import Candidate
from infrarsi.records.task import Window
from infrarsi.stages.launching.trial import Request, _witness_options

WINDOW = Window(warmup_updates=3, measured_updates=8)


def marks_of(*, stop, hidden_mark):
    task = SimpleNamespace(window=WINDOW)
    workspace = SimpleNamespace(contract=SimpleNamespace(task=task), hidden_mark=hidden_mark)
    request = Request(Candidate.of({}), "rehearsal")
    last = min(WINDOW.last_update, stop)
    return _witness_options(workspace, request, last=last, stop=stop)["marks"]


@pytest.mark.parametrize("hidden_mark", range(4, 11))
def test_no_mark_of_a_rehearsal_is_due_at_its_stop_where_it_would_be_lost(hidden_mark):
    assert marks_of(stop=4, hidden_mark=hidden_mark) == [0, 3]


def test_a_whole_launch_has_its_marks_at_the_windows_ends_and_at_a_hidden_update():
    assert marks_of(stop=15, hidden_mark=7) == [0, 3, 7, 11]
