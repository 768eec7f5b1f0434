"""What transformers' TrainingArguments say in code is changed there; flags are left to knobs."""

from __future__ import annotations

import pytest

IN_CODE = """
    from transformers import Trainer, TrainingArguments

    args = TrainingArguments(
        output_dir="out",
        gradient_checkpointing=True,  # saves memory
        optim='adamw_torch',
        learning_rate=1e-4,
    )
    Trainer(model=model, args=args).train()
"""

SUBCLASS = """
    import transformers as hf
    from dataclasses import dataclass

    @dataclass
    class Arguments(hf.TrainingArguments):
        project: str = "mine"

    def main():
        hf.Trainer(model, Arguments("out", gradient_checkpointing=True, optim="adamw_torch")).train()
"""

TRL = """
    import trl

    def main():
        config = trl.SFTConfig(output_dir="out", gradient_checkpointing = True, optim="adamw_torch")
        trl.SFTTrainer(model="here", args=config).train()
"""

FROM_FLAGS = """
    from transformers import HfArgumentParser, Trainer, TrainingArguments

    args, = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
    Trainer(model=model, args=args).train()
"""


@pytest.mark.parametrize("form", [IN_CODE, SUBCLASS, TRL])
def test_recomputation_is_switched_off(transform, form):
    after = transform("no_recompute", form)
    assert after.count("False") == 1
    assert "True" not in after


@pytest.mark.parametrize("form", [IN_CODE, SUBCLASS, TRL])
def test_the_fused_kernel_of_the_same_optimizer_is_chosen(transform, form):
    after = transform("fused_optimizer", form)
    assert after.count("adamw_torch_fused") == 1


@pytest.mark.parametrize("form", [IN_CODE, SUBCLASS, TRL])
def test_the_trainer_is_asked_to_compile(transform, form):
    after = transform("compile_model", form)
    assert after.count("torch_compile=True") == 1


def test_the_layout_stays(transform):
    after = transform("compile_model", IN_CODE)
    assert "    learning_rate=1e-4,\n    torch_compile=True,\n)" in after


@pytest.mark.parametrize(
    ("recipe", "form", "because"),
    [
        ("no_recompute", IN_CODE.replace("=True,", "=save_memory,"), "behind save_memory"),
        ("no_recompute", IN_CODE.replace("=True,", "=False,"), "nothing calls"),
        ("fused_optimizer", IN_CODE.replace("adamw_torch", "adafactor"), "adafactor"),
        ("fused_optimizer", FROM_FLAGS, "no torch.optim"),
        ("compile_model", FROM_FLAGS, "--torch_compile is a matter of the launch"),
        ("compile_model", IN_CODE.replace("learning_rate=1e-4", "**more"), "already decides"),
        (
            "compile_model",
            IN_CODE.replace("learning_rate=1e-4", 'torch_compile_backend="aot_eager"'),
            "already decides",
        ),
    ],
)
def test_what_somebody_chose_or_the_launch_decides_stays(declines, recipe, form, because):
    assert because in declines(recipe, form)


OWN_STEPS = """
    import gc
    import torch
    import transformers
    from transformers import Trainer

    class Base(Trainer):
        pass

    class Mine(Base):
        def training_step(self, model, inputs, num_items=None):
            loss = super().training_step(model, inputs, num_items)
            torch.cuda.empty_cache()
            return loss

        def evaluate(self):
            torch.cuda.empty_cache()

    class Tidy(transformers.TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            if state.global_step % 10 == 0:
                gc.collect()
"""


def test_a_trainers_own_steps_wait_for_nothing(transform):
    after = transform("fewer_syncs", OWN_STEPS)
    assert after.count("empty_cache") == 1
    assert "gc.collect" not in after
    assert after.index("def evaluate") < after.index("empty_cache")


def test_steps_of_something_else_are_left_alone(declines):
    other = OWN_STEPS.replace("transformers", "formers")
    assert "no training loop" in declines("fewer_syncs", other)


SET_LATER = """
    from transformers import HfArgumentParser, TrainingArguments

    args, = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
    args.gradient_checkpointing = True
    args.bf16 = True
"""


def test_recomputation_that_is_set_afterwards_is_switched_off(transform, declines):
    after = transform("no_recompute", SET_LATER)
    assert "args.gradient_checkpointing = False\nargs.bf16 = True" in after
    guarded = SET_LATER.replace("    args.g", "    if big:\n        args.g")
    assert "flag big" in declines("no_recompute", guarded)
