"""Which interpreter trains: from what the user named, or what the command means here."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from infrarsi.errors import ReferenceFailedError, UsageError
from infrarsi.execute.interpreter import NAME_ANOTHER, Interpreter, look, require_training
from infrarsi.records.task import Task

_PYTHON = re.compile(r"(python|pypy)(\d+(\.\d+)*)?")
_IN_FOLDER = ("bin/python", "bin/python3", "python", "python3")
"""Where an environment's folder has its interpreter; the last two where its ``bin`` is named."""
_RUNNERS = {
    ("uv", "run"), ("poetry", "run"), ("pipenv", "run"), ("pdm", "run"), ("hatch", "run"),
    ("rye", "run"), ("pixi", "run"), ("conda", "run"), ("mamba", "run"), ("micromamba", "run"),
}  # fmt: skip
_MODULES = {
    ("torchrun",): "torch.distributed.run",
    ("accelerate", "launch"): "accelerate.commands.launch",
    ("deepspeed",): "deepspeed.launcher.runner",
}
"""Launchers whose console script may be missing, by the module that does the same."""
_LAUNCHERS = frozenset(words[0] for words in _MODULES)


@dataclass(frozen=True)
class Choice:
    """The interpreter that trains, and why it is this one."""

    interpreter: Interpreter
    why: str
    recorded: str | None = None
    """What the contract names: relative to the repository where it lies within, ``None`` for
    the interpreter that InfraRSI runs under."""

    def in_words(self) -> str:
        """Say which it is and why."""
        return f"Training interpreter: {self.interpreter.in_words()}, {self.why}"


def choose(named: str | None, command: Sequence[str], *, start: Path, root: Path) -> Choice:
    """Choose the interpreter for a command that a user typed.

    In this order: what ``--python`` names; what the command itself names; the active
    environment; our own; an environment in the repository; ``python`` on the path. The last
    four count only where they hold torch.

    Parameters
    ----------
    named
        What ``--python`` said.
    command
        The reference launch.
    start, root
        Where it was typed, and the repository.

    Raises
    ------
    InfraRSIError
        What is named cannot train, or none with torch is found.
    """
    refuse_runner(command)
    if named is not None:
        return _chosen(locate(named, folders=(start, root)), "named by --python", root)
    of_command = _named_by(command[0], start)
    if of_command is not None:
        return _chosen(of_command, "which the command names", root)
    looked_at = []
    for executable, why in _candidates(root, os.environ):
        try:
            found = look(executable, folder=root)
        except ReferenceFailedError:
            looked_at.append(f"{why} ({executable}) does not run")
            continue
        if found.torch is not None:
            return _chosen(executable, why, root)
        looked_at.append(f"{why} ({executable}) has none")
    raise ReferenceFailedError(
        f"no Python with torch was found: {'; '.join(looked_at)}",
        hint="name the interpreter that trains: `infrarsi init --python PATH -- ...`",
    )


def ours() -> Path:
    """Give the interpreter that InfraRSI runs under."""
    return Path(sys.executable)


def locate(named: str, *, folders: Sequence[Path]) -> Path:
    """Give the executable that a name means: a program, an environment's folder, or a command.

    Parameters
    ----------
    named
        A path, absolute or beginning with ``~`` or relative to one of the folders; or the
        bare name of a program on the path.
    folders
        What a relative path may be relative to; the first that has it counts.

    Raises
    ------
    ReferenceFailedError
        There is nothing, no interpreter in the folder, or the environment is broken.
    """
    path = Path(os.path.expanduser(named))  # noqa: PTH111 - Path.expanduser raises for ~nobody
    for folder in folders:
        place = Path(os.path.abspath(folder / path))  # noqa: PTH100 - a link must stay a link
        if os.path.lexists(place):
            return _program_in(place)
    found = shutil.which(named) if "/" not in named else None
    if found is None:
        raise ReferenceFailedError(f"there is no interpreter at {named}", hint=NAME_ANOTHER)
    return Path(found)


def with_interpreter(argv: Sequence[str], interpreter: Interpreter) -> list[str]:
    """Have a command run under an interpreter: itself, or its own console scripts.

    A launcher whose script is missing or was made for another place is run as a module.
    """
    program, rest = PurePosixPath(argv[0]), list(argv[1:])
    if _PYTHON.fullmatch(program.name):
        return [str(interpreter.executable), *rest]
    if "/" in argv[0] and program.name not in _LAUNCHERS:
        return list(argv)
    script = interpreter.scripts / program.name
    if os.access(script, os.X_OK) and _leads_somewhere(script):
        return [str(script), *rest]
    words = (program.name, *rest)
    for name, module in _MODULES.items():
        if words[: len(name)] == name:
            return [str(interpreter.executable), "-m", module, *words[len(name) :]]
    return list(argv)


