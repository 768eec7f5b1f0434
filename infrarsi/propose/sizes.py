"""Numbers that a forward pass knows before it computes: sizes, settings, devices, dtypes.

Only codemods import this module (it loads libcst).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from infrarsi.propose.constants import is_plain
from infrarsi.propose.flow import binds, only_value
from infrarsi.propose.repository import Repository, passed
from infrarsi.propose.source import Source, dotted, literal


class SizeReader:
    """Tells which expressions of one function are such numbers."""

    def __init__(
        self,
        repository: Repository,
        source: Source,
        function: cst.FunctionDef,
        *,
        given: bool = False,
        depth: int = 4,
    ) -> None:
        self.repository, self.source, self.function = repository, source, function
        self.given = given
        """Whether the function's parameters are taken for numbers: its caller vouches for them."""
        self.depth = depth

    def is_scalar(self, node: cst.CSTNode, at: cst.CSTNode, depth: int = 6) -> bool:
        """Tell whether an expression is a size, a device or a dtype for certain."""
        if depth == 0:
            return False
        match node:
            case cst.Attribute(attr=cst.Name(value="device" | "dtype")):
                return dotted(node) is not None
            case cst.Subscript(value=cst.Attribute(attr=cst.Name(value="shape"), value=value)):
                return dotted(value) is not None
            case cst.Call(func=cst.Attribute(attr=cst.Name(value="size"), value=value), args=[_]):
                return dotted(value) is not None
            case cst.Name(value=name):
                return self._is_scalar_name(name, at, depth)
            case cst.BinaryOperation(left=left, right=right):
                return all(self._is_number(each, at, depth - 1) for each in (left, right))
            case cst.Attribute():
                return self._is_setting(node, at)
        return False

    def _is_number(self, node: cst.CSTNode, at: cst.CSTNode, depth: int) -> bool:
        return isinstance(literal(node), int | float) or self.is_scalar(node, at, depth)

    def _is_scalar_name(self, name: str, at: cst.CSTNode, depth: int) -> bool:
        single = only_value(self.source, name, at)
        if single is not None:
            value, statement = single
            if isinstance(literal(value), int | float):
                return True
            return self.is_scalar(value, statement, depth - 1)
        for assign in self.source.every(cst.Assign, self.function):
            for target in assign.targets:
                if isinstance(target.target, cst.Tuple) and binds(target, name):
                    return bool(
                        re.search(
                            r"\.(shape|size\(\))(\[[^]]*\])?$", self.source.code(assign.value)
                        )
                    )
        return not binds(self.function.body, name) and self._is_scalar_parameter(name, depth)

    def _is_scalar_parameter(self, name: str, depth: int) -> bool:
        for each in self.source.every(cst.Param, self.function.params):
            if each.name.value != name:
                continue
            if self.given or name in {"device", "dtype"}:
                return name != "self"
            annotation = each.annotation and self.source.code(each.annotation.annotation)
            if annotation in {"int", "float", "bool", "torch.device", "torch.dtype"}:
                return True
            return self.depth > 0 and self._callers_give_numbers(each, depth)
        return False

    def _callers_give_numbers(self, parameter: cst.Param, depth: int) -> bool:
        """Tell whether every call of the function in the repository gives a number here."""
        if parameter.default is not None and literal(parameter.default) is ...:
            return False
        calls = list(calls_of_function(self.repository, self.source, self.function))
        for source, call in calls:
            if any(each.star for each in call.args):
                return False
            value = dict(passed(call, self.function)).get(parameter.name.value)
            if value is None:
                if parameter.default is None:
                    return False
                continue
            if literal(value) is not ...:
                continue
            function = source.scope(call)
            if not isinstance(function, cst.FunctionDef):
                return False
            caller = SizeReader(self.repository, source, function, depth=self.depth - 1)
            if not caller.is_scalar(value, source.statement(call)):
                return False
        return bool(calls)

    def _is_setting(self, node: cst.Attribute, at: cst.CSTNode) -> bool:
        """Tell whether ``self.x`` is a number that the constructor takes from its settings."""
        name = dotted(node) or ""
        owner = self.repository.class_around(self.source, at)
        if owner is None or not name.startswith("self."):
            return False
        parts = name.split(".")
        if len(parts) == 3:
            return parts[1] in {"config", "cfg", "args", "hparams", "params"}
        values = owner.attribute(parts[1]) if len(parts) == 2 else []
        return bool(values) and all(is_plain(owner, value) for value in values)


def calls_of_function(
    repository: Repository, source: Source, function: cst.FunctionDef
) -> Iterator[tuple[Source, cst.Call]]:
    """Give the calls in the repository that may run a function, or a module's forward."""
    name = function.name.value
    owner = source.nearest(function, cst.ClassDef)
    if name in {"forward", "__call__"} and owner is not None:
        yield from repository.calls_of(owner.name.value)
    for each in repository.sources:
        for call in each.every(cst.Call):
            if (dotted(call.func) or "").rpartition(".")[2] == name:
                yield each, call
