"""The user's git repository, which is read and never written but for branches on request."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from infrarsi.errors import RepositoryError, SpaceError
from infrarsi.execute.disk import SPACE_HINT, is_out_of_space

_LARGEST_POINTER = 1024
"""Bytes: what Git LFS itself takes for a pointer at the most."""


class Repository:
    """A git repository with at least one commit."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def git(
        self, *arguments: str, cwd: Path | None = None, env: Mapping[str, str] | None = None
    ) -> str:
        """Run git here and give what it prints.

        Raises
        ------
        RepositoryError
            Git says no; the message is git's own.
        SpaceError
            There was no space for what git wrote.
        """
        return self._git(*arguments, cwd=cwd, env=env).decode("utf-8", "surrogateescape").strip()

    def _git(
        self,
        *arguments: str,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
    ) -> bytes:
        done = subprocess.run(
            ["git", "-c", "core.quotepath=off", "-c", "core.hooksPath=/dev/null", *arguments],
            cwd=cwd or self.root, env={**_clean_environment(), **(env or {})}, input=stdin,
            capture_output=True, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise _refusal(arguments[0], done.stderr.decode(errors="replace"))
        return done.stdout

    def commit(self) -> str:
        """Give the commit that HEAD stands on, detached or not."""
        return self.git("rev-parse", "HEAD")

    def has_commit(self, commit: str) -> bool:
        """Tell whether a commit is here."""
        try:
            self._git("cat-file", "-e", f"{commit}^{{commit}}")
        except RepositoryError:
            return False
        return True

    def tracked(self, commit: str) -> tuple[str, ...]:
        """Give the paths of all files in a commit, links and submodules included.

        Raises
        ------
        RepositoryError
            A name is not UTF-8, so that no contract or ledger could say it.
        """
        listed = sorted(_names(self._git("ls-tree", "-r", "-z", "--name-only", commit)))
        odd = next((name for name in listed if not _is_text(name)), None)
        if odd is not None:
            raise RepositoryError(
                f"the name of the tracked file {os.fsencode(odd)!r} is not UTF-8",
                hint="rename it with `git mv`, commit, then repeat",
            )
        return tuple(listed)

    def gitlinks(self, commit: str) -> dict[str, str]:
        """Give the commit that each submodule is locked at, by path."""
        rows = (row.split("\t", 1) for row in _names(self._git("ls-tree", "-r", "-z", commit)))
        return {path: meta.split()[2] for meta, path in rows if meta.startswith("160000")}

    def symlinks(self, commit: str) -> tuple[str, ...]:
        """Give the paths of a commit that are symbolic links."""
        rows = (row.split("\t", 1) for row in _names(self._git("ls-tree", "-r", "-z", commit)))
        return tuple(path for meta, path in rows if meta.startswith("120000"))

    def lfs_pointers(self, paths: Iterable[str]) -> tuple[str, ...]:
        """Give those of the paths that are Git LFS pointers on the disk, without their content."""
        return tuple(path for path in paths if _is_lfs_pointer(self.root / path))

    def outside_the_commit(self, path: str, commit: str) -> Literal["ignored", "untracked"] | None:
        """Say why a path of the working tree is not in a commit; ``None`` where it is in it."""
        if self._git("ls-tree", "-r", "-z", "--name-only", commit, "--", path):
            return None
        listed = self._git("ls-files", "--others", "--exclude-standard", "-z", "--", path)
        return "untracked" if listed else "ignored"

    def dirty(self) -> tuple[str, ...]:
        """Give the tracked files that differ from HEAD."""
        return tuple(sorted(_names(self._git("diff", "--name-only", "-z", "HEAD"))))

    def read(self, commit: str, paths: Iterable[str]) -> dict[str, bytes]:
        """Give the contents of regular files at a commit; other paths are left out."""
        wanted = list(paths)
        if not wanted:
            return {}
        rows = self._git("ls-tree", "-r", "-z", commit, "--", *wanted)
        contents: dict[str, bytes] = {}
        for row in _names(rows):
            meta, path = row.split("\t", 1)
            mode, kind, blob = meta.split()
            if kind == "blob" and mode.startswith("100"):
                contents[path] = self._git("cat-file", "blob", blob)
        return contents

    def blob(self, object_id: str) -> bytes:
        """Give the content of a file by the id that git has for it."""
        return self._git("cat-file", "blob", object_id)

    def tree_of(self, folder: Path, *, objects: Path) -> str:
        """Give the git tree id of a worktree's tracked and new files.

        New objects are written to the folder ``objects``, not to the user's repository.
        """
        objects.mkdir(parents=True, exist_ok=True)
        ours = self.git("rev-parse", "--path-format=absolute", "--git-path", "objects")
        env = {"GIT_OBJECT_DIRECTORY": str(objects), "GIT_ALTERNATE_OBJECT_DIRECTORIES": ours}
        self.git("add", "-A", cwd=folder, env=env)
        return self.git("write-tree", cwd=folder, env=env)

    def expected_tree(
        self,
        commit: str,
        files: Mapping[str, bytes],
        *,
        objects: Path,
        without: Sequence[str] = (),
    ) -> str:
        """Give the git tree id of a commit with some files replaced, made without a checkout.

        ``without`` names files and folders that are left out. New objects are written to the
        folder ``objects``, not to the user's repository.
        """
        objects.mkdir(parents=True, exist_ok=True)
        ours = self.git("rev-parse", "--path-format=absolute", "--git-path", "objects")
        env = {"GIT_OBJECT_DIRECTORY": str(objects), "GIT_ALTERNATE_OBJECT_DIRECTORIES": ours}
        index = objects / "expected.index"
        return self._tree_with(commit, files, index=index, env=env, without=without)

    def commit_files(
        self,
        parent: str,
        files: Mapping[str, bytes],
        *,
        message: str,
        without: Sequence[str] = (),
    ) -> str:
        """Make a commit upon a parent with some files replaced; no checkout, no branch moves.

        ``without`` names files and folders that are taken away first.
        """
        env: dict[str, str] = {}
        if not self.git("config", "--default", "", "--get", "user.email"):
            for role in ("AUTHOR", "COMMITTER"):
                env |= {f"GIT_{role}_NAME": "InfraRSI", f"GIT_{role}_EMAIL": "infrarsi@localhost"}
        with tempfile.TemporaryDirectory() as scratch:
            index = Path(scratch) / "index"
            tree = self._tree_with(parent, files, index=index, env={}, without=without)
        arguments = ["commit-tree", tree, "-p", parent, "-F", "-"]
        return self._git(*arguments, env=env, stdin=message.encode()).decode().strip()

    def branch_commit(self, branch: str) -> str | None:
        """Give the commit that a branch stands on, or ``None`` where there is no such branch."""
        listed = self.git("for-each-ref", "--format=%(objectname)", f"refs/heads/{branch}")
        return listed or None

    def create_branch(self, branch: str, commit: str) -> None:
        """Make a branch; one that stands elsewhere already is not moved.

        Raises
        ------
        RepositoryError
            It is there and stands elsewhere.
        """
        present = self.branch_commit(branch)
        if present is not None and present != commit:
            raise RepositoryError(
                f"the branch {branch} is there already",
                hint=f"rename or delete it (`git branch -D {branch}`), then repeat",
            )
        if present is None:
            self.git("update-ref", f"refs/heads/{branch}", commit, "")

    def _tree_with(
        self,
        commit: str,
        files: Mapping[str, bytes],
        *,
        index: Path,
        env: Mapping[str, str],
        without: Sequence[str],
    ) -> str:
        env = {**env, "GIT_INDEX_FILE": str(index), "GIT_LITERAL_PATHSPECS": "1"}
        self.git("read-tree", commit, env=env)
        if without:
            left_out = self._git("ls-files", "-z", "--", *without, env=env)
            removal = ("update-index", "-z", "--force-remove", "--stdin")
            self._git(*removal, env=env, stdin=left_out)
        for path, content in files.items():
            modes = self.git("ls-files", "-s", "--", path, env=env).split()
            mode = modes[0] if modes else "100644"
            blob = (
                self._git("hash-object", "-w", "--stdin", env=env, stdin=content).decode().strip()
            )
            self.git("update-index", "--add", "--cacheinfo", f"{mode},{blob},{path}", env=env)
        return self.git("write-tree", env=env)

    def ignore_locally(self, pattern: str) -> None:
        """Make git ignore a pattern in this clone alone, by ``info/exclude``."""
        exclude = Path(
            self.git("rev-parse", "--path-format=absolute", "--git-path", "info/exclude")
        )
        present = exclude.read_text(encoding="utf-8") if exclude.exists() else ""
        if pattern not in present.splitlines():
            exclude.parent.mkdir(parents=True, exist_ok=True)
            separator = "" if not present or present.endswith("\n") else "\n"
            exclude.write_text(f"{present}{separator}{pattern}\n", encoding="utf-8")


def find_repository(start: Path) -> Repository:
    """Find the repository that a path lies in.

    Raises
    ------
    RepositoryError
        There is none, it is bare, or it has no commit yet.
    """
    try:
        import git
    except ImportError as error:
        raise RepositoryError(
            "git cannot be started", hint="install git, and see that it is on the PATH"
        ) from error
    try:
        with git.Repo(start.resolve(), search_parent_directories=True) as found:
            root, bare = found.working_tree_dir, found.bare
    except (git.InvalidGitRepositoryError, git.NoSuchPathError):
        root, bare = None, False
    if bare:
        raise RepositoryError(
            f"{start.resolve()} is a bare repository, without a working tree",
            hint="clone it (`git clone <this folder> <elsewhere>`), and work in the clone",
        )
    if root is None:
        raise RepositoryError(
            f"{start.resolve()} is not in a git repository with a working tree",
            hint="run `git init`, add your training code and commit it, then repeat",
        )
    repository = Repository(Path(root))
    repository.git("rev-parse", "--git-dir")  # git itself may refuse to work here, and says why
    if not repository.has_commit("HEAD"):
        raise RepositoryError(
            "the repository has no commit yet",
            hint="commit your training code (`git add -A && git commit`), then repeat",
        )
    return repository


def _clean_environment() -> dict[str, str]:
    """Give the environment without git's own variables, which would redirect it (inside hooks)."""
    kept = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith("GIT_") or key.startswith("GIT_LFS_")
    }
    return kept | {
        "GIT_OPTIONAL_LOCKS": "0",
        "LC_ALL": "C",
    }


