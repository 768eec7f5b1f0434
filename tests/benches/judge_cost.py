"""What does judging cost beside what is judged? `make bench-judge-cost`.

Needs a finished `make demo`, or another repository with a search. Every screened launch is judged
again as the search did it: its evidence and the reference's are read from the store, and all layers
rule. The ledger says what else was done around each launch (a tree is made, hashed and cleared
away), and what calibration took. Prints Markdown for docs/results.md, and fails where judging takes
2 % of a launch or more.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from statistics import median

from infrarsi.records.trial import Trial
from infrarsi.render.checks import calibration_share
from infrarsi.stages.history import History
from infrarsi.stages.judging import screen
from infrarsi.stages.periods import time_of
from infrarsi.stages.workspace import Workspace, read_workspace

ROOT = Path(__file__).parents[2]
LIMIT = 0.02


def main() -> None:
    """Judge every screened launch again, and print what that takes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("place", nargs="?", type=Path, default=ROOT / ".demo" / "tiny_gpt")
    asked = parser.parse_args()
    if not (asked.place / ".infrarsi" / "ledger.jsonl").exists():
        sys.exit(f"no search in {asked.place}: run `make demo` first, or name another repository")
    workspace = read_workspace(asked.place)
    history = History.of(workspace.ledger.events)
    trials = [each.trial for each in history.screenings if each.trial.evidence_digest]
    names = [trial.trial_id for trial in trials]
    baseline = history.baseline
    if baseline is None or not trials:
        sys.exit(f"nothing was screened in {asked.place}")
    screen(workspace, history, trials[0])  # imports, once a command
    judging = [judging_s(workspace, history, trial) for trial in trials]
    around = around_launches_s(workspace, names)
    launches = [trial.wall_s for trial in trials]
    print(f"{len(trials)} screened launches; medians.\n")
    print("| | s a trial | of its launch |")
    print("| --- | --- | --- |")
    rows = (("the launch itself", launches), ("judging it", judging), ("around it", around))
    for what, seconds in rows:
        share = median(seconds) / median(launches)
        print(f"| {what} | {median(seconds):.3f} | {share:.2%} |")
    whole = calibration_share(baseline)
    print(
        f"\nCalibration took {baseline.wall_s:.0f} s: {whole:.0%} of a search of 30 trials of "
        f"{baseline.launch_s:.1f} s."
    )
    share = sum(judging) / sum(launches)
    if share >= LIMIT:
        sys.exit(f"judging takes {share:.2%} of the launches; under {LIMIT:.0%} is promised")


def judging_s(workspace: Workspace, history: History, trial: Trial) -> float:
    """Give the seconds that judging one launch takes, reading its evidence included."""
    began = time.perf_counter()
    screen(workspace, history, trial)
    return time.perf_counter() - began


def around_launches_s(workspace: Workspace, names: list[str]) -> list[float]:
    """Give what each trial took by the ledger besides its launch."""
    began = {
        event.body["trial_id"]: time_of(event.at)
        for event in workspace.ledger.of_kind("trial_started")
    }
    return [
        (time_of(event.at) - began[event.body["trial_id"]]).total_seconds() - event.body["wall_s"]
        for event in workspace.ledger.of_kind("trial_ended")
        if event.body["trial_id"] in names
    ]


if __name__ == "__main__":
    main()
