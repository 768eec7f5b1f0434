"""Drawing in SVG: escaped elements, scales with honest ticks, and the marks that plots share."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from infrarsi.render.document import printable, shortened

WIDTH = 760
"""Width of a full plot in its own units; its height is its own affair."""
_LETTER = 6.3
"""Mean width of a letter at the size of a label, a little on the safe side."""

Anchor = Literal["start", "middle", "end"]


class Scale:
    """A map from values to positions, linear or logarithmic, with round ticks."""

    def __init__(
        self, low: float, high: float, *, start: float, end: float, log: bool = False
    ) -> None:
        if not low < high:
            pad = abs(low) * 0.05 or 1.0
            low, high = low - pad, high + pad
        self.low, self.high = low, high
        self.start, self.end = start, end
        self.log = log and low > 0

    def __call__(self, value: float) -> float:
        """Give the position of a value."""
        low, high = self._scaled(self.low), self._scaled(self.high)
        share = (self._scaled(value) - low) / (high - low)
        return self.start + share * (self.end - self.start)

    def clipped(self, value: float) -> float:
        """Give the position of a value, or of the nearest end."""
        return self(min(max(value, self.low), self.high))

    def ticks(self, most: int = 6) -> list[float]:
        """Give round values inside the scale."""
        if self.log and self.high / self.low > 5:
            first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
            decades = range(first, last + 1)
            ticks = [m * 10.0**k for k in decades for m in (1, 2, 5)]
            inside = [tick for tick in ticks if self.low <= tick <= self.high]
            if len(inside) > most:
                inside = [tick for tick in inside if math.log10(tick) % 1 == 0]
            if len(inside) >= 2:
                return inside
        step = round_step((self.high - self.low) / max(1, most - 1))
        first_index, last_index = math.ceil(self.low / step), math.floor(self.high / step)
        return [index * step for index in range(first_index, last_index + 1)]

    def _scaled(self, value: float) -> float:
        return math.log(value) if self.log else value


def round_step(rough: float) -> float:
    """Give the next 1, 2, 2.5 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough * (1 - 1e-9))


def tick_words(ticks: list[float]) -> list[str]:
    """Write ticks with as many decimals as tell them apart."""
    for decimals in range(7):
        words = [f"{tick:,.{decimals}f}" for tick in ticks]
        exact = all(math.isclose(float(f"{t:.{decimals}f}"), t, abs_tol=1e-12) for t in ticks)
        if exact and len(set(words)) == len(words):
            return words
    return [f"{tick:.4g}" for tick in ticks]


def element(name: str, children: Iterable[str] | str = "", /, **attributes: object) -> str:
    """Make an element. ``cls`` is its class; underscores in attribute names become dashes."""
    written = []
    for key, value in attributes.items():
        if value is None:
            continue
        attribute = "class" if key == "cls" else key.replace("_", "-")
        shown = f"{value:.1f}" if isinstance(value, float) else str(value)
        written.append(f' {attribute}="{escaped(shown)}"')
    inner = children if isinstance(children, str) else "".join(children)
    return f"<{name}{''.join(written)}>{inner}</{name}>"


def escaped(text: str) -> str:
    """Escape a text for HTML and SVG, and take out what would steer or break them."""
    return html.escape(printable(text), quote=True)


def label(
    x: float,
    y: float,
    words: str,
    *,
    anchor: Anchor = "start",
    cls: str = "label",
    room: float | None = None,
) -> str:
    """Write a text; with ``room``, cut it to that width and keep the whole as a tooltip."""
    shown = words if room is None else fitted(words, room)
    tip = element("title", escaped(words)) if shown != words else ""
    return element("text", tip + escaped(shown), x=x, y=y, text_anchor=anchor, cls=cls)


def fitted(words: str, room: float) -> str:
    """Cut a text to a width."""
    return shortened(words, max(1, int(room / _LETTER)))


def text_width(words: str) -> float:
    """Estimate the width of a label."""
    return len(words) * _LETTER


def rule(x1: float, y1: float, x2: float, y2: float, *, cls: str) -> str:
    """Draw a straight line."""
    return element("line", x1=float(x1), y1=float(y1), x2=float(x2), y2=float(y2), cls=cls)


def marked(tip: str, *drawn: str) -> str:
    """Group a mark with the tooltip that tells what it is."""
    return element("g", [element("title", escaped(tip)), *drawn])


