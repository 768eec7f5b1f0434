"""The Task: what is locked. Nothing in here may change between the lock and the report."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import (
    Field,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

from infrarsi.records.base import Record, Scalar
from infrarsi.records.constraint import check_names, constraint_holds, values_in_words


class Flag(Record):
    """A knob that reaches the program as a command-line flag."""

    kind: Literal["flag"] = "flag"
    flag: str = Field(pattern=r"^-[^\s=]+$")
    """The flag as typed, dashes included: ``--lr``."""
    style: Literal["space", "equals", "python", "presence", "negatable", "list", "repeated"] = (
        "space"
    )
    """How it is typed where the command does not give it yet.

    ``space`` and ``equals``: ``--x V`` and ``--x=V``; ``python``: ``--x=V``, the value as Python
    writes it (``True``, ``None``); ``presence``: there when true; ``negatable``: ``--x`` against
    its negation; ``list``: ``--x A B``, the value's words each an argument; ``repeated``:
    ``--x A --x B``. Where the value is ``None``, the flag is left
    out, but for ``python``.
    """
    negation: str | None = Field(default=None, pattern=r"^-[^\s=]+$")
    """The flag that says no, for ``negatable``: ``--no-x``."""

    @model_validator(mode="after")
    def _can_say_no(self) -> Self:
        if self.style == "negatable" and self.negation is None and not self.flag.startswith("--"):
            raise ValueError(f"the flag {self.flag} needs its negation named")
        return self


class Environment(Record):
    """A knob that reaches the program as an environment variable."""

    kind: Literal["environment"] = "environment"
    variable: str = Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    separator: str | None = Field(default=None, min_length=1)
    """For a variable that holds several settings: what stands between them. The value is then
    added to what the user's environment has, instead of its own settings of the same name."""

    @model_serializer(mode="wrap")
    def _without_an_unused_separator(self, plain: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # The digest of a task that was locked before there were separators must stay.
        written: dict[str, Any] = plain(self)
        return {k: v for k, v in written.items() if k != "separator" or v is not None}


class ConfigKey(Record):
    """A knob that reaches the program as a key in a YAML, TOML or JSON file."""

    kind: Literal["config"] = "config"
    file: str
    """Path of the file, relative to the repository's root."""
    key: str = Field(min_length=1)
    """The key, dotted for nested tables and places in lists: ``train.layers.0.width``."""
    absent: bool = False
    """Whether the reference's file lacks the key, so that a value other than the default is
    added to its table. Else a key that is not there is an error."""

    @model_serializer(mode="wrap")
    def _without_the_usual(self, plain: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # The digest of a task that was locked before keys could be added must stay.
        written: dict[str, Any] = plain(self)
        return {k: v for k, v in written.items() if k != "absent" or v}

    @field_validator("file")
    @classmethod
    def _is_a_file_that_can_be_rewritten(cls, file: str) -> str:
        parts = [part for part in file.split("/") if part not in {"", "."}]
        if file.startswith("/") or ".." in parts:
            raise ValueError(f"the knob's file {file} lies outside the repository")
        if not file.lower().endswith((".yaml", ".yml", ".toml", ".json")):
            raise ValueError(f"the knob's file {file} is neither YAML nor TOML nor JSON")
        return "/".join(parts)


class Override(Record):
    """A knob that reaches the program as ``key=value``, as Hydra and OmegaConf take it."""

    kind: Literal["override"] = "override"
    key: str = Field(pattern=r"^[^\s=+~-][^\s=]*$")
    """The key, dotted: ``train.micro_batch``."""
    prefix: Literal["", "+", "++"] = ""
    """``+`` for a key that the configuration does not have, ``++`` for either case."""


Reach: TypeAlias = Annotated[Flag | Environment | ConfigKey | Override, Field(discriminator="kind")]


class Knob(Record):
    """A launch setting that the search may turn."""

    name: str
    reach: Reach
    values: tuple[Scalar, ...] = Field(min_length=1)
    """The values that may be tried, in their natural order."""
    default: Scalar
    """The value of the reference launch."""
    raises_memory: Literal["up", "down"] | None = None
    """Whether later values in ``values`` need more memory (``up``) or less (``down``)."""

    @model_validator(mode="after")
    def _default_is_a_value(self) -> Self:
        if not any(same_scalar(self.default, value) for value in self.values):
            raise ValueError(
                f"the default {self.default!r} of knob {self.name!r} is not one of its values "
                f"({', '.join(map(repr, self.values))})"
            )
        return self

    @model_validator(mode="after")
    def _switches_are_true_or_false(self) -> Self:
        match self.reach:
            case Flag(style="presence" | "negatable" as style):
                if not all(isinstance(value, bool) for value in self.values):
                    raise ValueError(
                        f"the knob {self.name!r} has the style {style!r} and so takes only true "
                        "and false"
                    )
            case _:
                pass
        return self


def same_scalar(left: Scalar, right: Scalar) -> bool:
    """Tell whether two knob values are the same, telling ``True`` from ``1``."""
    return type(left) is type(right) and left == right


class Surface(Record):
    """What may change: files by glob, and knobs. Everything else is protected."""

    editable: tuple[str, ...]
    """Globs of files that a patch may edit, relative to the root."""
    protected: tuple[str, ...] = ()
    """Globs of files that no patch may edit even where ``editable`` names them."""
    knobs: tuple[Knob, ...] = ()
    constraints: tuple[str, ...] = ()
    """Expressions over knob names that must hold: ``micro_batch * grad_accum == 32``."""

    @model_validator(mode="after")
    def _constraints_hold_for_the_defaults(self) -> Self:
        names = [knob.name for knob in self.knobs]
        if len(set(names)) < len(names):
            raise ValueError("two knobs share a name")
        for constraint in self.constraints:
            check_names(constraint, names)
            if not constraint_holds(constraint, self.default_knobs()):
                said = values_in_words(constraint, self.default_knobs())
                raise ValueError(
                    f"the constraint {constraint!r} is broken by the defaults ({said})"
                )
        return self

    def default_knobs(self) -> dict[str, Scalar]:
        """Give each knob's value in the reference launch."""
        return {knob.name: knob.default for knob in self.knobs}


class Workload(Record):
    """The training that must stay the same."""

    seed: int | None = None
    """The seed that the command sets, where one was found."""
    tokens_per_update: int | None = None
    """Input tokens in one update, as the witness counted them at init."""
    inputs: tuple[str, ...] = ()
    """Paths of git-ignored inputs (prepared data), relative to the root; locked by hash."""


class Window(Record):
    """Which updates are timed."""

    warmup_updates: int = Field(default=10, ge=1)
    measured_updates: int = Field(default=20, ge=2)

    @property
    def last_update(self) -> int:
        """The number of the last measured update, counting from 1."""
        return self.warmup_updates + self.measured_updates


class Objective(Record):
    """What is improved, and by how much it must be to matter."""

    metric: Literal["steady_update_s"] = "steady_update_s"
    least_effect: float = Field(default=0.03, gt=0, lt=1)
    """The smallest relative speedup worth having: 0.03 is three per cent."""


class Metric(StrEnum):
    """A quantity compared with the reference, update by update or mark by mark."""

    LOSS = "loss"
    GRAD_NORM = "grad_norm"
    UPDATE_NORM = "update_norm"
    SKETCH = "sketch"


class Numerics(Record):
    """What is compared with the reference, and which precision is allowed.

    Each dtype list is what the reference itself used, plus what the owner allows. A dtype
    is a torch name without the prefix: ``float32``, ``bfloat16``.
    """

    metrics: tuple[Metric, ...] = tuple(Metric)
    parameters: tuple[str, ...] = ("float32",)
    gradients: tuple[str, ...] = ("float32",)
    optimizer_state: tuple[str, ...] = ("float32",)
    matmul: tuple[str, ...] = ("float32",)
    """Dtypes of matmul operands in forward and backward."""
    tf32: bool = False
    """Whether float32 matmuls may run on TF32 or reduced-precision units."""


class Memory(Record):
    """How much memory a trial may use, and in which unit it is capped and measured."""

    capacity_bytes: int = Field(gt=0)
    unit: Literal["process_data", "cuda_allocated"] = "process_data"
    """``process_data``: RLIMIT_DATA against sampled VmData, the largest process.
    ``cuda_allocated``: the allocator's peak, the largest rank."""


class Task(Record):
    """The locked half of a contract."""

    command: tuple[str, ...] = Field(min_length=1)
    """The reference launch: a program and its arguments, run from ``folder``."""
    folder: str = "."
    """Where the command runs, relative to the root."""
    python: str | None = None
    """The training interpreter: a program, an environment's folder or a conda prefix, absolute or
    relative to the root. ``None``: the one that the command names, else the one that InfraRSI
    runs under."""
    workload: Workload = Workload()
    window: Window = Window()
    objective: Objective = Objective()
    numerics: Numerics = Numerics()
    surface: Surface
    memory: Memory
