"""Forward pass and loss go under torch.autocast; the backward pass stays outside."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass

import libcst as cst

from infrarsi.propose.flow import binds, loads
from infrarsi.propose.recipe import DoesNotApply
from infrarsi.propose.repository import Repository
from infrarsi.propose.rewrite import Rewrite
from infrarsi.propose.source import Source, dotted, method_call, read_sources, sole, walk
from infrarsi.propose.training import backward_calls, root_models

_CHOSEN = re.compile(
    r"autocast|GradScaler|\bamp\b|\.half\(\)|\.bfloat16\(\)|mixed_precision|float16|Accelerator|"
    r"deepspeed|set_default_dtype|\.double\(\)|float64"
)


def transform(sources: Mapping[str, str]) -> dict[str, str]:
    """Wrap what makes the loss of every backward pass of a training loop."""
    read = read_sources(sources)
    repository = Repository(read)
    for source in read:
        if match := _CHOSEN.search(source.text):
            raise DoesNotApply(f"{source.path} already chooses a precision ({match[0]})")
    held = {name for cls in root_models(repository) for name in repository.holders(cls.name)}
    if not held:
        raise DoesNotApply("no model of the sources' own classes is built in them")
    passing_on = _passing_on(repository, held)
    changed, reasons = {}, []
    for source in read:
        rewrite, found = Rewrite(source), 0
        for call in backward_calls(source):
            function = source.nearest(call, cst.FunctionDef)
            if function is not None and function.name.value == "backward":
                continue
            try:
                _wrap(source, rewrite, call, _Callees(held, passing_on))
                found += 1
            except DoesNotApply as answer:
                reasons.append(f"{answer.because} ({source.path}, line {source.line(call)})")
        if found:
            changed[source.path] = rewrite.text()
    if reasons or not changed:
        # Half of the updates in another precision would be worse than none.
        raise DoesNotApply("; ".join(reasons) or "no backward pass stands in the sources")
    return changed


@dataclass(frozen=True)
class _Callees:
    """Names that may hold the model, and names of functions that call it."""

    models: set[str]
    passing_on: set[str]


def _passing_on(repository: Repository, held: set[str]) -> set[str]:
    """Give the names of the functions that call the model, directly or through another."""
    found: set[str] = set()
    while True:
        before = len(found)
        for source in repository.sources:
            for call in source.every(cst.Call):
                function = source.nearest(call, cst.FunctionDef)
                owner = repository.class_around(source, call)
                inside = owner is not None and repository.is_module(owner)
                if function is not None and not inside and _callee(call) in held | found:
                    found.add(function.name.value)
        if len(found) == before:
            return found - held


def _wrap(source: Source, rewrite: Rewrite, call: cst.Call, callees: _Callees) -> None:
    found = method_call(call)
    assert found is not None
    loss = found[0]
    while (scaled := method_call(loss)) and scaled[1] in {"mean", "sum", "div"}:
        loss = scaled[0]
    names = {each.value for each in loads(loss)} - {"self"}
    names |= {
        name for node in walk(loss) if isinstance(node, cst.Attribute) and (name := dotted(node))
    }
    if not names or isinstance(loss, cst.Call):
        raise DoesNotApply("the loss is made in the statement that calls its backward")
    statement = source.statement(call)
    block = list(source.block(statement))
    end = block.index(statement)
    makers = [n for n in range(end) if any(_gives(block[n], name) for name in names)]
    forwards = [n for n in range(end) if _calls_model(block[n], callees)]
    if not forwards:
        raise DoesNotApply("the model is not called in the block of the backward pass")
    first = forwards[-1]
    if not makers or makers[-1] < first:
        raise DoesNotApply("the loss of the backward pass does not come from the model's call")
    while first - 1 in forwards:
        first -= 1
    wrapped = block[first : makers[-1] + 1]
    for each in wrapped:
        if not isinstance(each, cst.SimpleStatementLine) or sole(each) is None:
            raise DoesNotApply("between the model's call and the loss stands more than assignments")
        if _steps(each):
            raise DoesNotApply(
                "between the model's call and the loss stands a step of the optimizer"
            )
    torch_name = rewrite.name_for("torch.autocast")
    dtype = rewrite.name_for("torch.bfloat16")
    inside = "\n".join(_with_comments(source, each, number) for number, each in enumerate(wrapped))
    device = _device(source, wrapped, callees)
    opening = f"with {torch_name}(device_type={device}, dtype={dtype}):"
    rewrite.put_statements(wrapped[0], f"{opening}\n{textwrap.indent(inside, '    ')}")
    for each in wrapped[1:]:
        rewrite.remove(each)


def _steps(statement: cst.CSTNode) -> bool:
    """Tell whether a statement does a part of the update that autocast must not hold."""
    calls = (method_call(node) for node in walk(statement))
    return any(each is not None and each[1] in {"step", "zero_grad", "backward"} for each in calls)


def _gives(statement: cst.CSTNode, name: str) -> bool:
    """Tell whether a statement gives a name, or an attribute like ``self.loss``, its value."""
    if "." not in name:
        return binds(statement, name)
    return any(
        dotted(node) == name
        for target in walk(statement)
        if isinstance(target, cst.AssignTarget)
        for node in walk(target)
    )


def _with_comments(source: Source, statement: cst.CSTNode, number: int) -> str:
    leading = getattr(statement, "leading_lines", ()) if number else ()
    comments = [line.comment.value for line in leading if line.comment is not None]
    return "\n".join([*comments, textwrap.dedent(source.code(statement))])


def _calls_model(statement: cst.CSTNode, callees: _Callees) -> bool:
    if not isinstance(statement, cst.SimpleStatementLine):
        return False
    wanted = callees.models | callees.passing_on
    return any(isinstance(node, cst.Call) and _callee(node) in wanted for node in walk(statement))


def _callee(call: cst.Call) -> str | None:
    match call.func:
        case cst.Name(value=name) | cst.Attribute(attr=cst.Name(value=name)):
            return name
    return None


def _device(source: Source, wrapped: list[cst.CSTNode], callees: _Callees) -> str:
    """Give an expression for the device type: of the model's input, or of its parameters."""
    calls = [node for each in wrapped for node in walk(each) if isinstance(node, cst.Call)]
    for call in calls:
        if _callee(call) in callees.models:
            for each in call.args:
                if isinstance(each.value, cst.Name) and not each.star:
                    return f"{each.value.value}.device.type"
            return f"next({source.code(call.func)}.parameters()).device.type"
    for call in calls:
        for each in call.args if _callee(call) in callees.passing_on else ():
            name = dotted(each.value)
            if name and name.rpartition(".")[2] in callees.models:
                return f"next({name}.parameters()).device.type"
    raise DoesNotApply("the device of the model cannot be told where its loss is made")