_TELLING = ("fatal:", "error:")


def _refusal(verb: str, stderr: str) -> RepositoryError | SpaceError:
    """Give git's refusal in its own most telling line."""
    said = stderr.strip().splitlines() or ["no reason given"]
    line = next((each for each in said if each.startswith(_TELLING)), said[-1])
    words = f"git {verb} failed: {line}"
    if is_out_of_space(stderr):
        return SpaceError(words, hint=SPACE_HINT)
    hint = "see that git works in this repository (`git status`), then repeat"
    trust = re.search(r"git config --global --add safe\.directory .+", stderr)
    if trust is not None:
        hint = f"it belongs to another user; where you trust it, say so with `{trust[0]}`"
    elif "lfs" in stderr.lower():
        hint = "install git-lfs and run `git lfs pull`, or set GIT_LFS_SKIP_SMUDGE=1; then repeat"
    return RepositoryError(words, hint=hint)


def _is_text(name: str) -> bool:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _is_lfs_pointer(place: Path) -> bool:
    try:
        if place.is_symlink() or not place.is_file() or place.stat().st_size > _LARGEST_POINTER:
            return False
        return place.read_bytes().startswith(b"version https://git-lfs.github.com/spec/")
    except OSError:
        return False


def _names(listed: bytes) -> list[str]:
    return [os.fsdecode(name) for name in listed.split(b"\0") if name]
