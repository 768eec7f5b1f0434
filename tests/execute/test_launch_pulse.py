"""While a launch lives its pulse is touched: what a killed command leaves to tell by."""

import os

from infrarsi.records.trial import Outcome


def test_the_pulse_goes_on_while_a_launch_lives(run_program, tmp_path):
    pulse = tmp_path / "pulse"
    pulse.touch()
    os.utime(pulse, (0, 0))
    source = "channel = connect()\nupdates(channel, 1, 2)\ntime.sleep(600)\n"
    done = run_program(source, deadline_s=2.5, pulse=pulse)
    assert done.outcome is Outcome.HUNG
    assert pulse.stat().st_mtime > 0


def test_a_pulse_that_cannot_be_written_ends_no_launch(run_program, tmp_path):
    source = "channel = connect()\nupdates(channel, 1, 1000, pause=0.01)\n"
    done = run_program(source, pulse=tmp_path / "no folder" / "pulse")
    assert done.outcome is Outcome.OK
