"""What a contained trial sees of git: its commit, and the history behind it, read-only.

Programs log the commit that they run (``git rev-parse HEAD``, ``git describe``), and many do not
bear to be refused. They are shown a repository of their own, at the locked commit, detached,
over the user's objects; of the user's branches, configuration and index it has nothing.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from infrarsi.execute.repository import Repository
from infrarsi.execute.sandbox import GIT_FILE, GIT_FOLDER, INSIDE


def show_git(repository: Repository, tree: Path, commit: str, *, scratch: Path) -> Path:
    """Lay out in a trial's scratch what it sees as its ``.git``; give where the objects are."""
    folder = scratch / GIT_FOLDER
    for part in ("refs", "objects"):
        (folder / part).mkdir(parents=True)
    (folder / "HEAD").write_text(f"{commit}\n", encoding="utf-8")
    hashed = repository.git("rev-parse", "--show-object-format")
    kind = "" if hashed == "sha1" else f"[extensions]\n\tobjectformat = {hashed}\n"
    version = 1 if kind else 0
    (folder / "config").write_text(
        f"[core]\n\trepositoryformatversion = {version}\n\tbare = false\n{kind}", encoding="utf-8"
    )
    for name, cwd in (("index", tree), ("shallow", repository.root)):
        place = Path(
            repository.git("rev-parse", "--path-format=absolute", "--git-path", name, cwd=cwd)
        )
        if place.exists():
            shutil.copyfile(place, folder / name)
    (scratch / GIT_FILE).write_text(f"gitdir: {INSIDE / GIT_FOLDER}\n", encoding="utf-8")
    return Path(repository.git("rev-parse", "--path-format=absolute", "--git-path", "objects"))
