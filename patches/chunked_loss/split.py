"""Losses taken outside of the model: its forward learns to stop before the output layer."""

from __future__ import annotations

import re
from collections.abc import Mapping

import libcst as cst

from infrarsi.propose.flow import definition, read_later
from infrarsi.propose.recipe import DoesNotApply
from infrarsi.propose.repository import Class, Repository
from infrarsi.propose.rewrite import Rewrite
from infrarsi.propose.source import dotted, text_of, walk
from infrarsi.propose.training import root_models

from .inserted import loss_call
from .sites import Head, Site, read_head

_FLAG = "before_head"


def split_forward(
    repository: Repository, rewrites: Mapping[str, Rewrite], sites: list[Site]
) -> set[str]:
    """Rewrite losses of the form ``cross_entropy(model(x), y)``; give the changed paths.

    The model's own call, and what it is given, stay: it only returns the input of its output
    layer, with that layer's weight and bias, instead of the logits.
    """
    models = root_models(repository)
    done: set[str] = set()
    prepared: set[str] = set()
    reasons = []
    for site in sites:
        try:
            owner = _model(repository, models, site)
            _check(repository, site)
            if owner.name not in prepared:
                _teach(repository, rewrites[owner.source.path], owner)
                prepared.add(owner.name)
                done.add(owner.source.path)
            _use(rewrites[site.source.path], site)
            done.add(site.source.path)
        except DoesNotApply as answer:
            reasons.append(
                f"{answer.because} ({site.source.path}, line {site.source.line(site.call)})"
            )
    if sites and not done:
        raise DoesNotApply("; ".join(reasons))
    return done


def _model(repository: Repository, models: list[Class], site: Site) -> Class:
    producer = site.producer
    name = dotted(producer.func) if isinstance(producer, cst.Call) else None
    if name is None:
        assert producer is not None
        raise DoesNotApply(
            f"the logits are made by {text_of(producer)[:60]!r}, which is no linear layer"
        )
    found = [each for each in models if name.rpartition(".")[2] in repository.holders(each.name)]
    if len(found) != 1:
        raise DoesNotApply(f"what {name!r} holds is not certain")
    return found[0]


def _check(repository: Repository, site: Site) -> None:
    for source in repository.sources:
        if match := re.search(
            r"\b(FSDP|FullyShardedDataParallel|fully_shard|deepspeed)\b", source.text
        ):
            raise DoesNotApply(f"{match[0]} hides the weight of the output layer")
    for statement, name in site.consumed.items():
        later = read_later(site.source, name, statement)
        within = {node for each in site.consumed for node in walk(each)} | set(walk(site.call))
        if later is not None and later not in within:
            raise DoesNotApply("the logits are used elsewhere")
        if later is not None:
            beyond = read_later(site.source, name, site.statement)
            if beyond is not None and beyond not in within:
                raise DoesNotApply("the logits are used elsewhere")
    assert site.producer_at is not None
    if site.source.block(site.producer_at) is not site.source.block(site.statement):
        raise DoesNotApply("the loss is taken in another block than the logits")


def _teach(repository: Repository, rewrite: Rewrite, owner: Class) -> None:
    """Let a model's forward stop before its output layer."""
    forward = owner.method("forward")
    if forward is None:
        raise DoesNotApply(f"{owner.name} has no forward of its own")
    source = owner.source
    returns = [
        node for node in walk(forward)
        if isinstance(node, cst.Return) and source.scope(node) is forward
    ]  # fmt: skip
    if len(returns) != 1 or returns[0].value is None:
        raise DoesNotApply(f"{owner.name}.forward does not return in one place")
    value: cst.BaseExpression = returns[0].value
    at: cst.CSTNode = source.statement(returns[0])
    if isinstance(value, cst.Name):
        above = definition(source, value.value, at)
        if above is None or above.condition is not None:
            raise DoesNotApply(f"what {owner.name}.forward returns cannot be followed")
        value, at = above.value, above.statement
    head = read_head(repository, source, value)
    if head is None:
        raise DoesNotApply(f"{owner.name}.forward does not return what a linear layer gives")
    params = forward.params
    if any(each.name.value == _FLAG for each in walk(params) if isinstance(each, cst.Param)):
        raise DoesNotApply(f"{owner.name}.forward has a parameter {_FLAG} already")
    flag = cst.Param(
        cst.Name(_FLAG), default=cst.Name("False"),
        equal=cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace("")),
    )  # fmt: skip
    if isinstance(params.star_arg, cst.Param) or params.kwonly_params:
        new = params.with_changes(kwonly_params=[*params.kwonly_params, flag])
    else:
        new = params.with_changes(params=[*params.params, flag])
    rewrite.replace(params, new)
    rewrite.put_before(at, f"if {_FLAG}:\n    return {_parts(head)}")


def _parts(head: Head) -> str:
    return f"{head.hidden}, {head.weight}, {head.bias}"


def _use(rewrite: Rewrite, site: Site) -> None:
    producer = site.producer
    assert isinstance(producer, cst.Call)
    call = f"{site.source.code(producer.func)}({_arguments(site, producer)}{_FLAG}=True)"
    for statement in site.consumed:
        rewrite.remove(statement)
    if not site.slices:
        rewrite.replace(site.call, loss_call(rewrite, site, f"*{call}"))
        return
    rewrite.put_before(site.statement, f"hidden, head_weight, head_bias = {call}")
    hidden = "hidden" + "".join(site.slices)
    rewrite.replace(site.call, loss_call(rewrite, site, hidden, "head_weight", "head_bias"))


def _arguments(site: Site, call: cst.Call) -> str:
    given = ""
    for each in call.args:
        name = f"{each.keyword.value}=" if each.keyword else ""
        given += f"{each.star}{name}{site.source.code(each.value)}, "
    return given
