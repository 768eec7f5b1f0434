"""What makes two machines different, in words."""

import pytest

from infrarsi.records.machine import Accelerator, Machine, differences


def gpu(name="H100", memory_bytes=80 * 2**30, capability="9.0"):
    return Accelerator(name=name, memory_bytes=memory_bytes, capability=capability)


def machine(**changed):
    facts = {
        "cpu": "EPYC 9654", "num_cpus": 96, "memory_bytes": 512 * 2**30,
        "kernel": "6.8.0-45-generic", "python": "3.11.9", "torch": "2.12.0+cu128", "cuda": "12.8",
        "driver": "550.54.14", "accelerators": (gpu(), gpu()), "sandbox": "bubblewrap",
    }  # fmt: skip
    return Machine.model_validate({**facts, **changed})


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"torch": "2.13.0+cu128"}, "torch 2.12.0+cu128 -> 2.13.0+cu128"),
        ({"torch": "2.12.0+cpu"}, "torch 2.12.0+cu128 -> 2.12.0+cpu"),
        ({"cuda": None}, "CUDA 12.8 -> none"),
        ({"driver": "550.54.15"}, "GPU driver 550.54.14 -> 550.54.15"),
        ({"python": "3.12.1"}, "training interpreter: Python 3.11.9 -> 3.12.1"),
        ({"sandbox": "process group (uncontained)"},
         "containment bubblewrap -> process group (uncontained)"),
        ({"cpu": "EPYC 9965"}, "processor EPYC 9654 -> EPYC 9965"),
        ({"num_cpus": 48}, "number of CPUs 96 -> 48"),
        ({"memory_bytes": 256 * 2**30}, "memory 512.0 GiB -> 256.0 GiB"),
        ({"kernel": "6.11.0-9-generic"}, "kernel 6.8.0-45-generic -> 6.11.0-9-generic"),
        ({"accelerators": (gpu("H200", 141 * 2**30),) * 2},
         "GPUs 2 x H100 (80 GiB) -> 2 x H200 (141 GiB)"),
        ({"accelerators": ()}, "GPUs 2 x H100 (80 GiB) -> none"),
        ({"accelerators": (gpu(), gpu("A100"))},
         "GPUs 2 x H100 (80 GiB) -> 1 x H100 (80 GiB), 1 x A100 (80 GiB)"),
    ],
)  # fmt: skip
def test_each_change_is_told_in_words_from_old_to_new(changed, words):
    assert differences(machine(), machine(**changed)) == (words,)


def test_every_field_of_a_machine_is_compared():
    other = machine(
        cpu="x", num_cpus=1, memory_bytes=1, kernel="5.4", python="3", torch="2", cuda=None,
        driver=None, accelerators=(), sandbox="none",
    )  # fmt: skip
    assert len(differences(machine(), other)) == len(Machine.model_fields)


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"kernel": "6.8.0-51-generic"},
        {"kernel": "6.8.12"},
        {"memory_bytes": 512 * 2**30 - 300 * 2**20},
        {"accelerators": (gpu(memory_bytes=80 * 2**30 - 200 * 2**20), gpu())},
    ],
)
def test_what_changes_without_meaning_is_no_change(changed):
    assert differences(machine(), machine(**changed)) == ()


def test_what_an_older_record_does_not_hold_is_unknown_and_no_change():
    stored = machine().model_dump(exclude={"driver"})
    assert differences(Machine.model_validate(stored), machine()) == ()
