"""How long does it take to judge 1,212 stored trials again? `make bench-recheck`.

Needs a finished `make demo`, or another repository with a promoted search. Its judged launches,
screenings and whole confirmations, are recorded again under new names until there are so many
trials, each with evidence of its own (a line is added to it, so that nothing is read twice). Then
`infrarsi recheck` is timed as a user would: the whole command. Prints Markdown for
docs/results.md, and fails where something could not be judged or it takes ten seconds or more.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from infrarsi.records.event import Event
from infrarsi.store.artifacts import Artifacts
from infrarsi.store.ledger import Ledger, open_ledger, read_ledger

ROOT = Path(__file__).parents[2]
LIMIT_S = 10.0


def main() -> None:
    """Multiply a search's trials, judge them again, and print how long that took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("place", nargs="?", type=Path, default=ROOT / ".demo" / "tiny_gpt")
    parser.add_argument("--trials", type=int, default=1212)
    parser.add_argument("--times", type=int, default=3)
    asked = parser.parse_args()
    if not (asked.place / ".infrarsi" / "ledger.jsonl").exists():
        sys.exit(f"no search in {asked.place}: run `make demo` first, or name another repository")
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / asked.place.name
        left_out = shutil.ignore_patterns("caches", "report", "trees", "scratch", "__pycache__")
        shutil.copytree(asked.place, copy, symlinks=True, ignore=left_out)
        multiply(copy / ".infrarsi", asked.trials)
        rows = [timed(copy) for _ in range(asked.times)]
    found = rows[0][2]
    print("| stored trials | judged again | verdicts | changed | wall s | processor s |")
    print("| --- | --- | --- | --- | --- | --- |")
    for wall_s, cpu_s, _ in rows:
        changed = sum(len(group["changed"]) for group in found["groups"])
        print(
            f"| {found['num_trials']:,} | {found['num_judged_again']:,} | "
            f"{found['num_verdicts']:,} | {changed} | {wall_s:.2f} | {cpu_s:.2f} |"
        )
    slowest = max(row[0] for row in rows)
    if slowest >= LIMIT_S or found["lost"]:
        sys.exit(f"the slowest took {slowest:.1f} s; {len(found['lost'])} could not be judged")


def timed(place: Path) -> tuple[float, float, dict[str, Any]]:
    """Time one whole command."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "infrarsi", "recheck", "--json", "-C", str(place)],
        capture_output=True, text=True, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    wall_s, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if not done.stdout:
        sys.exit(f"it ended with {done.returncode}: {done.stderr}")
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall_s, cpu_s, json.loads(done.stdout)


def multiply(state: Path, trials: int) -> None:
    """Record the judged launches of a ledger again and again, until it holds so many trials."""
    artifacts = Artifacts(state / "artifacts")
    events = read_ledger(state).events
    with open_ledger(state, command="bench") as ledger:
        count = len(ledger.of_kind("trial_started"))
        for turn in itertools.count():
            for event in judged(events, confirmations=turn % 8 == 0):
                if count >= trials:
                    return
                count += again(ledger, artifacts, events, event, count)


def judged(events: tuple[Event, ...], *, confirmations: bool) -> Iterator[Event]:
    """Give the verdicts of a ledger; screenings always, confirmations now and then."""
    for event in events:
        if (event.kind == "screened" and event.body["verdict"] is not None) or (
            event.kind == "confirmed" and confirmations
        ):
            yield event


def again(
    ledger: Ledger, artifacts: Artifacts, events: tuple[Event, ...], event: Event, count: int
) -> int:
    """Record a verdict and its launches under new names; give how many launches there were."""
    names = event.body["verdict"]["trials"]
    renamed = {name: f"t{count + number:04d}" for number, name in enumerate(names, start=1)}
    for name, new in renamed.items():
        started, ended = (under(renamed, each) for each in launch_events(events, name))
        if event.kind == "confirmed":  # its replays are found by the attempt
            started["remarks"]["attempt"] = 1000 + count
        ledger.append("trial_started", started)
        digest = own_evidence(artifacts, ended["evidence_digest"], new)
        ledger.append("trial_ended", {**ended, "evidence_digest": digest})
    ledger.append(event.kind, under(renamed, event.body))
    return len(names)


def under(renamed: dict[str, str], body: dict[str, Any]) -> dict[str, Any]:
    """Give a copy of an event's body in which trials bear their new names."""
    text = re.sub(r'"(t\d{4,})"', lambda m: f'"{renamed.get(m[1], m[1])}"', json.dumps(body))
    return dict(json.loads(text))


def launch_events(events: tuple[Event, ...], name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Give what was recorded as a launch started, and as it ended."""
    found = {
        event.kind: event.body
        for event in events
        if event.kind in {"trial_started", "trial_ended"} and event.body["trial_id"] == name
    }
    return found["trial_started"], found["trial_ended"]


def own_evidence(artifacts: Artifacts, digest: str, name: str) -> str:
    """Keep a launch's evidence with a line that no other launch has."""
    note = json.dumps({"t_ns": 1, "event": {"kind": "note", "rank": 0, "text": f"again as {name}"}})
    return artifacts.put(artifacts.get(digest).rstrip(b"\n") + b"\n" + note.encode() + b"\n")


if __name__ == "__main__":
    main()
