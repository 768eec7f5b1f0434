"""Which interpreter trains: what is named, then what the command means here."""

import os
import sys
import venv
from pathlib import Path

import pytest

from infrarsi.errors import InfraRSIError, ReferenceFailedError, UsageError
from infrarsi.execute.choosing import choose, locate, of_contract, ours, with_interpreter
from infrarsi.execute.interpreter import Interpreter, look
from infrarsi.records.task import Memory, Surface, Task

COMMAND = ("python", "train.py")


def make_environment(place, torch=None):
    venv.create(place, symlinks=True)
    if torch is not None:
        package = next((place / "lib").glob("python3*/site-packages")) / "torch"
        package.mkdir()
        (package / "__init__.py").write_text("")
        (package / "version.py").write_text(f"__version__ = '{torch}'\n")
    return place


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A repository's folder, where no environment is active."""
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        monkeypatch.delenv(variable, raising=False)
    root = tmp_path / "mein projekt"
    (root / "sub").mkdir(parents=True)
    return root


def chosen(named, root, command=COMMAND, start=None):
    return choose(named, command, start=start or root, root=root)


def test_a_program_a_folder_and_a_bin_are_the_same_interpreter(root):
    made = make_environment(root / ".venv", "2.5.0")
    python = made / "bin" / "python"
    for named in (str(python), str(made), str(made / "bin"), ".venv", ".venv/bin/python"):
        assert locate(named, folders=(root,)) == python
    assert locate("../.venv", folders=(root / "sub", root)) == python
    assert locate(".venv", folders=(root / "sub", root)) == python


def test_a_home_and_a_name_on_the_path_are_understood(root, monkeypatch):
    made = make_environment(root / "envs" / "llm", "2.5.0")
    monkeypatch.setenv("HOME", str(root))
    monkeypatch.setenv("PATH", str(made / "bin"))
    assert locate("~/envs/llm", folders=(root / "sub",)) == made / "bin" / "python"
    assert locate("python3", folders=(root / "sub",)) == made / "bin" / "python3"


def test_an_environment_within_the_repository_is_recorded_relative_to_it(root):
    make_environment(root / ".venv", "2.5.0")
    for named, start in ((".venv", root), ("../.venv/bin/python", root / "sub")):
        choice = chosen(named, root, start=start)
        assert choice.recorded == ".venv/bin/python"
        assert choice.why == "named by --python"
    task = Task(command=COMMAND, python=choice.recorded, surface=Surface(editable=("*.py",)),
                memory=Memory(capacity_bytes=1))  # fmt: skip
    contracted = of_contract(task, root)
    assert contracted.interpreter == choice.interpreter
    assert contracted.why == "named in the contract"


def test_one_elsewhere_is_recorded_whole(root, tmp_path):
    made = make_environment(tmp_path / "elsewhere", "2.5.0")
    assert chosen(str(made), root).recorded == str(made / "bin" / "python")


def test_what_is_not_there_is_told(root):
    with pytest.raises(ReferenceFailedError, match=r"no interpreter at \.venv") as caught:
        locate(".venv", folders=(root,))
    assert "--python .venv" in caught.value.hint
    with pytest.raises(ReferenceFailedError, match="no interpreter at ~nobody-here/x"):
        locate("~nobody-here/x", folders=(root,))
    with pytest.raises(ReferenceFailedError, match="holds no interpreter: there is no bin/python"):
        locate("sub", folders=(root,))


def test_an_environment_whose_base_was_removed_is_told(root):
    made = make_environment(root / ".venv")
    for link in (made / "bin").glob("python*"):
        link.unlink()
    (made / "bin" / "python").symlink_to(root / "removed" / "bin" / "python3.10")
    with pytest.raises(ReferenceFailedError, match="which is gone: its environment is broken") as e:
        locate(".venv", folders=(root,))
    assert "anew" in e.value.hint


def test_ours_trains_where_nothing_else_is_named_or_active(root):
    choice = chosen(None, root)
    assert choice.interpreter.executable == ours()
    assert choice.recorded is None
    assert choice.in_words().endswith("the one that InfraRSI runs under")


