"""Drafting knobs: a program's settings met with the catalogue of what is known to be safe."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from infrarsi.frameworks.given import Given, given_values
from infrarsi.frameworks.program import Setting
from infrarsi.records.base import Scalar
from infrarsi.records.effect import Claim
from infrarsi.records.task import (
    ConfigKey,
    Environment,
    Flag,
    Knob,
    Override,
    same_scalar,
)


def draft_knobs(
    settings: Iterable[Setting],
    command: Sequence[str],
    *,
    device: str,
    environ: Mapping[str, str] | None = None,
) -> tuple[tuple[Knob, ...], tuple[str, ...]]:
    """Draft the knobs and constraints of a contract.

    Parameters
    ----------
    settings
        The settings that the program declares, or that stand in its configuration files.
    command
        The reference launch; what it says itself gives a knob's default.
    device
        ``cpu`` or ``cuda``: which environment knobs make sense.
    environ
        The environment of the reference launch: a variable in it gives a knob's default.

    Returns
    -------
    knobs, constraints
        Only settings known to leave the training the same in exact arithmetic; the owner
        adds others, and the judge refuses what changes the training all the same.
    """
    given = given_values(tuple(settings), command)
    knobs = [knob for each in given if (knob := _knob(each)) is not None]
    batch, constraints = _batch_knobs(given)
    return (*knobs, *batch, *_environment_knobs(device, environ or {})), constraints


def claim_of(knob: Knob) -> Claim:
    """Give what a knob seems to set, by its name and by what it reaches the program with."""
    names = _names_of(knob)
    for pattern, claim in _claims():
        if any(re.fullmatch(pattern, name) for name in names):
            return claim
    return "anything"


def role_of(knob: Knob) -> str | None:
    """Give what a knob is, whatever its program calls it: ``recompute``; ``None``: not known."""
    names = _names_of(knob)
    return next(
        (role for pattern, role in _roles() if any(re.fullmatch(pattern, name) for name in names)),
        None,
    )


def _names_of(knob: Knob) -> set[str]:
    names = {knob.name}
    match knob.reach:
        case Flag(flag=flag):
            names.add(flag.lstrip("-").rsplit(".", 1)[-1].replace("-", "_"))
        case ConfigKey(key=key) | Override(key=key):
            names.add(key.rsplit(".", 1)[-1])
        case Environment(variable=variable):
            names.add(variable)
    return names


@cache
def _roles() -> tuple[tuple[str, str], ...]:
    catalogue = _catalogue()
    rows = [(names, f"batch_{part}") for part, names in catalogue["batch"].items()]
    return (*rows, *((row["names"], row["role"]) for row in catalogue["flags"] if "role" in row))


@cache
def _claims() -> tuple[tuple[str, Claim], ...]:
    catalogue = _catalogue()
    rows: list[tuple[str, Claim]] = [
        (names, "micro_batches") for names in catalogue["batch"].values()
    ]
    rows += [(row["names"], row["claims"]) for row in catalogue["flags"] if "claims" in row]
    rows += [(row["variable"], row["claims"]) for row in catalogue["claimed_variables"]]
    return tuple(rows)


def _knob(given: Given) -> Knob | None:
    setting, default = given.setting, given.value
    flags = _catalogue()["flags"]
    rule: dict[str, Any] = next(
        (row for row in flags if re.fullmatch(row["names"], setting.known_as)), {}
    )
    match rule:
        case {"booleans": True} if setting.kind == "bool" and isinstance(default, bool):
            values: tuple[Scalar, ...] = (False, True)
        case {"choices": True} if len(setting.choices) > 1:
            values = setting.choices
        case {"values": list(ladder)} if setting.kind == "int":
            values = tuple(_ladder(ladder, default))
        case _:
            return None
    if not any(same_scalar(default, value) for value in values):
        return None
    return Knob(
        name=given.name, reach=given.reach, values=values, default=default,
        raises_memory=rule.get("raises_memory"),
    )  # fmt: skip


def _ladder(ladder: list[Any], default: Scalar) -> list[Scalar]:
    numbers = {default if step == "default" else step for step in ladder} | {default}
    return [*sorted(n for n in numbers if isinstance(n, int))]


def _batch_knobs(given: Sequence[Given]) -> tuple[tuple[Knob, ...], tuple[str, ...]]:
    """Give the micro-batch and accumulation knobs, tied so that the global batch stays."""
    names = _catalogue()["batch"]
    micro = _only(given, names["micro"])
    accumulation = _only(given, names["accumulation"])
    if micro is None or accumulation is None:
        return (), ()
    sizes = [each.value for each in (micro, accumulation)]
    if not all(isinstance(size, int) and size > 0 for size in sizes):
        return (), ()
    product = int(sizes[0] or 0) * int(sizes[1] or 0)
    if product == 1:
        return (), ()
    divisors = [n for n in range(1, product + 1) if product % n == 0]
    knobs = tuple(
        Knob(
            name=each.name, reach=each.reach, values=tuple(divisors), default=each.value,
            raises_memory=direction,
        )
        for each, direction in zip((micro, accumulation), ("up", "down"), strict=True)
    )  # fmt: skip
    return knobs, (f"{micro.name} * {accumulation.name} == {product}",)


def _only(given: Sequence[Given], names: str) -> Given | None:
    """Give the one setting of a name; of several, the one that says it is the micro-batch."""
    found = [
        each
        for each in given
        if each.setting.kind == "int" and re.fullmatch(names, each.setting.known_as)
    ]
    micro = [each for each in found if "micro" in each.setting.known_as]
    return (micro or found)[0] if len(micro or found) == 1 else None


def _environment_knobs(device: str, environ: Mapping[str, str]) -> list[Knob]:
    knobs = []
    for row in _catalogue()["environment"]:
        if row["device"] != device:
            continue
        separator, values = row.get("separator"), tuple(row["values"])
        default: Scalar = values[0]
        if separator is None and row["variable"] in environ:
            default = environ[row["variable"]]
        if not any(same_scalar(default, value) for value in values):
            values = (default, *values)
        knobs.append(
            Knob(
                name=row["name"], values=values, default=default,
                reach=Environment(variable=row["variable"], separator=separator),
                raises_memory=row.get("raises_memory"),
            )
        )  # fmt: skip
    return knobs


@cache
def _catalogue() -> dict[str, Any]:
    text = files("infrarsi.frameworks").joinpath("settings.yaml").read_text(encoding="utf-8")
    loaded: dict[str, Any] = yaml.safe_load(text)
    return loaded
