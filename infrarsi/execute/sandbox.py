"""Containment of a trial: bubblewrap where it works, and an honest label where it does not."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

INSIDE = Path("/tmp/infrarsi")
"""Where a contained trial sees its scratch folder."""
GIT_FOLDER, GIT_FILE = "git", "gitfile"
"""Where in the scratch folder the trial's own ``.git`` is laid out."""
DOOR = "door"
"""Where in the scratch folder the parent listens. Mounted read-only: a trial can connect, and can
neither rename the socket nor put another in its place."""

_PASSED_ON = frozenset({
    "PATH", "HOME", "USER", "LOGNAME", "LANG", "TZ", "TERM", "VIRTUAL_ENV", "LD_LIBRARY_PATH",
    "PYTHONPATH", "PYTHONHASHSEED", "CC", "CXX",
})  # fmt: skip
_PASSED_ON_PREFIXES = (
    "LC_", "CUDA_", "NVIDIA_", "NCCL_", "GLOO_", "OMP_", "MKL_", "KMP_", "GOMP_", "OPENBLAS_",
    "NVPL_", "BLIS_", "HF_", "TRANSFORMERS_", "TORCH", "PYTORCH_", "TRITON_", "CONDA_", "MALLOC_",
    "GLIBC_", "ROCR_", "HIP_", "HSA_",
)  # fmt: skip


class Tier(StrEnum):
    """How a trial is contained."""

    BUBBLEWRAP = "bubblewrap"
    PROCESS_GROUP = "process group (uncontained)"


TIER_LIMITS: Mapping[Tier, str] = {
    Tier.BUBBLEWRAP: "own file system view, processes and network (loopback only); it shares the "
    "kernel, the processors and the accelerators, and a program can still lie to itself",
    Tier.PROCESS_GROUP: "nothing stops a trial from reading or writing what its user can, using "
    "the network, or leaving processes behind; leftovers are looked for and killed",
}
"""What each tier does and does not stop, for reports."""


@dataclass(frozen=True)
class Room:
    """What a trial gets: its tree, where that appears, and what else it may see."""

    tree: Path
    """The worktree."""
    root: Path
    """The user's checkout: a contained trial sees its tree there."""
    scratch: Path
    """The trial's own folder for temporary files and caches."""
    readable: tuple[Path, ...] = ()
    """Paths that must stay visible: interpreters, the witness."""
    inputs: tuple[str, ...] = ()
    """Locked git-ignored inputs, relative to the root, mounted read-only."""
    git_objects: Path | None = None
    """The objects behind the trial's own ``.git``, mounted read-only."""


def probe_tier() -> Tier:
    """Find the best tier that works here, by trying it."""
    program = shutil.which("bwrap")
    if program is None:
        return Tier.PROCESS_GROUP
    command = [program, *_ISOLATION, "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc",
               "--tmpfs", "/tmp", "true"]  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return Tier.PROCESS_GROUP
    return Tier.BUBBLEWRAP if done.returncode == 0 else Tier.PROCESS_GROUP


_ISOLATION = (
    "--unshare-all", "--unshare-user", "--disable-userns", "--cap-drop", "ALL",
    "--die-with-parent", "--new-session",
    # Ranks find each other by the machine's name, and the network in there is loopback alone.
    "--hostname", "localhost",
)  # fmt: skip


def seen_root(room: Room, tier: Tier) -> Path:
    """Give the path at which the program sees its tree."""
    return room.root if tier is Tier.BUBBLEWRAP else room.tree


def seen_scratch(room: Room, tier: Tier) -> Path:
    """Give the path at which the program sees its scratch folder."""
    return INSIDE if tier is Tier.BUBBLEWRAP else room.scratch


def allowed_environment(source: Mapping[str, str]) -> dict[str, str]:
    """Give the variables that a trial inherits: an allowlist, the same for every tier."""
    return {
        key: value
        for key, value in source.items()
        if key in _PASSED_ON or key.startswith(_PASSED_ON_PREFIXES)
    }


def limit_data(argv: Sequence[str], cap_bytes: int | None) -> list[str]:
    """Cap the process data (RLIMIT_DATA) of a program from its first instruction on."""
    if cap_bytes is None:
        return list(argv)
    return ["/bin/sh", "-c", 'ulimit -d "$1" || exit 125; shift; exec "$@"', "sh",
            str(cap_bytes // 1024), *argv]  # fmt: skip


def contain(argv: Sequence[str], room: Room, *, tier: Tier, folder: str) -> list[str]:
    """Wrap a command so that it runs in its room.

    Parameters
    ----------
    argv
        The command, as the program itself should see it.
    room
        What it may see and write.
    tier
        The tier that :func:`probe_tier` found.
    folder
        Where it starts, relative to the root.
    """
    match tier:
        case Tier.BUBBLEWRAP:
            return _in_bubblewrap(argv, room, folder=folder)
        case Tier.PROCESS_GROUP:
            setpriv = shutil.which("setpriv")
            words = [_in_tree(word, room) for word in argv]
            return [*([setpriv, "--pdeathsig", "KILL"] if setpriv else []), *words]


def _in_tree(word: str, room: Room) -> str:
    """Point an argument that names a file of the checkout at the trial's own copy of it."""
    before, root, path = word.partition(f"{room.root}/")
    named = root and (not before or before.endswith("="))
    return f"{before}{room.tree}/{path}" if named and (room.tree / path).exists() else word


def _in_bubblewrap(argv: Sequence[str], room: Room, *, folder: str) -> list[str]:
    command = [shutil.which("bwrap") or "bwrap", *_ISOLATION]
    command += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"]
    for device in sorted(Path("/dev").glob("nvidia*")):
        command += ["--dev-bind", str(device), str(device)]
    # What /tmp now hides, and what the tree will hide, is shown again where it is needed.
    outside = [path for path in room.readable if not path.is_relative_to(room.root)]
    within = [path for path in room.readable if path.is_relative_to(room.root)]
    command += _bind_hidden(outside, below=Path("/tmp"))
    command += ["--bind", str(room.tree), str(room.root)]
    if (room.tree / ".git").exists():
        gitfile = room.scratch / GIT_FILE
        shown = gitfile if gitfile.exists() else Path("/dev/null")
        command += ["--ro-bind", str(shown), str(room.root / ".git")]
    command += _bind_hidden(within, below=room.root)
    for name in room.inputs:
        place = os.path.normpath(room.root / name)  # it may lie outside
        command += ["--ro-bind", place, place]
    command += ["--bind", str(room.scratch), str(INSIDE)]
    if (room.scratch / DOOR).exists():
        command += ["--ro-bind", str(room.scratch / DOOR), str(INSIDE / DOOR)]
    if room.git_objects is not None:
        command += ["--ro-bind", str(room.git_objects), str(INSIDE / GIT_FOLDER / "objects")]
    return [*command, "--chdir", str(room.root / folder), "--", *argv]


def _bind_hidden(paths: Iterable[Path], *, below: Path) -> list[str]:
    hidden = sorted({path for path in paths if path.is_relative_to(below) and path != below})
    return [word for path in hidden for word in ("--ro-bind", str(path), str(path))]
