"""The user's repository is read as it is, and written only by a branch."""

import subprocess

import pytest

from infrarsi.errors import EditError, RepositoryError
from infrarsi.execute.repository import Repository, find_repository
from infrarsi.execute.worktree import make_worktree, sweep_worktrees, write_files


def git(root, *arguments):
    identity = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    done = subprocess.run(["git", *identity, *arguments], cwd=root, capture_output=True, text=True,
                          check=True)  # fmt: skip
    return done.stdout.strip()


@pytest.fixture
def root(tmp_path):
    root = tmp_path / "mein projekt ü"
    root.mkdir()
    git(root, "init", "-q", "-b", "main")
    (root / "train.py").write_bytes(b"print('hi')\r\n")
    (root / "run.sh").write_text("#!/bin/sh\n")
    (root / "run.sh").chmod(0o755)
    (root / "größe.txt").write_text("ü")
    (root / "link").symlink_to("train.py")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "first")
    return root


def test_it_is_found_from_a_subfolder(root):
    (root / "sub").mkdir()
    assert find_repository(root / "sub").root == root


def test_no_repository_and_no_commit_are_told_apart(tmp_path):
    with pytest.raises(RepositoryError, match="not in a git repository"):
        find_repository(tmp_path)
    git(tmp_path, "init", "-q")
    with pytest.raises(RepositoryError, match="no commit yet"):
        find_repository(tmp_path)


def test_a_bare_repository_is_refused(tmp_path):
    git(tmp_path, "init", "-q", "--bare")
    with pytest.raises(RepositoryError, match="working tree"):
        find_repository(tmp_path)


def test_files_are_listed_and_read_at_a_commit(root):
    repository = Repository(root)
    commit = repository.commit()
    assert repository.tracked(commit) == ("größe.txt", "link", "run.sh", "train.py")
    (root / "train.py").write_text("dirty")
    assert repository.read(commit, ["train.py", "link", "absent"]) == {
        "train.py": b"print('hi')\r\n"
    }
    assert repository.dirty() == ("train.py",)


def test_a_detached_head_has_its_commit(root):
    git(root, "checkout", "-q", "--detach")
    assert find_repository(root).commit() == git(root, "rev-parse", "main")


def test_a_worktree_is_the_commit_and_leaves_nothing(root):
    repository = Repository(root)
    (root / "train.py").write_text("dirty")
    place = root / ".infrarsi" / "trees" / "t0001"
    with make_worktree(repository, repository.commit(), place=place) as tree:
        assert (tree / "train.py").read_bytes() == b"print('hi')\r\n"
        assert len(git(root, "worktree", "list").splitlines()) == 2
    assert not place.exists()
    assert len(git(root, "worktree", "list").splitlines()) == 1
    assert (root / "train.py").read_text() == "dirty"


def test_a_worktree_left_by_a_killed_command_is_swept(root):
    repository = Repository(root)
    folder = root / ".infrarsi" / "trees"
    repository.git("worktree", "add", "--detach", str(folder / "t0001"), "HEAD")
    assert sweep_worktrees(repository, folder) == 1
    assert len(git(root, "worktree", "list").splitlines()) == 1
    with make_worktree(repository, "HEAD", place=folder / "t0001"):
        pass


def test_the_expected_tree_is_the_tree_that_runs(root, tmp_path):
    repository = Repository(root)
    commit = repository.commit()
    files = {
        "train.py": b"print('faster')\r\n",
        "run.sh": b"#!/bin/sh\ntrue\n",
        "new/a.py": b"x = 1\n",
    }
    objects = tmp_path / "objects"
    with make_worktree(repository, commit, place=root / ".infrarsi" / "t") as tree:
        write_files(tree, files)
        ran = repository.tree_of(tree, objects=objects)
        assert ran == repository.expected_tree(commit, files, objects=objects)
        (tree / "train.py").write_text("other")
        assert repository.tree_of(tree, objects=objects) != ran


def test_hashing_a_trial_writes_nothing_into_the_users_repository(root, tmp_path):
    repository = Repository(root)
    before = git(root, "count-objects")
    with make_worktree(repository, "HEAD", place=root / ".infrarsi" / "t") as tree:
        write_files(tree, {"train.py": b"something quite new"})
        repository.tree_of(tree, objects=tmp_path / "objects")
        repository.expected_tree("HEAD", {"train.py": b"something else"}, objects=tmp_path / "o")
    assert git(root, "count-objects") == before


def test_a_patch_through_a_link_or_out_of_the_tree_is_refused(root):
    repository = Repository(root)
    with make_worktree(repository, "HEAD", place=root / ".infrarsi" / "t") as tree:
        for path in ("link", "../outside.py", "link/a.py"):
            with pytest.raises(EditError, match="symbolic link or out of the tree"):
                write_files(tree, {path: b"x"})
        assert (tree / "train.py").read_bytes() == b"print('hi')\r\n"


def test_a_branch_is_made_without_touching_the_checkout(root):
    repository = Repository(root)
    (root / "train.py").write_text("dirty")
    status = git(root, "status", "--porcelain")
    base = repository.commit()
    commit = repository.commit_files(
        base, {"train.py": b"print('fast')\r\n"}, message="fast\n\nA: b\n"
    )
    repository.create_branch("infrarsi/x-1", commit)
    assert git(root, "show", "infrarsi/x-1:train.py") == "print('fast')"
    assert git(root, "show", "-s", "--format=%(trailers:key=A,valueonly)", commit) == "b"
    assert git(root, "rev-parse", "HEAD") == base
    assert git(root, "status", "--porcelain") == status
    repository.create_branch("infrarsi/x-1", commit)
    with pytest.raises(RepositoryError, match="is there already"):
        repository.create_branch("infrarsi/x-1", base)


def test_the_mode_of_a_patched_file_stays(root):
    repository = Repository(root)
    commit = repository.commit_files("HEAD", {"run.sh": b"#!/bin/sh\ntrue\n"}, message="x")
    assert git(root, "ls-tree", commit, "run.sh").startswith("100755")


def test_our_folder_is_ignored_without_touching_gitignore(root):
    repository = Repository(root)
    repository.ignore_locally("/.infrarsi/")
    repository.ignore_locally("/.infrarsi/")
    (root / ".infrarsi").mkdir()
    (root / ".infrarsi" / "ledger.jsonl").write_text("")
    assert git(root, "status", "--porcelain") == ""
    exclude = (root / ".git" / "info" / "exclude").read_text()
    assert exclude.splitlines().count("/.infrarsi/") == 1
