"""The training interpreter: what it says of itself, whether it can train, what it must see."""

from __future__ import annotations

import errno
import json
import os
import platform
import re
import struct
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from infrarsi.errors import ReferenceFailedError
from infrarsi.execute.sandbox import allowed_environment

OLDEST_PYTHON = (3, 9)
OLDEST_TORCH = (2, 2)

_MARK = "infrarsi-says:"
"""Stands before the answer: site files and warnings of the interpreter print what they like."""

# Parsed by whatever was named, an old Python too. The working folder is taken off the path,
# or a repository's own `platform.py` would stand in for Python's.
ASKING = """
import sys
sys.path[:] = [place for place in sys.path if place]
import json, os, platform
def answer(said):
    sys.stdout.write("\\n%s%s\\n" % (MARK, json.dumps(said)))
    sys.stdout.flush()
""".replace("MARK", repr(_MARK))

# Reads torch's version without importing it: this must be quick.
_LOOK = """
import re
said = {"version": platform.python_version(), "executable": sys.executable, "prefix": sys.prefix,
        "base_prefix": getattr(sys, "base_prefix", sys.prefix), "torch": None, "linked": []}
said["search_path"] = [os.path.abspath(place) for place in sys.path]
if sys.version_info >= (3, 8):
    from importlib import metadata, util
    from urllib.parse import unquote, urlparse
    spec = util.find_spec("torch")
    if spec is not None and spec.origin:
        found = None
        place = os.path.join(os.path.dirname(spec.origin), "version.py")
        if os.path.exists(place):
            with open(place, encoding="utf-8", errors="replace") as file:
                found = re.search(r"^__version__\\s*=\\s*['\\"]([^'\\"]+)", file.read(), re.M)
        try:
            said["torch"] = found.group(1) if found else metadata.version("torch")
        except metadata.PackageNotFoundError:
            said["torch"] = "unknown"
    for each in metadata.distributions():
        try:
            origin = json.loads(each.read_text("direct_url.json") or "{}")
        except (OSError, ValueError):
            continue
        if origin.get("dir_info", {}).get("editable") and origin["url"].startswith("file:"):
            said["linked"].append(unquote(urlparse(origin["url"]).path))
    for place in sys.path:
        try:
            entries = list(os.scandir(place))
        except OSError:
            continue
        said["linked"] += [os.path.realpath(e.path) for e in entries if e.is_symlink()]
answer(said)
"""

_MACHINES = {0x03: "x86", 0x28: "arm", 0x3E: "x86_64", 0xB7: "aarch64", 0x15: "ppc64",
             0xF3: "riscv64", 0x16: "s390x"}  # fmt: skip
_PYTHONS_OWN_WORDS = ("Traceback", "Fatal Python error", "platform independent libraries",
                      "ModuleNotFoundError", "ImportError")  # fmt: skip


