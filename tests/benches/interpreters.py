"""Training interpreters of other Pythons and other torches: what the witness sees in each.

Each is taken through init, doctor, one trial and its screening of `tests/stories/training`, and
trains compiled models with and without the witness. Interpreters are given, or made::

    python tests/benches/interpreters.py /opt/venvs/a ~/conda/envs/b
    python tests/benches/interpreters.py --make "3.9:torch==2.2.2,numpy<2" --into /tmp/made

Making one downloads the packages that it names. It prints Markdown. Not collected by pytest.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from infrarsi.errors import InfraRSIError
from infrarsi.execute.choosing import locate, ours
from infrarsi.execute.interpreter import Interpreter, look, require_training
from infrarsi.records.evidence import Evidence, read_evidence
from infrarsi.stages.history import History
from infrarsi.stages.launching.trial import evidence_of
from infrarsi.stages.workspace import read_workspace
from infrarsi.witness import ENTRY, SCHEMA, VARIABLE

TESTS = Path(__file__).parents[1]
TRAINING = TESTS / "stories" / "training"
COMPILED = TESTS / "witness" / "programs" / "compiled.py"


@dataclass
class Seen:
    """What came of one interpreter."""

    interpreter: Interpreter
    stages: dict[str, str] = field(default_factory=dict)
    """What each stage ended with, in words."""
    evidence: Evidence | None = None
    """Of the first launch of the reference."""
    screened: str = "-"
    compiled: str = "-"


def main(given: list[str], make: list[str], into: Path, *, compile_too: bool) -> None:
    """Measure and print."""
    made = [make_environment(each, into) for each in make]
    all_seen = []
    for place in (*given, *map(str, made)):
        try:
            interpreter = require_training(look(locate(place, folders=(Path.cwd(),))))
        except InfraRSIError as error:
            print(f"{place}: {error}\n  -> {error.hint}", file=sys.stderr)
            continue
        print(f"{interpreter.in_words()} ...", file=sys.stderr, flush=True)
        seen = Seen(interpreter)
        walk_through(seen)
        if compile_too:
            seen.compiled = compare_compiled(interpreter.executable)
        all_seen.append(seen)
        print(as_markdown(all_seen[-1:]), file=sys.stderr, flush=True)
    print(as_markdown(all_seen))


def make_environment(recipe: str, into: Path) -> Path:
    """Make an environment from ``3.9:torch==2.2.2,numpy<2``, where it is not there yet."""
    version, _, packages = recipe.partition(":")
    place = into / f"python{version}-{packages.split(',')[0].replace('==', '')}"
    if not (place / "bin" / "python").exists():
        base = find_base(version)
        subprocess.run([base, "-m", "venv", str(place)], check=True)
        install = [str(place / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        subprocess.run([*install, *packages.split(",")], check=True)
    return place


def find_base(version: str) -> str:
    """Give a Python of this version: on the path, or among pyenv's."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = [str(each / "bin" / "python3") for each in sorted(root.glob(f"{version}.*"))]
    on_path = shutil.which(f"python{version}")
    if not found and on_path is None:
        sys.exit(f"there is no Python {version} here")
    return found[-1] if found else str(on_path)


def walk_through(seen: Seen) -> None:
    """Take the interpreter from init to a judged trial; stop where a stage refuses."""
    with tempfile.TemporaryDirectory(prefix="interpreters-") as folder:
        root = Path(folder) / "training"
        shutil.copytree(TRAINING, root, ignore=shutil.ignore_patterns("__pycache__"))
        for command in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-qm", "training"]):
            identity = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
            subprocess.run(["git", *identity, *command], cwd=root, check=True)
        python = str(seen.interpreter.executable)
        steps = {
            "init": ["init", "--python", python, "--", "python", "train.py"],
            "lock": ["init", "--relock"],
            "doctor": ["doctor"],
            "run": ["run", "--max-trials", "2"],
        }
        for name, arguments in steps.items():
            if name == "lock":
                shorten(root / "infrarsi.yaml")
            done = subprocess.run(
                [str(ours()), "-m", "infrarsi", *arguments], cwd=root, capture_output=True,
                text=True, check=False,
            )  # fmt: skip
            said = (done.stderr or done.stdout).strip().splitlines() or [""]
            seen.stages[name] = "done" if done.returncode == 0 else " ".join(said[-2:])
            if done.returncode != 0:
                return
        read_ledger(seen, root)


def shorten(contract: Path) -> None:
    """Make the window short, and leave the knobs of the environment out."""
    loaded = yaml.safe_load(contract.read_text())
    loaded["task"]["window"] = {"warmup_updates": 3, "measured_updates": 8}
    knobs = loaded["task"]["surface"]["knobs"]
    loaded["task"]["surface"]["knobs"] = [k for k in knobs if "variable" not in k["reach"]]
    loaded["plan"]["budget"]["trial_deadline_s"] = 120.0
    contract.write_text(yaml.safe_dump(loaded, sort_keys=False))


def read_ledger(seen: Seen, root: Path) -> None:
    """Read what the witness saw of the reference, and what the judge said of the trial."""
    workspace = read_workspace(root)
    history = History.of(workspace.ledger.events)
    first = next(trial for trial in history.trials.values() if trial.purpose == "baseline")
    seen.evidence = evidence_of(workspace, first)
    words = []
    for screening in history.screenings:
        verdict = screening.verdict.ruling if screening.verdict else screening.trial.reason
        changed = ", ".join(screening.trial.candidate.patches) or "settings"
        words.append(f"{changed}: {screening.trial.outcome}, {verdict}")
    seen.screened = "; ".join(words) or "none"


