"""Drafting knobs: a program's settings met with the catalogue of what is known to be safe."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from infrarsi.frameworks.program import Setting
from infrarsi.records.base import Scalar
from infrarsi.records.task import Environment, Flag, Knob


def draft_knobs(
    settings: Iterable[Setting], command: Sequence[str], *, device: str
) -> tuple[tuple[Knob, ...], tuple[str, ...]]:
    """Draft the knobs and constraints of a contract.

    Parameters
    ----------
    settings
        The flags that the program declares.
    command
        The reference launch; a flag in it gives the knob's default.
    device
        ``cpu`` or ``cuda``: which environment knobs make sense.

    Returns
    -------
    knobs, constraints
        Only settings known to leave the training the same in exact arithmetic; the owner
        adds others, and the judge refuses what changes the training all the same.
    """
    settings = list(settings)
    knobs = [knob for each in settings if (knob := _flag_knob(each, command)) is not None]
    batch, constraints = _batch_knobs(settings, command)
    return (*knobs, *batch, *_environment_knobs(device)), constraints


def _flag_knob(setting: Setting, command: Sequence[str]) -> Knob | None:
    rule = next((r for r in _catalogue()["flags"] if re.fullmatch(r["names"], setting.name)), None)
    if rule is None:
        return None
    default = _present_value(setting, command)
    match rule:
        case {"booleans": True} if setting.kind == "bool":
            values: tuple[Scalar, ...] = (False, True)
        case {"choices": True} if len(setting.choices) > 1:
            values = setting.choices
        case {"values": list(ladder)} if setting.kind == "int":
            values = tuple(_ladder(ladder, default))
        case _:
            return None
    if default not in values:
        return None
    return Knob(
        name=setting.name, reach=Flag(flag=setting.flag, style=setting.style), values=values,
        default=default, raises_memory=rule.get("raises_memory"),
    )  # fmt: skip


def _ladder(ladder: list[Any], default: Scalar) -> list[Scalar]:
    numbers = {default if step == "default" else step for step in ladder} | {default}
    return [*sorted(n for n in numbers if isinstance(n, int))]


def _batch_knobs(
    settings: Sequence[Setting], command: Sequence[str]
) -> tuple[tuple[Knob, ...], tuple[str, ...]]:
    """Give the micro-batch and accumulation knobs, tied so that the global batch stays."""
    names = _catalogue()["batch"]
    micro = _only(settings, names["micro"])
    accumulation = _only(settings, names["accumulation"])
    if micro is None or accumulation is None:
        return (), ()
    sizes = [_present_value(each, command) for each in (micro, accumulation)]
    if not all(isinstance(size, int) and size > 0 for size in sizes):
        return (), ()
    product = int(sizes[0] or 0) * int(sizes[1] or 0)
    if product == 1:
        return (), ()
    divisors = [n for n in range(1, product + 1) if product % n == 0]
    knobs = tuple(
        Knob(
            name=setting.name, reach=Flag(flag=setting.flag), values=tuple(divisors),
            default=size, raises_memory=direction,
        )
        for setting, size, direction in zip(
            (micro, accumulation), sizes, ("up", "down"), strict=True
        )
    )  # fmt: skip
    return knobs, (f"{micro.name} * {accumulation.name} == {product}",)


def _only(settings: Sequence[Setting], names: str) -> Setting | None:
    found = [s for s in settings if s.kind == "int" and re.fullmatch(names, s.name)]
    return found[0] if len(found) == 1 else None


def _environment_knobs(device: str) -> list[Knob]:
    return [
        Knob(
            name=row["name"], reach=Environment(variable=row["variable"]),
            values=tuple(row["values"]), default=row["values"][0],
            raises_memory=row.get("raises_memory"),
        )
        for row in _catalogue()["environment"]
        if row["device"] == device
    ]  # fmt: skip


def _present_value(setting: Setting, command: Sequence[str]) -> Scalar:
    """Give a flag's value in the command, or the program's own default."""
    value = setting.default
    negation = "--no-" + setting.flag.removeprefix("--")
    for index, word in enumerate(command):
        name, _, said = word.partition("=")
        if word == negation:
            value = False
        elif name == setting.flag and setting.kind == "bool":
            value = True
        elif name == setting.flag:
            value = _parse(setting, said or command[min(index + 1, len(command) - 1)])
    return value


def _parse(setting: Setting, said: str) -> Scalar:
    try:
        match setting.kind:
            case "int":
                return int(said)
            case "float":
                return float(said)
            case _:
                return said
    except ValueError:
        return setting.default


@cache
def _catalogue() -> dict[str, Any]:
    text = files("infrarsi.frameworks").joinpath("settings.yaml").read_text(encoding="utf-8")
    loaded: dict[str, Any] = yaml.safe_load(text)
    return loaded
