"""Optimizers update all parameters in one fused kernel."""

from __future__ import annotations

from collections.abc import Mapping

import libcst as cst

from infrarsi.propose.recipe import DoesNotApply
from infrarsi.propose.rewrite import Rewrite
from infrarsi.propose.source import Source, keywords, literal, read_sources

from .loops import fuse_loop

_FUSED = frozenset(
    f"torch.optim.{place}{name}"
    for name, place in [
        *((name, "") for name in ("Adam", "AdamW", "SGD")),
        ("Adam", "adam."), ("AdamW", "adamw."), ("SGD", "sgd."),
    ]
)  # fmt: skip


def transform(sources: Mapping[str, str]) -> dict[str, str]:
    """Fuse torch's own optimizers, and loops that do the same by hand."""
    changed, reasons = {}, []
    read = read_sources(sources)
    sparse = any("sparse=True" in source.text for source in read)
    for source in read:
        rewrite, found = Rewrite(source), 0
        for call in source.every(cst.Call):
            if source.qualified(call.func) in _FUSED:
                reason = (
                    "gradients of embeddings are sparse" if sparse else _fuse_call(rewrite, call)
                )
                found += reason is None
                reasons += [reason] if reason else []
        for loop in source.every(cst.For):
            try:
                found += fuse_loop(source, rewrite, loop)
            except DoesNotApply as answer:
                reasons.append(answer.because)
        if found:
            changed[source.path] = rewrite.text()
    if not changed:
        raise DoesNotApply(
            "; ".join(dict.fromkeys(reasons))
            or "no torch.optim Adam, AdamW or SGD is made, and no loop over parameters updates them"
        )
    return changed


def _fuse_call(rewrite: Rewrite, call: cst.Call) -> str | None:
    """Ask an optimizer for its fused kernel, or give the reason why not."""
    source: Source = rewrite.source
    given = keywords(call)
    if "**" in given or "*" in given:
        return f"{source.code(call.func)} gets its options from a dictionary"
    for option in ("capturable", "differentiable"):
        if option in given and literal(given[option]) is not False:
            return f"{source.code(call.func)} is made with {option}"
    if "fused" in given and literal(given["fused"]) not in (False, None):
        return f"{source.code(call.func)} already chooses fused"
    if "foreach" in given and literal(given["foreach"]) not in (False, True, None):
        return f"{source.code(call.func)} chooses foreach at run time"
    if not call.args:
        return f"{source.code(call.func)} gets no parameters here"
    kept = [
        each for each in call.args
        if each.keyword is None or each.keyword.value not in ("foreach", "fused")
    ]  # fmt: skip
    equal = cst.AssignEqual(
        whitespace_before=cst.SimpleWhitespace(""), whitespace_after=cst.SimpleWhitespace("")
    )
    last = call.args[-1]
    comma = last.comma if isinstance(last.comma, cst.Comma) else cst.MaybeSentinel.DEFAULT
    separator = cst.Comma(whitespace_after=_between(call))
    new = cst.Arg(
        cst.Name("True"), keyword=cst.Name("fused"), equal=equal, comma=comma,
        whitespace_after_arg=last.whitespace_after_arg,
    )  # fmt: skip
    kept[-1] = kept[-1].with_changes(comma=separator, whitespace_after_arg=cst.SimpleWhitespace(""))
    rewrite.replace(call, call.with_changes(args=[*kept, new]))
    return None


def _between(call: cst.Call) -> cst.BaseParenthesizableWhitespace:
    """Give the white space that stands between this call's arguments."""
    for each in call.args[:-1]:
        if isinstance(each.comma, cst.Comma):
            return each.comma.whitespace_after
    return cst.SimpleWhitespace(" ")
