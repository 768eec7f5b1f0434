"""Which files a prompt shows, in which order, and what is left out of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from infrarsi.edits.combine import is_python
from infrarsi.propose.imports import files_in_order
from infrarsi.propose.language.redact import is_secret_file, redact

_BOM = "\ufeff"


@dataclass(frozen=True)
class ShownFile:
    """One file as the prompt shows it."""

    path: str
    text: str
    redactions: int
    note: str = ""
    """What its reader must know: line ends, or where it was cut."""


@dataclass(frozen=True)
class Choice:
    """What is shown, and what is not."""

    shown: tuple[ShownFile, ...]
    left_out: tuple[str, ...]
    """Paths, each with the reason."""

    @property
    def redactions(self) -> int:
        """Secrets that were taken out of what is shown."""
        return sum(each.redactions for each in self.shown)


def choose_files(
    files: Mapping[str, bytes], *, entry: str | None, budget: int, known: Iterable[str] = ()
) -> Choice:
    """Choose the files that fit into so many characters, the most relevant first.

    The entry script comes first, then what it imports, nearest first, then everything else
    by name. A file is shown whole or not at all, for an edit must quote it exactly; only the
    first one is cut where nothing else could be shown.

    Parameters
    ----------
    files
        The files that may be edited.
    entry
        Path of the script that the command runs.
    budget
        Characters that there is room for.
    known
        Secrets known by value.
    """
    texts, left_out = _readable(files)
    shown: list[ShownFile] = []
    for path in _in_order(texts, entry):
        cleaned = redact(texts[path], is_python=path.endswith((".py", ".pyi")), known=known)
        note = "lines end with CRLF" if "\r\n" in cleaned.text else ""
        room = budget - len(path) - 100
        if len(cleaned.text) <= room:
            shown.append(ShownFile(path, cleaned.text, cleaned.count, note))
            budget = room - len(cleaned.text)
        elif not shown and room > 500:
            cut = cleaned.text[:room].rpartition("\n")[0]
            lines = cut.count("\n") + 1
            words = f"cut after line {lines}, for want of room"
            shown.append(ShownFile(path, cut + "\n", cleaned.count, words))
            budget = 0
        else:
            left_out.append(f"{path} (no room for it)")
    return Choice(tuple(shown), tuple(left_out))


def _readable(files: Mapping[str, bytes]) -> tuple[dict[str, str], list[str]]:
    texts: dict[str, str] = {}
    left_out = []
    for path in sorted(files):
        if is_secret_file(path):
            left_out.append(f"{path} (its name says that it holds credentials)")
            continue
        try:
            texts[path] = files[path].decode("utf-8")
        except UnicodeDecodeError:
            left_out.append(f"{path} (not UTF-8)")
    return texts, left_out


def _in_order(texts: Mapping[str, str], entry: str | None) -> list[str]:
    sources = {
        path: text.removeprefix(_BOM)
        for path, text in texts.items()
        if path.endswith(".py") and is_python(path, text.encode())
    }
    near = files_in_order(sources, entry) if entry is not None and entry in sources else ()
    rest = sorted(set(texts) - set(near), key=lambda path: (not path.endswith(".py"), path))
    return [*near, *rest]
