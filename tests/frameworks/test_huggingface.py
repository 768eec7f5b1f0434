"""Programs that parse TrainingArguments get knobs with transformers' own spelling and defaults."""

import json
import textwrap

import pytest

from infrarsi.frameworks.huggingface import draft_huggingface, joined_drafts
from infrarsi.records.task import ConfigKey, Flag, Knob, Surface

SCRIPT = """
from transformers import HfArgumentParser, Trainer, TrainingArguments
from settings import ModelArguments

def main():
    parser = HfArgumentParser((ModelArguments, TrainingArguments))
    if len(sys.argv) == 2 and sys.argv[1].endswith(".json"):
        model_args, args = parser.parse_json_file(json_file=os.path.abspath(sys.argv[1]))
    else:
        model_args, args = parser.parse_args_into_dataclasses()
    Trainer(model, args).train()
"""

SUBCLASS = """
import transformers
from dataclasses import dataclass, field

@dataclass
class TrainingArguments(transformers.TrainingArguments):
    optim: str = field(default="adamw_torch")
    gradient_checkpointing: bool = True
    model_max_length: int = field(default=512)

def train():
    kinds = (ModelArguments, DataArguments, TrainingArguments)
    parser = transformers.HfArgumentParser(kinds)
    model_args, data_args, args = parser.parse_args_into_dataclasses()
"""

TRL = """
from trl import ModelConfig, ScriptArguments, SFTConfig, SFTTrainer, TrlParser

parser = TrlParser((ScriptArguments, SFTConfig, ModelConfig))
script_args, training_args, model_args = parser.parse_args_and_config()
"""

IN_CODE = """
from transformers import HfArgumentParser, Trainer, TrainingArguments

model_args, = HfArgumentParser(ModelArguments).parse_args_into_dataclasses()
args = TrainingArguments(output_dir="out", gradient_checkpointing=True)
"""


def draft(script, *words, program=("python", "train.py"), device="cpu", torch="2.13.0", files=None):
    knobs, constraints = draft_huggingface(
        {"train.py": script}, (*program, *words),
        configured={name: text.encode() for name, text in (files or {}).items()},
        device=device, torch=torch,
    )  # fmt: skip
    Surface(editable=(), knobs=knobs, constraints=constraints)
    return {knob.name: knob for knob in knobs}, constraints


def test_the_librarys_defaults_hold_where_the_command_is_silent():
    knobs, constraints = draft(SCRIPT)
    assert set(knobs) == {
        "gradient_checkpointing", "dataloader_num_workers",
        "per_device_train_batch_size", "gradient_accumulation_steps",
    }  # fmt: skip
    assert knobs["gradient_checkpointing"].default is False
    assert knobs["dataloader_num_workers"].values == (0, 1, 2, 4)
    assert knobs["per_device_train_batch_size"].default == 8
    assert constraints == ("per_device_train_batch_size * gradient_accumulation_steps == 8",)


def test_the_command_gives_the_defaults_in_its_own_spelling():
    knobs, constraints = draft(
        SCRIPT, "--gradient-checkpointing", "--optim=adamw_torch", "--logging_steps", "1",
        "--per_device_train_batch_size", "2", "--gradient_accumulation_steps", "3",
        "--dataloader_num_workers", "3", "--attn_implementation", "eager",
    )  # fmt: skip
    checkpointing = knobs["gradient_checkpointing"]
    assert checkpointing.default is True
    assert checkpointing.reach.flag == "--gradient-checkpointing"
    assert checkpointing.reach.negation == "--no_gradient_checkpointing"
    assert checkpointing.raises_memory == "down"
    assert knobs["optim"].values == ("adamw_torch", "adamw_torch_fused")
    assert knobs["logging_steps"].values == (1, 10, 50)
    assert knobs["dataloader_num_workers"].values == (0, 1, 2, 3, 4)
    assert knobs["attn_implementation"].values == ("eager", "sdpa")
    assert constraints == ("per_device_train_batch_size * gradient_accumulation_steps == 6",)


def test_a_negated_flag_is_read():
    knobs, _ = draft(SUBCLASS, "--no_gradient_checkpointing")
    assert knobs["gradient_checkpointing"].default is False
    assert knobs["gradient_checkpointing"].reach.flag == "--gradient_checkpointing"


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("--optim", "adafactor"), "optim"),
        (("--logging_steps", "0.1"), "logging_steps"),
        (("--logging_steps", "1", "--eval_strategy", "steps"), "logging_steps"),
        (("--attn_implementation", "flash_attention_2"), "attn_implementation"),
        (("--auto_find_batch_size", "True"), "per_device_train_batch_size"),
        (("--gradient_checkpointing", "maybe"), "gradient_checkpointing"),
        (("--bf16", "True"), "bf16"),
        (("--group_by_length",), "group_by_length"),
    ],
)
def test_what_could_change_the_training_or_is_not_understood_is_no_knob(words, name):
    assert name not in draft(SCRIPT, *words)[0]


def test_evaluation_with_an_interval_of_its_own_leaves_logging_free():
    words = ("--logging_steps", "1", "--eval_strategy", "steps", "--eval_steps", "100")
    assert "logging_steps" in draft(SCRIPT, *words)[0]


def test_an_older_torch_has_the_slower_optimizer_by_default():
    assert draft(SCRIPT, torch="2.6.0+cu124")[0]["optim"].default == "adamw_torch"
    assert "optim" not in draft(SCRIPT, torch="2.10.0")[0]


