"""Loops over parameters that do an optimizer's arithmetic by hand."""

from __future__ import annotations

import random
from dataclasses import dataclass

import libcst as cst

from infrarsi.propose.elementwise import OPERATIONS, Arithmetic, NotElementwise
from infrarsi.propose.flow import loads, reads, stores
from infrarsi.propose.recipe import DoesNotApply
from infrarsi.propose.rewrite import Rewrite
from infrarsi.propose.source import Source, literal, text_of, walk

from .kernels import Match, Run, find_match, switched_off

_GRADIENT = ".grad"
_ATTEMPTS = 16
_LISTS = {"p": "params", "g": "grads", "m": "exp_avgs", "v": "exp_avg_sqs", "buffer": "buffers"}


@dataclass
class Loop:
    """A loop over parameters, taken apart."""

    node: cst.For
    setup: list[cst.CSTNode]
    """Statements that fetch, test and initialise; they stay."""
    compute: list[cst.CSTNode]
    """Statements that do the arithmetic; they go."""


def fuse_loop(source: Source, rewrite: Rewrite, node: cst.For) -> bool:
    """Replace a loop's arithmetic by one kernel; say whether there was any.

    Raises
    ------
    DoesNotApply
        The loop updates parameters, but not as one of the kernels does.
    """
    loop = _taken_apart(source, node)
    if loop is None:
        return False
    match = _match(source, loop)
    _check_uses(source, loop)
    _write(source, rewrite, loop, match)
    return True


def _taken_apart(source: Source, node: cst.For) -> Loop | None:
    body = node.body
    if not _updates(source, node) or any(
        isinstance(each, cst.For | cst.While) for each in walk(body)
    ):
        return None
    if node.orelse is not None:
        raise DoesNotApply("the loop over parameters has an else")
    setup: list[cst.CSTNode] = []
    statements = list(body.body)
    # ``if p.grad is not None: ...`` around everything: look inside.
    while statements and isinstance(statements[-1], cst.If | cst.With):
        last = statements[-1]
        guards = isinstance(last, cst.With) or _GRADIENT in text_of(last.test)
        if not guards or getattr(last, "orelse", None) is not None:
            break
        setup += statements[:-1]
        statements = list(last.body.body)
    bound = {name.value for name in stores(node)}
    compute: list[cst.CSTNode] = []
    made: set[str] = set()
    for statement in statements:
        if _computes(statement, bound, made):
            compute.append(statement)
            made |= {name.value for name in stores(statement)}
        elif made & {name.value for name in loads(statement)}:
            raise DoesNotApply(f"{source.code(statement).splitlines()[0]!r} is not elementwise")
        else:
            setup.append(statement)
    return Loop(node, setup, compute)


def _updates(source: Source, node: cst.For) -> bool:
    """Tell whether a loop changes tensors in place by what it reads of gradients."""
    text = source.module.code_for_node(node.body)
    gradients = _GRADIENT in text or "grad" in text_of(node.target)
    return gradients and any(_changes_tensor(each) for each in walk(node.body))


def _changes_tensor(node: cst.CSTNode) -> bool:
    match node:
        case cst.Call(func=cst.Attribute(attr=cst.Name(value=name))):
            return name in {"add_", "sub_", "addcdiv_", "copy_", "lerp_"}
        case cst.AugAssign(target=target, value=value):
            return literal(value) is ... and (
                isinstance(target, cst.Name) or text_of(target).endswith(".data")
            )
        case cst.AssignTarget(target=cst.Attribute(attr=cst.Name(value="data"))):
            return True
    return False


def _computes(statement: cst.CSTNode, bound: set[str], made: set[str]) -> bool:
    """Tell whether a statement does arithmetic on what belongs to one parameter."""
    for node in walk(statement):
        match node:
            case cst.Call(func=cst.Attribute(attr=cst.Name(value=name))) if name.endswith("_"):
                if not name.startswith("_") and name not in {"requires_grad_"}:
                    return True
            case cst.AugAssign(value=value) if literal(value) is ...:
                return True
            case cst.AugAssign(target=cst.Name(value=name)) if name in made:
                return True
            case cst.Call(func=cst.Attribute(attr=cst.Name(value=name))) if (
                name in OPERATIONS
                and isinstance(statement, cst.SimpleStatementLine)
                and isinstance(statement.body[0], cst.Assign)
                and bound & {each.value for each in loads(node)}
            ):
                return True
            case cst.BinaryOperation() if bound & {each.value for each in loads(node)}:
                return True
    simple = isinstance(statement, cst.SimpleStatementLine)
    return simple and bool(made & {name.value for name in loads(statement)})


