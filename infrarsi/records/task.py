"""The Task: what is locked. Nothing in here may change between the lock and the report."""

from __future__ import annotations

import ast
import operator
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from infrarsi.records.base import Record, Scalar


class Flag(Record):
    """A knob that reaches the program as a command-line flag."""

    kind: Literal["flag"] = "flag"
    flag: str
    """The flag as typed, dashes included: ``--lr``."""
    style: Literal["space", "equals", "presence", "negatable"] = "space"
    """``--x V``; ``--x=V``; present when true; or ``--x`` against its negation."""
    negation: str | None = None
    """The flag that says no, for ``negatable``: ``--no-x``."""


class Environment(Record):
    """A knob that reaches the program as an environment variable."""

    kind: Literal["environment"] = "environment"
    variable: str


class ConfigKey(Record):
    """A knob that reaches the program as a key in a YAML, TOML or JSON file."""

    kind: Literal["config"] = "config"
    file: str
    """Path of the file, relative to the repository's root."""
    key: str
    """The key, dotted for nested tables: ``train.micro_batch``."""


Reach: TypeAlias = Annotated[Flag | Environment | ConfigKey, Field(discriminator="kind")]


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
            raise ValueError(f"the default of knob {self.name!r} is not one of its values")
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
            if not constraint_holds(constraint, self.default_knobs()):
                raise ValueError(f"the constraint {constraint!r} is broken by the defaults")
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
    """The training interpreter. ``None``: the one that InfraRSI runs under, whenever the
    command's program is ``python`` or ``python3``."""
    workload: Workload = Workload()
    window: Window = Window()
    objective: Objective = Objective()
    numerics: Numerics = Numerics()
    surface: Surface
    memory: Memory


_OPERATORS: dict[type[ast.AST], Any] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Not: operator.not_, ast.USub: operator.neg,
}  # fmt: skip


def constraint_holds(expression: str, knobs: Mapping[str, Scalar]) -> bool:
    """Tell whether a constraint between knobs holds for these values.

    The expression may use knob names, literals, arithmetic, comparisons, ``and``, ``or``
    and ``not``; nothing is executed.

    Raises
    ------
    ValueError
        The expression uses anything else, or a name that is no knob.
    """

    def value_of(node: ast.AST) -> Any:
        match node:
            case ast.Constant(value=bool() | int() | float() | str() | None as literal):
                return literal
            case ast.Name(id=name) if name in knobs:
                return knobs[name]
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                return _OPERATORS[type(op)](value_of(left), value_of(right))
            case ast.UnaryOp(op=op, operand=operand) if type(op) in _OPERATORS:
                return _OPERATORS[type(op)](value_of(operand))
            case ast.BoolOp(op=ast.And(), values=values):
                return all(value_of(each) for each in values)
            case ast.BoolOp(op=ast.Or(), values=values):
                return any(value_of(each) for each in values)
            case ast.Compare(left=left, ops=ops, comparators=rights):
                terms = [value_of(each) for each in (left, *rights)]
                return all(_OPERATORS[type(op)](terms[i], terms[i + 1]) for i, op in enumerate(ops))
            case _:
                raise ValueError(
                    f"cannot read {ast.unparse(node)!r} in the constraint {expression!r}; "
                    "it may use knob names, numbers, arithmetic and comparisons"
                )

    try:
        return bool(value_of(ast.parse(expression, mode="eval").body))
    except (SyntaxError, KeyError, TypeError, ZeroDivisionError) as error:
        raise ValueError(f"cannot evaluate the constraint {expression!r}: {error}") from error
