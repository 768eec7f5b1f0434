"""Every kind of repository that users bring: it works, or says in one sentence why it cannot.

Most launches here are of a stand-in that speaks on the witness's channel itself; where torch
matters, a real training is launched.
"""

import os
import subprocess
import sys
import sysconfig

import pytest
from speaking_user import (
    EDIT,
    SPEAKING,
    candidate_of,
    git,
    lock,
    opened,
    patch_of,
    refused_by,
)

from infrarsi.errors import ContractError, ReferenceFailedError, RepositoryError, UsageError
from infrarsi.execute.sandbox import Tier, probe_tier
from infrarsi.records.trial import Outcome
from infrarsi.stages.launching.trial import perform_trial, source_of

pytestmark = pytest.mark.training


def test_a_detached_head_works(speaking):
    speaking.git("checkout", "-q", "--detach")
    locked = lock(speaking.root)
    assert locked.lock.commit == speaking.git("rev-parse", "main")
    assert locked.rehearsal.outcome is Outcome.OK


def test_a_shallow_clone_works(speaking, tmp_path):
    (speaking.root / "README.md").write_text("a second commit")
    speaking.git("add", "-A")
    speaking.git("commit", "-qm", "second")
    shallow = tmp_path / "shallow"
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{speaking.root}", str(shallow))
    assert git(shallow, "rev-list", "--count", "HEAD") == "1"
    assert lock(shallow).rehearsal.outcome is Outcome.OK


def test_a_linked_worktree_works_and_leaves_the_main_one_alone(speaking, tmp_path):
    linked = tmp_path / "linked"
    speaking.git("worktree", "add", "-q", "-b", "topic", str(linked))
    assert lock(linked).rehearsal.outcome is Outcome.OK
    assert git(linked, "status", "--porcelain") == "?? infrarsi.yaml"
    assert speaking.git("status", "--porcelain") == ""
    assert len(speaking.git("worktree", "list").splitlines()) == 2


def test_spaces_and_letters_beyond_ascii_in_paths_work(speaking):
    """The checkout's own path has them too."""
    folder = speaking.root / "größte modelle" / "訓練"
    folder.mkdir(parents=True)
    (speaking.root / "train.py").rename(folder / "größe eins.py")
    speaking.git("add", "-A")
    speaking.git("commit", "-qm", "moved")
    locked = lock(folder, command=("python", "größe eins.py"))
    assert locked.contract.task.folder == "größte modelle/訓練"
    assert locked.evidence.loaded_files == (f"{folder}/größe eins.py",)
    assert "größte modelle/訓練/größe eins.py" in locked.contract.task.surface.editable


def test_a_training_script_in_a_subfolder_works_however_it_is_named(speaking):
    (speaking.root / "src" / "mine").mkdir(parents=True)
    (speaking.root / "train.py").rename(speaking.root / "src" / "mine" / "train.py")
    (speaking.root / "elsewhere").mkdir()
    (speaking.root / "elsewhere" / "run.sh").touch()
    speaking.git("add", "-A")
    speaking.git("commit", "-qm", "moved")
    script = speaking.root / "src" / "mine" / "train.py"
    for start, word in (
        (speaking.root, "src/mine/train.py"),
        (speaking.root, str(script)),
        (speaking.root / "elsewhere", "../src/mine/train.py"),
    ):
        locked = lock(start, command=("python", word), relock=True)
        assert locked.contract.task.surface.editable == ("src/mine/train.py",)
    said = refused_by(
        ContractError, lambda: lock(start, command=("python", "/opt/train.py"), relock=True)
    )
    assert "lies outside the repository" in said
    (speaking.root / "new").mkdir()
    said = refused_by(ContractError, lambda: lock(speaking.root / "new", relock=True))
    assert "the folder new has nothing in the last commit" in said


