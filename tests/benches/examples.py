"""Every example through every stage, as its user would type it: `make bench-examples`.

Run it on an idle machine: ``python tests/benches/examples.py [NAME ...]``. Each example is copied
into a git repository of its own under ``.demo/``, and nothing of it is edited. Prints Markdown for
docs/examples.md from each ``report.json``. Not collected by pytest.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Session:
    """What a user types for one example."""

    command: str
    memory: str
    max_wall: str = "4m"
    blocks: int = 4
    before: tuple[str, ...] = ()
    """Commands of the example's own README that come first."""
    init: tuple[str, ...] = ()


WINDOW = ("--warmup-updates", "4", "--measured-updates", "12")

SESSIONS = {
    "tiny_moe": Session(
        "python train.py --config config/base.yaml", "1GB", before=("python data.py",), init=WINDOW
    ),
    "hf_trainer": Session(
        "python train.py --output_dir out --max_steps 500 --per_device_train_batch_size 2"
        " --gradient_accumulation_steps 2 --gradient_checkpointing True --optim adamw_torch"
        " --learning_rate 2e-3 --lr_scheduler_type cosine --warmup_steps 20 --weight_decay 0.1"
        " --logging_steps 1 --save_strategy no --report_to none",
        "2GB",
        init=WINDOW,
    ),
    "ddp_gpt": Session(
        "torchrun --standalone --nproc_per_node=2 train.py",
        "1GB",
        before=("python prepare.py",),
        init=WINDOW,
    ),
}


def main() -> None:
    """Run the examples named, or all, and print a section for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(SESSIONS))
    for name in parser.parse_args().names:
        began = time.monotonic()
        place = check_out(name)
        report = perform(place, SESSIONS[name])
        print(section(name, SESSIONS[name], report, time.monotonic() - began), flush=True)


def check_out(name: str) -> Path:
    """Copy an example's tracked files into a repository of its own, and commit them."""
    place = ROOT / ".demo" / name
    shutil.rmtree(place, ignore_errors=True)
    listed = subprocess.run(
        ["git", "ls-files", "-z", f"examples/{name}"], cwd=ROOT, check=True, capture_output=True
    )
    for path in filter(None, listed.stdout.decode().split("\0")):
        target = place / Path(path).relative_to(f"examples/{name}")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / path, target)
    for command in (
        "git init --quiet --initial-branch=main",
        "git add -A",
        "git -c user.name=you -c user.email=you@example.com commit --quiet -m training",
    ):
        subprocess.run(shlex.split(command), cwd=place, check=True)
    return place


def perform(place: Path, session: Session) -> dict:
    """Type the five stages; give the report, whatever came of the confirmation."""
    for command in session.before:
        say(place, shlex.split(command))
    init = ["infrarsi", "init", "--memory", session.memory, *session.init, "--"]
    say(place, [*init, *shlex.split(session.command)])
    say(place, ["infrarsi", "doctor"])
    say(place, ["infrarsi", "run", "--max-wall", session.max_wall])
    say(place, ["infrarsi", "apply", "--blocks", str(session.blocks)], may_fail=True)
    say(place, ["infrarsi", "report"])
    return json.loads((place / ".infrarsi" / "report" / "report.json").read_text())


def say(place: Path, command: list[str], *, may_fail: bool = False) -> None:
    """Run one command there, its output to stderr."""
    print(f"\n$ {shlex.join(command)}", file=sys.stderr, flush=True)
    program = Path(sys.executable).parent / command[0]
    whole = [str(program) if program.exists() else command[0], *command[1:]]
    subprocess.run(whole, cwd=place, check=not may_fail, stdout=sys.stderr)


def section(name: str, session: Session, report: dict, took_s: float) -> str:
    """Write what was found, what was refused and what it cost."""
    trials, cost = report["trials"], report["cost"]
    refused = [row for row in trials["rows"] if row["verdict"] == "fail"]
    lines = [f"## {name}", "", f"`{session.command}`, {took_s / 60:.0f} min in all.", ""]
    lines += ["| | |", "| --- | --- |", f"| speedup | {speedup(report['confirmed'])} |"]
    if report["winner"]:
        winner = report["winner"]
        knobs = ", ".join(f"`{key}={value}`" for key, value in winner["knobs"].items())
        patches = ", ".join(f"`{each}`" for each in winner["patches"])
        lines += [f"| knobs | {knobs or 'none'} |", f"| patches | {patches or 'none'} |"]
    counts = (", ".join(f"{n} {what}" for what, n in each.items())
              for each in (trials["outcomes"], trials["verdicts"]))  # fmt: skip
    lines += [f"| launches of the search | {next(counts)} |", f"| verdicts | {next(counts)} |"]
    updates = cost["break_even_updates"]
    lines += [f"| cost | {cost['wall_s']:.0f} s of launches; break-even after {updates} updates |"]
    lines += ["", "Refused:" if refused else "Nothing was refused.", ""]
    # The first reason, without where its band came from: the report says the rest.
    lines += [f"- `{row['change']}`: {row['why'].split(' (')[0]}" for row in refused]
    parts = report["winner"]["parts"] if report["winner"] else []
    if parts:
        lines += ["", "| part | time without / with | |", "| --- | --- | --- |"]
    for part in parts:
        gain = part["gain"]
        shown = f"{gain['point']:.2f}x [{gain['low']:.2f}, {gain['high']:.2f}]" if gain else "-"
        fate = part["note"] or ("kept" if part["kept"] else "dropped")
        lines.append(f"| `{part['name']}` | {shown} | {fate} |")
    return "\n".join(lines) + "\n"


def speedup(confirmed: dict | None) -> str:
    """Say the confirmed speedup with its interval, or what the judge said instead."""
    if confirmed is None:
        return "nothing was put forward"
    found = confirmed["speedup"]
    if found is None:
        return f"none: {confirmed['ruling']}"
    return (f"{confirmed['ruling']}: {found['point']:.2f}x [{found['low']:.2f}, {found['high']:.2f}] "
            f"at {100 * found['level']:.1f} %, {len(confirmed['blocks'])} blocks, "
            f"threshold {confirmed['threshold']:.3f}")  # fmt: skip


if __name__ == "__main__":
    main()