@dataclass(frozen=True)
class Interpreter:
    """A Python, as it described itself."""

    executable: Path
    version: str
    prefix: Path
    base_prefix: Path
    torch: str | None
    """Its version; ``None`` where there is none, ``unknown`` where it does not say."""
    search_path: tuple[Path, ...] = ()
    linked: tuple[Path, ...] = ()
    """Sources of editable installs, and what its packages' links lead to."""

    def in_words(self) -> str:
        """Say which it is."""
        torch = f"torch {self.torch}" if self.torch else "no torch"
        return f"{self.executable} (Python {self.version}, {torch})"

    @property
    def scripts(self) -> Path:
        """The folder of its console scripts."""
        own = self.prefix / "bin"
        return own if own.is_dir() else self.executable.parent

    @property
    def sources(self) -> tuple[Path, ...]:
        """Folders outside its prefixes that it imports from: by ``.pth``, editable installs."""
        within = (self.prefix, self.base_prefix)
        places = {*self.search_path, *self.linked}
        return tuple(
            sorted(each for each in places if not any(each.is_relative_to(p) for p in within))
        )

    def readable(self, root: Path) -> tuple[Path, ...]:
        """Give the paths that it needs to see, where it trains what lies in ``root``.

        Sources within the repository are left out: a trial has its own.
        """
        # Scripts name the environment by its real path, even where the folder is a link.
        prefixes = {self.prefix, self.base_prefix}
        places = {*prefixes, *(each.resolve() for each in prefixes), *_hops(self.executable)}
        places |= {each for each in self.sources if not each.is_relative_to(root)}
        aside = {Path("/"), root}
        return tuple(sorted(each for each in places - aside if each.exists()))

    def environment(self, source: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
        """Give the variables that say that it is the active one, and those to take away."""
        env = {"PATH": f"{self.scripts}{os.pathsep}{source.get('PATH') or os.defpath}"}
        away = []
        if self.prefix != self.base_prefix:
            env["VIRTUAL_ENV"] = str(self.prefix)
        else:
            away.append("VIRTUAL_ENV")
        places = (self.prefix, self.base_prefix)
        conda = next((each for each in places if (each / "conda-meta").is_dir()), None)
        if conda is None:
            return env, (*away, "CONDA_PREFIX", "CONDA_DEFAULT_ENV")
        env["CONDA_PREFIX"] = str(conda)
        base = (conda / "condabin").is_dir()
        named = conda.name if conda.parent.name == "envs" else str(conda)
        env["CONDA_DEFAULT_ENV"] = "base" if base else named
        return env, tuple(away)


def look(executable: Path, *, folder: Path | None = None) -> Interpreter:
    """Ask an interpreter what it is, without importing torch; once for each command.

    Parameters
    ----------
    executable
        A program; a script that stands before an interpreter (a shim) is seen through.
    folder
        Where it is started: a shim may choose by that.

    Raises
    ------
    ReferenceFailedError
        It does not start, or is no Python.
    """
    said = ask(executable, _LOOK, timeout_s=60, folder=folder)
    return Interpreter(
        executable=Path(said["executable"] or executable), version=said["version"],
        prefix=Path(said["prefix"]), base_prefix=Path(said["base_prefix"]), torch=said["torch"],
        search_path=tuple(map(Path, said["search_path"])), linked=tuple(map(Path, said["linked"])),
    )  # fmt: skip


def require_training(interpreter: Interpreter) -> Interpreter:
    """Give the interpreter back where it can train under the witness.

    Raises
    ------
    ReferenceFailedError
        Its Python or its torch is too old, or it has no torch.
    """
    oldest = ".".join(map(str, OLDEST_PYTHON))
    if _numbers(interpreter.version) < OLDEST_PYTHON:
        raise ReferenceFailedError(
            f"the training interpreter {interpreter.executable} is Python {interpreter.version}",
            hint=f"the witness needs Python {oldest} or newer: train with a newer one",
        )
    if interpreter.torch is None:
        raise ReferenceFailedError(
            f"the training interpreter {interpreter.executable} has no torch",
            hint="name the interpreter that trains with `infrarsi init --python PATH` (or "
            "task.python in the contract), or install torch in this one",
        )
    if interpreter.torch != "unknown" and _numbers(interpreter.torch) < OLDEST_TORCH:
        raise ReferenceFailedError(
            f"the training interpreter {interpreter.executable} has torch {interpreter.torch}",
            hint=f"the witness needs torch {'.'.join(map(str, OLDEST_TORCH))} or newer",
        )
    return interpreter


def ask(
    executable: Path, script: str, *, timeout_s: float = 300, folder: Path | None = None
) -> dict[str, Any]:
    """Run a script in an interpreter and give what it passed to ``answer``; once a command.

    Raises
    ------
    ReferenceFailedError
        With why it does not start, is no Python, or fails.
    """
    try:
        stamp = executable.stat()
    except OSError as error:
        raise _does_not_start(executable, error) from error
    return _ask(
        executable, script, timeout_s, folder or Path("/"), (stamp.st_ino, stamp.st_mtime_ns)
    )


@cache
def _ask(
    executable: Path, script: str, timeout_s: float, folder: Path, _stamp: tuple[int, int]
) -> dict[str, Any]:
    try:
        done = subprocess.run(
            [str(executable), "-c", ASKING + script], cwd=folder, stdin=subprocess.DEVNULL,
            env=allowed_environment(os.environ), capture_output=True, encoding="utf-8",
            errors="replace", timeout=timeout_s, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _does_not_start(executable, error) from error
    answers = [line for line in done.stdout.splitlines() if line.startswith(_MARK)]
    if done.returncode == 0 and answers:
        said: dict[str, Any] = json.loads(answers[-1].removeprefix(_MARK))
        return said
    said_lines = done.stderr.strip().splitlines() or ["it said nothing"]
    if not any(words in done.stderr for words in _PYTHONS_OWN_WORDS):
        raise ReferenceFailedError(
            f"{executable} is no Python interpreter: {said_lines[0][:200]}", hint=NAME_ANOTHER
        )
    raise ReferenceFailedError(
        f"the training interpreter {executable} fails: {said_lines[-1][:300]}",
        hint="see that `python -c 'import torch'` works with it",
    )


NAME_ANOTHER = (
    "name an interpreter, a virtual environment's folder or a conda prefix: "
    "`infrarsi init --python .venv` (or task.python in the contract)"
)


def _does_not_start(executable: Path, error: Exception) -> ReferenceFailedError:
    hint = NAME_ANOTHER
    match error:
        case OSError(errno=errno.ENOEXEC):
            built = _built_for(executable)
            if built is not None and built != platform.machine():
                why = f"it is built for {built}, and this machine is {platform.machine()}"
            else:
                why = "it is no program that this machine can run"
        case FileNotFoundError() if executable.exists():
            why = "the program that should load it is missing (its shebang or its C library)"
        case PermissionError():
            why = "it may not be executed"
            hint = f"see its permissions with `ls -l {executable}`, or name another"
        case subprocess.TimeoutExpired(timeout=seconds):
            why = f"it had not answered after {seconds:.0f} s"
            hint = "see that `python -c 'import torch'` ends with it, then repeat"
        case _:
            why = str(error)
    return ReferenceFailedError(f"the interpreter {executable} does not start: {why}", hint=hint)


def _built_for(executable: Path) -> str | None:
    """Read from a program's header for which processors it was built."""
    with executable.open("rb") as file:
        head = file.read(20)
    if len(head) < 20 or head[:4] != b"\x7fELF":
        return None
    (number,) = struct.unpack("<H" if head[5] == 1 else ">H", head[18:20])
    return _MACHINES.get(number, f"another processor (ELF machine {number})")


def _hops(executable: Path) -> set[Path]:
    """Give the prefixes along a chain of links: each link must be seen to be followed."""
    places, each = set(), executable
    for _ in range(32):
        places.add(each.parent.parent)
        if not each.is_symlink():
            break
        each = Path(os.path.normpath(each.parent / each.readlink()))
    places.add(executable.resolve().parent.parent)
    return places


def _numbers(version: str) -> tuple[int, ...]:
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found.group(1)), int(found.group(2))) if found else (0, 0)
