"""Drafting knobs for programs that take transformers' TrainingArguments from outside."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, TypeAlias

import yaml

from infrarsi.edits.config_file import keys_in
from infrarsi.errors import ContractError
from infrarsi.frameworks.said import Said, read_said
from infrarsi.frameworks.training_arguments import find_training_arguments
from infrarsi.records.base import Scalar
from infrarsi.records.task import ConfigKey, Knob, same_scalar

Drafted: TypeAlias = tuple[tuple[Knob, ...], tuple[str, ...]]
"""Knobs, and the constraints between them."""
_LAUNCHERS = frozenset({"torchrun", "deepspeed", "accelerate", "mpirun", "torch.distributed.run"})
_TRANSFORMERS = re.compile(r"^\s*(import|from)\s+(transformers|trl)\b", re.MULTILINE)
_WORDS: Mapping[str, tuple[str, ...]] = {
    "attn_implementation": ("eager", "sdpa"),
    "optim": ("adamw_torch", "adamw_torch_fused"),
}
"""Settings that take a word: the slower one, and the faster one that computes the same."""
_WORKERS = "dataloader_num_workers"


def draft_huggingface(
    sources: Mapping[str, str],
    command: Sequence[str],
    *,
    configured: Mapping[str, bytes],
    folder: str = ".",
    device: str,
    torch: str,
) -> Drafted:
    """Draft the knobs and constraints of a program that parses TrainingArguments.

    Parameters
    ----------
    sources
        The entry script and what it imports in the repository, by path.
    command
        The reference launch.
    configured
        Contents of the files that the command names, by path from the root: the arguments may
        stand in one of them.
    folder
        Where the command runs, relative to the root.
    device
        ``cpu`` or ``cuda``.
    torch
        Version of torch in the training interpreter.

    Returns
    -------
    knobs, constraints
        Nothing where the arguments are made in code: those are no settings from outside.
    """
    catalogue = _catalogue()
    found = find_training_arguments(
        sources, classes=catalogue["classes"], parsers=catalogue["parsers"]
    )
    said = read_said(found, command, configured=configured, folder=folder) if found else None
    elsewhere = _words_in_files(sources, configured)
    if said is None:
        return elsewhere, ()
    rows = [_known_as(row, said) for row in catalogue["flags"]]
    rows = [row for row in rows if _makes_sense(row, said, command, device=device, torch=torch)]
    knobs = {row["name"]: knob for row in rows if (knob := _knob(row, said)) is not None}
    workers = knobs.get(_WORKERS)
    constraints = []
    for row in rows:
        knob = knobs.get(row["name"])
        if knob is None or "needs_workers" not in row:
            continue
        if workers is None or not (knob.default == row["default"] or workers.default):
            del knobs[knob.name]
        else:
            constraints.append(f"{knob.name} == {row['default']!r} or {_WORKERS} > 0")
    batch, product = _batch(catalogue["batch"], said)
    library = (*knobs.values(), *batch), (*product, *constraints)
    return joined_drafts((elsewhere, ()), library)


def joined_drafts(general: Drafted, library: Drafted) -> Drafted:
    """Join two drafts of one program; where both know a setting, the library's own row counts."""
    known = {knob.name for knob in library[0]}
    knobs = [knob for knob in general[0] if knob.name not in known]
    constraints = [
        each for each in general[1] if known.isdisjoint(re.findall(r"[A-Za-z_]\w*", each))
    ]
    return (*library[0], *knobs), (*library[1], *constraints)


def _words_in_files(
    sources: Mapping[str, str], configured: Mapping[str, bytes]
) -> tuple[Knob, ...]:
    """Give knobs for what only transformers' own words say in the command's configuration files."""
    if not any(_TRANSFORMERS.search(text) for text in sources.values()):
        return ()
    found: dict[str, Knob] = {}
    for file, content in configured.items():
        for key, value in _keys(file, content).items():
            name = key.rpartition(".")[2].lstrip("_")
            words = _WORDS.get(name, ())
            if value in words[:1] and name not in found:
                found[name] = Knob(
                    name=name, reach=ConfigKey(file=file, key=key), values=words, default=value,
                    raises_memory="down" if name == "attn_implementation" else None,
                )  # fmt: skip
    return tuple(found.values())


