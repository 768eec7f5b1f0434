"""checkpoint(function, x) becomes function(x)."""

from __future__ import annotations

from collections.abc import Mapping

import libcst as cst

from infrarsi.propose.huggingface import training_arguments
from infrarsi.propose.recipe import DoesNotApply
from infrarsi.propose.repository import Repository
from infrarsi.propose.rewrite import Rewrite
from infrarsi.propose.source import Source, dotted, keywords, literal, read_sources, text_of

_CHECKPOINT = frozenset(
    {"torch.utils.checkpoint.checkpoint", "torch.utils.checkpoint", "checkpoint.checkpoint"}
)
_OPTIONS = frozenset(
    {
        "use_reentrant",
        "preserve_rng_state",
        "context_fn",
        "determinism_check",
        "debug",
        "early_stop",
    }
)
_SWITCHES = frozenset({"gradient_checkpointing", "activation_checkpointing"})
"""transformers' older and newer name."""
_ENABLES = tuple(f".{name}_enable" for name in sorted(_SWITCHES))
_NO_FLAG = ("self.training", "torch.is_grad_enabled()", "model.training")


def transform(sources: Mapping[str, str]) -> dict[str, str]:
    """Call directly what is checkpointed."""
    changed: dict[str, str] = {}
    reasons: list[str] = []
    read = read_sources(sources, "checkpoint")
    arguments = list(training_arguments(Repository(read)))
    for source in read:
        rewrite = Rewrite(source)
        made = [call for where, call in arguments if where is source]
        found = _switch_off(rewrite, made, reasons)
        found += _set_off(rewrite, reasons)
        found += _call_directly(rewrite, reasons)
        found += _leave_out_switches(rewrite, reasons)
        if found:
            changed[source.path] = rewrite.text()
    if not changed:
        raise DoesNotApply("; ".join(reasons) or "nothing calls torch.utils.checkpoint.checkpoint")
    return changed


def _switch_off(rewrite: Rewrite, made: list[cst.Call], reasons: list[str]) -> int:
    """Turn recomputation off where TrainingArguments are made in code."""
    source, found = rewrite.source, 0
    for call in made:
        for name, value in keywords(call).items():
            if name not in _SWITCHES or literal(value) in (False, None):
                continue
            if literal(value) is True:
                rewrite.replace(value, "False")
                found += 1
            else:
                where = f"{source.path}, line {source.line(call)}"
                reasons.append(f"recomputation is behind {text_of(value)} ({where})")
    return found


def _set_off(rewrite: Rewrite, reasons: list[str]) -> int:
    """Turn ``args.gradient_checkpointing = True`` off."""
    source, found = rewrite.source, 0
    for assign in source.every(cst.Assign):
        names = {(dotted(each.target) or "").rpartition(".") for each in assign.targets}
        if not all(owner not in ("", "self") and name in _SWITCHES for owner, _, name in names):
            continue
        if literal(assign.value) is not True:
            continue
        flag = _flag(source, assign)
        if flag is None:
            rewrite.replace(assign.value, "False")
            found += 1
        else:
            reasons.append(f"{flag} ({source.path}, line {source.line(assign)})")
    return found


def _call_directly(rewrite: Rewrite, reasons: list[str]) -> int:
    source, found = rewrite.source, 0
    for call in source.every(cst.Call):
        if source.qualified(call.func) not in _CHECKPOINT or not call.args:
            continue
        reason = _reason(source, call)
        if reason is None:
            rewrite.replace(call, _direct(call))
            found += 1
        else:
            reasons.append(f"{reason} ({source.path}, line {source.line(call)})")
    return found


def _leave_out_switches(rewrite: Rewrite, reasons: list[str]) -> int:
    """Take out ``model.gradient_checkpointing_enable()``."""
    source, found = rewrite.source, 0
    for call in source.every(cst.Call):
        statement = source.parents[source.parents[call]]
        switches = (dotted(call.func) or "").endswith(_ENABLES)
        if switches and isinstance(statement, cst.SimpleStatementLine):
            flag = _flag(source, call)
            if flag is None:
                rewrite.remove(statement)
                found += 1
            else:
                reasons.append(f"{flag} ({source.path}, line {source.line(call)})")
    return found


def _reason(source: Source, call: cst.Call) -> str | None:
    """Give the reason for which a call must stay."""
    if call.args[0].keyword is not None or call.args[0].star:
        return "the checkpointed function is not the first plain argument"
    named = [each.keyword.value for each in call.args if each.keyword is not None]
    if any(each.star == "**" for each in call.args):
        return "checkpoint gets its options from a dictionary"
    if "context_fn" in named:
        return "checkpoint chooses which operations to recompute"
    return _flag(source, call)


def _flag(source: Source, node: cst.CSTNode) -> str | None:
    """Say behind which flag a call or an assignment stands, if behind any."""
    for around in source.ancestors(node):
        if isinstance(around, cst.FunctionDef | cst.ClassDef | cst.Lambda):
            break
        if isinstance(around, cst.If | cst.IfExp) and node is not around.test:
            text = text_of(around.test)
            for harmless in _NO_FLAG:
                text = text.replace(harmless, "")
            if text.replace("and", "").replace("not", "").strip("() "):
                return f"recomputation is behind the flag {text_of(around.test)}"
        node = around
    return None


def _direct(call: cst.Call) -> cst.Call:
    function = call.args[0].value
    callable_as_it_is = cst.Name | cst.Attribute | cst.Call | cst.Subscript
    if not isinstance(function, callable_as_it_is) and not function.lpar:
        function = function.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    kept = [
        each for each in call.args[1:]
        if each.keyword is None or each.keyword.value not in _OPTIONS
    ]  # fmt: skip
    if kept:
        last = call.args[-1]
        kept[-1] = kept[-1].with_changes(
            comma=last.comma, whitespace_after_arg=last.whitespace_after_arg
        )
    return call.with_changes(func=function, args=kept)
