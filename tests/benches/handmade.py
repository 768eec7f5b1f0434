"""The winner of a search against a version that was optimised by hand: `make bench-handmade`.

Needs a finished `make demo`. Reference, winner and handmade version are launched in turn, round by
round in random order, each watched by the same witness; ratios are paired by round. Prints
Markdown for docs/results.md.
"""

from __future__ import annotations

import json
import random
import sys
import tarfile
import tempfile
from pathlib import Path

from infrarsi import witness
from infrarsi.execute.interpreter import look
from infrarsi.execute.launch import LaunchPlan, launch
from infrarsi.execute.sandbox import Room
from infrarsi.execute.scratch import prepare_scratch
from infrarsi.judge.speedup import interval_of_times, ratio_by_round
from infrarsi.judge.timing import steady_update_s
from infrarsi.records.evidence import read_evidence
from infrarsi.records.statement import LAUNCH_FILE
from infrarsi.records.trial import Outcome
from infrarsi.stages.history import History
from infrarsi.stages.workspace import read_workspace

ROOT = Path(__file__).parents[2]
HANDMADE = ROOT / "tests" / "handmade" / "tiny_gpt_fast.py"


def main(place: Path, rounds: int) -> None:
    """Measure and print."""
    workspace = read_workspace(place)
    promotion = History.of(workspace.ledger.events).promotion
    if promotion is None:
        sys.exit("the demo has promoted nothing: run `make demo` first")
    with tempfile.TemporaryDirectory() as folder:
        for name in ("reference", "winner", "winner's knobs alone", "handmade"):
            commit = promotion.commit if name == "winner" else workspace.lock.commit
            check_out(workspace.repository, commit, Path(folder) / name)
        said = json.loads((Path(folder) / "winner" / LAUNCH_FILE).read_text())
        winner = (tuple(said["command"]), said["environment"])
        arms = {
            "reference": (workspace.contract.task.command, {}),
            "winner": winner,
            "winner's knobs alone": winner,  # without the memory cap, which they would exceed
            "handmade": (("python", str(HANDMADE)), {}),
        }
        times: dict[str, list[float]] = {name: [] for name in arms}
        order = random.Random(0)
        for number in range(rounds + 1):
            for name in order.sample(sorted(arms), len(arms)):
                measured = measure(workspace, Path(folder) / name, *arms[name])
                if number:  # the first round fills the caches
                    times[name].append(measured)
                print(f"round {number}: {name} {1000 * measured:.1f} ms", file=sys.stderr)
    report(times)


def check_out(repository, commit: str, place: Path) -> None:
    """Write a commit's files into a folder, with the prepared data."""
    place.mkdir()
    archive = repository._git("archive", "--format=tar", commit)
    (place / "a.tar").write_bytes(archive)
    with tarfile.open(place / "a.tar") as tar:
        tar.extractall(place, filter="data")
    for name in ("data",):
        if (repository.root / name).exists() and not (place / name).exists():
            (place / name).symlink_to(repository.root / name)


def measure(workspace, tree: Path, argv, env) -> float:
    """Launch once, and give the steady seconds an update."""
    window = workspace.contract.task.window
    cache = tree.parent / f"{tree.name}-cache"
    with tempfile.TemporaryDirectory(dir=tree.parent) as scratch:
        room = Room(tree=tree, root=tree, scratch=Path(scratch),
                    readable=(*look(Path(sys.executable)).readable(tree), witness.ENTRY))  # fmt: skip
        prepare_scratch(Path(scratch), cache=None)
        (Path(scratch) / "cache").rmdir()
        cache.mkdir(exist_ok=True)
        (Path(scratch) / "cache").symlink_to(cache)
        done = launch(LaunchPlan(
            mark="bench/", argv=(sys.executable, *argv[1:]), folder=".", room=room,
            tier=workspace.tier.PROCESS_GROUP, witness=witness.ENTRY, env=env,
            witness_options={"schema": witness.SCHEMA, "marks": [window.warmup_updates, window.last_update],
                             "sketch_seed": 1, "sketch_elements": 64, "perturb": None},
            stop_update=window.last_update + 2, values_until=window.last_update, deadline_s=600,
        ))  # fmt: skip
    if done.outcome is not Outcome.OK:
        sys.exit(f"a launch failed: {done.reason}\n{done.log.decode()[-2000:]}")
    return steady_update_s(read_evidence(done.events.splitlines()), window)


def report(times: dict[str, list[float]]) -> None:
    """Print the table."""
    print(
        "| version | ms an update | against the reference | against the handmade version "
        "| against the knobs alone |\n| --- | --- | --- | --- | --- |"
    )
    for name, measured in times.items():
        alone = interval_of_times(measured)
        cells = [f"{1000 * alone.point:.1f} [{1000 * alone.low:.1f}, {1000 * alone.high:.1f}]"]
        for other in ("reference", "handmade", "winner's knobs alone"):
            ratio = ratio_by_round(times[other], measured)
            cells.append(f"{ratio.point:.3f} [{ratio.low:.3f}, {ratio.high:.3f}]")
        print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / ".demo" / "tiny_gpt"), rounds=6)
