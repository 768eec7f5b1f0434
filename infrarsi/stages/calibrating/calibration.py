"""What a baseline's launches say under today's rules: spread, bias, and the allowed deviations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from infrarsi.judge.bands import bands_from_null
from infrarsi.judge.randomness import is_stirred, randomness_of
from infrarsi.judge.speedup import interval_of_times, noise_and_bias
from infrarsi.judge.timing import steady_update_s
from infrarsi.records.baseline import Band, Randomness
from infrarsi.records.estimate import Estimate
from infrarsi.records.evidence import Evidence
from infrarsi.records.task import Task


@dataclass(frozen=True)
class Calibration:
    """What judging rests on besides the reference's launch itself."""

    update_s: Estimate
    noise_sd: float
    bias: float
    bands: tuple[Band, ...]
    randomness: Randomness | None
    """``None``: no launch stirred the generators."""


def calibrate(
    task: Task, equal: Sequence[Evidence], disturbed: Sequence[tuple[str, Evidence]]
) -> Calibration:
    """Derive it from equal launches, of which the first is the reference, and disturbed ones.

    A launch that stirred the generators is one of the nulls where nothing came of that. Where
    something did, it says what, and no more: another draw of dropout is no rounding.

    Raises
    ------
    ValueError
        They are too few, or did not get to the window's end.
    """
    times = [steady_update_s(each, task.window) for each in equal]
    nulls = [("the reference again", each) for each in equal[1:]] + list(disturbed)
    still = [(label, each) for label, each in nulls if not is_stirred(label)]
    stirred = next((each for label, each in nulls if is_stirred(label)), None)
    bands = bands_from_null(equal[0], still, task.numerics, task.window)
    randomness = None
    if stirred is not None:
        randomness = randomness_of(stirred, equal[0], bands, task.window)
        if randomness.is_none:
            bands = bands_from_null(equal[0], nulls, task.numerics, task.window)
    noise_sd, bias = noise_and_bias(times)
    return Calibration(
        update_s=interval_of_times(times), noise_sd=noise_sd, bias=bias, bands=bands,
        randomness=randomness,
    )  # fmt: skip
