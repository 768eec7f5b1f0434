"""A drafted batch is tied as the rehearsal showed that the program reads it."""

import pytest

from infrarsi.records.evidence import Evidence, UpdateSeen
from infrarsi.records.task import Flag, Knob, Surface
from infrarsi.stages.drafting.batch import seen_batch


def surface(batch=8, accumulation=2, names=("batch_size", "grad_accum")):
    product = batch * accumulation
    values = tuple(n for n in range(1, product + 1) if product % n == 0)
    knobs = [
        Knob(name=name, reach=Flag(flag=f"--{name}"), values=values, default=default)
        for name, default in zip(names, (batch, accumulation), strict=True)
    ]
    other = Knob(name="fused", reach=Flag(flag="--fused"), values=(0, 1), default=0)
    return Surface(
        editable=(), knobs=(*knobs, other),
        constraints=(f"{names[0]} * {names[1]} == {product}", "fused == 0 or fused == 1"),
    )  # fmt: skip


def rehearsed(forwards, sequences):
    return Evidence(updates=tuple(
        UpdateSeen(update=n, t_ns=n, forwards=forwards, sequences=sequences) for n in (1, 2, 3)
    ))  # fmt: skip


def test_a_batch_size_that_accumulation_divides_is_no_knob():
    seen = seen_batch(surface(), rehearsed(forwards=2, sequences=8))
    assert [knob.name for knob in seen.knobs] == ["grad_accum", "fused"]
    assert seen.knobs[0].values == (1, 2, 4, 8)
    assert seen.constraints == ("fused == 0 or fused == 1",)
    Surface.model_validate(seen.model_dump())


@pytest.mark.parametrize(
    ("drafted", "evidence"),
    [
        (surface(), rehearsed(forwards=2, sequences=16)),
        (surface(accumulation=1), rehearsed(forwards=1, sequences=8)),
        (surface(), rehearsed(forwards=1, sequences=8)),
        (surface(), rehearsed(forwards=None, sequences=None)),
        (surface(), Evidence()),
        (surface(names=("width", "depth")), rehearsed(forwards=2, sequences=8)),
    ],
    ids=["micro-batch", "no accumulation", "other forwards", "not seen", "nothing", "no batch"],
)
def test_a_pair_whose_product_is_the_batch_or_that_was_not_seen_stays_tied(drafted, evidence):
    assert seen_batch(drafted, evidence) == drafted
