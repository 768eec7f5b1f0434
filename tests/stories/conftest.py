"""A user's repository, and the command line as the user types it."""

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

TRAINING = Path(__file__).parent / "training"


class User:
    """Someone in a repository, who types commands."""

    def __init__(self, root):
        self.root = root

    def infrarsi(self, *arguments, code=0, timeout=280, env=None):
        done = subprocess.run(
            [sys.executable, "-m", "infrarsi", *arguments], cwd=self.root, capture_output=True,
            text=True, timeout=timeout, check=False, env=env,
        )  # fmt: skip
        assert done.returncode == code, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def start(self, *arguments):
        return subprocess.Popen(
            [sys.executable, "-m", "infrarsi", *arguments], cwd=self.root,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def git(self, *arguments):
        identity = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
        done = subprocess.run(["git", *identity, *arguments], cwd=self.root, capture_output=True,
                              text=True, check=True)  # fmt: skip
        return done.stdout.strip()

    def refused(self, *arguments, code, **options):
        """Type a command that must be refused; give its two sentences."""
        done = self.infrarsi(*arguments, code=code, **options)
        lines = done.stderr.strip().splitlines()
        assert "Traceback" not in done.stderr
        assert lines[-2].startswith("infrarsi: "), done.stderr
        assert lines[-1].startswith("  -> "), done.stderr
        return lines[-2] + "\n" + lines[-1]

    def first(self, source):
        """Commit what the training that speaks for itself does before it says anything."""
        (self.root / "first.py").write_text(source)
        self.git("add", "-A")
        self.git("commit", "-qm", "first", "--allow-empty")

    def leaves_nothing(self):
        """Look for a process, a worktree or a scratch folder of ours: there must be none."""
        listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
        assert [line for line in listed.stdout.splitlines() if str(self.root) in line] == []
        assert len(self.git("worktree", "list").splitlines()) == 1
        for folder in ("trees", "scratch"):
            place = self.root / ".infrarsi" / folder
            assert not place.exists() or list(place.iterdir()) == []

    def edit_contract(self, change):
        place = self.root / "infrarsi.yaml"
        loaded = yaml.safe_load(place.read_text())
        change(loaded)
        place.write_text(yaml.safe_dump(loaded, sort_keys=False))


def make_user(place, program=TRAINING):
    shutil.copytree(program, place, ignore=shutil.ignore_patterns("__pycache__"))
    user = User(place)
    user.git("init", "-q", "-b", "main")
    user.git("add", "-A")
    user.git("commit", "-qm", "my training")
    return user


def shorten(contract):
    contract["task"]["window"] = {"warmup_updates": 3, "measured_updates": 8}
    contract["task"]["surface"]["knobs"] = [
        knob for knob in contract["task"]["surface"]["knobs"] if "variable" not in knob["reach"]
    ]
    contract["plan"].update(confirmation_blocks=3, ablation_rounds=2)
    contract["plan"]["budget"].update(max_trials=5, trial_deadline_s=60.0)


@pytest.fixture
def user(tmp_path):
    """A user in a repository without a contract, whose path has spaces and an umlaut."""
    return make_user(tmp_path / "mein größtes training")


@pytest.fixture(scope="session")
def user_at():
    """A function from a repository to the user who types commands there."""
    return User


@pytest.fixture(scope="session")
def owner_of():
    """A function from a place and a program's folder to a user who has committed it there."""
    return make_user


@pytest.fixture(scope="session")
def measured_template(tmp_path_factory):
    """A repository that is locked and measured, to be copied."""
    user = make_user(tmp_path_factory.mktemp("template") / "training")
    user.infrarsi("init", "--", "python", "train.py")
    user.edit_contract(shorten)
    user.infrarsi("init", "--relock")
    user.infrarsi("doctor")
    return user.root


@pytest.fixture
def measured(measured_template, tmp_path):
    """A user whose contract is locked and whose reference is measured."""
    shutil.copytree(measured_template, tmp_path / "training", symlinks=True)
    return User(tmp_path / "training")


@pytest.fixture
def speaking(tmp_path):
    """A user whose training speaks for itself: for all that does not depend on torch."""
    return make_user(tmp_path / "mein größtes training", TRAINING.parent / "speaking")


@pytest.fixture(scope="session")
def path_without_bwrap(tmp_path_factory):
    """A folder for the PATH of a machine that has everything but bubblewrap."""
    folder = tmp_path_factory.mktemp("bin")
    for place in os.environ["PATH"].split(os.pathsep):
        for program in Path(place).iterdir() if Path(place).is_dir() else ():
            link = folder / program.name
            if program.name != "bwrap" and not link.exists():
                link.symlink_to(program)
    return str(folder)


@pytest.fixture
def uncontained(monkeypatch, path_without_bwrap):
    """A machine without bubblewrap."""
    monkeypatch.setenv("PATH", path_without_bwrap)


@pytest.fixture(params=["contained", "uncontained"])
def either_tier(request):
    """A machine with bubblewrap, where it works here, and one without."""
    if request.param == "uncontained":
        request.getfixturevalue("uncontained")
    return request.param


@pytest.fixture(scope="session")
def promotion_template(tmp_path_factory):
    """A repository with a true promotion on a branch, to be copied; made once for all workers."""
    from promotions import make_promotion

    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    with (shared / "promotion.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        place = shared / "promotion"
        if not (place / "done").exists():
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
            make_promotion(place)
            (place / "done").touch()
    return place / "training"


@pytest.fixture
def pull(promotion_template, tmp_path):
    """A pull request with a true promotion."""
    from promotions import copied

    return copied(promotion_template, tmp_path)
