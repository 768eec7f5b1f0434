"""The plots of the confirmation: ratios by block, every launch, and the verdict as a strip."""

from __future__ import annotations

from infrarsi.records.report import Confirmed, PairRow
from infrarsi.records.verdict import Ruling
from infrarsi.render import numbers
from infrarsi.render.drawing import (
    WIDTH,
    Drawing,
    Scale,
    diamond,
    disc,
    label,
    legend,
    marked,
    rule,
    square,
    tick_words,
    vertical_axis,
)
from infrarsi.render.forest import Bar, Line, draw_forest

_CLASS = {Ruling.PASS: "pass", Ruling.FAIL: "fail", Ruling.INCONCLUSIVE: "warn"}


def draw_blocks(confirmed: Confirmed) -> Drawing:
    """Draw the ratio of every block, the overall interval, and the threshold."""
    bars = [
        Bar(
            name=f"block {block.block}, {block.order}",
            point=block.ratio,
            value=numbers.ratio(block.ratio, decimals=3),
            tip=_block_tip(block),
            cls="mark mute",
        )
        for block in confirmed.blocks
    ]
    speedup = confirmed.speedup
    if speedup is not None:
        bars.append(
            Bar(
                name=f"overall, {numbers.level(speedup)}",
                point=speedup.point,
                low=speedup.low,
                high=speedup.high,
                value=numbers.ratio_estimate(speedup),
                tip=f"Overall {numbers.ratio_estimate(speedup)}, {numbers.level(speedup)} interval",
                cls=f"mark {_CLASS[confirmed.ruling]}",
                whole=True,
            )
        )
    return draw_forest(
        bars,
        _lines(confirmed),
        name="blocks",
        title="Speedup, block by block",
        axis_title="reference time / winner time (to the right: winner faster)",
    )


def draw_launches(confirmed: Confirmed) -> Drawing:
    """Draw the update time of every launch in the order it ran."""
    launches = [launch for block in confirmed.blocks for launch in _in_order(block)]
    times = [seconds for _, _, seconds in launches]
    entries = [
        (disc(0, 0, cls="mark reference-mark"), "reference (A)"),
        (square(0, 0, cls="mark pass"), "winner (B)"),
    ]
    keys, used = legend(entries, x=16, y=16, right=WIDTH - 10)
    top, bottom = used + 34, used + 250
    xs = Scale(0.3, len(launches) + 0.7, start=76, end=WIDTH - 18)
    scale, unit = numbers.time_unit(max(times))
    spread = (max(times) - min(times)) / scale or max(times) / scale * 0.1
    low = max(0.0, min(times) / scale - 0.12 * spread)
    ys = Scale(low, max(times) / scale + 0.08 * spread, start=bottom, end=top)
    drawn = [
        keys,
        vertical_axis(ys, xs.start, right=xs.end, title=""),
        label(6, top - 14, f"{unit} per update", cls="axis-title"),
        rule(xs.start, bottom, xs.end, bottom, cls="axis"),
    ]
    place = 0
    for block in confirmed.blocks:
        drawn.append(_draw_block(block, place, xs=xs, ys=ys, scale=scale))
        place += len(_in_order(block))
    middle = (xs.start + xs.end) / 2
    drawn.append(
        label(middle, bottom + 38, "launch, in order; one column a block", anchor="middle",
              cls="axis-title")
    )  # fmt: skip
    return Drawing("".join(drawn), name="launches", title="Every launch", height=bottom + 48)