def _match(source: Source, loop: Loop) -> Match:
    first, scalars, counts = _tried(source, loop, 0, frozenset())
    tensors = sorted(first.updated)
    bound = _own_names(loop)
    own = {
        key for key in first.drawn
        if key not in first.updated
        and bound & {each.value for each in loads(cst.parse_expression(key))}
    }  # fmt: skip
    grads = sorted(own - set(counts), key=lambda key: (_GRADIENT not in key, key))
    uniform = [key for key in scalars if key not in own]
    runs = []
    for number, zero in enumerate(switched_off(uniform), 1):
        try:
            done, _, _ = _tried(source, loop, number, zero)
        except (ArithmeticError, ValueError):
            continue  # a beta of one, say: the loop itself could not do it
        if not done.updated <= first.updated:
            raise DoesNotApply("what the loop updates depends on its options")
        runs.append(_as_run(done, [*scalars, *own]))
    wanted = [key for key in tensors if not key.isidentifier() or key in bound]
    match = find_match(runs, grads, wanted, uniform, [*counts, *uniform]) if runs else None
    if match is None:
        raise DoesNotApply(
            f"the loop's arithmetic (line {source.line(loop.node)} of {source.path}) is not that "
            "of AdamW, Adam or SGD as torch's kernels do it"
        )
    return match


def _tried(
    source: Source, loop: Loop, number: int, zeros: frozenset[str]
) -> tuple[Arithmetic, list[str], list[str]]:
    """Do the arithmetic on the first test points that it can be done on: no root of less than 0."""
    for attempt in range(_ATTEMPTS):
        try:
            return _run(source, loop, number * _ATTEMPTS + attempt, zeros)
        except (ArithmeticError, ValueError):
            if attempt == _ATTEMPTS - 1:
                raise
    raise AssertionError("unreachable")


def _own_names(loop: Loop) -> set[str]:
    """Give the names that differ from parameter to parameter.

    What the setup takes, always and once, from names that do not differ is left out:
    ``beta1, beta2 = group["betas"]``.
    """
    bound = [name.value for name in stores(loop.node)]
    own = set(bound)
    for statement in loop.setup:
        if not isinstance(statement, cst.SimpleStatementLine):
            continue
        targets = {name.value for name in stores(statement)}
        once = all(bound.count(name) == 1 for name in targets)
        if once and not own & {name.value for name in loads(statement)}:
            own -= targets
    return own


def _run(
    source: Source, loop: Loop, seed: int, zeros: frozenset[str]
) -> tuple[Arithmetic, list[str], list[str]]:
    """Do the arithmetic once; also give the scalars, and what may count updates."""
    bound = _own_names(loop)
    counted = _counted(loop)
    names = _count_names(source, loop, counted)
    done = Arithmetic(
        source,
        random.Random(seed),
        zeros=zeros,
        counts={key: float(2 + seed % 5) for key in names},
        bound=frozenset(bound),
    )
    done.aliases.update(_aliases(loop, bound))
    try:
        for statement in loop.compute:
            done.run(statement)
    except NotElementwise as answer:
        raise DoesNotApply(
            f"the loop over parameters does more than arithmetic: {answer}"
        ) from answer
    literals = [str(each) for each in sorted(done.literals | {0.0})]
    scalars = [*(key for key in done.drawn if key not in done.updated), *literals]
    return done, scalars, [key for key in names if key in done.drawn]


def _as_run(done: Arithmetic, scalars: list[str]) -> Run:
    constants = {key: float(key) for key in scalars if key not in done.drawn and _is_float(key)}
    before = {**constants, **dict.fromkeys(scalars, 0.0), **constants, **done.drawn}
    return Run(before, {**before, **done.numbers})


