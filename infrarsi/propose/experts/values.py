"""What the expressions in a loop over experts are worth, as far as the rewriting must know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import libcst as cst


@dataclass(frozen=True)
class Choice:
    """The comparison that finds out which tokens chose the expert of a round."""

    chosen: str
    """The tensor of chosen experts: one row a token, one column a slot (or no columns)."""
    by_slot: bool = False
    """Whether the hits come in the order of their slots, since the mask was transposed."""


@dataclass(frozen=True)
class Round:
    """The number of the expert whose round it is."""


@dataclass(frozen=True)
class Mask:
    """True where a token chose the expert."""

    choice: Choice
    by_row: bool = False
    """Whether the slots were taken together by ``any``."""


@dataclass(frozen=True)
class Places:
    """What ``nonzero`` gives for a mask: a tuple of indices, or a table of them."""

    choice: Choice
    table: bool = False


@dataclass(frozen=True)
class Index:
    """The rows, or the slots, in which the expert was chosen."""

    choice: Choice
    axis: str


@dataclass(frozen=True)
class Selected:
    """A tensor's entries where the expert was chosen."""

    choice: Choice
    base: str
    cells: bool = False
    """Whether rows and slots were both given, as ``weights[row, slot]``."""
    by_mask: bool = False
    """Whether the whole mask was the index, so that it has one entry for each row of ``base``."""
    dense: bool = False
    """Whether the column is the expert's own: ``gates[row, e]``."""
    column: bool = False
    """Whether an axis of size one stands last, so that it scales whole rows."""
    lead: bool = False
    """Whether an axis of size one stands first."""


@dataclass(frozen=True)
class Masked:
    """``weights * mask``, and its sum over the slots: a weight for each row."""

    choice: Choice
    base: str
    summed: bool = False
    column: bool = False


@dataclass(frozen=True)
class Code:
    """Anything computed from the expert's number and the rows that it was given."""

    text: str
    tokens: Selected | None = None


@dataclass(frozen=True)
class Product:
    """What an expert made of its rows, times their weights."""

    code: Code
    weights: Selected


Value: TypeAlias = (
    Round | Mask | Places | Index | Selected | Masked | Code | Product
)  # fmt: skip


@dataclass(frozen=True)
class Dispatch:
    """All that is needed to do a loop's work in another order."""

    loop: cst.For
    out: str
    adds: bool
    """Whether outputs are added to what ``out`` holds, or put in its place."""
    number: str
    """The loop's name for the expert's number."""
    experts: str
    """A range of their numbers."""
    rows: str
    """The name that an expert's rows get."""
    code: Code
    steps: tuple[str, ...]
    """Statements that come before what the code gives."""
    weights: Selected | None
    skips_empty: bool
    choice: Choice
