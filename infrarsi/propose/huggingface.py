"""Where a program makes transformers' TrainingArguments in its own code.

Only codemods import this module (it loads libcst).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from infrarsi.propose.repository import Repository
from infrarsi.propose.source import Source

_ARGUMENTS = {
    "transformers": re.compile(r"(Seq2Seq)?TrainingArguments"),
    "trl": re.compile(r"(SFT|DPO|ORPO|KTO|CPO|BCO|Reward|GKD|PRM)Config"),
}
_TRAINER = re.compile(r"(transformers|trl)\.(\w+\.)*\w*Trainer")


def training_arguments(repository: Repository) -> Iterator[tuple[Source, cst.Call]]:
    """Give the calls that make TrainingArguments, or a subclass in these files."""
    for source in repository.sources:
        for call in source.every(cst.Call):
            if _is_arguments(repository, source.qualified(call.func) or ""):
                yield source, call


def _is_arguments(repository: Repository, name: str, depth: int = 4) -> bool:
    last = name.rpartition(".")[2]
    known = _ARGUMENTS.get(name.partition(".")[0])
    if known is not None and "." in name:
        return known.fullmatch(last) is not None
    own = repository.class_named(last)
    return own is not None and depth > 0 and any(
        _is_arguments(repository, base, depth - 1) for base in own.bases
    )  # fmt: skip


def trained_by_library(repository: Repository) -> bool:
    """Tell whether a Trainer of transformers or trl, or a subclass of one, runs the loop."""
    made = {
        source.qualified(call.func) or ""
        for source in repository.sources
        for call in source.every(cst.Call)
    }
    bases = {base for found in repository.classes.values() for each in found for base in each.bases}
    return any(_TRAINER.fullmatch(name) for name in made | bases)