def disc(x: float, y: float, *, radius: float = 4.5, cls: str) -> str:
    """Draw a round mark."""
    return element("circle", cx=float(x), cy=float(y), r=float(radius), cls=cls)


def cross(x: float, y: float, *, radius: float = 4.5, cls: str) -> str:
    """Draw an x."""
    r = radius
    path = (
        f"M{x - r:.1f} {y - r:.1f}l{2 * r:.1f} {2 * r:.1f}m0 {-2 * r:.1f}l{-2 * r:.1f} {2 * r:.1f}"
    )
    return element("path", d=path, cls=cls)


def diamond(x: float, y: float, *, radius: float = 5.5, cls: str) -> str:
    """Draw a diamond."""
    r = radius
    path = f"M{x:.1f} {y - r:.1f}l{r:.1f} {r:.1f}l{-r:.1f} {r:.1f}l{-r:.1f} {-r:.1f}z"
    return element("path", d=path, cls=cls)


def square(x: float, y: float, *, radius: float = 4.0, cls: str) -> str:
    """Draw a square mark."""
    return element(
        "rect", x=float(x - radius), y=float(y - radius),
        width=float(2 * radius), height=float(2 * radius), cls=cls,
    )  # fmt: skip


def triangle(x: float, y: float, *, radius: float = 5.0, cls: str) -> str:
    """Draw a triangle that points down."""
    r = radius
    path = f"M{x - r:.1f} {y - 0.7 * r:.1f}h{2 * r:.1f}l{-r:.1f} {1.6 * r:.1f}z"
    return element("path", d=path, cls=cls)


def horizontal_axis(scale: Scale, y: float, *, top: float, title: str, most: int = 7) -> str:
    """Draw an axis below a plot, its grid up to ``top``, and its title with the unit."""
    ticks = scale.ticks(most)
    drawn = [rule(scale.start, y, scale.end, y, cls="axis")]
    for tick, words in zip(ticks, tick_words(ticks), strict=True):
        x = scale(tick)
        drawn += [
            rule(x, top, x, y, cls="grid"),
            label(x, y + 16, words, anchor="middle", cls="tick"),
        ]
    middle = (scale.start + scale.end) / 2
    drawn.append(label(middle, y + 34, title, anchor="middle", cls="axis-title"))
    return "".join(drawn)


def vertical_axis(scale: Scale, x: float, *, right: float, title: str, most: int = 6) -> str:
    """Draw an axis left of a plot, its grid to ``right``, and its title above it."""
    ticks = scale.ticks(most)
    drawn = []
    for tick, words in zip(ticks, tick_words(ticks), strict=True):
        y = scale(tick)
        drawn += [
            rule(x, y, right, y, cls="grid"),
            label(x - 8, y + 4, words, anchor="end", cls="tick"),
        ]
    drawn.append(
        label(x - 8, min(scale.start, scale.end) - 12, title, anchor="end", cls="axis-title")
    )
    return "".join(drawn)


def legend(
    entries: list[tuple[str, str]], *, x: float, y: float, right: float
) -> tuple[str, float]:
    """Draw marks with their names, in as many rows as they need; give the height used too."""
    drawn, left, row = [], x, 0
    for mark, words in entries:
        width = 18 + text_width(words) + 16
        if left + width > right and left > x:
            left, row = x, row + 1
        position = element("g", mark, transform=f"translate({left + 6:.1f} {y + 20 * row - 4:.1f})")
        drawn += [position, label(left + 18, y + 20 * row, words)]
        left += width
    return "".join(drawn), 20.0 * (row + 1)


@dataclass(frozen=True)
class Drawing:
    """A finished plot, which may stand alone in a page or inside another drawing."""

    content: str
    name: str
    title: str
    height: float
    width: float = WIDTH

    def svg(self) -> str:
        """Give it as an image with a name, and a description, for those who cannot see it."""
        named = element("title", escaped(self.title), id=f"{self.name}-title")
        return element(
            "svg",
            [named, self.content],
            viewBox=f"0 0 {self.width:g} {self.height:g}",
            role="img",
            aria_labelledby=f"{self.name}-title",
            aria_describedby=f"{self.name}-text",
            cls="plot",
        )

    def placed(self, x: float, y: float) -> str:
        """Give it as a part of another drawing."""
        return element("g", self.content, transform=f"translate({x:g} {y:g})")
