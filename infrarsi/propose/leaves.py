"""Expressions that are made of nothing but sizes, devices, dtypes and constants.

Only codemods import this module (it loads libcst).
"""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from infrarsi.propose.constants import is_constant_buffer
from infrarsi.propose.flow import definition
from infrarsi.propose.repository import Repository
from infrarsi.propose.sizes import SizeReader
from infrarsi.propose.source import Source, argument, children_of, dotted, literal, method_call

_MAKES = frozenset(
    {"arange", "ones", "zeros", "full", "tril", "triu", "linspace", "eye", "tril_indices",
     "triu_indices"}
)  # fmt: skip
_SHAPES = frozenset(
    {"outer", "cos", "sin", "exp", "log", "pow", "sqrt", "cat", "stack", "where", "polar", "einsum",
     "repeat_interleave", "logical_not", "logical_and", "logical_or", "ones_like", "zeros_like",
     "full_like", "concat", "ger", "view_as_complex", "view_as_real", "reciprocal", "flip",
     "meshgrid", "abs", "clamp", "minimum", "maximum", "unsqueeze", "le", "lt", "ge", "gt", "eq"}
)  # fmt: skip
_TAKES_NUMBERS = frozenset(
    {"pow", "where", "full_like", "clamp", "repeat_interleave", "log", "sqrt", "unsqueeze",
     "le", "lt", "ge", "gt", "eq"}
)  # fmt: skip
_LIKE = frozenset({"ones_like", "zeros_like", "full_like"})
_NEW = frozenset({"new_ones", "new_zeros", "new_full"})
_METHODS = frozenset(
    {"view", "reshape", "unsqueeze", "squeeze", "expand", "to", "float", "bool", "type", "long",
     "int", "half", "bfloat16", "double", "repeat", "repeat_interleave", "tril", "triu", "cos",
     "sin", "exp", "flatten", "transpose", "permute", "t", "masked_fill", "logical_not",
     "contiguous", "chunk", "pow", "log", "neg", "abs", "clamp", "eq", "ne", "lt", "gt", "le", "ge",
     "type_as"}
)  # fmt: skip
_HOLDERS = (
    cst.BaseExpression, cst.BaseSlice, cst.SubscriptElement, cst.Element, cst.ComparisonTarget
)  # fmt: skip


@dataclass(frozen=True)
class Table:
    """An expression that builds a table, and what the table depends on."""

    statement: cst.CSTNode
    name: str
    value: cst.BaseExpression
    scalars: tuple[str, ...]
    buffers: tuple[str, ...]
    is_mask: bool


@dataclass
class Leaves:
    """What an expression was found to be made of."""

    scalars: dict[str, None]
    buffers: dict[str, None]
    makes: bool = False

    def __post_init__(self) -> None:
        self.inputs: list[Table] = []
        self.called: list[cst.FunctionDef] = []


