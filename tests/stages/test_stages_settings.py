"""A draft reads the settings of what is committed: source, imports, and configuration files."""

import subprocess

import pytest

from infrarsi.execute.invocation import check_reference, invocation_of
from infrarsi.execute.repository import find_repository
from infrarsi.records.task import ConfigKey, Flag, Memory, Override, Surface, Task
from infrarsi.stages.drafting.caveats import script_of
from infrarsi.stages.drafting.settings import draft_settings, read_program

FILES = {
    "train.py": "from lib.options import options\nargs = options().parse_args()\n",
    "lib/__init__.py": "",
    "lib/options.py": "import argparse\ndef options():\n    p = argparse.ArgumentParser()\n"
    "    p.add_argument('--config')\n    p.add_argument('-b', '--batch-size', type=int, default=4)\n"
    "    p.add_argument('--grad-accum', type=int, default=2)\n"
    "    p.add_argument('--compile', action='store_true')\n"
    "    p.add_argument('--seed', type=int, default=3)\n    return p\n",
    "lib/broken.py": "def (:\n",
    "other.py": "import argparse\nargparse.ArgumentParser().add_argument('--num-workers', type=int,"
    " default=1)\n",
    "sub folder/größe.yaml": "# sizes\r\ntrain: {batch_size: 6, grad_accum: 1}\r\n",
    "hydra_train.py": "import hydra\n@hydra.main(config_path='conf', config_name='main')\n"
    "def main(cfg): ...\n",
    "conf/main.yaml": "defaults:\n  - optim: adam\nbatch_size: 8\ngrad_accum: 1\n",
    "conf/optim/adam.yaml": "# @package _global_\ncompile: true\n",
    "default.py": "import argparse\np = argparse.ArgumentParser()\n"
    "p.add_argument('--config', default='conf/small.toml')\n",
    "conf/small.toml": "micro_batch = 4\ngrad_accum = 2\n",
    "nano.py": "batch_size = 4\ngradient_accumulation_steps = 2\n"
    "exec(open('configurator.py').read())\n",
    "configurator.py": "import sys\n", "config/big.py": "batch_size = 16\n",
}  # fmt: skip


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    root = tmp_path_factory.mktemp("größe mit raum")
    for name, text in FILES.items():
        place = root / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(text.encode())
    for command in (["init", "-q"], ["add", "-A"],
                    ["-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "x"]):  # fmt: skip
        subprocess.run(["git", *command], cwd=root, check=True)
    (root / "uncommitted.yaml").write_text("batch_size: 1\n")
    return find_repository(root)


def drafted(repository, *command, folder="."):
    commit = repository.commit()
    script = script_of(repository, command, folder)
    program = read_program(repository, commit, command, folder=folder, script=script)
    knobs, constraints = draft_settings(
        program, command, folder=folder, device="none", torch="2.13.0", environ={}
    )
    task = Task(
        command=command, folder=folder, memory=Memory(capacity_bytes=1),
        surface=Surface(editable=(), knobs=knobs, constraints=constraints),
    )  # fmt: skip
    return task, program, {knob.name: knob for knob in knobs}


def test_flags_of_an_imported_module_are_found_and_the_batch_is_tied(repository):
    task, program, knobs = drafted(repository, "python", "train.py", "-b", "8")
    assert set(knobs) == {"batch_size", "grad_accum", "compile"}
    assert knobs["batch_size"].reach == Flag(flag="-b")
    assert task.surface.constraints == ("batch_size * grad_accum == 16",)
    assert [each.default for each in program.settings if each.known_as == "seed"] == [3]
    assert set(program.texts) == {"train.py", "lib/__init__.py", "lib/options.py"}
    turned = invocation_of(task, {"batch_size": 4, "grad_accum": 4}, {})
    assert turned.argv == ("python", "train.py", "-b", "4", "--grad-accum", "4")


def test_keys_of_a_file_that_the_command_names_are_knobs_that_can_be_set(repository):
    name = "sub folder/größe.yaml"
    task, program, knobs = drafted(repository, "python", "train.py", f"--config={name}")
    assert knobs["batch_size"].reach == ConfigKey(file=name, key="train.batch_size")
    assert task.surface.constraints == ("batch_size * grad_accum == 6",)
    check_reference(task, program.configured)
    turned = invocation_of(task, {"batch_size": 3, "grad_accum": 2}, program.configured)
    assert turned.files[name].decode() == "# sizes\r\ntrain: {batch_size: 3, grad_accum: 2}\r\n"


def test_a_file_that_a_flag_names_by_default_counts_unless_the_command_names_another(repository):
    _, _, knobs = drafted(repository, "python", "default.py")
    assert knobs["micro_batch"].reach == ConfigKey(file="conf/small.toml", key="micro_batch")
    _, program, _ = drafted(repository, "python", "default.py", "--config", "conf/main.yaml")
    assert set(program.configured) == {"conf/main.yaml"}


def test_a_file_is_found_from_the_folder_that_the_command_runs_in(repository):
    _, _, knobs = drafted(
        repository, "python", "../train.py", "--config", "größe.yaml", folder="sub folder"
    )
    assert knobs["batch_size"].default == 6
    assert (
        drafted(repository, "python", "train.py", "--config", "uncommitted.yaml")[1].configured
        == {}
    )


def test_hydras_keys_are_overridden(repository):
    task, _, knobs = drafted(repository, "python", "hydra_train.py", "batch_size=4")
    assert knobs["compile"].reach == Override(key="compile")
    assert task.surface.constraints == ("batch_size * grad_accum == 4",)
    turned = invocation_of(task, {"compile": False, "batch_size": 2, "grad_accum": 2}, {})
    assert set(turned.argv[2:]) == {"batch_size=2", "compile=false", "grad_accum=2"}


def test_a_configurators_file_sets_the_defaults(repository):
    task, _, knobs = drafted(repository, "python", "nano.py", "config/big.py")
    assert knobs["batch_size"].default == 16
    assert task.surface.constraints == ("batch_size * gradient_accumulation_steps == 32",)


def test_a_command_that_names_no_script_of_the_repository_gives_nothing(repository):
    assert drafted(repository, "bash", "-c", "python train.py")[2] == {}
    assert drafted(repository, "python", "-m", "installed.elsewhere")[2] == {}