def test_a_module_run_by_its_name_is_found_below_a_source_folder(speaking):
    package = speaking.root / "src" / "mine"
    package.mkdir(parents=True)
    (speaking.root / "train.py").rename(package / "train.py")
    (package / "__init__.py").touch()
    speaking.git("add", "-A")
    speaking.git("commit", "-qm", "moved")
    with pytest.raises(ReferenceFailedError, match="No module named"):
        lock(speaking.root, command=("python", "-m", "mine.train"))
    locked = lock(speaking.root / "src", command=("python", "-m", "mine.train"))
    assert "src/mine/train.py" in locked.contract.task.surface.editable


def test_a_dirty_tree_runs_the_commit_and_says_so(speaking):
    (speaking.root / "train.py").write_text("this is not even Python\n")
    locked = lock(speaking.root)
    assert locked.rehearsal.outcome is Outcome.OK
    assert any("changed file(s) are not in the commit" in each for each in locked.in_words())
    assert (speaking.root / "train.py").read_text() == "this is not even Python\n"


def test_untracked_files_that_training_needs_are_named(speaking):
    speaking.first("import rope\n")
    (speaking.root / "rope.py").write_text("turns = 1\n")
    said = refused_by(ReferenceFailedError, lambda: lock(speaking.root))
    assert "No module named 'rope'" in said
    assert "rope.py is not committed, and trials run the commit: commit it" in said
    speaking.git("add", "rope.py")
    speaking.git("commit", "-qm", "rope")
    (speaking.root / "notes.txt").write_text("untracked, and needed by nobody")
    assert lock(speaking.root).rehearsal.outcome is Outcome.OK
    assert (speaking.root / "notes.txt").exists()


def test_a_folder_for_outputs_that_only_the_checkout_has_is_named(speaking):
    (speaking.root / "checkpoints").mkdir()
    speaking.first("open('checkpoints/step_1.pt', 'wb').write(b'x')\n")
    said = refused_by(ReferenceFailedError, lambda: lock(speaking.root))
    assert "the folder checkpoints is in your checkout, but not in the commit" in said
    assert "have the training make it" in said


@pytest.fixture
def with_submodule(speaking, tmp_path):
    library = tmp_path / "lib"
    library.mkdir()
    git(library, "init", "-q", "-b", "main")
    (library / "rope.py").write_text("turns = 1\n")
    git(library, "add", "-A")
    git(library, "commit", "-qm", "lib")
    speaking.git(
        "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library), "lib"
    )
    speaking.git("commit", "-qm", "with lib")
    return speaking


def test_a_submodule_is_in_the_trial_at_its_locked_commit(with_submodule):
    user = with_submodule
    user.first("import sys\nsys.path.insert(0, 'lib')\nimport rope\nassert rope.turns == 1\n")
    (user.root / "lib" / "rope.py").write_text("turns = 2  # not committed\n")
    locked = lock(user.root)
    assert locked.rehearsal.outcome is Outcome.OK
    assert "lib" not in locked.lock.protected
    assert any("lib" in each for each in locked.in_words() if "not in the commit" in each)


def test_an_edit_inside_a_submodule_is_refused_before_any_launch(with_submodule):
    lock(with_submodule.root, editable=("**/*.py",))
    with opened(with_submodule.root) as workspace:
        patch = patch_of("into lib", path="lib/new.py", search="", replace="turns = 3\n")
        trial = perform_trial(workspace, candidate_of(patch), patches={patch.name: patch})
    assert trial.outcome is Outcome.REFUSED
    assert trial.reason == "lib/new.py lies in the submodule lib, which is locked"


def test_an_edit_outside_the_surface_or_through_a_link_is_refused_before_any_launch(speaking):
    (speaking.root / "link.py").symlink_to("train.py")
    (speaking.root / "data.py").write_text("x = 1\n")
    speaking.git("add", "-A")
    speaking.git("commit", "-qm", "more")
    lock(speaking.root, editable=("train.py", "link.py"))
    with opened(speaking.root) as workspace:
        for path, search, said in (
            ("data.py", "", "data.py is not among the files that a patch may edit"),
            ("data.py", "x = 1", "data.py is not among the files that a patch may edit"),
            ("link.py", "", "link.py leads through a symbolic link or out of the tree"),
        ):
            patch = patch_of("stray", path=path, search=search, replace="x = 2\n")
            trial = perform_trial(workspace, candidate_of(patch), patches={patch.name: patch})
            assert (trial.outcome, trial.reason) == (Outcome.REFUSED, said)
        kept = perform_trial(workspace, candidate_of(EDIT), patches={EDIT.name: EDIT})
        assert kept.outcome is Outcome.OK
    assert (speaking.root / "train.py").read_bytes() == (SPEAKING / "train.py").read_bytes()


