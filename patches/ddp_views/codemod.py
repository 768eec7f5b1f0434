"""DistributedDataParallel keeps gradients in its buckets."""

from __future__ import annotations

from collections.abc import Mapping

import libcst as cst

from infrarsi.propose.recipe import DoesNotApply
from infrarsi.propose.rewrite import Rewrite
from infrarsi.propose.source import dotted, keywords, method_call, read_sources

_FULL = "torch.nn.parallel.DistributedDataParallel"
_NAMES = (_FULL, "torch.nn.parallel.distributed.DistributedDataParallel")


def transform(sources: Mapping[str, str]) -> dict[str, str]:
    """Add ``gradient_as_bucket_view=True`` to every construction that leaves it out."""
    read = read_sources(sources)
    for source in read:
        for call in source.every(cst.Call):
            found = method_call(call)
            if found and found[1] == "detach_" and (dotted(found[0]) or "").endswith(".grad"):
                raise DoesNotApply(
                    f"{source.path} detaches a gradient in place, which a view of a bucket forbids"
                )
    changed, chosen = {}, 0
    for source in read:
        rewrite, found_here = Rewrite(source), 0
        for call in source.every(cst.Call):
            if source.qualified(call.func) not in _NAMES:
                continue
            said = keywords(call)
            if "gradient_as_bucket_view" in said or "**" in said:
                chosen += 1
                continue
            rewrite.replace(call, _with_views(call))
            found_here += 1
        if found_here:
            changed[source.path] = rewrite.text()
    if not changed:
        raise DoesNotApply(
            "where DistributedDataParallel is made, its gradient views are chosen already"
            if chosen else "the sources make no DistributedDataParallel"
        )  # fmt: skip
    return changed


def _with_views(call: cst.Call) -> cst.Call:
    *before, last = call.args
    comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    added = cst.Arg(
        keyword=cst.Name("gradient_as_bucket_view"), value=cst.Name("True"),
        equal=cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace("")),
        comma=last.comma, whitespace_after_arg=last.whitespace_after_arg,
    )  # fmt: skip
    kept = last.with_changes(comma=comma, whitespace_after_arg=cst.SimpleWhitespace(""))
    return call.with_changes(args=[*before, kept, added])
