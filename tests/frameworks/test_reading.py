"""Settings are found however a program declares them, and a knob is drafted in the right form."""

import textwrap

import pytest
from drafted_program import draft

from infrarsi.frameworks.catalogue import claim_of, draft_knobs
from infrarsi.records.task import ConfigKey, Environment, Flag, Knob, Override

FIELDS = """
    batch_size: int = 4
    grad_accum: "int" = 2
    lr: float = 1e-3
    compile: bool = False
    attn_implementation: Literal["eager", "sdpa"] = "eager"
    num_workers: Optional[int] = 0
    dtype: str | None = field(default=None, metadata={"help": "x"})
    layers: list[int] = field(default_factory=list)
    name: str = MISSING
"""
CONFIG = f"""
from dataclasses import dataclass, field
from typing import Literal, Optional
@dataclass
class Config:{FIELDS}
"""

FLAT = {
    "HfArgumentParser": "from transformers import HfArgumentParser\n"
    "parser = HfArgumentParser((Config, Other))\nconfig, other = parser.parse_args_into_dataclasses()",
    "a variable of classes": "import transformers\nkinds = (Config,)\n"
    "transformers.HfArgumentParser(kinds)",
    "TrlParser": "from trl import TrlParser\nTrlParser(dataclass_types=[Config])",
    "draccus.parse": "import draccus\ncfg = draccus.parse(config_class=Config)",
    "draccus.wrap": "import draccus\n@draccus.wrap()\ndef main(cfg: Config): ...",
    "pyrallis": "import pyrallis\n@pyrallis.wrap()\ndef main(cfg: Config): ...",
    "simple_parsing": "from simple_parsing import ArgumentParser\np = ArgumentParser()\n"
    "p.add_arguments(Config, dest='config')",
    "simple_parsing.parse": "import simple_parsing as sp\nsp.parse(Config)",
    "jsonargparse": "from jsonargparse import CLI\nCLI(Config)",
}


@pytest.mark.parametrize("how", FLAT)
def test_fields_of_a_parsed_dataclass_are_flags(how):
    knobs, constraints = draft(CONFIG + FLAT[how], "--batch_size", "8", "--compile", "true")
    assert constraints == ("batch_size * grad_accum == 16",)
    assert knobs["batch_size"].default == 8
    assert knobs["batch_size"].reach == Flag(flag="--batch_size")
    assert knobs["compile"].default is True
    assert knobs["compile"].reach == Flag(flag="--compile", style="equals")
    assert knobs["attn_implementation"].values == ("eager", "sdpa")
    assert knobs["num_workers"].default == 0
    assert set(knobs) == {
        "batch_size", "grad_accum", "compile", "attn_implementation", "num_workers",
    }  # fmt: skip


def test_a_dataclass_that_nothing_parses_gives_no_flags():
    assert draft(CONFIG + "config = Config()") == ({}, ())


NESTED = """
from dataclasses import dataclass, field
@dataclass
class Base:
    num_workers: int = 1
@dataclass
class Data(Base):
    batch_size: int = 4
    gradient_checkpointing: bool = True
@dataclass
class Config:
    data: Data = field(default_factory=Data)
    grad_accum: int = 1
"""


def test_fields_of_nested_dataclasses_are_dotted():
    knobs, constraints = draft(
        NESTED + "import draccus\ndraccus.parse(Config)", "--data.batch_size=8"
    )
    assert constraints == ("batch_size * grad_accum == 8",)
    assert knobs["batch_size"].reach == Flag(flag="--data.batch_size")
    assert knobs["num_workers"].reach == Flag(flag="--data.num_workers")


@pytest.mark.parametrize(
    ("value", "default"),
    [("Data()", 4), ("Data(batch_size=16)", 16), ("field(default_factory=Data)", 4),
     ("field(default_factory=lambda: Data(batch_size=16))", 16), ("make_data()", 4),
     ("Data(**sizes)", None), ("Data(16)", None), ("DATA", None)],
)  # fmt: skip
def test_a_nested_class_has_the_values_that_it_is_made_with(value, default):
    source = NESTED.replace("field(default_factory=Data)", value)
    knobs, _ = draft(source + "import draccus\ndraccus.parse(Config)")
    assert (knobs["batch_size"].default if "batch_size" in knobs else None) == default


