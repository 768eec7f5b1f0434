"""Where a loss is made of logits, and where the logits come from."""

from __future__ import annotations

from dataclasses import dataclass, field

import libcst as cst

from infrarsi.propose.flow import enclosing_definition
from infrarsi.propose.recipe import DoesNotApply
from infrarsi.propose.repository import Repository
from infrarsi.propose.source import (
    Source,
    argument,
    keywords,
    literal,
    method_call,
    text_of,
    walk,
)

_CASTS = frozenset({"float", "contiguous", "to"})


@dataclass
class Site:
    """One cross-entropy, and what feeds it."""

    source: Source
    call: cst.Call
    statement: cst.CSTNode
    targets: cst.BaseExpression
    options: dict[str, str]
    producer: cst.BaseExpression | None = None
    """The expression that makes the logits."""
    producer_at: cst.CSTNode | None = None
    slices: list[str] = field(default_factory=list)
    """Slices of the logits, outermost last; they go to the hidden states instead."""
    consumed: dict[cst.CSTNode, str] = field(default_factory=dict)
    """Statements between the producer and the call, with the name that each binds."""


@dataclass(frozen=True)
class Head:
    """A linear layer at work: texts of its input, weight and bias."""

    hidden: str
    weight: str
    bias: str


def loss_sites(repository: Repository, source: Source) -> list[tuple[cst.Call, dict[str, str]]]:
    """Give the calls of a cross-entropy, with the options that matter.

    Raises
    ------
    DoesNotApply
        All of them are of a kind that the chunked form does not cover.
    """
    found, reasons = [], []
    for call in source.every(cst.Call):
        options = _options(repository, source, call)
        if isinstance(options, str):
            reasons.append(f"{options} ({source.path}, line {source.line(call)})")
        elif options is not None:
            found.append((call, options))
    if reasons and not found:
        raise DoesNotApply("; ".join(reasons))
    return found


def _options(repository: Repository, source: Source, call: cst.Call) -> dict[str, str] | str | None:
    full = source.qualified(call.func) or ""
    if full in {"torch.nn.functional.cross_entropy", "torch.nn.functional.cross_entropy_loss"}:
        return _read_options(call, weight_at=2)
    construction: cst.CSTNode | None = None
    if isinstance(call.func, cst.Call):
        construction = call.func
    elif (kind := repository.module_kind(source, call.func)) is not None:
        construction = kind[1].node
    if isinstance(construction, cst.Call):
        made = source.qualified(construction.func) or ""
        if made == "torch.nn.CrossEntropyLoss" and len(call.args) == 2:
            return _read_options(construction, weight_at=0)
    return None


def _read_options(call: cst.Call, *, weight_at: int) -> dict[str, str] | str:
    given = keywords(call)
    weight = argument(call, weight_at, "weight")
    if weight is not None and literal(weight) is not None:
        return "the classes are weighted"
    if {"**", "*", "size_average", "reduce"} & set(given):
        return "the loss gets its options in a way that cannot be read"
    if literal(given.get("label_smoothing", cst.Float("0.0"))) not in (0, 0.0):
        return "the labels are smoothed"
    options = {}
    reduction = given.get("reduction")
    if reduction is not None and literal(reduction) != "mean":
        if literal(reduction) != "sum":
            return f"the losses are reduced by {text_of(reduction)}"
        options["reduction"] = '"sum"'
    ignored = given.get("ignore_index")
    if ignored is not None:
        options["ignore_index"] = text_of(ignored)
    plain = [each for each in call.args if each.keyword is None]
    return "the loss has positional options" if len(plain) > weight_at + 1 else options


def read_site(source: Source, call: cst.Call, options: dict[str, str]) -> Site | None:
    """Follow the logits of a loss back to what makes them."""
    logits, targets = argument(call, 0, "input"), argument(call, 1, "target")
    if logits is None or targets is None:
        return None
    site = Site(source, call, source.statement(call), targets, options)
    _follow(site, logits, site.statement, reshaped=False)
    return site if site.producer is not None else None