SAYS_ITS_COMMIT = """\
import subprocess
for words in (["rev-parse", "HEAD"], ["log", "-1", "--format=%s"], ["status", "--porcelain"]):
    print(subprocess.run(["git", *words], capture_output=True, text=True, check=True).stdout.strip())
"""


@pytest.mark.usefixtures("either_tier")
def test_a_training_that_asks_git_for_its_commit_is_told_it(speaking):
    (speaking.root / "topic.py").touch()
    speaking.first(SAYS_ITS_COMMIT)
    speaking.git("branch", "plans")
    lock(speaking.root)
    with opened(speaking.root) as workspace:
        trial = perform_trial(workspace, candidate_of(EDIT), patches={EDIT.name: EDIT})
        said = workspace.artifacts.get(trial.log_digest).decode().splitlines()
    assert trial.outcome is Outcome.OK, trial.reason
    assert said[:2] == [speaking.git("rev-parse", "HEAD"), "first"]
    assert said[2:] == ["M  train.py"]
    assert speaking.git("status", "--porcelain") == "?? infrarsi.yaml"


POINTER = (
    "version https://git-lfs.github.com/spec/v1\n"
    "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"
)


def test_a_data_file_that_is_only_an_lfs_pointer_is_said_at_init(speaking):
    (speaking.root / "train.bin").write_text(POINTER)
    speaking.git("add", "-A")
    speaking.git("commit", "-qm", "data")
    words = lock(speaking.root).in_words()
    assert any("only Git LFS pointers" in each and "train.bin" in each for each in words)
    speaking.first("import struct\nstruct.unpack('<1000I', open('train.bin', 'rb').read())\n")
    said = refused_by(ReferenceFailedError, lambda: lock(speaking.root, relock=True))
    assert "train.bin is only a Git LFS pointer here: fetch it with `git lfs pull`" in said


def test_an_lfs_filter_that_cannot_run_is_refused_and_leaves_nothing(speaking):
    (speaking.root / "train.bin").write_text(POINTER)
    (speaking.root / ".gitattributes").write_text("*.bin filter=lfs\n")
    speaking.git("add", "-A")
    speaking.git("commit", "-qm", "data")
    speaking.git("config", "filter.lfs.smudge", "git-lfs-that-is-not-installed smudge -- %f")
    speaking.git("config", "filter.lfs.required", "true")
    said = refused_by(RepositoryError, lambda: lock(speaking.root), code=2)
    assert "lfs" in said.split(" -> ")[0]
    assert "install git-lfs" in said
    assert len(speaking.git("worktree", "list").splitlines()) == 1


def test_no_commit_yet_is_refused(tmp_path):
    git(tmp_path, "init", "-q")
    said = refused_by(RepositoryError, lambda: lock(tmp_path), code=2)
    assert "no commit yet" in said
    assert "git commit" in said


def test_a_bare_repository_is_refused(tmp_path):
    git(tmp_path, "init", "-q", "--bare")
    said = refused_by(RepositoryError, lambda: lock(tmp_path), code=2)
    assert "is a bare repository" in said
    assert "git clone" in said


def test_a_repository_of_another_user_is_refused_with_how_to_trust_it(speaking):
    """As root in a container, with a mounted checkout; others cannot give a folder away."""
    if os.geteuid() != 0:
        assert lock(speaking.root).rehearsal.outcome is Outcome.OK
        return
    os.chown(speaking.root, 1234, 1234)
    said = refused_by(RepositoryError, lambda: lock(speaking.root), code=2)
    assert "detected dubious ownership" in said
    assert f"git config --global --add safe.directory '{speaking.root}'" in said