def test_a_field_that_a_subclass_declares_again_has_its_default():
    source = NESTED + "@dataclass\nclass More(Data):\n    batch_size: int = 12\n"
    knobs, constraints = draft(
        source.replace("data: Data = field(default_factory=Data)", "data: More = More()")
        + "import draccus\ndraccus.parse(Config)"
    )
    assert constraints == ("batch_size * grad_accum == 12",)
    assert knobs["batch_size"].reach == Flag(flag="--data.batch_size")


def test_a_field_without_a_default_counts_where_the_command_gives_it():
    source = """
        from dataclasses import dataclass
        import pyrallis
        @dataclass
        class Config:
            batch_size: int
            grad_accum: int = ACCUM
        pyrallis.parse(Config)
    """
    assert draft(source, "--batch_size", "4") == ({}, ())
    _, constraints = draft(source, "--batch_size", "4", "--grad_accum=2")
    assert constraints == ("batch_size * grad_accum == 8",)


def test_set_defaults_counts_and_two_declarations_that_differ_do_not():
    source = """
        import argparse
        p = argparse.ArgumentParser()
        p.add_argument("--batch-size", type=int, default=8)
        p.add_argument("--grad-accum", type=int, default=1)
        p.add_argument("--compile", action="store_true")
        p.set_defaults(batch_size=4)
    """
    knobs, constraints = draft(source)
    assert constraints == ("batch_size * grad_accum == 4",)
    assert set(knobs) == {"batch_size", "grad_accum", "compile"}
    other = """
        import argparse
        q = argparse.ArgumentParser()
        q.add_argument("--grad-accum", type=int, default=32)
    """
    knobs, constraints = draft("import other\n" + textwrap.dedent(source), **{"other.py": other})
    assert (set(knobs), constraints) == ({"compile"}, ())


def test_tyro_types_dashes_and_negates_within_the_table():
    knobs, _ = draft(
        NESTED + "import tyro\ntyro.cli(Config)",
        "--data.no-gradient-checkpointing", "--data.batch_size", "2",
    )  # fmt: skip
    assert knobs["batch_size"].reach == Flag(flag="--data.batch_size")
    assert knobs["batch_size"].default == 2
    assert knobs["grad_accum"].reach == Flag(flag="--grad-accum")
    assert knobs["gradient_checkpointing"].default is False
    assert knobs["gradient_checkpointing"].reach == Flag(
        flag="--data.gradient-checkpointing", style="negatable",
        negation="--data.no-gradient-checkpointing",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("call", "style"),
    [("import fire\nfire.Fire(main)", "python"), ("import tyro\ntyro.cli(main)", "negatable"),
     ("from jsonargparse import auto_cli\nauto_cli(main)", "equals")],
)  # fmt: skip
def test_parameters_of_a_function_are_flags(call, style):
    source = "def main(data, batch_size: int = 4, *, compile=False, grad_accum=2): ...\n" + call
    knobs, constraints = draft(source, command=("python", "-m", "train"))
    assert constraints == ("batch_size * grad_accum == 8",)
    assert knobs["compile"].reach.style == style


def test_a_class_under_a_key_of_jsonargparse():
    source = """
        import jsonargparse
        class Model:
            def __init__(self, width: int, compile: bool = False): ...
        parser = jsonargparse.ArgumentParser()
        parser.add_class_arguments(Model, "model")
    """
    knobs, _ = draft(source)
    assert knobs["compile"].reach == Flag(flag="--model.compile", style="equals")


def test_options_of_click():
    source = """
        import click
        @click.command()
        @click.option("--batch-size", "-b", default=4, show_default=True)
        @click.option("--accum", "grad_accum", type=click.IntRange(1), default=2)
        @click.option("--compile/--eager", default=True)
        @click.option("--recompute", is_flag=True)
        @click.option("--attention", type=click.Choice(["eager", "sdpa"]), default="eager")
        @click.option("--num-workers", type=int, default=0, multiple=True)
        def main(**kwargs): ...
    """
    knobs, constraints = draft(source, "-b", "8", "--eager")
    assert constraints == ("batch_size * grad_accum == 16",)
    assert knobs["batch_size"].reach == Flag(flag="-b")
    assert knobs["grad_accum"].reach == Flag(flag="--accum")
    assert knobs["compile"].default is False
    assert knobs["compile"].reach == Flag(flag="--compile", style="negatable", negation="--eager")
    assert knobs["recompute"].reach.style == "presence"
    assert knobs["attention"].values == ("eager", "sdpa")
    assert "num_workers" not in knobs


