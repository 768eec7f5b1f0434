"""Whether a drafted pair of batch knobs means what its constraint says, told from the rehearsal."""

from __future__ import annotations

import re

from infrarsi.frameworks.catalogue import claim_of
from infrarsi.records.evidence import Evidence
from infrarsi.records.task import Knob, Surface

_PRODUCT = re.compile(r"(\w+) \* (\w+) == \d+")


def seen_batch(surface: Surface, evidence: Evidence) -> Surface:
    """Give a drafted surface with its batch knobs as the program was seen to read them.

    Most programs read a batch size for each forward: the product with the accumulation is the
    global batch. Some read the global batch, and accumulation divides it. That shows where a
    rehearsed update takes as many forwards as the accumulation says, over no more rows than the
    batch size: the batch size is then no knob, and accumulation is free among its divisors.
    """
    for constraint in surface.constraints:
        found = _PRODUCT.fullmatch(constraint)
        pair = [_knob(surface, name) for name in found.groups()] if found else []
        if None in pair or not pair:
            continue
        batch, accumulation = (each for each in pair if each is not None)
        if claim_of(batch) == claim_of(accumulation) == "micro_batches" and _divides(
            batch, accumulation, evidence
        ):
            return _freed(surface, constraint, batch, accumulation)
    return surface


def _knob(surface: Surface, name: str) -> Knob | None:
    return next((knob for knob in surface.knobs if knob.name == name), None)


def _divides(batch: Knob, accumulation: Knob, evidence: Evidence) -> bool:
    if int(batch.default or 0) % int(accumulation.default or 1):
        return False
    rows = [row for row in evidence.updates if row.forwards and row.sequences]
    return bool(rows) and all(
        row.forwards == accumulation.default != 1 and row.sequences == batch.default for row in rows
    )


def _freed(surface: Surface, constraint: str, batch: Knob, accumulation: Knob) -> Surface:
    size = int(batch.default or 1)
    divisors = tuple(n for n in range(1, size + 1) if size % n == 0)
    free = accumulation.model_copy(update={"values": divisors})
    return surface.model_copy(
        update={
            "knobs": tuple(
                free if knob == accumulation else knob for knob in surface.knobs if knob != batch
            ),
            "constraints": tuple(each for each in surface.constraints if each != constraint),
        }
    )
