"""Hand-written attention becomes torch.nn.functional.scaled_dot_product_attention."""

from __future__ import annotations

from collections.abc import Mapping

import libcst as cst

from infrarsi.propose.constants import only_computes
from infrarsi.propose.flow import binds, in_loop, loads, only_value, reads, stores
from infrarsi.propose.recipe import DoesNotApply
from infrarsi.propose.repository import Repository
from infrarsi.propose.rewrite import Rewrite
from infrarsi.propose.source import Source, expression, read_sources, sole, walk

from .attention import Attention, AttentionReader, Mask
from .products import operands

_SDPA = "torch.nn.functional.scaled_dot_product_attention"


def transform(sources: Mapping[str, str]) -> dict[str, str]:
    """Rewrite every attention that can be rewritten safely."""
    read = read_sources(sources)
    repository = Repository(read)
    changed, reasons = {}, []
    for source in read:
        if "softmax" not in source.text.lower():
            continue
        rewrite = Rewrite(source)
        found = 0
        for node in source.every(cst.BaseExpression):
            if operands(source, node) is None:
                continue
            try:
                attention = AttentionReader(repository, source, node).read()
                if attention is not None:
                    _check(source, attention)
                    _replace(rewrite, attention)
                    found += 1
            except DoesNotApply as answer:
                reasons.append(f"{answer.because} ({source.path}, line {source.line(node)})")
        if found:
            changed[source.path] = rewrite.text()
    if not changed:
        raise DoesNotApply("; ".join(reasons) or "there is no hand-written softmax(q @ k^T) @ v")
    return changed


def _check(source: Source, attention: Attention) -> None:
    """Make sure that nothing but the call needs what the call replaces."""
    function = source.scope(attention.statement)
    if "scaled_dot_product_attention" in source.module.code_for_node(function):
        raise DoesNotApply("the same function can already call scaled_dot_product_attention")
    within = {node for statement in attention.consumed for node in walk(statement)}
    within |= set(walk(attention.product))
    first = min(source.order[statement] for statement in attention.consumed) if (
        attention.consumed
    ) else source.order[attention.statement]  # fmt: skip
    loop = in_loop(source, attention.statement)
    for name in set(attention.consumed.values()):
        end = _next_binding(source, name, attention.statement)
        for use in reads(function, name):
            if use in within:
                continue
            place = source.order[use]
            around = loop is not None and source.order[loop] < place < first
            if first < place < end or around:
                raise DoesNotApply(f"the attention scores or weights {name!r} are used elsewhere")
    _check_order(source, attention)


def _next_binding(source: Source, name: str, statement: cst.CSTNode) -> float:
    """Give the place from which on a name holds something else: a statement of the same block."""
    block = list(source.block(statement))
    for later in block[block.index(statement) :]:
        only = sole(later)
        if isinstance(only, cst.Assign) and binds(later, name):
            last = max(source.order[node] for node in walk(later))
            own_reads = {id(each) for each in reads(later, name)}
            if later is statement or not own_reads:
                return last + 0.5
    return float("inf")


def _check_order(source: Source, attention: Attention) -> None:
    """Names that the call reads must not change between where they were read and the call."""
    block = list(source.block(attention.statement))
    end = block.index(attention.statement)
    for statement in attention.consumed:
        if statement not in block:
            raise DoesNotApply("the attention is spread over several blocks")
        needed = {each.value for each in loads(statement)} - set(attention.consumed.values())
        for later in block[block.index(statement) + 1 : end]:
            if later in attention.consumed:
                continue
            both = needed & {each.value for each in stores(later)}
            if both:
                raise DoesNotApply(f"{sorted(both)[0]!r} changes in the middle of the attention")


def _replace(rewrite: Rewrite, attention: Attention) -> None:
    call = rewrite.name_for(_SDPA)
    causal, mask = _mask_arguments(attention.masks)
    parts = [attention.query, attention.key, attention.value]
    if mask:
        torch_name = rewrite.name_for("torch.where").removesuffix(".where")
        mask = mask.replace("{query}", attention.query).replace("torch.", f"{torch_name}.")
        parts.append(f"attn_mask={mask}")
    if attention.dropout and not attention.dropout.startswith("0.0 "):
        parts.append(f"dropout_p={attention.dropout}")
    if causal:
        parts.append(f"is_causal={causal}")
    if not attention.default_scale:
        parts.append(f"scale={attention.scale}")
    text = f"{call}({', '.join(parts)}){attention.back}"
    if len(text) > 80:
        inside = ",\n    ".join(parts)
        text = f"{call}(\n    {inside},\n){attention.back}"
    lost = {each.value for each in loads(expression(text))} & set(attention.consumed.values())
    if lost:
        raise DoesNotApply(f"the call would have to read {sorted(lost)[0]!r}, which it replaces")
    rewrite.replace(attention.product, text)
    for statement in attention.consumed:
        rewrite.remove(statement)
    _remove_masks(rewrite, attention)


def _mask_arguments(masks: list[Mask]) -> tuple[str, str]:
    """Give the values of ``is_causal`` and of ``attn_mask``; empty where they are left out."""
    causal = [each for each in masks if each.causal]
    others = [each for each in masks if not each.causal]
    if not masks:
        return "", ""
    if not others:
        conditions = {each.condition for each in causal}
        if None in conditions:
            return "True", ""
        return " or ".join(f"bool({each})" for each in sorted(filter(None, conditions))), ""
    if len(masks) == 1:
        only = masks[0]
        text = f"{only.text}.to({{query}}.dtype)" if only.kind == "add" else only.text
        return "", f"{text} if {only.condition} else None" if only.condition else text
    if any(each.condition for each in masks):
        raise DoesNotApply("several masks are applied, and some only under a condition")
    if any(each.causal and each.kind == "add" for each in masks):
        raise DoesNotApply("several masks of different kinds are applied")
    keeps = " & ".join(each.text for each in masks if each.kind == "keep")
    adds = " + ".join(each.text for each in masks if each.kind == "add")
    if not adds:
        return "", keeps
    return "", f'torch.where({keeps}, {adds}, float("-inf")).to({{query}}.dtype)' if keeps else (
        f"({adds}).to({{query}}.dtype)"
    )


def _remove_masks(rewrite: Rewrite, attention: Attention) -> None:
    """Take out what made a causal mask in the same function, where nothing else reads it."""
    source = rewrite.source
    gone = {node for statement in attention.consumed for node in walk(statement)}
    gone |= set(walk(attention.product))
    wanted = {
        name.value
        for mask in attention.masks
        if mask.causal
        for part in mask.parts
        for name in loads(part)
    }
    while wanted:
        name = wanted.pop()
        single = only_value(source, name, attention.statement)
        scope = source.scope(attention.statement)
        if single is None or source.scope(single[1]) is not scope or isinstance(scope, cst.Module):
            continue
        if any(use not in gone for use in reads(scope, name)) or not only_computes(
            source, single[0]
        ):
            continue
        rewrite.remove(single[1])
        gone |= set(walk(single[1]))
        wanted |= {each.value for each in loads(single[0])}