def test_the_command_itself_may_name_one(root, tmp_path):
    made = make_environment(tmp_path / "named", "2.5.0")
    python = made / "bin" / "python"
    assert chosen(None, root, (str(python), "train.py")).recorded == str(python)
    assert chosen(None, root, (str(made / "bin" / "torchrun"), "t.py")).interpreter.executable == (
        python
    )
    with pytest.raises(ReferenceFailedError, match="no interpreter at /nowhere/python"):
        chosen(None, root, ("/nowhere/python", "train.py"))


def test_the_active_environment_trains_where_it_holds_torch(root, tmp_path, monkeypatch):
    monkeypatch.setenv("VIRTUAL_ENV", str(make_environment(tmp_path / "active", "2.5.0")))
    choice = chosen(None, root)
    assert choice.interpreter.prefix == tmp_path / "active"
    assert choice.why == "the active environment"


def test_an_active_environment_without_torch_is_passed_over(root, tmp_path, monkeypatch):
    monkeypatch.setenv("VIRTUAL_ENV", str(make_environment(tmp_path / "active")))
    monkeypatch.setenv("CONDA_PREFIX", str(tmp_path / "gone"))
    assert chosen(None, root).interpreter.executable == ours()


def test_a_named_one_that_cannot_train_is_never_passed_over(root, tmp_path):
    made = make_environment(tmp_path / "old", "2.1.0")
    with pytest.raises(ReferenceFailedError, match=r"has torch 2\.1\.0"):
        chosen(str(made), root)


@pytest.mark.parametrize("runner", ["uv run", "poetry run", "conda run", "/opt/bin/uv run"])
def test_a_runner_that_prepares_an_environment_is_refused(root, runner):
    with pytest.raises(UsageError, match="prepare an environment in every trial") as caught:
        chosen(None, root, (*runner.split(), "python", "train.py"))
    assert "--python .venv" in caught.value.hint
    assert isinstance(caught.value, InfraRSIError)


def shebang(python):
    """Write a script's beginning as pip does where the path has spaces or is long."""
    return f"#!/bin/sh\n'''exec' \"{python}\" \"$0\" \"$@\"\n' '''\nimport sys\n"


def test_programs_of_python_are_taken_from_its_own_folder(root):
    made = make_environment(root / ".venv")
    interpreter = look(made / "bin" / "python")
    python, script = str(made / "bin" / "python"), made / "bin" / "tune"
    for name in ("python", "python3", "python3.11", "/usr/bin/python3"):
        assert with_interpreter((name, "t.py"), interpreter) == [python, "t.py"]
    script.write_text(shebang(python))
    script.chmod(0o755)
    assert with_interpreter(("tune", "run"), interpreter) == [str(script), "run"]
    assert with_interpreter(("bash", "train.sh"), interpreter) == ["bash", "train.sh"]
    assert with_interpreter(("./tune", "run"), interpreter) == ["./tune", "run"]


def test_a_launcher_without_a_script_of_its_own_is_run_as_a_module(root):
    made = make_environment(root / ".venv")
    interpreter = look(made / "bin" / "python")
    python = str(made / "bin" / "python")
    as_module = [python, "-m", "torch.distributed.run", "--nproc-per-node=2", "t.py"]
    launched = ("torchrun", "--nproc-per-node=2", "t.py")
    assert with_interpreter(launched, interpreter) == as_module
    accelerated = with_interpreter(("accelerate", "launch", "t.py"), interpreter)
    assert accelerated == [python, "-m", "accelerate.commands.launch", "t.py"]
    torchrun = made / "bin" / "torchrun"
    for gone in ("#!/moved/away/bin/python\n", shebang("/moved/far away/bin/python")):
        torchrun.write_text(gone)
        torchrun.chmod(0o755)
        assert with_interpreter(launched, interpreter) == as_module
    torchrun.write_text(shebang(python))
    assert with_interpreter(launched, interpreter) == [str(torchrun), *launched[1:]]
    assert with_interpreter(("/other/bin/torchrun", "t.py"), interpreter) == [str(torchrun), "t.py"]


def test_ours_is_the_running_one():
    assert ours() == Path(sys.executable)
    assert os.access(ours(), os.X_OK)
    assert isinstance(look(ours()), Interpreter)
