"""Keys of the configuration files that a command names become knobs, set where they count."""

import pytest
from drafted_program import draft

from infrarsi.records.task import ConfigKey, Flag, Override

ARGPARSE = """
import argparse
p = argparse.ArgumentParser()
p.add_argument("--config")
p.add_argument("-b", "--batch-size", "--bs", type=int, default=8)
p.add_argument("--grad-accum", type=int, default=1)
p.add_argument("--num-workers", type=int, default=0, dest="loaders")
p.add_argument("--compile", type=str2bool, default=False)
p.add_argument("--log-every", type=int, nargs="+", default=10)
"""
YAML = """\
train:
  batch_size: 4   # rows
  grad_accum: 2
  compile: false
eval:
  batch_size: 16
  compile: true
data: &d {num_workers: 2}
"""


@pytest.mark.parametrize(
    "said",
    [
        ("--config", "conf.yaml"),
        ("--config=conf.yaml",),
        ("conf.yaml",),
        ("--config_file", "conf.yaml"),
    ],
)
def test_keys_of_a_configuration_file_in_the_command_are_knobs(said):
    knobs, constraints = draft(ARGPARSE, *said, files={"conf.yaml": YAML})
    assert knobs["batch_size"].reach == ConfigKey(file="conf.yaml", key="train.batch_size")
    assert knobs["batch_size"].default == 4
    assert knobs["compile"].reach == ConfigKey(file="conf.yaml", key="train.compile")
    assert knobs["num_workers"].reach == ConfigKey(file="conf.yaml", key="data.num_workers")
    assert constraints == ("batch_size * grad_accum == 8",)


def test_a_flag_in_the_command_goes_before_the_file_and_the_file_before_a_flags_default():
    knobs, constraints = draft(
        ARGPARSE, "--config", "conf.yaml", "-b", "2", files={"conf.yaml": YAML}
    )
    assert knobs["batch_size"].reach == Flag(flag="-b")
    assert constraints == ("batch_size * grad_accum == 4",)
    assert knobs["grad_accum"].reach == ConfigKey(file="conf.yaml", key="train.grad_accum")


@pytest.mark.parametrize(
    ("name", "text"),
    [("c.toml", "[training]\nlocal_batch_size = 4\ngradient_accumulation_steps = 2\n"),
     ("c.json", '{"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2,'
                ' "train_batch_size": 8}')],
)  # fmt: skip
def test_toml_and_json_too_and_of_two_batch_sizes_the_micro_batch(name, text):
    knobs, constraints = draft("", name, files={name: text})
    assert len(constraints) == 1
    assert constraints[0].endswith("* gradient_accumulation_steps == 8")
    assert all(isinstance(knob.reach, ConfigKey) for knob in knobs.values())


def test_a_key_that_the_command_overrides_is_set_there():
    knobs, constraints = draft(
        "", "config=conf.yaml", "train.batch_size=2", files={"conf.yaml": YAML}
    )
    assert knobs["batch_size"].reach == Override(key="train.batch_size")
    assert knobs["grad_accum"].reach == ConfigKey(file="conf.yaml", key="train.grad_accum")
    assert constraints == ("batch_size * grad_accum == 4",)


@pytest.mark.parametrize(
    "name",
    ["grad_accum", "gradient_accumulation_steps", "grad_acc_steps", "accum_steps", "acc_steps", "gas",
     "accumulate_grad_batches", "accumulation", "gradaccum", "num_accumulation_steps"],
)  # fmt: skip
def test_accumulation_goes_by_many_names(name):
    _, constraints = draft("", "c.json", files={"c.json": f'{{"micro_batch": 2, "{name}": 3}}'})
    assert constraints == (f"micro_batch * {name} == 6",)


@pytest.mark.parametrize("name", ["acc", "accuracy", "n_acc_heads", "gradient", "steps"])
def test_what_is_no_accumulation_is_not_taken_for_one(name):
    assert draft("", "c.json", files={"c.json": f'{{"micro_batch": 2, "{name}": 3}}'}) == ({}, ())


def test_a_launchers_own_file_is_not_the_programs():
    command = ("accelerate", "launch", "--config_file", "a.yaml", "train.py")
    assert draft("", command=command, files={"a.yaml": "compile: true\n"}) == ({}, ())


def test_files_that_cannot_be_read_give_nothing():
    assert draft("", "a.yaml", files={"a.yaml": "a: [\n"}) == ({}, ())
    assert draft("", "a.json", files={"a.json": "{"}) == ({}, ())
    assert draft("", "gone.yaml") == ({}, ())


HYDRA = """
import hydra
@hydra.main(version_base=None, config_path="conf", config_name="config")
def main(cfg): ...
"""


def test_what_hydra_composes_is_set_by_overrides():
    files = {
        "conf/config.yaml": "defaults:\n  - train: fast\n  - _self_\ncompile: false\n",
        "conf/train/fast.yaml": "micro_batch: 4\ngrad_accum: 2\n",
        "conf/train/slow.yaml": "micro_batch: 1\ngrad_accum: 8\n",
    }
    knobs, constraints = draft(HYDRA, files=files)
    assert knobs["compile"].reach == Override(key="compile")
    assert knobs["micro_batch"].reach == Override(key="train.micro_batch")
    assert constraints == ("micro_batch * grad_accum == 8",)
    knobs, constraints = draft(HYDRA, "train=slow", "train.micro_batch=2", files=files)
    assert (knobs["micro_batch"].default, knobs["grad_accum"].default) == (2, 8)
    assert constraints == ("micro_batch * grad_accum == 16",)
    knobs, _ = draft(HYDRA, "--config-name", "other", files={"conf/other.yaml": "compile: true\n"})
    assert knobs["compile"].default is True
