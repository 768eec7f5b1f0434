"""model.compile() right after the model is built and moved."""

from __future__ import annotations

import re
from collections.abc import Mapping

import libcst as cst

from infrarsi.propose.huggingface import trained_by_library, training_arguments
from infrarsi.propose.recipe import DoesNotApply
from infrarsi.propose.repository import Repository
from infrarsi.propose.rewrite import Rewrite, with_keyword
from infrarsi.propose.source import Source, dotted, keywords, method_call, read_sources
from infrarsi.propose.training import (
    Build,
    after_branches,
    backward_calls,
    last_rebinding,
    model_builds,
    root_models,
    training_functions,
)

_SHARDING = re.compile(r"\b(FullyShardedDataParallel|FSDP|fully_shard|deepspeed|megatron)\b")
_EXPORTING = re.compile(r"\btorch\.jit\.(script|trace)\b")


def transform(sources: Mapping[str, str]) -> dict[str, str]:
    """Compile the model that is trained."""
    read = read_sources(sources)
    repository = Repository(read)
    for source in read:
        for call in source.every(cst.Call):
            if _compiles(repository, source, call):
                raise DoesNotApply(
                    f"{source.path} already decides about compiling, at line {source.line(call)}"
                )
        if any(source.qualified(node) == "torch.compile" for node in source.every(cst.Attribute)):
            raise DoesNotApply(f"{source.path} already mentions torch.compile")
        for pattern in (_SHARDING, _EXPORTING):
            if match := pattern.search(source.text):
                raise DoesNotApply(
                    f"{source.path} uses {match[0]}, which has its own ways to compile"
                )
    if trained_by_library(repository) and not any(backward_calls(each) for each in read):
        return _for_trainer(repository)
    build = _trained(repository)
    rewrite = Rewrite(build.source)
    rewrite.put_after(last_rebinding(build), f"{build.name}.compile()")
    return {build.source.path: rewrite.text()}


def _compiles(repository: Repository, source: Source, call: cst.Call) -> bool:
    """Tell whether a call compiles a model, and not a regular expression or the like."""
    if source.qualified(call.func) == "torch.compile":
        return True
    found = method_call(call)
    if found is None or found[1] != "compile":
        return False
    owner = (dotted(found[0]) or "").rpartition(".")[2]
    held = {name for cls in root_models(repository) for name in repository.holders(cls.name)}
    return owner in held or (found[0].deep_equals(cst.Name("self")) and not call.args)


def _trained(repository: Repository) -> Build:
    """Find the one model that is trained."""
    if not any(backward_calls(source) for source in repository.sources):
        raise DoesNotApply("no backward pass stands in the sources")
    builds = model_builds(repository)
    if not builds:
        raise DoesNotApply("no assignment in the sources builds a torch.nn.Module of their own")
    if len(builds) > 1:
        training = training_functions(repository)
        builds = [
            each for each in builds
            if any(backward_calls_in(each, training))
        ]  # fmt: skip
    names = {each.cls.name for each in builds}
    same = {(each.name, each.cls.name, each.source.scope(each.statement)) for each in builds}
    if len(builds) > 1 and len(same) == 1:
        return after_branches(builds)
    if len(builds) != 1:
        shown = ", ".join(sorted(names)) or "none trained here"
        raise DoesNotApply(
            f"{len(builds)} statements build models ({shown}); which of them is trained is "
            "not certain"
        )
    return builds[0]


def backward_calls_in(build: Build, training: set[str]) -> list[cst.Call]:
    """Give the calls in a build's function that train."""
    scope = build.source.scope(build.statement)
    found = [call for call in backward_calls(build.source) if build.source.scope(call) is scope]
    return found + [
        call
        for call in build.source.every(cst.Call, scope)
        if (dotted(call.func) or "").rpartition(".")[2] in training
    ]


def _for_trainer(repository: Repository) -> dict[str, str]:
    """Ask transformers' Trainer to compile, where its arguments are made in code."""
    calls = list(training_arguments(repository))
    if len(calls) != 1:
        raise DoesNotApply(
            "a Trainer runs the loop, and its arguments are not made in one place of the sources; "
            "its flag --torch_compile is a matter of the launch"
        )
    source, call = calls[0]
    given = keywords(call)
    if any(name.startswith("torch_compile") or "*" in name for name in given):
        raise DoesNotApply(f"{source.path} already decides about compiling")
    rewrite = Rewrite(source)
    rewrite.replace(call, with_keyword(call, "torch_compile", "True"))
    return {source.path: rewrite.text()}
