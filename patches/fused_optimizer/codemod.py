"""Optimizers update all parameters in one fused kernel."""

from __future__ import annotations

from collections.abc import Mapping

import libcst as cst

from infrarsi.propose.huggingface import training_arguments
from infrarsi.propose.recipe import DoesNotApply
from infrarsi.propose.repository import Repository
from infrarsi.propose.rewrite import Rewrite, with_keyword
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
    """Fuse torch's own optimizers, loops that do the same by hand, and transformers' choice."""
    read = read_sources(sources)
    rewrites = {source.path: Rewrite(source) for source in read}
    changed, reasons = set(), []
    sparse = any("sparse=True" in source.text for source in read)
    for source in read:
        rewrite = rewrites[source.path]
        for call in source.every(cst.Call):
            if source.qualified(call.func) in _FUSED:
                reason = (
                    "gradients of embeddings are sparse" if sparse else _fuse_call(rewrite, call)
                )
                changed |= {source.path} if reason is None else set()
                reasons += [reason] if reason else []
        for loop in source.every(cst.For):
            try:
                changed |= {source.path} if fuse_loop(source, rewrite, loop) else set()
            except DoesNotApply as answer:
                reasons.append(answer.because)
    for source, call in training_arguments(Repository(read)):
        given = keywords(call).get("optim")
        if literal(given) == "adamw_torch" and isinstance(given, cst.SimpleString):
            quote = given.quote
            rewrites[source.path].replace(given, f"{quote}adamw_torch_fused{quote}")
            changed.add(source.path)
        elif given is not None:
            reasons.append(f"transformers' optimizer is {source.code(given)}")
    if not changed:
        raise DoesNotApply(
            "; ".join(dict.fromkeys(reasons))
            or "no torch.optim Adam, AdamW or SGD is made, and no loop over parameters updates them"
        )
    return {path: rewrites[path].text() for path in sorted(changed)}


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
    whole = with_keyword(call, "fused", "True")
    kept = [
        each for each in whole.args[:-1]
        if each.keyword is None or each.keyword.value not in ("foreach", "fused")
    ]  # fmt: skip
    rewrite.replace(call, whole.with_changes(args=[*kept, whole.args[-1]]))
    return None
