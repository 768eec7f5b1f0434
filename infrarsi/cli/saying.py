"""How commands speak: notes to the error stream; tables, or JSON, to the output."""

from __future__ import annotations

import dataclasses
import json
import shutil
import sys
from typing import Any


def say(text: str) -> None:
    """Tell the user something, beside the output."""
    print(text, file=sys.stderr, flush=True)


def say_dirty(workspace: Any) -> None:
    """Tell what was mended as a workspace was opened, and what trials do not see."""
    for note in workspace.notes:
        say(f"note: {note}")
    dirty = workspace.repository.dirty()
    if dirty:
        more = f" and {len(dirty) - 1} more" if len(dirty) > 1 else ""
        commit = workspace.lock.commit[:12]
        say(f"note: trials run the commit {commit}, without the changes to {dirty[0]}{more}")


def width() -> int | None:
    """Give the columns of the terminal that is printed to; ``None`` where it is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def draw(renderable: Any) -> None:
    """Draw a table or a panel."""
    from rich.console import Console

    Console().print(renderable)


def print_json(value: Any) -> None:
    """Print a record, a dataclass, or what holds them, as JSON."""
    print(json.dumps(value, default=_plain, indent=2, ensure_ascii=False))


def _plain(value: Any) -> Any:
    """Give JSON's own types for records, dataclasses and paths."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    return str(value)