def draw_strip(confirmed: Confirmed, *, width: float = WIDTH) -> Drawing | None:
    """Draw the verdict as one line: no change, the threshold, the interval, and the blocks."""
    speedup = confirmed.speedup
    if speedup is None:
        return None
    marks = [1.0, confirmed.threshold, speedup.low, speedup.high]
    marks += [block.ratio for block in confirmed.blocks]
    span = max(marks) - min(marks) or 0.1
    xs = Scale(min(marks) - 0.05 * span, max(marks) + 0.06 * span, start=10, end=width - 10)
    y = 58.0
    ticks = xs.ticks(6)
    drawn = [rule(xs.start, y + 16, xs.end, y + 16, cls="axis")]
    for tick, words in zip(ticks, tick_words(ticks), strict=True):
        drawn.append(label(xs(tick), y + 33, f"{words}x", anchor="middle", cls="tick"))
        drawn.append(rule(xs(tick), y + 16, xs(tick), y + 20, cls="axis"))
    threshold = xs(confirmed.threshold)
    drawn += [
        rule(xs(1.0), y - 14, xs(1.0), y + 16, cls="reference"),
        rule(threshold, 18, threshold, y + 16, cls="threshold"),
        label(threshold + 6 if threshold < width / 2 else threshold - 6, 26,
              f"threshold {numbers.ratio(confirmed.threshold, decimals=3)}",
              anchor="start" if threshold < width / 2 else "end", cls="value"),
    ]  # fmt: skip
    tone = _CLASS[confirmed.ruling]
    low, high = xs(speedup.low), xs(speedup.high)
    words = f"{numbers.ratio_estimate(speedup)}"
    half = 3.4 * len(words)
    at = min(max(xs(speedup.point), half + 4), width - half - 4)
    drawn += [
        rule(low, y, high, y, cls=f"whisker thick {tone}"),
        rule(low, y - 7, low, y + 7, cls=f"whisker {tone}"),
        rule(high, y - 7, high, y + 7, cls=f"whisker {tone}"),
    ]
    drawn += [
        marked(_block_tip(block), disc(xs(block.ratio), y + 16, radius=3.5, cls="mark mute"))
        for block in confirmed.blocks
    ]
    drawn.append(diamond(xs(speedup.point), y, radius=7.5, cls=f"mark {tone}"))
    drawn.append(label(at, y - 14, words, anchor="middle", cls="value strong halo"))
    return Drawing("".join(drawn), name="strip", title="The verdict", height=y + 42, width=width)


def _draw_block(block: PairRow, place: int, *, xs: Scale, ys: Scale, scale: float) -> str:
    launches = _in_order(block)
    left, right = xs(place + 0.5), xs(place + len(launches) + 0.5)
    drawn = []
    if place:
        drawn.append(rule(left, ys.end, left, ys.start, cls="lane"))
    wide = right - left > 62
    words = f"{block.block} {block.order}" if wide else str(block.block)
    if wide or right - left > 16:
        drawn.append(label((left + right) / 2, ys.start + 18, words, anchor="middle", cls="tick"))
    for offset, (arm, number, seconds) in enumerate(launches):
        x, y = xs(place + offset + 1), ys(seconds / scale)
        name = "reference" if arm == "A" else "winner"
        tip = f"Block {block.block}, {name} launch {number}: {numbers.duration(seconds)} per update"
        mark = (
            disc(x, y, cls="mark reference-mark") if arm == "A" else square(x, y, cls="mark pass")
        )
        drawn.append(marked(tip, mark))
    return "".join(drawn)


def _in_order(block: PairRow) -> list[tuple[str, int, float]]:
    """Give arm, number within the arm, and seconds of each launch, in the order of the block."""
    left = {"A": list(block.reference_s), "B": list(block.winner_s)}
    taken = {"A": 0, "B": 0}
    ordered = []
    # What the order does not name (a launch that was redone) comes last rather than not at all.
    for arm in [*block.order, *"A" * len(block.reference_s), *"B" * len(block.winner_s)]:
        if arm in left and taken[arm] < len(left[arm]):
            ordered.append((arm, taken[arm] + 1, left[arm][taken[arm]]))
            taken[arm] += 1
    return ordered


def _lines(confirmed: Confirmed) -> list[Line]:
    threshold = f"threshold {numbers.ratio(confirmed.threshold, decimals=3)}"
    return [
        Line(1.0, "1x: no change", "reference"),
        Line(confirmed.threshold, threshold, "threshold"),
    ]


def _block_tip(block: PairRow) -> str:
    reference = ", ".join(numbers.duration(each) for each in block.reference_s)
    winner = ", ".join(numbers.duration(each) for each in block.winner_s)
    ratio = numbers.ratio(block.ratio, decimals=3)
    return f"Block {block.block} ({block.order}): {ratio}; reference {reference}; winner {winner}"
