"""The search as it happens: a live table on a terminal, one plain line a trial elsewhere."""

from __future__ import annotations

import os
from collections import deque
from types import TracebackType
from typing import TYPE_CHECKING, Self

from infrarsi.render import numbers
from infrarsi.render.document import printable, shortened

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live

RUNNING = "running"
"""The status of a trial that has not ended."""

_STYLES = {
    "passed": "green", "pass": "green", "ok": "green", "refused": "red", "fail": "red",
    "oom": "magenta", "ambiguous_memory": "magenta", "inconclusive": "yellow", RUNNING: "cyan",
}  # fmt: skip


class SearchView:
    """Shows a search while it runs.

    On a terminal the last trials stand in a table that is redrawn in place. Elsewhere (a pipe, a
    log of CI, ``TERM=dumb``) each finished trial becomes one plain line, and no cursor is moved.
    ``NO_COLOR`` is honoured by the console; ``live`` overrides what is found out.
    """

    def __init__(self, console: Console, *, live: bool | None = None, shown: int = 12) -> None:
        self._console = console
        self._is_live = _is_terminal(console) if live is None else live
        self._ended: deque[tuple[str, ...]] = deque(maxlen=shown)
        self._running: tuple[str, ...] | None = None
        self._best = ""
        self._counts: dict[str, int] = {}
        self._live: Live | None = None

    def __enter__(self) -> Self:
        if self._is_live:
            from rich.live import Live

            self._live = Live(
                self._table(), console=self._console, refresh_per_second=4, transient=False
            )
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._running = None
            self._live.update(self._table(), refresh=True)
            self._live.stop()
            self._live = None

    def show_trial(
        self,
        index: int,
        change: str,
        *,
        reason: str = "",
        status: str = RUNNING,
        update_s: float | None = None,
        speedup: float | None = None,
        peak_bytes: int | None = None,
        why: str = "",
    ) -> None:
        """Show that a trial runs, or how it ended: a status, and what was measured."""
        row = (
            str(index),
            printable(change),
            printable(status),
            "" if update_s is None else numbers.duration(update_s),
            "" if speedup is None else numbers.ratio(speedup),
            "" if peak_bytes is None else numbers.size(peak_bytes),
            printable(why or reason),
        )
        if status == RUNNING:
            self._running = row
        else:
            self._running = None
            self._ended.append(row)
            self._counts[row[2]] = self._counts.get(row[2], 0) + 1
            if not self._is_live:
                self._say(_line_of(row))
        self._redraw()

    def show_best(
        self, change: str, *, update_s: float | None = None, speedup: float | None = None
    ) -> None:
        """Show the best candidate that passed so far. Its speedup is of one launch: it ranks."""
        measured = [
            "" if update_s is None else f"{numbers.duration(update_s)} per update",
            "" if speedup is None else f"screening {numbers.ratio(speedup)}",
        ]
        words = ", ".join(each for each in measured if each)
        best = f"best so far: {printable(change)}" + (f" ({words})" if words else "")
        if best != self._best and not self._is_live:
            self._say(best)
        self._best = best
        self._redraw()

    def show_note(self, text: str) -> None:
        """Say a sentence that stays, above the table."""
        self._say(printable(text))

    def _say(self, words: str) -> None:
        # A line stays one line, however narrow the terminal is thought to be.
        self._console.print(words, markup=False, highlight=False, soft_wrap=True)

    def _redraw(self) -> None:
        if self._live is not None:
            self._live.update(self._table(), refresh=True)

    def _table(self) -> RenderableType:
        from rich.table import Table
        from rich.text import Text

        counts = ", ".join(f"{number} {name}" for name, number in sorted(self._counts.items()))
        table = Table(title=Text(counts or "No trial has ended yet"), title_justify="left",
                      box=None, caption=Text(self._best) if self._best else None,
                      caption_justify="left", header_style="bold", padding=(0, 1),
                      expand=True)  # fmt: skip
        for title in ("#", "Change", "Status", "Update", "Screening", "Peak", "Why"):
            right = title in ("#", "Update", "Screening", "Peak")
            wide = title in ("Change", "Why")
            table.add_column(
                title, justify="right" if right else "left", no_wrap=True, overflow="ellipsis",
                ratio=1 if wide else None,
            )  # fmt: skip
        rows = [*self._ended, *([self._running] if self._running else [])]
        for row in rows:
            cells = [Text(each) for each in row]
            cells[2].stylize(_STYLES.get(row[2], "dim"))
            table.add_row(*cells)
        return table


def _line_of(row: tuple[str, ...]) -> str:
    index, change, status, update, speedup, peak, why = row
    measured = ", ".join(each for each in (update, speedup, peak) if each)
    parts = [f"trial {index}: {change}: {status}", measured, shortened(why, 300)]
    return "; ".join(part for part in parts if part)


def _is_terminal(console: Console) -> bool:
    # FORCE_COLOR makes Rich call a pipe a terminal; colour may be forced, cursor moves may not.
    is_tty = getattr(console.file, "isatty", lambda: False)()
    return is_tty and console.is_terminal and os.environ.get("TERM") not in ("dumb", "unknown")
