"""How often is the reference confirmed against itself? `make bench-null`.

Needs a finished `make demo`. Five live confirmations of the reference as its own candidate; then
the confirmation is resampled from all launches recorded in them. Prints Markdown for
docs/results.md.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
from scipy.stats import beta

from infrarsi.judge.speedup import alpha_for_attempt, block_log_ratios, interval_of_logs
from infrarsi.records.candidate import Candidate
from infrarsi.stages.apply import confirm
from infrarsi.stages.history import History
from infrarsi.stages.workspace import open_workspace

ROOT = Path(__file__).parents[2]
LIVE_TRIES = 5
RESAMPLED = 20_000


def main(place: Path) -> None:
    """Measure in a copy of the demo's repository, resample, and print."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / place.name
        shutil.copytree(place, copy, symlinks=True)
        with open_workspace(copy, command="bench") as workspace:
            reference = Candidate.of(workspace.contract.task.surface.default_knobs())
            print("| live try | ruling | speedup | threshold |\n| --- | --- | --- | --- |")
            for number in range(LIVE_TRIES):
                verdict = confirm(workspace, reference, tell=lambda text: None)
                body = History.of(workspace.ledger.events).confirmations[-1].body
                s = verdict.speedup
                said = f"{s.point:.3f} [{s.low:.3f}, {s.high:.3f}]" if s else "none"
                print(
                    f"| {number + 1} | {verdict.ruling} | {said} | {body['threshold']:.3f} |",
                    flush=True,
                )
            bodies = [c.body for c in History.of(workspace.ledger.events).confirmations]
    launches = [
        row["update_s"]
        for body in bodies
        if Candidate.model_validate(body["candidate"]) == reference
        for row in body["blocks"]
    ]
    resample(np.log(np.array(launches, dtype=float)), blocks=len(bodies[-1]["blocks"]))


def resample(logs: np.ndarray, *, blocks: int) -> None:
    """Redraw whole blocks, and the order within each, and count confirmations.

    Launches of one block stay together, so that the machine's drift stays as it was.
    """
    rng = np.random.default_rng(0)
    rows = rng.integers(len(logs), size=(RESAMPLED, blocks))
    drawn = logs[rows]
    swapped = rng.random((RESAMPLED, blocks)) < 0.5
    outer, inner = drawn[..., [0, 3]], drawn[..., [1, 2]]
    first = np.where(swapped[..., None], inner, outer)
    second = np.where(swapped[..., None], outer, inner)
    ratios = block_log_ratios(np.exp(first), np.exp(second))
    low, _, _ = interval_of_logs(ratios, alpha=alpha_for_attempt(1))
    print(f"\nResampled {RESAMPLED} confirmations of {blocks} blocks from {logs.size} recorded "
          "launches of the reference:\n\n| lower bound exceeds | confirmed | rate [95 %] |\n| --- | --- | --- |")  # fmt: skip
    for threshold in (1.0, 1.03):
        count = int((np.exp(low) > threshold).sum())
        bounds = beta.ppf(
            [0.025, 0.975], [count, count + 1], [RESAMPLED - count + 1, RESAMPLED - count]
        )
        bottom = 0.0 if count == 0 else bounds[0]
        print(
            f"| {threshold:.2f} | {count} | {count / RESAMPLED:.4f} [{bottom:.4f}, {bounds[1]:.4f}] |"
        )


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / ".demo" / "tiny_gpt"))