def test_loader_settings_for_accelerators_need_workers():
    knobs, constraints = draft(SCRIPT, device="cuda")
    assert {"dataloader_pin_memory", "dataloader_prefetch_factor", "torch_compile"} <= set(knobs)
    assert "dataloader_prefetch_factor == None or dataloader_num_workers > 0" in constraints
    assert "dataloader_persistent_workers == False or dataloader_num_workers > 0" in constraints


def test_distributed_flags_are_for_distributed_launches():
    alone, _ = draft(SCRIPT)
    program = ("torchrun", "--nproc_per_node", "2", "train.py")
    many, _ = draft(SCRIPT, "--ddp_find_unused_parameters", "True", program=program)
    assert not any(name.startswith("ddp_") for name in alone)
    assert many["ddp_find_unused_parameters"].values == (None, True, False)
    assert many["ddp_find_unused_parameters"].default is True
    assert many["ddp_bucket_cap_mb"].default is None


def test_emptying_the_cache_can_be_left_out():
    knobs, _ = draft(SCRIPT, "--torch_empty_cache_steps", "4")
    assert knobs["torch_empty_cache_steps"].values == (None, 4)


def test_defaults_of_a_subclass_count():
    knobs, _ = draft(SUBCLASS)
    assert knobs["gradient_checkpointing"].default is True
    assert knobs["optim"].default == "adamw_torch"


def test_arguments_made_in_code_are_no_knobs():
    assert draft(IN_CODE, "--gradient_checkpointing", "True") == ({}, ())


@pytest.mark.parametrize("script", ["", "not python (", "import transformers"])
def test_a_program_without_a_parser_gives_nothing(script):
    assert draft(script) == ({}, ())


def test_arguments_in_a_json_file_are_keys_of_it():
    content = json.dumps({"gradient_checkpointing": True, "per_device_train_batch_size": 4})
    knobs, constraints = draft(SCRIPT, "args.json", files={"args.json": content})
    assert knobs["gradient_checkpointing"].default is True
    assert knobs["gradient_checkpointing"].reach == ConfigKey(
        file="args.json", key="gradient_checkpointing"
    )
    assert set(knobs) == {"gradient_checkpointing"}
    assert constraints == ()


def test_trl_takes_a_file_and_flags_and_has_defaults_of_its_own():
    content = textwrap.dedent("""
        attn_implementation: eager
        per_device_train_batch_size: 2
    """)
    knobs, _ = draft(
        TRL, "--config", "sft.yaml", "--gradient_accumulation_steps", "2",
        files={"sft.yaml": content},
    )  # fmt: skip
    assert knobs["gradient_checkpointing"].default is True
    assert knobs["gradient_checkpointing"].reach.flag == "--gradient_checkpointing"
    assert knobs["attn_implementation"].reach == ConfigKey(
        file="sft.yaml", key="attn_implementation"
    )
    assert knobs["gradient_accumulation_steps"].reach.flag == "--gradient_accumulation_steps"
    assert knobs["logging_steps"].default == 10


def test_a_flags_newer_name_is_used_where_the_command_uses_it():
    knobs, _ = draft(SCRIPT, "--activation_checkpointing")
    assert knobs["activation_checkpointing"].default is True
    assert "gradient_checkpointing" not in knobs


def test_the_librarys_rows_count_where_two_drafts_meet():
    def knob(name, values):
        return Knob(name=name, reach=Flag(flag=f"--{name}"), values=values, default=values[0])

    general = (
        (knob("batch", (4, 8)), knob("accum", (2, 1)), knob("own", (1, 2))),
        (
            "batch * accum == 8",
            "own > 0",
        ),
    )
    library = (knob("batch", (2, 4)),), ("batch > 0",)
    knobs, constraints = joined_drafts(general, library)
    assert [(each.name, each.values) for each in knobs] == [
        ("batch", (2, 4)),
        ("accum", (2, 1)),
        ("own", (1, 2)),
    ]
    assert constraints == ("batch > 0", "own > 0")


def test_attention_chosen_in_a_models_configuration_is_a_key_of_it():
    content = json.dumps({"model_type": "qwen3", "_attn_implementation": "eager"})
    words = ("--config_name", "model/config.json")
    knobs, _ = draft(SCRIPT, *words, files={"model/config.json": content})
    assert knobs["attn_implementation"].reach == ConfigKey(
        file="model/config.json", key="_attn_implementation"
    )
    assert "attn_implementation" in draft(IN_CODE, *words, files={"model/config.json": content})[0]
    assert draft("import other", *words, files={"model/config.json": content}) == ({}, ())


def test_arguments_that_code_takes_from_a_file_of_its_own_are_keys_of_it():
    script = """
from transformers import TrainingArguments
args = TrainingArguments(**yaml.safe_load(open(sys.argv[1]))["training"])
"""
    content = "training:\n  optim: adamw_torch  # as ever\n  learning_rate: 1.0e-4\n"
    knobs, _ = draft(script, "run.yaml", files={"run.yaml": content})
    assert knobs["optim"].reach == ConfigKey(file="run.yaml", key="training.optim")
    assert knobs["optim"].values == ("adamw_torch", "adamw_torch_fused")
    fused = content.replace("adamw_torch", "adamw_torch_fused")
    assert draft(script, "run.yaml", files={"run.yaml": fused}) == ({}, ())
