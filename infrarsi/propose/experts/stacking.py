"""Experts of one make, applied together: their layers as batched matrix products."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import libcst as cst

from infrarsi.propose.experts.inserted import all_at_once_text, arguments, call_text, define
from infrarsi.propose.experts.values import Dispatch
from infrarsi.propose.recipe import DoesNotApply
from infrarsi.propose.repository import Class, Repository
from infrarsi.propose.rewrite import Rewrite
from infrarsi.propose.source import Source, argument, keywords, literal, method_call

_ACTIVATIONS = frozenset(
    {"SiLU", "GELU", "ReLU", "Tanh", "Sigmoid", "Mish", "ELU", "ReLU6", "LeakyReLU", "Hardswish",
     "Softplus", "SELU", "CELU", "QuickGELU"}
)  # fmt: skip
_ELEMENTWISE = frozenset(
    {"silu", "gelu", "relu", "tanh", "sigmoid", "mish", "elu", "relu6", "leaky_relu", "hardswish",
     "softplus", "selu", "celu", "square", "exp"}
)  # fmt: skip
_METHODS = frozenset({"square", "pow", "relu", "sigmoid", "tanh", "chunk", "contiguous"})
_WRAPPED = re.compile(
    r"\b(FSDP|FullyShardedDataParallel|fully_shard|deepspeed|register_forward\w*|parametrize)\b"
)

_LAYER = '''
def linear_of_each(rows, layers):
    """Apply each linear layer to its own rows: one batched product for all of them."""
    weight = {torch}.stack([layer.weight for layer in layers]).transpose(1, 2)
    if layers[0].bias is None:
        return {torch}.bmm(rows, weight)
    bias = {torch}.stack([layer.bias for layer in layers]).unsqueeze(1)
    return {torch}.baddbmm(bias, rows, weight)
'''


@dataclass
class Together:
    """The statements that apply all experts at once, as they are translated."""

    steps: list[str] = field(default_factory=list)
    dropouts: list[str] = field(default_factory=list)
    """Paths, within an expert, of layers that drop at random."""


def all_at_once(repository: Repository, rewrite: Rewrite, found: Dispatch) -> str:
    """Give the statements that run all experts together, on sorted tokens.

    Raises
    ------
    DoesNotApply
        The experts are not made alike, or do what batched products cannot.
    """
    for source in repository.sources:
        if match := _WRAPPED.search(source.text):
            raise DoesNotApply(f"{match[0]} may need each expert to run by itself")
    held, made, where = _construction(repository, rewrite.source, found)
    together = Together()
    result = Translation(repository, together).module(where, made, "", "rows")
    define(rewrite, found, _LAYER)
    define(rewrite, found, all_at_once_text())
    body = "".join(f"    {step}\n" for step in together.steps)
    before = f"def all_experts(experts, rows):\n{body}    return {result}\n\n"
    number, rows = found.number, found.rows
    parts = [found.out, f"lambda {number}, {rows}: {found.code.text}", *arguments(found)]
    parts += [f"layers=[{held}[{number}] for {number} in {found.experts}]", "together=all_experts"]
    if together.dropouts:
        alone = " or ".join(
            f"({held}[0]{path}.p > 0 and {held}[0]{path}.training)" for path in together.dropouts
        )
        parts.append(f"alone={alone}")
    return before + call_text(parts)


def _construction(
    repository: Repository, source: Source, found: Dispatch
) -> tuple[str, cst.Call, Source]:
    """Give the list of experts, the call that makes one of them, and the file of that call."""
    # What is put in place is cast to the dtype of its place anyway.
    cast = rf"(\.to\({re.escape(found.out)}\.dtype\))?" if found.weights is None else ""
    pattern = re.fullmatch(
        rf"\(?(self\.\w+)\[{re.escape(found.number)}\]\)?\({re.escape(found.rows)}\){cast}",
        found.code.text,
    )
    if found.steps or pattern is None:
        raise DoesNotApply("the experts are not modules in a list, run on their tokens alone")
    held = pattern[1]
    owner = repository.class_around(source, found.loop)
    spots = repository.attribute(owner, held.removeprefix("self.")) if owner else []
    if len(spots) != 1 or not isinstance(spots[0].node, cst.Call):
        raise DoesNotApply(f"how {held} is made cannot be seen")
    where, listed = spots[0].source, spots[0].node
    if where.qualified(listed.func) != "torch.nn.ModuleList" or len(listed.args) != 1:
        raise DoesNotApply(f"{held} is no plain list of modules")
    match listed.args[0].value:
        case cst.ListComp(elt=cst.Call() as made) | cst.GeneratorExp(elt=cst.Call() as made):
            return held, made, where
    raise DoesNotApply(f"the modules in {held} may differ from one another")


class Translation:
    """Writes the forward of one expert down for all of them at once."""

    def __init__(self, repository: Repository, together: Together) -> None:
        self.repository, self.together = repository, together

    def module(self, source: Source, made: cst.Call, path: str, rows: str) -> str:
        """Give the code that applies a module, of which the construction is at hand."""
        full = source.qualified(made.func) or ""
        kind = full.removeprefix("torch.nn.").removeprefix("modules.")
        if full == "torch.nn.Linear":
            return f"linear_of_each({rows}, [each{path} for each in experts])"
        if full.startswith("torch.nn.") and kind in _ACTIVATIONS:
            return f"experts[0]{path}({rows})"
        if full == "torch.nn.Dropout":
            self.together.dropouts.append(path)
            return rows
        if full == "torch.nn.Identity":
            return rows
        if full == "torch.nn.Sequential":
            for position, each in enumerate(made.args):
                if not isinstance(each.value, cst.Call) or each.star:
                    raise DoesNotApply("what an expert's Sequential holds cannot be seen")
                rows = self.module(source, each.value, f"{path}[{position}]", rows)
            return rows
        cls = self.repository.class_named(full)
        if cls is None or path:
            raise DoesNotApply(f"an expert is made of {full or 'something'}, not of linear layers")
        return self._forward(cls, rows)

    def _forward(self, cls: Class, rows: str) -> str:
        forward = cls.method("forward")
        names = [each.name.value for each in forward.params.params] if forward else []
        if forward is None or len(names) != 2 or not self.repository.is_module(cls):
            raise DoesNotApply(f"{cls.name}.forward takes more than its rows")
        if names[1] != rows:
            self.together.steps.append(f"{names[1]} = {rows}")
        for statement in forward.body.body:
            match statement:
                case cst.SimpleStatementLine(body=[cst.Expr(value=cst.SimpleString())]):
                    continue
                case cst.SimpleStatementLine(
                    body=[cst.Assign(targets=[cst.AssignTarget(target=target)], value=value)]
                ) if isinstance(target, cst.Name | cst.Tuple):
                    text = cls.source.code(target)
                    if "experts" in text or "self" in text:
                        break
                    self.together.steps.append(f"{text} = {self._expression(cls, value)}")
                case cst.SimpleStatementLine(body=[cst.Return(value=value)]) if value is not None:
                    return self._expression(cls, value)
                case _:
                    break
        raise DoesNotApply(f"{cls.name}.forward does more than apply its layers")

    def _expression(self, cls: Class, node: cst.BaseExpression) -> str:
        source = cls.source
        if isinstance(literal(node), int | float):
            return source.code(node)
        match node:
            case cst.Name(value=name) if name not in {"experts", "self"}:
                return name
            case cst.BinaryOperation(left=left, operator=operator, right=right) if isinstance(
                operator, cst.Add | cst.Subtract | cst.Multiply | cst.Divide | cst.Power
            ):
                sign = source.module.code_for_node(operator)
                return f"({self._expression(cls, left)}{sign}{self._expression(cls, right)})"
            case cst.Call():
                return self._call(cls, node)
        raise DoesNotApply(f"{cls.name}.forward does more than apply its layers")

    def _call(self, cls: Class, call: cst.Call) -> str:
        source = cls.source
        full = source.qualified(call.func) or ""
        name = full.rpartition(".")[2]
        first = argument(call, 0)
        if full.startswith("self.") and full.count(".") == 1 and len(call.args) == 1 and first:
            rows = self._expression(cls, first)
            return self._attribute(cls, name, rows)
        options = all(literal(each.value) is not ... for each in call.args[1:])
        if full.startswith("torch.") and name in _ELEMENTWISE and first is not None and options:
            if literal(keywords(call).get("inplace")) is True:
                raise DoesNotApply(f"{cls.name}.forward changes a tensor in place")
            return self._with_options(cls, call, source.code(call.func), first)
        found = method_call(call)
        if found and found[1] in _METHODS and all(
            literal(each.value) is not ... for each in call.args
        ):  # fmt: skip
            axis = argument(call, 1, "dim")
            if found[1] != "chunk" or literal(axis) == -1:
                given = source.code(call)[len(source.code(call.func)) :]
                return f"{self._expression(cls, found[0])}.{found[1]}{given}"
        raise DoesNotApply(f"{cls.name}.forward does more than apply its layers")

    def _with_options(
        self, cls: Class, call: cst.Call, func: str, first: cst.BaseExpression
    ) -> str:
        rest = "".join(
            f", {each.keyword.value + '=' if each.keyword else ''}{cls.source.code(each.value)}"
            for each in call.args[1:]
        )
        return f"{func}({self._expression(cls, first)}{rest})"

    def _attribute(self, cls: Class, name: str, rows: str) -> str:
        spots = self.repository.attribute(cls, name)
        if len(spots) != 1:
            raise DoesNotApply(f"what {cls.name}.{name} is cannot be seen")
        made, where = spots[0].node, spots[0].source
        if isinstance(made, cst.Call):
            return self.module(where, made, f".{name}", rows)
        full = where.qualified(made) or ""
        if full.startswith("torch.") and full.rpartition(".")[2] in _ELEMENTWISE:
            return f"experts[0].{name}({rows})"
        raise DoesNotApply(f"what {cls.name}.{name} is cannot be seen")