def _keys(file: str, content: bytes) -> dict[str, Scalar]:
    try:
        return keys_in(file, content)
    except ContractError:  # whoever reads the file will say so
        return {}


def _known_as(row: Mapping[str, Any], said: Said) -> Mapping[str, Any]:
    """Give a row the name that the launch uses, where a flag has several."""
    used = [name for name in row.get("also", ()) if said.names(name)]
    return {**row, "name": used[0]} if used else row


def _makes_sense(
    row: Mapping[str, Any], said: Said, command: Sequence[str], *, device: str, torch: str
) -> bool:
    """Tell whether a flag can matter for this reference on this machine."""
    name = row["name"]
    if row.get("device", device) != device:
        return False
    if row.get("distributed") and _LAUNCHERS.isdisjoint(w.rpartition("/")[2] for w in command):
        return False
    if row.get("named") and not said.names(name):
        return False
    if "torch_below" in row and not said.names(name):
        return _release(torch) < _release(row["torch_below"])
    if name == "logging_steps" and not said.names("eval_steps"):
        # Evaluation goes by the logging interval where it has none of its own.
        return {said.value(e, "no") for e in ("eval_strategy", "evaluation_strategy")} == {"no"}
    return True


def _release(version: str) -> tuple[int, ...]:
    numbers = version.partition("+")[0].split(".")[:2]
    return tuple(int(each) if each.isdigit() else 0 for each in numbers)


def _knob(row: Mapping[str, Any], said: Said) -> Knob | None:
    """Give a flag's knob, or nothing where its value is none that the catalogue knows."""
    name, ladder = row["name"], list(row["values"])
    boolean = any(isinstance(step, bool) for step in ladder)
    present = said.value(name, row["default"], boolean=boolean)
    reach = said.reach(name)
    if reach is None or (isinstance(present, bool) != boolean and present is not None):
        return None
    ladder = _joined(ladder, present)
    if row.get("rising"):
        lowest = present if isinstance(present, int) else 0
        ladder = [step for step in ladder if isinstance(step, int) and step >= lowest]
    if len(ladder) < 2 or not any(same_scalar(step, present) for step in ladder):
        return None
    return Knob(
        name=name, reach=reach, values=tuple(ladder), default=present,
        raises_memory=row.get("raises_memory"),
    )  # fmt: skip


def _joined(ladder: list[Scalar], present: Scalar) -> list[Scalar]:
    """Put a present number, switch or nothing among the others; a word must be known already."""
    if present in ladder or isinstance(present, str | float):
        return ladder
    unsaid: list[Scalar] = [step for step in [*ladder, present] if step is None]
    switches: list[Scalar] = [step for step in [present, *ladder] if isinstance(step, bool)]
    numbers = sorted(step for step in [*ladder, present] if type(step) is int)
    words = [step for step in ladder if isinstance(step, str)]
    return [*unsaid, *switches, *numbers, *words]


def _batch(names: Mapping[str, Any], said: Said) -> Drafted:
    """Give batch size and accumulation, tied so that the global batch stays."""
    pair = (names["micro"], names["accumulation"])
    reaches = [reach for each in pair if (reach := said.reach(each["name"])) is not None]
    sizes = [said.value(each["name"], each["default"]) for each in pair]
    numbers = [size for size in sizes if type(size) is int and size > 0]
    if said.value(names["unless"], default=False, boolean=True) or len(numbers) < len(pair):
        return (), ()
    product = numbers[0] * numbers[1]
    divisors = tuple(n for n in range(1, product + 1) if product % n == 0)
    if len(divisors) < 2 or len(reaches) < len(pair):
        return (), ()
    knobs = tuple(
        Knob(name=each["name"], reach=reach, values=divisors, default=size, raises_memory=direction)
        for each, reach, size, direction in zip(pair, reaches, numbers, ("up", "down"), strict=True)
    )
    return knobs, (f"{pair[0]['name']} * {pair[1]['name']} == {product}",)


@cache
def _catalogue() -> dict[str, Any]:
    text = files("infrarsi.frameworks").joinpath("huggingface.yaml").read_text(encoding="utf-8")
    loaded: dict[str, Any] = yaml.safe_load(text)
    return loaded