@pytest.mark.parametrize(
    "command", [("python", "train.ipynb"), ("jupyter", "nbconvert", "--execute", "my train.ipynb")]
)
def test_a_notebook_as_the_command_is_refused(speaking, command):
    said = refused_by(UsageError, lambda: lock(speaking.root, command=command), code=2)
    assert f"{command[-1]} is a notebook" in said
    assert "jupyter nbconvert --to script" in said


READS = "print(len(open('prepared/train.bin', 'rb').read()))\nopen('prepared/train.bin', 'rb')\n"


@pytest.mark.usefixtures("either_tier")
def test_ignored_data_that_a_trial_lacks_is_named_locked_and_mounted(speaking):
    (speaking.root / ".gitignore").write_text("prepared/\n")
    speaking.first(READS)
    (speaking.root / "prepared").mkdir()
    data = speaking.root / "prepared" / "train.bin"
    data.write_bytes(b"\1" * 1000)
    said = refused_by(ReferenceFailedError, lambda: lock(speaking.root), code=8)
    assert "FileNotFoundError" in said
    assert "prepared/train.bin is in your checkout, but git ignores it" in said
    assert "--input prepared/train.bin" in said
    locked = lock(speaking.root, inputs=("prepared/train.bin",))
    assert set(locked.lock.inputs) == {"prepared/train.bin"}
    data.write_bytes(b"\2" * 1000)
    with pytest.raises(ContractError, match=r"the input prepared/train\.bin was changed"):
        opened(speaking.root).__enter__()
    data.unlink()
    said = refused_by(
        ContractError, lambda: lock(speaking.root, inputs=("prepared/train.bin",), relock=True)
    )
    assert "the input prepared/train.bin does not exist" in said


@pytest.mark.usefixtures("either_tier")
def test_locked_data_cannot_be_written_or_the_writing_is_noticed(speaking):
    (speaking.root / ".gitignore").write_text("prepared/\n")
    (speaking.root / "prepared").mkdir()
    (speaking.root / "prepared" / "train.bin").write_bytes(b"\1" * 1000)
    speaking.first("open('prepared/train.bin', 'rb')\n")
    lock(speaking.root, inputs=("prepared",), editable=("*.py",))
    writes = patch_of("writes", path="first.py", search="'rb'", replace="'ab').write(b'x'")
    with opened(speaking.root) as workspace:
        trial = perform_trial(workspace, candidate_of(writes), patches={writes.name: writes})
        if workspace.tier is Tier.BUBBLEWRAP:
            assert trial.outcome is Outcome.CRASHED
            assert "Read-only file system" in trial.reason
            return
        facts = source_of(workspace, trial)
    assert facts.protected_before["prepared"] != facts.protected_after["prepared"]
    with pytest.raises(ContractError, match="the input prepared was changed after the lock"):
        opened(speaking.root).__enter__()


def test_a_relative_data_path_outside_the_tree_is_named_locked_and_mounted(speaking):
    outside = speaking.root.parent / "shared data"
    outside.mkdir()
    (outside / "tokens.bin").write_bytes(b"\1" * 10)
    speaking.first("open('../shared data/tokens.bin', 'rb')\n")
    if probe_tier() is Tier.BUBBLEWRAP and speaking.root.is_relative_to("/tmp"):
        said = refused_by(ReferenceFailedError, lambda: lock(speaking.root))
        assert "a contained trial does not see" in said
        assert "--input '../shared data/tokens.bin'" in said
    locked = lock(speaking.root, inputs=("../shared data",))
    assert locked.rehearsal.outcome is Outcome.OK
    assert not (speaking.root / ".infrarsi" / "trees" / "shared data").exists()
    (outside / "tokens.bin").write_bytes(b"\2" * 10)
    with pytest.raises(ContractError, match=r"the input \.\./shared data was changed"):
        opened(speaking.root).__enter__()


