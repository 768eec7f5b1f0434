"""Launchers that start a script once a rank, and whose words in a command are whose."""

from __future__ import annotations

import re
from collections.abc import Sequence

from infrarsi.records.base import Record


class Launcher(Record):
    """A program that starts another one, once a rank."""

    name: str
    """What is typed: ``torchrun``, ``accelerate launch``."""
    module: str
    """What ``python -m`` runs to the same effect."""
    also: tuple[str, ...] = ()
    """Other modules that take the same options."""
    switches: frozenset[str] = frozenset()
    """Its options that take no value, in the spelling with underscores."""
    address: str
    """The option for the address at which ranks meet."""
    port: str
    """The option for the port."""
    machines: tuple[str, ...]
    """The options for the number of machines."""


LAUNCHERS = (
    Launcher(
        name="torchrun", module="torch.distributed.run", also=("torch.distributed.launch",),
        switches=frozenset({
            "--standalone", "-m", "--module", "--no_python", "--run_path", "--use_env",
            "--virtual_local_rank",
        }),
        address="--master_addr", port="--master_port", machines=("--nnodes",),
    ),
    Launcher(
        name="accelerate launch", module="accelerate.commands.launch",
        switches=frozenset({
            "-m", "--module", "--no_python", "-q", "--quiet", "--debug", "--cpu", "--multi_gpu",
            "--tpu", "--mps", "--use_xpu", "--ipex", "--use_deepspeed", "--use_fsdp",
            "--use_parallelism_config", "--use_megatron_lm", "--same_network", "--downcast_bf16",
            "--enable_cpu_affinity", "--dynamo_use_fullgraph", "--dynamo_use_dynamic",
            "--dynamo_use_regional_compilation", "--tpu_use_cluster", "--tpu_use_sudo",
        }),
        address="--main_process_ip", port="--main_process_port", machines=("--num_machines",),
    ),
    Launcher(
        name="deepspeed", module="deepspeed.launcher.runner",
        switches=frozenset({
            "-m", "--module", "--no_python", "--no_local_rank", "--no_ssh", "--no_ssh_check",
            "--force_multi", "--save_pid", "--elastic_training", "--bind_cores_to_rank",
        }),
        address="--master_addr", port="--master_port", machines=("--num_nodes",),
    ),
)  # fmt: skip

_PYTHON = re.compile(r"python[\d.]*")
_PYTHON_WITH_VALUE = frozenset({"-W", "-X", "--check-hash-based-pycs"})


class Command(Record):
    """The words of a command, and where its parts begin."""

    words: tuple[str, ...]
    program: int | None = None
    """Index of the interpreter or launcher; what stands before it sets the scene (``env X=1``)."""
    options: int | None = None
    """Index of the first word that is the launcher's own; ``None`` without a launcher."""
    launcher: Launcher | None = None
    script: int | None = None
    """Index of the script or module that trains; ``None`` where none was found."""
    is_module: bool = False

    @property
    def entry(self) -> str | None:
        """The file that trains, as a path from where the command runs."""
        if self.script is None:
            return None
        word = self.words[self.script]
        return word.replace(".", "/") + ".py" if self.is_module else word

    @property
    def first_argument(self) -> int:
        """Index of the first word that the script itself reads; 0 where none was found."""
        return 0 if self.script is None else self.script + 1

    @property
    def arguments(self) -> tuple[str, ...]:
        """The words that the script itself reads; all of them where no script was found."""
        return self.words[self.first_argument :]

    def launcher_option(self, *names: str) -> str | None:
        """Give the value of one of the launcher's options, dashes and underscores alike."""
        if self.launcher is None or self.options is None:
            return None
        own = self.words[self.options : self.script]
        wanted = {_plain(name) for name in names}
        for index, word in enumerate(own):
            name, equals, value = word.partition("=")
            if _plain(name) in wanted:
                return value if equals else next(iter(own[index + 1 : index + 2]), None)
        return None

    @property
    def num_machines(self) -> int:
        """How many machines its launcher asks for, at most."""
        said = self.launcher_option(*self.launcher.machines) if self.launcher else None
        last = (said or "1").rpartition(":")[2]
        return int(last) if last.isdecimal() else 1


def read_command(words: Sequence[str]) -> Command:
    """Take a command apart, as far as its words tell.

    The options of a launcher (``torchrun``, ``accelerate launch``, ``deepspeed``, or ``python
    -m`` with their modules) are told from those of the script that it starts.
    """
    words = tuple(words)
    program = next((i for i, word in enumerate(words) if _starts(words, i, word)), None)
    if program is None:
        script = next((i for i, word in enumerate(words) if _is_file(word)), None)
        return Command(words=words, script=script)
    if _PYTHON.fullmatch(_name(words[program])):
        return _read_python(words, program)
    launcher = next(each for each in LAUNCHERS if each.name.split()[0] == _name(words[program]))
    return _read_launcher(words, program, launcher, first=program + len(launcher.name.split()))


def _name(word: str) -> str:
    return word.rsplit("/", 1)[-1]


def _plain(option: str) -> str:
    dashes = len(option) - len(option.lstrip("-"))
    return option[:dashes] + option[dashes:].replace("-", "_")


def _is_file(word: str) -> bool:
    return word.endswith(".py") and not word.startswith("-")


def _starts(words: tuple[str, ...], index: int, word: str) -> bool:
    """Tell whether a word is a program that we know how to read on from."""
    name = _name(word)
    if _PYTHON.fullmatch(name):
        return True
    following = words[index + 1 : index + 2]
    return any(
        each.name.split()[0] == name and tuple(each.name.split()[1:]) in {(), following}
        for each in LAUNCHERS
    )


def _read_python(words: tuple[str, ...], program: int) -> Command:
    index = program + 1
    while index < len(words):
        word = words[index]
        if word == "-m" and index + 1 < len(words):
            module = words[index + 1]
            launcher = next((e for e in LAUNCHERS if module in {e.module, *e.also}), None)
            if launcher is not None:
                return _read_launcher(words, program, launcher, first=index + 2)
            return Command(words=words, program=program, script=index + 1, is_module=True)
        if word == "-c":
            break
        if not word.startswith("-"):
            return Command(words=words, program=program, script=index)
        index += 2 if word in _PYTHON_WITH_VALUE else 1
    return Command(words=words, program=program)


def _read_launcher(
    words: tuple[str, ...], program: int, launcher: Launcher, *, first: int
) -> Command:
    module, index = False, first
    while index < len(words):
        word = words[index]
        if not word.startswith("-"):
            return Command(
                words=words, program=program, options=first, launcher=launcher, script=index,
                is_module=module and not _is_file(word),
            )  # fmt: skip
        module = module or word in {"-m", "--module"}
        index += 1
        takes_value = "=" not in word and _plain(word) not in launcher.switches
        following = words[index] if index < len(words) else "-"
        # An option that we do not know may be a switch: a file after it is then the script.
        if takes_value and not following.startswith("-") and not _is_file(following):
            index += 1
    return Command(words=words, program=program, options=first, launcher=launcher)
