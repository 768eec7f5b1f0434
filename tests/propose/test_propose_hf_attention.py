"""transformers' attention is computed by the fused kernel, wherever the choice stands."""

from __future__ import annotations

import textwrap
import warnings

import pytest
import torch

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    transformers = pytest.importorskip("transformers")

SHAPE = (
    "vocab_size=64, hidden_size=16, intermediate_size=32, num_hidden_layers=2, "
    "num_attention_heads=4, num_key_value_heads=2, head_dim=4, max_position_embeddings=64"
)

CALL = f"""
    from transformers import AutoModelForCausalLM, Qwen3Config

    def make():
        config = Qwen3Config({SHAPE})
        return AutoModelForCausalLM.from_config(
            config,
            attn_implementation="eager",  # stable
        )
"""

CONFIG = f"""
    import transformers

    def make():
        config = transformers.LlamaConfig({SHAPE}, attn_implementation='eager')
        return transformers.LlamaForCausalLM(config)
"""

ATTRIBUTE = f"""
    from transformers import Qwen3Config
    from transformers.models.qwen3 import Qwen3ForCausalLM

    def make():
        config = Qwen3Config({SHAPE})
        config._attn_implementation = "eager"
        return Qwen3ForCausalLM(config)
"""

AFTERWARDS = f"""
    from transformers import AutoConfig, AutoModelForCausalLM

    def make():
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model("qwen3", {SHAPE}))
        model.set_attn_implementation("eager")
        return model
"""

DICTIONARY = f"""
    from transformers import AutoModelForCausalLM, Qwen3Config

    def make(flash=False):
        kwargs = {{"attn_implementation": "flash_attention_2" if flash else "eager"}}
        kwargs["dtype"] = "float32"
        return AutoModelForCausalLM.from_config(Qwen3Config({SHAPE}), **kwargs)
"""

DATACLASS = f"""
    from dataclasses import dataclass, field
    from typing import Optional

    from transformers import AutoModelForCausalLM, HfArgumentParser, Qwen3Config

    @dataclass
    class ModelArguments:
        attn: Optional[str] = field(default="eager", metadata={{"help": "eager or sdpa"}})
        name: str = "eager"

    def make():
        args, = HfArgumentParser(ModelArguments).parse_args_into_dataclasses([])
        assert args.name.startswith("eag")
        return AutoModelForCausalLM.from_config(Qwen3Config({SHAPE}), attn_implementation=args.attn)
"""

FLAG = f"""
    import argparse
    from transformers import AutoModelForCausalLM, Qwen3Config

    parser = argparse.ArgumentParser()
    parser.add_argument("--attn-implementation", choices=["eager", "sdpa"], default="eager")

    def build(implementation):
        return AutoModelForCausalLM.from_config(
            Qwen3Config({SHAPE}), attn_implementation=implementation or "eager"
        )

    def make():
        return build(parser.parse_args([]).attn_implementation)
"""

BRANCHES = f"""
    import os
    from transformers import AutoModelForCausalLM, Qwen3Config

    class Factory:
        def __init__(self, impl="eager"):
            self.impl = impl

        def build(self):
            return AutoModelForCausalLM.from_config(
                Qwen3Config({SHAPE}), attn_implementation=self.impl)

    def make():
        if os.environ.get("FLASH_PLEASE"):
            chosen = "flash_attention_2"
        else:
            chosen = os.environ.get("ATTENTION_PLEASE", "eager")
        return Factory(impl=chosen).build()
"""

FORMS = [CALL, CONFIG, ATTRIBUTE, AFTERWARDS, DICTIONARY, DATACLASS, FLAG, BRANCHES]


def trained(make):
    """A loss and its gradients on fixed weights and a padded batch."""
    torch.manual_seed(0)
    model = make()
    ids = torch.randint(0, 64, (2, 12))
    mask = torch.ones_like(ids)
    mask[1, 9:] = 0
    labels = ids.masked_fill(mask == 0, -100)
    loss = model(input_ids=ids, attention_mask=mask, labels=labels).loss
    loss.backward()
    return model.config._attn_implementation, loss.detach(), [p.grad for p in model.parameters()]


@pytest.mark.parametrize("form", FORMS)
def test_wherever_the_choice_stands_the_fused_kernel_computes_the_same(transform, module, form):
    after = transform("hf_attention", form)
    was, *before = trained(module(form).make)
    now, *since = trained(module(after).make)
    assert (was, now) == ("eager", "sdpa")
    torch.testing.assert_close(since, before)


def test_only_the_word_changes(transform):
    before = textwrap.dedent(DATACLASS)
    after = transform("hf_attention", DATACLASS)
    assert after == before.replace('default="eager", metadata', 'default="sdpa", metadata')
    assert after != before


def test_the_choice_is_followed_into_another_file(transform):
    changed = transform(
        "hf_attention",
        """
        from settings import ATTENTION, Settings
        from transformers import AutoModelForCausalLM
        def make(settings: Settings):
            return AutoModelForCausalLM.from_pretrained("here", attn_implementation=settings.kernel)
        """,
        settings="""
        class Settings:
            kernel: str = "eager"
            other: str = "eager"
        """,
    )
    assert 'kernel: str = "sdpa"' in changed["settings.py"]
    assert 'other: str = "eager"' in changed["settings.py"]


@pytest.mark.parametrize(
    ("old", "new", "because"),
    [
        ("from transformers import", "from formers import", "imports transformers"),
        ('attn_implementation="eager",  # stable', "", "sdpa by itself"),
        ('"eager"', '"flash_attention_2"', "attention is flash_attention_2 already"),
        ("config,\n", "config, output_attentions=True,\n", "output_attentions"),
        ("def make():", "def read(out):\n        return out.attentions\n\n    def make():", "weights are read"),
        ("Qwen3Config", "Gemma2Config", "Gemma2Config"),
        ("config = Q", "soft_cap = 30.0\n        config = Q", "soft_cap"),
        (
            "def make():",
            "def show(c):\n        return c._attn_implementation == 'eager'\n\n    def make():",
            "decides by c._attn_implementation == 'eager'",
        ),
        (
            "def make():",
            "ATTENTION = {'eager': 1, 'flash_attention_2': 2}\n\n    def make():",
            "table of attention classes",
        ),
        (
            "def make():",
            "import modeling\n    modeling.eager_attention_forward = print\n\n    def make():",
            "replaced by the program's own",
        ),
    ],
)  # fmt: skip
def test_attention_that_has_to_stay_stays(declines, old, new, because):
    assert old in CALL
    assert because in declines("hf_attention", CALL.replace(old, new))


OWN_MODEL = """
    from transformers import PreTrainedModel, AutoModelForCausalLM

    class Net(PreTrainedModel):
        _supports_sdpa = {supports}

        def forward(self, x):
            attend = eager_attention_forward
            if self.config._attn_implementation != "eager":
                attend = ALL_ATTENTION_FUNCTIONS[self.config._attn_implementation]
            return attend(x)

    def make(config):
        return AutoModelForCausalLM.from_config(config, attn_implementation="eager")
"""


def test_a_model_of_the_programs_own_must_say_that_it_supports_the_kernel(transform, declines):
    assert "_supports_sdpa" in declines("hf_attention", OWN_MODEL.format(supports=False))
    after = transform("hf_attention", OWN_MODEL.format(supports=True))
    assert 'attn_implementation="sdpa"' in after
    assert '!= "eager"' in after
