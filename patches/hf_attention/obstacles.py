"""What keeps attention as it is: weights that are read, scores that the kernel does not know."""

from __future__ import annotations

import re

import libcst as cst

from infrarsi.propose.recipe import DoesNotApply
from infrarsi.propose.repository import Repository
from infrarsi.propose.source import Source, dotted, literal, text_of, walk

_OTHER_SCORES = re.compile(
    r"soft_?cap\w*|Gemma-?[23]\w*|gemma-?[23]\w*|GptOss\w*|gpt[-_]oss\w*", re.ASCII
)
_WEIGHTS = frozenset(
    {"output_attentions", "head_mask", "decoder_head_mask", "cross_attn_head_mask"}
)
_IDIOM = "ALL_ATTENTION_FUNCTIONS"


def check(repository: Repository) -> None:
    """Refuse where the fused kernel would not do the same.

    Raises
    ------
    DoesNotApply
        With the first obstacle.
    """
    for source in repository.sources:
        if match := _OTHER_SCORES.search(source.text):
            raise DoesNotApply(
                f"{source.path} mentions {match[0]}: that attention does something to its scores "
                "which the fused kernel leaves out"
            )
        for node in walk(source.module):
            reason = (
                _reads_weights(source, node) or _own_attention(node) or _own_dispatch(source, node)
            )
            if reason:
                raise DoesNotApply(f"{reason} ({source.path}, line {source.line(node)})")
    for name, found in sorted(repository.classes.items()):
        for each in found:
            known = [literal(spot.value) for spot in _class_values(each.node, "_supports_sdpa")]
            if any(base.endswith(".PreTrainedModel") for base in each.bases) and True not in known:
                raise DoesNotApply(f"{name} does not say that it supports sdpa (_supports_sdpa)")


def _reads_weights(source: Source, node: cst.CSTNode) -> str | None:
    """Say how the attention weights are read or masked, if they are."""
    match node:
        case cst.Arg(keyword=cst.Name(value=name), value=value) if name in _WEIGHTS:
            if literal(value) not in (False, None):
                return f"{name} is passed, which needs the attention weights"
        case cst.AssignTarget(target=cst.Attribute(attr=cst.Name(value="output_attentions"))):
            assign = source.parents[node]
            if isinstance(assign, cst.Assign) and literal(assign.value) is not False:
                return "output_attentions is set, which needs the attention weights"
        case cst.Attribute(attr=cst.Name(value="attentions")):
            return "the attention weights are read"
    return None


def _own_attention(node: cst.CSTNode) -> str | None:
    """Say where the program brings an attention of its own, if it does."""
    match node:
        case cst.AssignTarget(target=cst.Subscript(value=target)):
            if (dotted(target) or "").endswith(_IDIOM):
                return "the program brings an attention function of its own"
        case cst.AssignTarget(target=target):
            if (dotted(target) or "").endswith(".eager_attention_forward"):
                return "the step-by-step attention is replaced by the program's own"
        case cst.Call(func=func):
            if (dotted(func) or "").endswith((f"{_IDIOM}.register", "AttentionInterface.register")):
                return "the program brings an attention function of its own"
    return None


def _own_dispatch(source: Source, node: cst.CSTNode) -> str | None:
    """Say where the program decides by the word "eager" itself, unless as transformers does."""
    match node:
        case cst.Comparison(left=left, comparisons=comparisons):
            sides = [left, *(each.comparator for each in comparisons)]
            words = [literal(side) for side in sides]
            listed = [word for word in words if isinstance(word, tuple | list | set)]
            alone = "eager" in [word for word in words if isinstance(word, str)]
            unequal = any("eager" in each and "sdpa" not in each for each in listed)
            if (alone or unequal) and not _is_idiom(source, node):
                return f"the program decides by {text_of(node)}"
        case cst.Dict(elements=elements):
            keys = {literal(each.key) for each in elements if isinstance(each, cst.DictElement)
                    and isinstance(each.key, cst.SimpleString)}  # fmt: skip
            if "eager" in keys and "sdpa" not in keys:
                return "the program keeps a table of attention classes without sdpa"
    return None


def _is_idiom(source: Source, node: cst.CSTNode) -> bool:
    """Tell whether a comparison only looks the kernel up, as transformers' own models do."""
    test = source.nearest(node, cst.If)
    return test is not None and any(
        isinstance(each, cst.Name) and each.value == _IDIOM for each in walk(test.body)
    )


def _class_values(node: cst.ClassDef, name: str) -> list[cst.Assign]:
    return [
        small
        for line in node.body.body
        if isinstance(line, cst.SimpleStatementLine)
        for small in line.body
        if isinstance(small, cst.Assign) and dotted(small.targets[0].target) == name
    ]
