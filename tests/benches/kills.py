"""Killed at random moments, over two examples: `make bench-kills`.

Doctor, run and apply are started in turn and stopped, by SIGKILL or by Ctrl-C, at moments drawn at
random; then each is let through. Checked after every stop: the ledger verifies and `status` speaks.
Checked at the end: every trial that was started ended once, none was judged twice, nothing is left
of a process, a worktree, a mount or a branch, and the report is written. Prints Markdown for
docs/results.md. Not collected by pytest.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import yaml

from examples import SESSIONS, Session, check_out, say
from infrarsi.records.trial import Outcome
from infrarsi.stages.history import History
from infrarsi.store.ledger import read_ledger

SESSIONS = {"tiny_gpt": Session("python train.py", "850MB", before=("python data.py",)), **SESSIONS}
PYTHON = sys.executable


def main() -> None:
    """Stop each example at random moments, let it through, and check what is left."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=["tiny_gpt", "tiny_moe"])
    parser.add_argument("--moments", type=int, default=20, help="of each example")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background ignores it
    print(
        "| example | stops | in doctor, run, apply | trials | lost in flight | left over | result |"
    )
    print("|---|---|---|---|---|---|---|")
    for name in asked.names:
        print(stop_at_random(name, asked.moments, random.Random(asked.seed)), flush=True)


def stop_at_random(name: str, moments: int, chance: random.Random) -> str:
    """Give the table's line of one example."""
    place = check_out(name)
    session = SESSIONS[name]
    for command in session.before:
        say(place, command.split())
    infrarsi(
        place, "init", "--memory", session.memory, *session.init, "--", *session.command.split()
    )
    shorten(place / "infrarsi.yaml")
    infrarsi(place, "init", "--relock")
    stops: Counter[str] = Counter()
    commands = {
        "doctor": ["doctor"],
        "run": ["run", "--max-trials", "4"],
        "apply": ["apply", "--blocks", "2"],
    }
    share = {"doctor": moments // 3, "run": moments // 3, "apply": moments - 2 * (moments // 3)}
    for stage, command in commands.items():
        for _ in range(share[stage]):
            stops[stage] += stopped(place, command, chance)
            read_ledger(place / ".infrarsi")
            assert not processes_of(place, within_s=20.0), "a process outlived its command"
            infrarsi(place, "status")
        infrarsi(place, *command, codes=(0, 2, 4, 5) if stage == "apply" else (0,))
    infrarsi(place, "report")
    history = History.of(read_ledger(place / ".infrarsi").events)
    check_counts(history)
    lost = sum(trial.outcome is Outcome.PREEMPTED for trial in history.trials.values())
    report = json.loads((place / ".infrarsi" / "report" / "report.json").read_text())
    ruling = report["confirmed"]["ruling"] if report["confirmed"] else "nothing put forward"
    where = ", ".join(str(stops[stage]) for stage in commands)
    left = ", ".join(left_over(place, promoted=history.promotion is not None)) or "nothing"
    return (f"| {name} | {sum(stops.values())} | {where} | {len(history.trials)} | {lost} | {left} | "
            f"{ruling} |")  # fmt: skip


def stopped(place: Path, command: list[str], chance: random.Random) -> int:
    """Start a command and stop it at a random moment; tell whether it was still at work."""
    process = subprocess.Popen(
        [PYTHON, "-m", "infrarsi", *command], cwd=place,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    time.sleep(chance.uniform(0.3, 25.0))
    if process.poll() is not None:
        return 0
    process.send_signal(chance.choice([signal.SIGKILL, signal.SIGINT]))
    process.wait(60)
    return 1


def infrarsi(place: Path, *arguments: str, codes: tuple[int, ...] = (0,)) -> None:
    """Type a command and let it through."""
    done = subprocess.run(
        [PYTHON, "-m", "infrarsi", *arguments],
        cwd=place,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in codes:
        sys.exit(f"infrarsi {' '.join(arguments)}: {done.returncode}\n{done.stdout}{done.stderr}")


def shorten(contract: Path) -> None:
    """Make launches short: nothing is concluded from their times here."""
    loaded = yaml.safe_load(contract.read_text())
    loaded["task"]["window"] = {"warmup_updates": 2, "measured_updates": 6}
    loaded["plan"]["ablation_rounds"] = 2
    contract.write_text(yaml.safe_dump(loaded, sort_keys=False))


def check_counts(history: History) -> None:
    """Check that every trial ended once, and that none was judged twice."""
    started = [each.body["trial_id"] for each in history.events if each.kind == "trial_started"]
    ended = [each.body["trial_id"] for each in history.events if each.kind == "trial_ended"]
    judged = [each.trial.trial_id for each in history.screenings]
    assert len(set(started)) == len(started), "a trial was started twice"
    assert sorted(started) == sorted(ended), "a trial ended twice, or never"
    assert len(set(judged)) == len(judged), "a trial was judged twice"


def processes_of(place: Path, *, within_s: float) -> list[str]:
    """Give the processes that work in a place or name it, if they do not end in time."""
    end = time.monotonic() + within_s
    while True:
        found = [
            each for each in map(described, Path("/proc").glob("[0-9]*")) if str(place) in each
        ]
        if not found or time.monotonic() >= end:
            return found
        time.sleep(0.5)


def described(process: Path) -> str:
    """Give a process's folder and command line; nothing where it has just ended."""
    try:
        return f"{(process / 'cwd').readlink()} {(process / 'cmdline').read_text()}"
    except OSError:
        return ""


def left_over(place: Path, *, promoted: bool) -> list[str]:
    """Name what should not be there any more."""
    found = [f"process {line}" for line in processes_of(place, within_s=0.0)]
    git = ["git", "-C", str(place)]
    worktrees = subprocess.run(
        [*git, "worktree", "list"], capture_output=True, text=True, check=True
    )
    found += [f"worktree {line}" for line in worktrees.stdout.splitlines()[1:]]
    found += [
        f"mount {line}"
        for line in Path("/proc/mounts").read_text().splitlines()
        if str(place) in line
    ]
    branches = subprocess.run(
        [*git, "branch", "--list", "infrarsi/*"], capture_output=True, text=True, check=True
    )
    found += [f"branch {line.strip()}" for line in branches.stdout.splitlines()][int(promoted) :]
    for folder in ("trees", "scratch"):
        kept = place / ".infrarsi" / folder
        found += [str(each) for each in kept.iterdir()] if kept.exists() else []
    return found


if __name__ == "__main__":
    main()
