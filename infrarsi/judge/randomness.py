"""Numbers that training draws by chance, and what another draw of them would explain.

Both arms are launched with one seed, so that dropout and sampling come out alike, as long as both
draw in the same order. An honest change may not: attention that draws its dropout in one kernel, a
mask that is drawn once. Doctor therefore stirs the program's global generators in one of its null
launches, before the first forward. Batches that move then are drawn from the same generators as
the model's numbers; a model that moves, on equal batches, draws numbers itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from infrarsi.judge.bands import Segment
from infrarsi.judge.deviations import deviations
from infrarsi.records.baseline import Band, Randomness
from infrarsi.records.evidence import Evidence
from infrarsi.records.task import Metric, Window

STIRRED = "generators stirred"
"""What the label of such a null launch says."""

EXPLAINED = 2.0
"""One draw says little of the next: up to so many times what it differed by is explained."""


def is_stirred(label: str) -> bool:
    """Tell whether a null launch's label says that its generators were stirred."""
    return STIRRED in label


def randomness_of(
    stirred: Evidence, reference: Evidence, bands: Sequence[Band], window: Window
) -> Randomness:
    """Tell what in the reference depends on its global generators.

    Parameters
    ----------
    stirred : Evidence
        A null launch whose generators were stirred before the first forward.
    reference : Evidence
        The launch that candidates are paired with.
    bands : sequence of Band
        As the other null launches give them.
    window : Window
        What is compared.

    Notes
    -----
    Where the batches move, nothing can be said of the model, for it learns from others.
    When not to trust it: a generator that the program seeds anew at every update, or one of its
    own, is not stirred, and need not be.
    """
    moved = next(
        (
            mine.update
            for mine, theirs in zip(stirred.updates, reference.updates, strict=False)
            if mine.batch is not None and theirs.batch is not None and mine.batch != theirs.batch
        ),
        None,
    )
    if moved is not None:
        return Randomness(data_from=moved)
    apart = deviations(stirred, reference, window)
    redraw = {}
    for band in bands:
        if "@" in band.metric:
            continue
        score = Segment.of(band.metric).score(apart[Metric(band.metric)])
        if band.limit < score < math.inf:
            redraw[band.metric] = score
    return Randomness(redraw=redraw)