def refuse_runner(command: Sequence[str]) -> None:
    """Refuse a command that would prepare an environment inside every trial.

    Raises
    ------
    UsageError
        It begins with ``uv run``, ``conda run`` or the like.
    """
    start = tuple(PurePosixPath(word).name for word in command[:2])
    if start in _RUNNERS:
        runner = " ".join(start)
        raise UsageError(
            f"the command begins with `{runner}`, which would prepare an environment in every "
            "trial",
            hint="name that environment and leave the runner out: "
            "`infrarsi init --python .venv -- python train.py`",
        )


def of_contract(task: Task, root: Path) -> Choice:
    """Give the interpreter of a contract, seen to be able to train.

    Raises
    ------
    ReferenceFailedError
        There is none, or it cannot train.
    """
    if task.python is not None:
        place, why = locate(task.python, folders=(root,)), "named in the contract"
    elif (of_command := _named_by(task.command[0], root / task.folder)) is not None:
        place, why = of_command, "which the command names"
    else:
        place, why = ours(), "the one that InfraRSI runs under"
    return Choice(require_training(look(place, folder=root)), why, task.python)


def _chosen(executable: Path, why: str, root: Path) -> Choice:
    interpreter = require_training(look(executable, folder=root))
    recorded: str | None = str(interpreter.executable)
    if interpreter.executable == ours():
        recorded = None
    elif interpreter.executable.is_relative_to(root):
        recorded = str(interpreter.executable.relative_to(root))
    return Choice(interpreter, why, recorded)


def _named_by(program: str, start: Path) -> Path | None:
    """Give the interpreter that a command's program names: by its path, or by its version."""
    path = PurePosixPath(program)
    if _PYTHON.fullmatch(path.name) and path.name not in {"python", "python3"}:
        return locate(program, folders=(start,))
    if "/" not in program:
        return None
    if _PYTHON.fullmatch(path.name):
        return locate(program, folders=(start,))
    beside = start / path.parent / "python"
    return Path(os.path.abspath(beside)) if path.name in _LAUNCHERS and beside.exists() else None  # noqa: PTH100


def _candidates(root: Path, environment: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    """Give the interpreters that a bare ``python`` may mean here, the likeliest first."""
    seen = set()
    for executable, why in _all_candidates(root, environment):
        if executable not in seen and executable.exists():
            seen.add(executable)
            yield executable, why


def _all_candidates(root: Path, environment: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        if environment.get(variable):
            active = Path(environment[variable]) / "bin" / "python"
            # Ours may be the active one under another of its names: then it is simply ours.
            if not ours().is_relative_to(active.parent):
                yield active, "the active environment"
    yield ours(), "the one that InfraRSI runs under"
    for name in (".venv", "venv", "env"):
        yield root / name / "bin" / "python", "the environment in the repository"
    for name in ("python", "python3"):
        found = shutil.which(name)
        if found:
            yield Path(found), "the python on the path"


def _program_in(place: Path) -> Path:
    """Give the interpreter that a path is, or that its folder holds."""
    if place.is_dir():
        held = [place / name for name in _IN_FOLDER if os.path.lexists(place / name)]
        held = [each for each in held if not each.is_dir()]
        if not held:
            raise ReferenceFailedError(
                f"{place} holds no interpreter: there is no {_IN_FOLDER[0]} in it",
                hint=NAME_ANOTHER,
            )
        place = held[0]
    if not place.exists():
        raise ReferenceFailedError(
            f"{place} leads to {place.resolve()}, which is gone: its environment is broken",
            hint="make the environment anew (`python3 -m venv --clear`, `uv venv --clear`) and "
            "install its packages again",
        )
    return place


def _leads_somewhere(script: Path) -> bool:
    """Tell whether a script's beginning names an interpreter that is there."""
    with script.open("rb") as file:
        first, second = file.readline(1024), file.readline(1024)
    if not first.startswith(b"#!"):
        return True
    # Where a path is long or has spaces, installers have a shell find the interpreter.
    by_shell = re.match(rb"\s*'''exec' (?:\"([^\"]+)\"|(\S+))", second)
    words = list(filter(None, by_shell.groups())) if by_shell else first[2:].split()
    return bool(words) and Path(os.fsdecode(words[0])).exists()
