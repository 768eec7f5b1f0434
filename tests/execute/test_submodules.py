"""A trial's tree holds the submodules at their locked commits, and the user's own stay as they are."""

import subprocess

import pytest

from infrarsi.errors import RepositoryError
from infrarsi.execute.repository import Repository
from infrarsi.execute.worktree import make_worktree, sweep_worktrees


def git(root, *arguments):
    identity = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "protocol.file.allow=always"]
    done = subprocess.run(["git", *identity, *arguments], cwd=root, capture_output=True, text=True,
                          check=True)  # fmt: skip
    return done.stdout.strip()


def repository_with(place, **files):
    place.mkdir(parents=True)
    git(place, "init", "-q", "-b", "main")
    for name, text in files.items():
        (place / f"{name}.py").write_text(text)
    git(place, "add", "-A")
    git(place, "commit", "-qm", "first")
    return place


@pytest.fixture
def root(tmp_path):
    """A repository with a submodule that has a submodule itself."""
    inner = repository_with(tmp_path / "inner", kernel="fast = 1\n")
    lib = repository_with(tmp_path / "größere lib", rope="turns = 1\n")
    git(lib, "submodule", "--quiet", "add", str(inner), "csrc")
    git(lib, "commit", "-qm", "with csrc")
    root = repository_with(tmp_path / "mein training", train="import rope\n")
    git(root, "submodule", "--quiet", "add", str(lib), "third party/lib")
    git(root, "submodule", "--quiet", "update", "--init", "--recursive")
    git(root, "commit", "-qm", "with lib")
    return root


LIB = "third party/lib"


def test_submodules_are_in_the_trial_at_their_locked_commits(root):
    repository = Repository(root)
    (root / LIB / "rope.py").write_text("turns = 2  # not committed\n")
    status = git(root, "status", "--porcelain")
    with make_worktree(repository, repository.commit(), place=root / ".infrarsi" / "t") as tree:
        assert (tree / LIB / "rope.py").read_text() == "turns = 1\n"
        assert (tree / LIB / "csrc" / "kernel.py").read_text() == "fast = 1\n"
        ran = repository.tree_of(tree, objects=root.parent / "objects")
    assert ran == git(root, "rev-parse", "HEAD^{tree}")
    assert (root / LIB / "rope.py").read_text() == "turns = 2  # not committed\n"
    assert git(root, "status", "--porcelain").replace("?? .infrarsi/", "").strip() == status


def test_a_submodule_whose_locked_commit_is_not_here_is_a_clear_error(root):
    lost = "1" * 40
    git(root, "update-index", "--cacheinfo", f"160000,{lost},{LIB}")
    git(root, "commit", "-qm", "points to a commit that was never pushed")
    repository = Repository(root)
    with (
        pytest.raises(RepositoryError, match="third party/lib has no commit 111111111111") as error,
        make_worktree(repository, repository.commit(), place=root / ".infrarsi" / "t"),
    ):
        pass
    assert "git submodule update --init --recursive" in error.value.hint
    assert len(git(root, "worktree", "list").splitlines()) == 1


def test_a_submodule_that_was_never_fetched_is_an_empty_folder_for_trials_too(root):
    git(root, "submodule", "--quiet", "deinit", "--force", LIB)
    repository = Repository(root)
    with make_worktree(repository, repository.commit(), place=root / ".infrarsi" / "t") as tree:
        assert list((tree / LIB).iterdir()) == []


def test_a_worktree_of_the_users_whose_disk_is_away_is_not_forgotten(root, tmp_path):
    theirs = tmp_path / "on another disk"
    git(root, "worktree", "add", "-q", "--detach", str(theirs))
    theirs.rename(tmp_path / "unmounted")
    repository = Repository(root)
    with make_worktree(repository, repository.commit(), place=root / ".infrarsi" / "trees" / "t"):
        pass
    repository.git("worktree", "add", "--detach", str(root / ".infrarsi" / "trees" / "k"), "HEAD")
    assert sweep_worktrees(repository, root / ".infrarsi" / "trees") == 1
    listed = git(root, "worktree", "list").splitlines()
    assert [str(theirs) in line for line in listed] == [False, True]