def compare_compiled(python: Path) -> str:
    """Train compiled models with and without the witness, and say whether graphs are equal."""
    without, _ = launch_compiled(python, witness=False)
    with_it, evidence = launch_compiled(python, witness=True)
    if without is None or with_it is None:
        return "compiles nothing here" if without is None else "fails under the witness"
    graphs_differ = [
        case for case, each in without.items()
        if any(each[name] != with_it[case][name] for name in ("losses", "stats"))
    ]  # fmt: skip
    frames_differ = [case for case in without if without[case] != with_it[case]]
    failed = [case for case, each in without.items() if isinstance(each["losses"], str)]
    graphs = sum(each["stats"].get("unique_graphs", 0) for each in without.values())
    seen = f"{len(evidence.updates)} updates in {len(without)} ways"
    said = f"differ in {', '.join(graphs_differ)}" if graphs_differ else "equal, losses too"
    if frames_differ:
        said += f"; frames or breaks differ in: {', '.join(frames_differ)}"
    if failed:
        said += f" (torch itself cannot trace: {', '.join(failed)})"
    return f"{graphs} graphs, {said}; {seen}"


def launch_compiled(python: Path, *, witness: bool) -> tuple[dict[str, Any] | None, Evidence]:
    """Train compiled models once; give what dynamo counted, and what the witness said."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    env.pop("PYTHONPATH", None)
    with tempfile.TemporaryDirectory() as folder, listening(f"{folder}/s") as lines:
        if witness:
            settings = {"schema": SCHEMA, "channel": f"{folder}/s", "marks": [0, 2, 3],
                        "sketch_seed": 1, "sketch_elements": 8, "perturb": None}  # fmt: skip
            env |= {"PYTHONPATH": str(ENTRY), VARIABLE: json.dumps(settings)}
        done = subprocess.run(
            [str(python), str(COMPILED)], env=env, capture_output=True, text=True, check=False,
            cwd=folder,
        )  # fmt: skip
    if done.returncode != 0:
        print(done.stderr[-2000:], file=sys.stderr)
        return None, Evidence()
    stamped = (json.dumps({"t_ns": i, "event": json.loads(e)}) for i, e in enumerate(lines))
    return json.loads(done.stdout), read_evidence(stamped)


@contextmanager
def listening(place: str) -> Iterator[list[bytes]]:
    """Keep the lines of whoever connects to a socket."""
    lines: list[bytes] = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(place)
        listener.listen()
        listener.settimeout(0.2)
        over = threading.Event()

        def accept() -> None:
            while not over.is_set():
                try:
                    connection, _ = listener.accept()
                except TimeoutError:
                    continue
                with connection, connection.makefile("rb") as incoming:
                    lines.extend(incoming)

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield lines
        finally:
            over.set()
            thread.join(10)


def as_markdown(all_seen: list[Seen]) -> str:
    """Write a table, one interpreter a row, each compared with the first that went through."""
    rows = [
        "| Python | torch | init | doctor | trial | updates | batches | loss | compiled |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    first = next((seen.evidence for seen in all_seen if seen.evidence), None)
    for seen in all_seen:
        evidence = seen.evidence
        cells = [seen.interpreter.version, seen.interpreter.torch or "none",
                 seen.stages.get("init", "-"), seen.stages.get("doctor", "-"), seen.screened]  # fmt: skip
        if evidence is None or first is None:
            stopped = next((f"{k}: {v}" for k, v in seen.stages.items() if v != "done"), "-")
            cells += [stopped, "-", "-"]
        else:
            cells += [str(len(evidence.updates)), *compared(first, evidence)]
        rows.append(f"| {' | '.join([*cells, seen.compiled])} |")
    notes = [f"- Python {seen.interpreter.version}, torch {seen.interpreter.torch}: {note}"
             for seen in all_seen if seen.evidence for note in seen.evidence.notes]  # fmt: skip
    return "\n".join([*rows, "", *notes])


def compared(first: Evidence, other: Evidence) -> tuple[str, str]:
    """Compare digests of batches, and losses, update by update."""
    pairs = list(zip(first.updates, other.updates, strict=False))
    equal = sum(a.batch is not None and a.batch == b.batch for a, b in pairs)
    apart = [abs(a.loss - b.loss) / abs(a.loss) for a, b in pairs if a.loss and b.loss]
    same = "all equal" if equal == len(pairs) else f"{equal} of {len(pairs)} equal"
    return same, f"within {max(apart):.1e}" if apart else "not seen"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("interpreters", nargs="*", help="programs, venvs, conda prefixes")
    parser.add_argument("--make", action="append", default=[], metavar="PYTHON:PACKAGE,...")
    parser.add_argument("--into", type=Path, default=Path(tempfile.gettempdir()) / "interpreters")
    parser.add_argument("--no-compile", action="store_true")
    args = parser.parse_args()
    named = args.interpreters or ([] if args.make else [str(ours())])
    main(named, args.make, args.into, compile_too=not args.no_compile)
