"""Where a program trains: its loops, its model, its loss.

Only codemods import this module (it loads libcst).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import libcst as cst

from infrarsi.propose.flow import binds, stores
from infrarsi.propose.repository import Class, Repository
from infrarsi.propose.source import Source, dotted, method_call, sole, walk


def backward_calls(source: Source) -> list[cst.Call]:
    """Give the calls that start a backward pass."""
    return [
        call
        for call in source.every(cst.Call)
        if (found := method_call(call)) and found[1] in {"backward", "manual_backward"}
    ]


@lru_cache(maxsize=64)
def training_functions(repository: Repository) -> frozenset[str]:
    """Give the names of functions that run a backward pass, directly or through another."""
    found: set[str] = set()
    while True:
        before = len(found)
        for source in repository.sources:
            starts = [*backward_calls(source)]
            starts += [
                call for call in source.every(cst.Call)
                if (dotted(call.func) or "").rpartition(".")[2] in found
            ]  # fmt: skip
            for call in starts:
                function = source.nearest(call, cst.FunctionDef)
                # A custom gradient is a backward pass of its own, and no training.
                if function is not None and function.name.value not in {"backward", "main"}:
                    found.add(function.name.value)
        if len(found) == before:
            return frozenset(found)


def training_loops(repository: Repository, source: Source) -> list[cst.For | cst.While]:
    """Give the outermost loops in which training happens, one update or more a round."""
    functions = training_functions(repository)
    calls = [*backward_calls(source)]
    calls += [
        call for call in source.every(cst.Call)
        if (dotted(call.func) or "").rpartition(".")[2] in functions
        and source.scope(call) is not None
    ]  # fmt: skip
    loops: dict[cst.For | cst.While, None] = {}
    for call in calls:
        outermost = None
        for each in source.ancestors(call):
            if isinstance(each, cst.For | cst.While):
                outermost = each
            if isinstance(each, cst.FunctionDef | cst.ClassDef):
                break
        if outermost is not None:
            loops[outermost] = None
    return list(loops)


def root_models(repository: Repository) -> list[Class]:
    """Give the module classes that are built outside other modules: whole models."""
    built_inside: set[str] = set()
    built_outside: set[str] = set()
    for source in repository.sources:
        for call in source.every(cst.Call):
            name = (dotted(call.func) or "").split(".")
            owner = repository.class_around(source, call)
            inside = owner is not None and repository.is_module(owner)
            for part in name:
                if part in repository.classes and not (inside and owner and owner.name == part):
                    (built_inside if inside else built_outside).add(part)
    return [
        each
        for name in sorted(built_outside - built_inside)
        if (each := repository.class_named(name)) is not None and repository.is_module(each)
    ]


@dataclass(frozen=True)
class Build:
    """The statement that builds the model which is trained, and the name that it gives it."""

    source: Source
    statement: cst.CSTNode
    name: str
    cls: Class


def model_builds(repository: Repository) -> list[Build]:
    """Give every plain assignment of a whole model to a name."""
    found = []
    for cls in root_models(repository):
        for source in repository.sources:
            for statement in source.every(cst.SimpleStatementLine):
                small = sole(statement)
                if not isinstance(small, cst.Assign) or len(small.targets) != 1:
                    continue
                target = small.targets[0].target
                makes = any(
                    isinstance(node, cst.Call) and cls.name in (dotted(node.func) or "").split(".")
                    for node in walk(small.value)
                )
                if makes and isinstance(target, cst.Name):
                    found.append(Build(source, statement, target.value, cls))
    return found


def after_branches(builds: list[Build]) -> Build:
    """Give one build for several branches that build the same model: the statement around all."""
    first = builds[0]
    for around in (first.statement, *first.source.ancestors(first.statement)):
        inside = set(walk(around))
        is_whole = isinstance(first.source.parents.get(around), cst.Module | cst.IndentedBlock)
        nested = isinstance(first.source.parents.get(around), cst.If)
        if is_whole and not nested and all(each.statement in inside for each in builds):
            return Build(first.source, around, first.name, first.cls)
    return first


def last_rebinding(build: Build) -> cst.CSTNode:
    """Give the last statement of the build's block that still prepares the bare model.

    That is the run of ``model = model.to(...)``, ``model.cuda()``, ``model.train()`` and
    loads of a state that follow the build, up to the first statement that wraps it.
    """
    block = list(build.source.block(build.statement))
    last: cst.CSTNode = build.statement
    for statement in block[block.index(build.statement) + 1 :]:
        if isinstance(statement, cst.SimpleStatementLine) and _moves(statement, build.name):
            last = statement
        elif binds(statement, build.name):
            break
    return last


_MOVES = frozenset(
    {"to", "cuda", "cpu", "double", "float", "bfloat16", "half", "load_state_dict", "apply",
     "requires_grad_", "tie_weights", "init_weights", "crop_block_size"}
)  # fmt: skip


def _moves(statement: cst.SimpleStatementLine, name: str) -> bool:
    match sole(statement):
        case cst.Expr(value=value) | cst.Assign(value=value):
            if isinstance(value, cst.Await):
                return False
        case _:
            return False
    found = method_call(value)
    others = {each.value for each in stores(statement)} - {name}
    return found is not None and dotted(found[0]) == name and found[1] in _MOVES and not others
