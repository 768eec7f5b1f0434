"""Every contract in contracts/ is complete, and every value of its knobs can be typed."""

import subprocess
from itertools import islice, product
from pathlib import Path

import pytest

from infrarsi.errors import UsageError
from infrarsi.execute.invocation import check_reference, invocation_of
from infrarsi.records.constraint import first_broken
from infrarsi.records.launcher import read_command
from infrarsi.records.plan import Prices
from infrarsi.stages.init import Draft, lock_task
from infrarsi.store.contract import read_contract, write_contract

FOLDER = Path(__file__).parents[2] / "contracts"
FILES = sorted(FOLDER.glob("*.yaml"))


@pytest.fixture(params=FILES, ids=lambda file: file.stem)
def file(request):
    return request.param


def test_there_is_one_for_each_of_the_four_workloads():
    assert [file.stem for file in FILES] == [
        "gemma-4-26b-a4b-8xh200", "qwen3.5-35b-a3b-2x8xh100", "qwen3.5-9b-8xh100",
        "qwen3.8-27b-8xh200",
    ]  # fmt: skip


def test_it_reads_says_that_it_was_not_measured_and_sets_no_price(file):
    contract = read_contract(file)
    text = file.read_text()
    assert "NOT MEASURED HERE" in text
    for said in ("# Context: ", "# Hardware: "):
        assert said in text
    assert contract.name == file.stem
    assert contract.plan.prices == Prices()
    assert contract.task.memory.unit == "cuda_allocated"
    assert file.name in (FOLDER / "README.md").read_text()


def test_it_is_complete_enough_to_be_written_as_init_writes_one(file, tmp_path):
    contract = read_contract(file)
    write_contract(tmp_path / "infrarsi.yaml", contract)
    assert read_contract(tmp_path / "infrarsi.yaml") == contract


def test_its_defaults_are_what_its_command_says(file):
    task = read_contract(file).task
    check_reference(task, {})
    arguments = read_command(task.command).arguments
    for flag in ("--training.local_batch_size", "--per_device_train_batch_size"):
        if flag in arguments:
            return
    pytest.fail("no flag of the program's own is told from the launcher's")


def test_every_value_of_every_knob_reaches_the_program(file):
    task = read_contract(file).task
    reference = invocation_of(task, {}, {}, environ={})
    knobs = task.surface.knobs
    for knob in knobs:
        for value in knob.values:
            if value == knob.default:
                continue
            setting = nearest(task, knob, value)
            launch = invocation_of(task, setting, {}, environ={})
            assert (launch.argv, launch.env) != (reference.argv, reference.env), (knob.name, value)


def nearest(task, knob, value):
    """Give allowed values of all knobs with this one turned, the fewest others moved."""
    others = [each for each in task.surface.knobs if each.name != knob.name]
    for num in range(3):
        for moved in islice(product(others, repeat=num), 200):
            for chosen in product(*(each.values for each in moved)):
                setting = {**task.surface.default_knobs(), knob.name: value}
                setting |= dict(zip((each.name for each in moved), chosen, strict=True))
                if first_broken(task.surface.constraints, setting) is None:
                    return setting
    pytest.fail(f"no other knob allows {knob.name}={value}")


def test_the_two_machines_are_refused_in_a_sentence_before_anything_is_launched(tmp_path):
    contract = FOLDER / "qwen3.5-35b-a3b-2x8xh100.yaml"
    (tmp_path / "infrarsi.yaml").write_bytes(contract.read_bytes())
    for command in (["init", "-q"], ["add", "-A"],
                    ["-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "x"]):  # fmt: skip
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    with pytest.raises(UsageError, match="launches over 2 machines") as caught:
        lock_task(tmp_path, Draft())
    assert "--standalone" in caught.value.hint