class LeafReader(SizeReader):
    """Reads the expressions of one function."""

    def __init__(
        self,
        repository: Repository,
        source: Source,
        function: cst.FunctionDef,
        *,
        given: bool = False,
        depth: int = 4,
    ) -> None:
        super().__init__(repository, source, function, given=given, depth=depth)
        self.known: dict[cst.CSTNode, Table] = {}

    def reads(self, node: cst.CSTNode, at: cst.CSTNode, state: Leaves) -> bool:
        """Tell whether an expression is made of sizes and constants; note which."""
        if literal(node) is not ...:
            return True
        if isinstance(node, cst.Attribute) and self._attribute(node, at, state):
            return True
        if self.is_scalar(node, at):
            state.scalars[self.source.code(node)] = None
            return True
        match node:
            case cst.Call():
                return self._call(node, at, state)
            case cst.Name():
                return self._name(node, at, state)
            case cst.Attribute(attr=cst.Name(value="T" | "mT"), value=value):
                return self.reads(value, at, state)
            case cst.Attribute(attr=cst.Name(value="min" | "max"), value=cst.Call() as call):
                return self._is_limit(call, at, state)
            case (
                cst.Attribute()
                | cst.Lambda()
                | cst.ListComp()
                | cst.GeneratorExp()
                | cst.IfExp()
                | cst.Await()
            ):
                return False
            case cst.Subscript(value=value) if self.is_scalar(value, at):
                return False  # what can be indexed is no number, whatever its name
        children = [
            each for each in children_of(node)
            if isinstance(each, _HOLDERS)
        ]  # fmt: skip
        return all(self.reads(each, at, state) for each in children)

    def _is_limit(self, call: cst.Call, at: cst.CSTNode, state: Leaves) -> bool:
        limits = self.source.qualified(call.func) in {"torch.finfo", "torch.iinfo"}
        return limits and all(self.reads(each.value, at, state) for each in call.args)

    def _call(self, call: cst.Call, at: cst.CSTNode, state: Leaves) -> bool:
        full = self.source.qualified(call.func) or ""
        arguments = [each.value for each in call.args if not each.star]
        if len(arguments) != len(call.args):
            return False
        if full.startswith(("math.", "float", "int", "max", "min", "len")):
            return all(self.reads(each, at, state) for each in arguments)
        if full.startswith("torch.") and full.count(".") == 1:
            return self._of_torch(full.removeprefix("torch."), call, at, state)
        called = self._function_called(call)
        if called is not None:
            return self._of_function(called, call, at, state)
        found = method_call(call)
        if found is None or self.is_scalar(found[0], at):
            return False
        receiver, name, _ = found
        if name in _NEW and not self._is_table(receiver, at):
            return self._like(receiver, state, shape=False) and all(
                self.reads(each, at, state) for each in arguments
            )
        if name not in _METHODS or not self.reads(receiver, at, state):
            return False
        if name in {"to", "type_as"} and len(arguments) == 1:
            return self.reads(arguments[0], at, state) or self._like(
                arguments[0], state, shape=False
            )
        return all(self.reads(each, at, state) for each in arguments)

    def _of_torch(self, name: str, call: cst.Call, at: cst.CSTNode, state: Leaves) -> bool:
        arguments = [each.value for each in call.args]
        if name not in _MAKES | _SHAPES:
            return False
        if argument(call, None, "requires_grad") is not None:
            return False
        state.makes |= name in _MAKES
        if name in _LIKE and arguments and not self._is_table(arguments[0], at):
            if not self._like(arguments[0], state, shape=True):
                return False
            arguments = arguments[1:]
        elif name in _SHAPES - _TAKES_NUMBERS and any(self.is_scalar(e, at) for e in arguments):
            return False
        return all(self.reads(each, at, state) for each in arguments)

    def _is_table(self, node: cst.CSTNode, at: cst.CSTNode) -> bool:
        return self.reads(node, at, Leaves({}, {}))

    def _like(self, node: cst.BaseExpression, state: Leaves, *, shape: bool) -> bool:
        """Note that a table takes dtype and device, or shape too, from a tensor."""
        name = dotted(node)
        if name is None or literal(node) is not ...:
            return False
        first = name.partition(".")[0]
        if first in self.source.imports:
            return False
        parts = ("shape", "dtype", "device") if shape else ("dtype", "device")
        state.scalars |= {f"{name}.{part}": None for part in parts}
        state.makes = True
        return True

    def _function_called(self, call: cst.Call) -> tuple[Source, cst.FunctionDef] | None:
        """Give the function of the repository that a call runs, where its name leaves no doubt."""
        name = dotted(call.func) or ""
        if name.startswith("self.") and name.count(".") == 1:
            owner = self.repository.class_around(self.source, call)
            method = owner.method(name.removeprefix("self.")) if owner else None
            return (self.source, method) if owner and method is not None else None
        first, dot, _ = name.partition(".")
        found = self.repository.functions.get(name.rpartition(".")[2], [])
        if len(found) != 1 or (dot and first not in self.source.imports):
            return None
        source, function = found[0]
        return found[0] if source.nearest(function, cst.ClassDef) is None else None

    def _of_function(
        self,
        called: tuple[Source, cst.FunctionDef],
        call: cst.Call,
        at: cst.CSTNode,
        state: Leaves,
    ) -> bool:
        """Tell whether a function makes a table of the numbers that it is given here."""
        source, function = called
        for each in call.args:
            if literal(each.value) is ... and not self._gives_number(each.value, at, state):
                return False
        if self.depth == 0 or function is self.function:
            return False
        inner = made_by(self.repository, source, function, depth=self.depth - 1)
        if inner is None:
            return False
        state.scalars |= dict.fromkeys(name for name in inner.scalars if name.startswith("self."))
        state.buffers |= inner.buffers
        state.called += [function, *inner.called]
        state.makes = True
        return True

    def _gives_number(self, node: cst.BaseExpression, at: cst.CSTNode, state: Leaves) -> bool:
        trial = Leaves({}, {})
        if not self.reads(node, at, trial) or trial.makes or trial.buffers:
            return False
        state.scalars |= trial.scalars
        return True

    def _name(self, node: cst.Name, at: cst.CSTNode, state: Leaves) -> bool:
        above = definition(self.source, node.value, at)
        table = self.known.get(above.statement) if above is not None else None
        if table is None:
            return False
        state.scalars |= dict.fromkeys(table.scalars)
        state.buffers |= dict.fromkeys(table.buffers)
        state.inputs.append(table)
        state.makes = True
        return True

    def _attribute(self, node: cst.Attribute, at: cst.CSTNode, state: Leaves) -> bool:
        full = self.source.qualified(node) or ""
        if full.startswith("torch.") and full.count(".") == 1:
            return True  # a dtype
        if full in {"math.pi", "math.inf", "math.e", "math.tau"}:
            return True
        name = dotted(node) or ""
        owner = self.repository.class_around(self.source, at)
        if owner is None or not name.startswith("self.") or name.count(".") != 1:
            return False
        if not is_constant_buffer(owner, name.removeprefix("self.")):
            return False
        state.buffers[name] = None
        state.makes = True
        return True


def made_by(
    repository: Repository, source: Source, function: cst.FunctionDef, *, depth: int = 4
) -> Leaves | None:
    """Give what a function makes tables of, where it does nothing else; its parameters aside."""
    reader = LeafReader(repository, source, function, given=True, depth=depth)
    state = Leaves({}, {})
    body = function.body.body
    if function.decorators or not isinstance(function.body, cst.IndentedBlock) or not body:
        return None
    for statement in body:
        match statement:
            case cst.SimpleStatementLine(body=[cst.Expr(value=cst.SimpleString())]):
                continue
            case cst.SimpleStatementLine(
                body=[cst.Assign(targets=[cst.AssignTarget(cst.Name(value=name))], value=value)]
            ):
                inner = Leaves({}, {})
                if not reader.reads(value, statement, inner):
                    return None
                if inner.makes:
                    reader.known[statement] = Table(
                        statement, name, value, tuple(inner.scalars), tuple(inner.buffers), False
                    )
                state.called += inner.called
            case cst.SimpleStatementLine(body=[cst.Return(value=value)]) if (
                statement is body[-1] and value is not None
            ):
                return state if reader.reads(value, statement, state) and state.makes else None
            case _:
                return None
    return None