def test_options_of_typer():
    source = """
        import typer
        from typing import Annotated
        app = typer.Typer()
        @app.command()
        def main(
            data: str,
            batch_size: int = 4,
            grad_accum: Annotated[int, typer.Option("--accum", "-g")] = 2,
            compile: bool = typer.Option(False, "--compile/--no-compile"),
            recompute: bool = False,
            num_workers: int = typer.Option(1, help="x"),
        ): ...
    """
    knobs, constraints = draft(source, "data.bin", "-g", "4")
    assert constraints == ("batch_size * grad_accum == 16",)
    assert knobs["batch_size"].reach == Flag(flag="--batch-size")
    assert knobs["grad_accum"].reach == Flag(flag="-g")
    assert knobs["compile"].reach.negation == "--no-compile"
    assert knobs["recompute"].reach == Flag(flag="--recompute", style="negatable")
    assert knobs["num_workers"].default == 1


NANO = """
import os
batch_size = 12
gradient_accumulation_steps = 5 * 8
compile = True
dtype = 'float32'
_hidden = 1
config_keys = [k for k in globals()]
exec(open('configurator.py').read())
log_interval = 10
"""


def test_globals_under_a_configurator_are_settings_in_pythons_spelling():
    knobs, constraints = draft(
        NANO,
        "config/small.py",
        "--batch_size=3",
        **{"config/small.py": "compile = False\nbatch_size = 6\n"},
    )
    assert constraints == ("batch_size * gradient_accumulation_steps == 120",)
    assert knobs["compile"].default is False
    assert knobs["compile"].reach == Flag(flag="--compile", style="python")
    assert knobs["batch_size"].default == 3
    assert set(knobs) == {"batch_size", "gradient_accumulation_steps", "compile"}
    assert draft(NANO.replace("exec(", "print(")) == ({}, ())


def test_a_parser_in_a_module_that_is_imported_counts_unless_only_its_own_script_makes_it():
    options = """
        import argparse
        def parse():
            p = argparse.ArgumentParser()
            p.add_argument("--compile", action="store_true")
            return p.parse_args()
        if __name__ == "__main__":
            p = argparse.ArgumentParser()
            p.add_argument("--recompute", action="store_true")
    """
    knobs, _ = draft("from options import parse\nargs = parse()", **{"options.py": options})
    assert set(knobs) == {"compile"}


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


@pytest.mark.parametrize(
    ("typed", "flag"),
    [(["-b", "4"], "-b"), (["-b4"], "-b"), (["--bs=4"], "--bs"), (["--batch", "4"], "--batch"),
     (["--batch_size", "8", "--bs", "4"], "--bs"), (["--batch-size=4"], "--batch-size")],
)  # fmt: skip
def test_every_spelling_of_a_flag_gives_the_default(typed, flag):
    knobs, constraints = draft(ARGPARSE, *typed)
    assert knobs["batch_size"].default == 4
    assert knobs["batch_size"].reach == Flag(flag=flag)
    assert constraints == ("batch_size * grad_accum == 4",)


def test_a_switch_that_takes_text_is_typed_with_its_value():
    knobs, _ = draft(ARGPARSE, "--compile", "yes")
    assert knobs["compile"].default is True
    assert "log_every" not in knobs


def test_a_variable_of_the_environment_gives_the_default():
    knobs, _ = draft_knobs(
        (), ("python", "t.py"), device="cpu", environ={"THP_MEM_ALLOC_ENABLE": "0"}
    )
    drafted = {knob.name: knob for knob in knobs}
    assert drafted["huge_pages"].default == "0"
    assert drafted["huge_pages"].values == ("0", None, "1")
    assert drafted["malloc"].reach == Environment(variable="GLIBC_TUNABLES", separator=":")


@pytest.mark.parametrize(
    ("reach", "claim"),
    [
        (Flag(flag="--micro-batch-size"), "micro_batches"),
        (Flag(flag="--train.batch_size"), "micro_batches"),
        (ConfigKey(file="c.yaml", key="optim.gradient_accumulation_steps"), "micro_batches"),
        (Override(key="train.dtype"), "dtypes"),
        (Flag(flag="--num-workers"), "workers"),
        (Environment(variable="OMP_NUM_THREADS"), "threads"),
        (Flag(flag="--fused"), "anything"),
    ],
)
def test_what_a_knob_claims_to_set_is_told_by_its_name(reach, claim):
    assert claim_of(Knob(name="x", reach=reach, values=(1, 2), default=1)) == claim
