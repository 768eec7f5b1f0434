"""How a source sets what varies with the number of the update: learning rates above all."""

from __future__ import annotations

import ast
import re
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

from infrarsi.judge.audit_rules import STEP_NAMES
from infrarsi.judge.syntax import parse_leniently

_OF_TRAINING = re.compile(
    r"(^|_)(lr|lrs|learning_?rates?|warm_?up|anneal|annealing|cosine|cooldown|decay)(_|$)|sched"
)
_OF_WORK = re.compile(r"pipe|(^|_)pp(_|$)|overlap|comm|prefetch|stream|kernel|recompute|offload")
"""Schedules of work, not of what is learnt: to change them is what speedups are made of."""
_QUANTITIES = re.compile(
    r"(^|_)(lr|learning_?rate|weight_?decay|wd|momentum|dropout|betas?|grad_?clip|temperature)"
    r"(_|$)|warm_?up|progress$"
)
_SETTINGS = re.compile(
    r"warm_?up|(^|_)(min_|max_)?lr(_|$)|learning_?rate|lr_?sched|decay_?(steps|iter)"
)
_SCHEDULERS = {
    "LambdaLR", "MultiplicativeLR", "StepLR", "MultiStepLR", "ConstantLR", "LinearLR",
    "ExponentialLR", "PolynomialLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts",
    "OneCycleLR", "CyclicLR", "SequentialLR", "ChainedScheduler", "ReduceLROnPlateau",
}  # fmt: skip


@dataclass(frozen=True)
class Setting:
    """One place that says how something varies with the updates made."""

    name: str
    meaning: str
    """Its syntax tree, so that comments and layout do not count."""
    line: int


def changed_schedules(before: str, after: str) -> list[Setting]:
    """Give what stands in one text and not in the other, in the order of the later text.

    What varies with the number of the update shows itself in the window only as far as the
    window goes: a learning rate that is right all through its warm-up says nothing of what comes
    next, and no optimisation needs to touch it.
    """
    old, new = _settings(before), _settings(after)
    spare = Counter((each.name, each.meaning) for each in old)
    spare.subtract((each.name, each.meaning) for each in new)
    found = [each for each in new if spare[(each.name, each.meaning)] < 0]
    told = {each.name for each in found}
    lost = [each for each in old if spare[(each.name, each.meaning)] > 0]
    return found + [each for each in lost if each.name not in told]


@lru_cache(maxsize=512)
def _settings(text: str) -> tuple[Setting, ...]:
    """Read a text; the same ones come again with launch after launch."""
    read = parse_leniently(text)
    if read is None:
        return ()
    finder = _Finder()
    finder.visit(read[0])
    return tuple(finder.found)


class _Finder(ast.NodeVisitor):
    """Collects the settings of one text."""

    def __init__(self) -> None:
        self.found: list[Setting] = []
        self._counts = set(STEP_NAMES)

    def _keep(self, name: str, meaning: ast.AST) -> None:
        line = getattr(meaning, "lineno", 0)
        self.found.append(Setting(name, ast.dump(meaning), line))

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        bases = [each for each in (node.name, *map(_last_name, node.bases)) if each]
        # An optimizer's own arithmetic counts its updates too, and every update shows it.
        if not any("optim" in each.lower() or each.startswith("Adam") for each in bases):
            self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        outside = self._counts
        self._counts = outside | _derived_from_counts(node, outside)
        if _OF_TRAINING.search(node.name) and not _OF_WORK.search(node.name):
            for statement in node.body:
                if not _is_docstring(statement):
                    self._keep(node.name, statement)
        else:
            self.generic_visit(node)
        self._counts = outside

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            self._read_assignment(target, node.value)
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._read_assignment(node.target, node.value)
        self.generic_visit(node)

    def _read_assignment(self, target: ast.AST, value: ast.AST) -> None:
        name = _target_name(target)
        reckons = any(
            isinstance(each, ast.BinOp | ast.Call | ast.IfExp) for each in ast.walk(value)
        )
        if name and _QUANTITIES.search(name.lower()) and reckons and self._counts & _names(value):
            self._keep(name, value)

    def visit_Call(self, node: ast.Call) -> None:
        name = _last_name(node.func) or ""
        if name in _SCHEDULERS or re.fullmatch(r"get_\w*schedule\w*", name):
            self._keep(name, node)
        for each in node.keywords:
            if each.arg and re.fullmatch(r"warmup_\w+|lr_scheduler\w*|lr_lambda", each.arg):
                self._keep(each.arg, each.value)
        first = node.args[0] if node.args else None
        if isinstance(first, ast.Constant) and isinstance(first.value, str):
            option = first.value.lstrip("-").replace("-", "_")
            if first.value.startswith("--") and _SETTINGS.search(option):
                self._keep(first.value, node)
        self.generic_visit(node)


def _derived_from_counts(function: ast.FunctionDef, counts: set[str]) -> set[str]:
    """Give the local names that are reckoned from the number of the update."""
    known = set(counts)
    assignments = [each for each in ast.walk(function) if isinstance(each, ast.Assign)]
    for _ in assignments:
        more = {
            target.id
            for each in assignments
            for target in each.targets
            if isinstance(target, ast.Name) and known & _names(each.value)
        }
        if more <= known:
            break
        known |= more
    return known


def _names(node: ast.AST) -> set[str]:
    found = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    return found | {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}


def _last_name(node: ast.AST) -> str | None:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return None


def _target_name(target: ast.AST) -> str | None:
    match target:
        case ast.Subscript(slice=ast.Constant(value=str() as name)):
            return name
    return _last_name(target)


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