@pytest.mark.usefixtures("uncontained")
def test_a_relative_data_path_outside_the_tree_is_said_where_nothing_can_be_mounted(speaking):
    (speaking.root.parent / "tokens.bin").write_bytes(b"\1" * 10)
    speaking.first("open('../tokens.bin', 'rb')\n")
    said = refused_by(ReferenceFailedError, lambda: lock(speaking.root))
    assert "tokens.bin leads out of the repository" in said
    assert "absolute path" in said
    speaking.first(f"open({str(speaking.root.parent / 'tokens.bin')!r}, 'rb')\n")
    assert lock(speaking.root).rehearsal.outcome is Outcome.OK


def test_a_tracked_name_that_is_no_text_is_refused(speaking):
    (speaking.root / os.fsdecode(b"gr\xf6\xdfe.txt")).touch()
    speaking.git("add", "-A")
    speaking.git("commit", "-qm", "from an old disk")
    said = refused_by(RepositoryError, lambda: lock(speaking.root), code=2)
    assert "is not UTF-8" in said
    assert "git mv" in said


@pytest.mark.parametrize("how", ["pth", "finder"])
@pytest.mark.usefixtures("either_tier")
def test_an_editable_install_runs_the_trials_code(speaking, tmp_path, how):
    """The package under training points at the user's checkout; the loaded files decide."""
    package = speaking.root / "src" / "mine"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("fast = False\n")
    speaking.first("import mine\nprint('fast' if mine.fast else 'slow')\n")
    python = editable_interpreter(tmp_path / "venv", speaking.root, how=how)
    (package / "__init__.py").write_text("raise SystemExit('this is the checkout')\n")
    lock(speaking.root, python=str(python), editable=("**/*.py",))
    patch = patch_of("fast", path="src/mine/__init__.py", search="False", replace="True")
    with opened(speaking.root) as workspace:
        for candidate, said in ((candidate_of(), "slow"), (candidate_of(patch), "fast")):
            trial = perform_trial(workspace, candidate, patches={patch.name: patch})
            assert trial.outcome is Outcome.OK, trial.reason
            assert workspace.artifacts.get(trial.log_digest).decode().split() == [said]


@pytest.mark.usefixtures("uncontained")
def test_code_of_the_checkout_in_an_uncontained_trial_is_refused(speaking):
    (speaking.root / "rope.py").write_text("turns = 1\n")
    loads = (
        "import importlib.util, sys\n"
        f"spec = importlib.util.spec_from_file_location('rope', {str(speaking.root / 'rope.py')!r})\n"
        "rope = importlib.util.module_from_spec(spec)\nspec.loader.exec_module(rope)\nsys.modules['rope'] = rope\n"
    )
    speaking.first(loads)
    said = refused_by(ReferenceFailedError, lambda: lock(speaking.root))
    assert f"the training imports {speaking.root / 'rope.py'} from your checkout" in said


def editable_interpreter(place, root, *, how):
    """Make an environment in which the package is installed as `pip install -e` leaves it."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = place / "lib" / version / "site-packages"
    (packages / "ours.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    if how == "pth":
        (packages / "__editable__.mine-0.1.pth").write_text(f"{root / 'src'}\n")
    else:
        finder = FINDER.replace("ROOT", repr(str(root / "src" / "mine")))
        (packages / "__editable___mine_0_1_finder.py").write_text(finder)
        (packages / "__editable__.mine-0.1.pth").write_text(
            "import __editable___mine_0_1_finder; __editable___mine_0_1_finder.install()\n"
        )
    return place / "bin" / "python"


FINDER = """
import sys
from importlib.util import spec_from_file_location
MAPPING = {"mine": ROOT}
NAMESPACES = {}
class _EditableFinder:
    @classmethod
    def find_spec(cls, fullname, path=None, target=None):
        if fullname in MAPPING:
            init = MAPPING[fullname] + "/__init__.py"
            return spec_from_file_location(fullname, init)
        return None
def install():
    sys.meta_path.append(_EditableFinder)
"""
