"""attn_implementation="eager" becomes "sdpa"."""

from __future__ import annotations

from collections.abc import Mapping

import libcst as cst

from infrarsi.propose.recipe import DoesNotApply
from infrarsi.propose.repository import Repository
from infrarsi.propose.rewrite import Rewrite
from infrarsi.propose.source import literal, read_sources

from .obstacles import check
from .values import chosen_values, words_in

_UNSAID = (
    "no source chooses an attention implementation: transformers takes sdpa by itself, "
    "unless a flag or a file says otherwise"
)


def transform(sources: Mapping[str, str]) -> dict[str, str]:
    """Choose the fused kernel wherever a model is told to attend step by step."""
    read = read_sources(sources)
    if not any(_uses_transformers(each) for source in read for each in source.imports.values()):
        raise DoesNotApply("nothing here imports transformers")
    repository = Repository(read)
    spots = [spot for value in chosen_values(repository) for spot in words_in(repository, value)]
    words = {literal(spot.node) for spot in spots}
    if "eager" not in words:
        others = sorted(word for word in words if isinstance(word, str))
        raise DoesNotApply(f"attention is {' or '.join(others)} already" if others else _UNSAID)
    check(repository)
    rewrites = {source.path: Rewrite(source) for source in read}
    changed = set()
    for spot in spots:
        if isinstance(spot.node, cst.SimpleString) and literal(spot.node) == "eager":
            text = spot.node.value.replace("eager", "sdpa")
            rewrites[spot.source.path].replace(spot.node, spot.node.with_changes(value=text))
            changed.add(spot.source.path)
    return {path: rewrites[path].text() for path in sorted(changed)}


def _uses_transformers(name: str) -> bool:
    return name.partition(".")[0] in {"transformers", "trl", "peft", "unsloth"}