def _is_float(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _counted(loop: Loop) -> set[str]:
    """Give what the loop itself counts up by one, by its text."""
    found = set()
    for statement in loop.setup:
        for node in walk(statement):
            if isinstance(node, cst.AugAssign) and literal(node.value) in (1, 1.0):
                found.add(text_of(node.target))
    return found


def _count_names(source: Source, loop: Loop, counted: set[str]) -> list[str]:
    """Give every expression that stands as an exponent, or is counted."""
    found = dict.fromkeys(sorted(counted))
    scope = source.scope(loop.node)
    for node in walk(scope):
        match node:
            case cst.BinaryOperation(operator=cst.Power(), right=power) if isinstance(
                power, cst.Name | cst.Attribute | cst.Subscript
            ):
                found[text_of(power)] = None
    return list(found)


def _aliases(loop: Loop, bound: set[str]) -> dict[str, str]:
    """Give what plain assignments of the setup call by another name."""
    aliases: dict[str, str] = {}

    def note(target: cst.CSTNode, value: cst.CSTNode) -> None:
        match target, value:
            case cst.Tuple(elements=targets), cst.Tuple(elements=values):
                for left, right in zip(targets, values, strict=False):
                    note(left.value, right.value)
            case cst.Name(value=name), cst.Attribute() | cst.Subscript():
                text = text_of(value).removesuffix(".data").replace(".grad.data", ".grad")
                own = bound & {each.value for each in loads(value)}
                if own and not (isinstance(value, cst.Subscript) and _is_state(value)):
                    aliases[name] = text

    for statement in loop.setup:
        for node in walk(statement):
            if isinstance(node, cst.Assign):
                for each in node.targets:
                    note(each.target, node.value)
    return aliases


def _is_state(value: cst.Subscript) -> bool:
    """Tell whether a subscript fetches a parameter's whole state: ``self.state[p]``."""
    return text_of(value.value).endswith("state")


def _check_uses(source: Source, loop: Loop) -> None:
    made = {name.value for statement in loop.compute for name in stores(statement)}
    within = {node for statement in loop.compute for node in walk(statement)}
    scope = source.scope(loop.node)
    for name in made - {each.value for each in stores(cst.AssignTarget(loop.node.target))}:
        if any(use not in within for use in reads(scope, name)):
            raise DoesNotApply(
                f"{name!r}, which the loop over parameters computes, is used elsewhere"
            )


def _write(source: Source, rewrite: Rewrite, loop: Loop, match: Match) -> None:
    torch_name = rewrite.name_for("torch.no_grad").removesuffix(".no_grad")
    lists = {role: f"fused_{_LISTS[role]}" for role in match.tensors}
    bound = _own_names(loop)
    step = match.scalars.get("step")
    own_step = step is not None and bool(
        bound & {each.value for each in loads(cst.parse_expression(step))}
    )
    appended = [f"{lists[role]}.append({match.tensors[role]})" for role in lists]
    if own_step:
        lists["step"] = "fused_steps"
        appended.append(f"fused_steps.append({step})")
    names = list(lists.values())
    opening = (
        f"{', '.join(names)} = {', '.join('[]' for _ in names)}"
        if len(names) > 1
        else f"{names[0]} = []"
    )
    rewrite.put_before(loop.node, opening)
    rewrite.put_statements(loop.compute[0], "\n".join(appended))
    for statement in loop.compute[1:]:
        rewrite.remove(statement)
    rewrite.put_after(loop.node, _call(torch_name, lists, match, step, own_step=own_step))


def _call(
    torch_name: str, lists: dict[str, str], match: Match, step: str | None, *, own_step: bool
) -> str:
    params = lists["p"]
    if match.kernel == "_fused_sgd_":
        buffers = lists.get("buffer", "[]")
        roles = ("weight_decay", "momentum", "lr", "dampening", "nesterov")
        positional = f"{params}, {lists['g']}, {buffers}"
        flags = "maximize=False, is_first_step=False"
        before = ""
    else:
        counts = "fused_steps" if own_step else f"[{step}] * len({params})"
        before = (
            f"        fused_counts = {torch_name}.tensor(\n"
            f"            {counts}, dtype={torch_name}.float32, device={params}[0].device\n"
            "        )\n"
        )
        roles = ("lr", "beta1", "beta2", "weight_decay", "eps")
        positional = (
            f"{params}, {lists['g']}, {lists['m']}, {lists['v']}, [], list(fused_counts.unbind())"
        )
        flags = "amsgrad=False, maximize=False"
    scalars = ", ".join(f"{role}={match.scalars[role]}" for role in roles)
    return (
        f"if {params}:\n"
        f"    with {torch_name}.no_grad():\n"
        f"{before}"
        f"        {torch_name}.{match.kernel}(\n"
        f"            {positional},\n"
        f"            {scalars},\n"
        f"            {flags},\n"
        "        )\n"
    )
