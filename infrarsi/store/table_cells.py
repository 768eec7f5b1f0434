"""Cells of a table: text that becomes numbers, switches, words or nothing."""

from __future__ import annotations

import math

from infrarsi.errors import TableError
from infrarsi.records.base import Scalar
from infrarsi.records.table import TableKnob

_BLANK = {"", "nan", "NaN", "NA", "N/A", "null", "NULL", "None"}
_SWITCHES = {"true": True, "false": False}
_CARRIED = {
    "1": True, "1.0": True, "true": True, "yes": True, "on": True,
    "0": False, "0.0": False, "false": False, "no": False, "off": False,
}  # fmt: skip


def is_blank(cell: str) -> bool:
    """Tell whether a cell says nothing. The word ``none`` is a value."""
    return cell.strip() in _BLANK


def number_of(cell: str) -> float | None:
    """Give a finite number, or ``None``."""
    try:
        number = float(cell)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def scalar_of(cell: str) -> Scalar:
    """Give what a cell says, in the narrowest type."""
    text = cell.strip()
    if is_blank(text):
        return None
    if text.lower() in _SWITCHES:
        return _SWITCHES[text.lower()]
    number = number_of(text)
    if number is None:
        return text
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def read_knob(name: str, knob: TableKnob, cell: str, *, line: int) -> Scalar:
    """Give a knob's value: a word, a switch or ``None`` for a category, else a number.

    Of a patch: whether it is carried; a blank cell says that it is not.

    Raises
    ------
    TableError
        It is no number, or not above 0 where its scale is of doublings; it does not say whether a
        patch is carried; or it is a word, and words have no order in which memory could rise.
    """
    value = scalar_of(cell)
    if knob.patch:
        carried = False if value is None else _CARRIED.get(cell.strip().lower())
        if carried is None:
            raise TableError(
                f"line {line}: the patch {name!r} is {cell.strip()!r}, which does not say whether "
                "it is carried",
                hint="write 0 or 1, or leave `patch` out where the column is a setting",
            )
        return carried
    if knob.scale == "category" and knob.raises_memory:
        if isinstance(value, str):
            raise TableError(
                f"line {line}: the knob {name!r} is {value!r}, and words have no order in which "
                f"memory goes {knob.raises_memory}",
                hint="write numbers in that order, or leave raises_memory out",
            )
        return value
    if knob.scale == "category":
        return value if isinstance(value, bool) or value is None else cell.strip()
    if isinstance(value, str):
        raise TableError(
            f"line {line}: the knob {name!r} is {value!r}, which is no number",
            hint=f"correct the cell, or give {name!r} the scale `category`",
        )
    if knob.scale == "log2" and value is not None and value <= 0:
        raise TableError(
            f"line {line}: the knob {name!r} is {value}, and its scale is `log2`",
            hint=f"correct the cell, or give {name!r} the scale `ordinal`",
        )
    return value