def _follow(site: Site, node: cst.BaseExpression, at: cst.CSTNode, *, reshaped: bool) -> None:
    for _ in range(16):
        if isinstance(node, cst.Name):
            above = enclosing_definition(site.source, node.value, at)
            if above is None or above.condition is not None:
                return
            site.consumed[above.statement] = node.value
            node, at = above.value, above.statement
            continue
        inner = _unshaped(node)
        if inner is not None:
            node, reshaped = inner, True
            continue
        found = method_call(node)
        if found is not None and found[1] in _CASTS and _is_wide_cast(site.source, found[2]):
            node = found[0]
            continue
        if isinstance(node, cst.Subscript):
            if not _slices_rows(node, reshaped=reshaped):
                return
            site.slices.insert(0, site.source.code(node)[len(site.source.code(node.value)) :])
            node = node.value
            continue
        site.producer, site.producer_at = node, at
        return


def _unshaped(node: cst.CSTNode) -> cst.BaseExpression | None:
    """Give the logits of ``logits.view(-1, V)``, and of the like that keep the last axis."""
    found = method_call(node)
    if found is None:
        return None
    receiver, name, call = found
    values = [each.value for each in call.args if each.keyword is None]
    if name in {"view", "reshape"}:
        if len(values) == 1 and isinstance(values[0], cst.Tuple):
            values = [each.value for each in values[0].elements]
        return receiver if len(values) == 2 and literal(values[1]) != -1 else None
    if name == "flatten":
        return receiver if [literal(each) for each in values] in ([0, 1], [0, -2]) else None
    if name in {"transpose", "swapaxes"}:
        axes = {literal(each) for each in values}
        return receiver if axes in ({1, 2}, {-1, -2}, {1, -1}) else None
    if name == "permute":
        return receiver if [literal(each) for each in values] == [0, 2, 1] else None
    return None


def _is_wide_cast(source: Source, call: cst.Call) -> bool:
    """Tell whether a method keeps the logits, or widens them as the chunked form does too."""
    return all(source.qualified(each.value) == "torch.float32" for each in call.args)


def _slices_rows(node: cst.Subscript, *, reshaped: bool) -> bool:
    """Tell whether a subscript slices positions and leaves the classes whole."""
    parts = [each.slice for each in node.slice]
    if not all(
        isinstance(part, cst.Slice)
        or (isinstance(part, cst.Index) and isinstance(part.value, cst.Ellipsis))
        for part in parts
    ):
        return False
    last = parts[-1]
    whole = isinstance(last, cst.Slice) and last.lower is None and last.upper is None
    has_ellipsis = any(isinstance(part, cst.Index) for part in parts)
    # Three axes are certain only where they are reshaped to two afterwards.
    return (whole and (len(parts) == 3 or has_ellipsis)) or (
        reshaped and len(parts) <= 2 and not has_ellipsis
    )


def read_head(repository: Repository, source: Source, node: cst.CSTNode) -> Head | None:
    """Read a linear layer's input, weight and bias from the expression that applies it."""
    code = source.code
    match node:
        case cst.BinaryOperation(left=left, operator=cst.MatrixMultiply(), right=right):
            weight = _transposed(right)
            if weight is not None:
                return Head(code(left), code(weight), "None")
        case cst.Call(args=[only]) if only.keyword is None and not only.star:
            kind = repository.module_kind(source, node.func)
            if kind is not None and kind[0] == "torch.nn.Linear":
                return Head(
                    code(only.value), f"{code(node.func)}.weight", f"{code(node.func)}.bias"
                )
        case cst.Call(func=func) if source.qualified(func) == "torch.nn.functional.linear":
            inputs, weight, bias = (
                argument(node, n, name) for n, name in enumerate(("input", "weight", "bias"))
            )
            if inputs is not None and weight is not None:
                return Head(code(inputs), code(weight), "None" if bias is None else code(bias))
        case cst.Call(func=func, args=[left, right]) if source.qualified(func) == "torch.matmul":
            weight = _transposed(right.value)
            if weight is not None:
                return Head(code(left.value), code(weight), "None")
    return None


def _transposed(node: cst.BaseExpression) -> cst.BaseExpression | None:
    match node:
        case cst.Attribute(value=value, attr=cst.Name(value="T" | "mT")):
            return value
    found = method_call(node)
    if found is not None and found[1] in {"t", "transpose"}:
        axes = {literal(each.value) for each in found[2].args}
        return found[0] if axes in (set(), {0, 1}, {-1, -2}) else None
    return None


def names_in(node: cst.CSTNode) -> set[str]:
    """Give every name that stands in a node."""
    return {each.value for each in walk(node) if isinstance(each, cst.Name)}
