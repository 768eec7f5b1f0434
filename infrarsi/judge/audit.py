"""Layer 7: the patch as source. Hard refusals, and notes that advise and never decide.

The audit compares what each text *uses* after the change with what it used before, so that a
repository may hold anything already; only what the candidate brings in counts. Python is read
by its syntax tree, with aliases resolved; a fragment that is no program by itself is read
inside a function, and what cannot be read at all as words. Text addressed to reviewers is
material, never an instruction.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable
from functools import lru_cache

from infrarsi.judge import audit_rules as rules
from infrarsi.judge.facts import ChangedFile
from infrarsi.judge.findings import fails, passes, unsure
from infrarsi.judge.integrity import hides_a_module
from infrarsi.judge.schedule import changed_schedules
from infrarsi.judge.syntax import Use, uses_in_python
from infrarsi.records.candidate import Patch
from infrarsi.records.verdict import Finding, Layer

_LAYER: Layer = "audit"
_LISTED = 6
_REFUSED_NAMES = {"sitecustomize.py", "usercustomize.py", "conftest.py"}
_REFUSED_ENDINGS = (".pth", ".pyc", ".pyo", ".so", ".pyd", ".dll", ".dylib", ".egg-link")
_REFUSED_FOLDERS = {".git", "__pycache__", ".infrarsi", ".github", "site-packages"}
_PROSE = (".md", ".rst", ".txt")


def judge_audit(
    changed: Iterable[ChangedFile],
    *,
    whole: Iterable[ChangedFile] | None = None,
    reach: int | None = None,
    installed: Collection[str] = (),
) -> list[Finding]:
    """Read what a candidate changes in the source.

    Parameters
    ----------
    changed : iterable of ChangedFile
        The two sides of each edit, see :func:`texts_of`; or whole files before and after.
    whole : iterable of ChangedFile or None
        Whole files in any case, for what cannot be told from an edit alone; ``None`` where they
        are not at hand.
    reach : int or None
        The last update that a judged launch made. What a change does only after it, nobody saw.
    installed : collection of str
        Names that installed packages are imported by: no new module may hide one.

    Returns
    -------
    list of Finding
        One that fails for every kind of refusal, or one that passes; one that is inconclusive
        where the change acts by the number of an update beyond ``reach``, or sets anew what
        varies with it, such as the learning rate; and one that passes with the notes, if there
        are any.

    Notes
    -----
    When not to trust it: source can always be written so that a reader does not see what it
    does. The other layers judge what was done; this one refuses what no honest speedup needs.
    """
    refused: list[tuple[str, Use]] = []
    noted: list[tuple[str, Use]] = []
    files = list(changed)
    for file in files:
        for use in [*_uses_of_path(file, installed), *_new_uses(file)]:
            (refused if use.severity == "refuse" else noted).append((file.path, use))
    # What a name stands for may be said elsewhere in the file than where it is used.
    known = {(path, use.kind) for path, use in (*refused, *noted)}
    for file in whole or ():
        for use in _new_uses(file) if file.path.endswith(".py") else ():
            if (file.path, use.kind) not in known:
                (refused if use.severity == "refuse" else noted).append((file.path, use))
    findings = []
    for why in dict.fromkeys(use.why for _, use in refused):
        places = [(path, use) for path, use in refused if use.why == why]
        findings.append(fails(_LAYER, "source", f"the change {why}: {_some(places)}"))
    if not findings:
        reason = f"nothing that no speedup needs in {len(files)} changed texts"
        findings.append(passes(_LAYER, "source", reason))
    late = [(path, use) for path, use in noted if reach is not None and (use.update or 0) > reach]
    if late:
        first = min(use.update or 0 for _, use in late)
        findings.append(
            unsure(
                _LAYER, "unreached",
                f"the change acts by the number of the update, at {first} and beyond, and no "
                f"launch here made more than {reach} updates: {_some(late)}",
                hint="leave that out, or measure in a window that reaches it",
            )
        )  # fmt: skip
    findings += [] if reach is None else _judge_schedules(files if whole is None else whole, reach)
    if noted:
        words = "; ".join(dict.fromkeys(f"{use.why} ({_some([(p, use)])})" for p, use in noted))
        findings.append(passes(_LAYER, "notes", f"for a reader's eye: {words}"))
    return findings


def _judge_schedules(files: Iterable[ChangedFile], reach: int) -> list[Finding]:
    """Doubt a change of what varies with the number of the update: a window shows only its own."""
    places = [
        f"{setting.name} at {file.path}, line {setting.line}"
        for file in files
        if file.path.endswith(".py")
        for setting in changed_schedules(file.before or "", file.after or "")
    ]
    if not places:
        return []
    named = "; ".join(dict.fromkeys(places[:_LISTED]))
    reason = (
        f"the change sets anew what varies with the updates made, and no launch here made more "
        f"than {reach} of them: {named}"
    )
    return [unsure(_LAYER, "schedule", reason, hint="leave that out: no speedup needs it")]


def texts_of(patches: Iterable[Patch]) -> tuple[ChangedFile, ...]:
    """Give the two sides of every edit, for an audit where the whole files are not at hand."""
    return tuple(
        ChangedFile(path=edit.path, before=edit.search or None, after=edit.replace)
        for patch in patches
        for edit in patch.edits
    )


def _uses_of_path(file: ChangedFile, installed: Collection[str]) -> list[Use]:
    """Refuse paths that start by themselves, cannot be read, or hide a module."""
    *folders, name = file.path.replace("\\", "/").split("/")
    found = []
    if name in _REFUSED_NAMES:
        found.append(Use("refuse", "changes how Python starts", name, 0))
    if name.endswith(_REFUSED_ENDINGS) or name.startswith(".git"):
        found.append(Use("refuse", "changes files that are no source", name, 0))
    if _REFUSED_FOLDERS & set(folders) or ".." in folders or file.path.startswith(("/", "~")):
        found.append(Use("refuse", "reaches outside the source", file.path, 0))
    top = name.removesuffix(".py") if not folders else folders[0]
    is_module = name.endswith(".py") and (not folders or name == "__init__.py")
    if rules.DEPENDENCY_FILES.fullmatch(name) or "requirements" in folders:
        found.append(Use("refuse", "changes which packages are installed", name, 0))
    if file.before is None and is_module and (hides_a_module(top) or top in installed):
        found.append(Use("refuse", "adds a module that hides another", file.path, 0))
    return found


def _new_uses(file: ChangedFile) -> list[Use]:
    """Give what the text uses after the change and did not use as often before."""
    before, after = (_uses(file.path, text or "") for text in (file.before, file.after))
    spare = Counter(use.kind for use in before)
    found = []
    for use in after:
        if spare[use.kind] > 0:
            spare[use.kind] -= 1
        else:
            found.append(use)
    return found


@lru_cache(maxsize=1024)
def _uses(path: str, text: str) -> tuple[Use, ...]:
    """Read a text; the same patches come again in candidate after candidate."""
    if path.endswith((".py", ".pyi")):
        read = uses_in_python(text)
        if read is not None:
            found, unread = read
            return (*found, *_words(unread, is_python=True), *_words_to_reviewers(text))
    if path.endswith(_PROSE):
        return tuple(_words_to_reviewers(text))
    return (*_words(text, is_python=path.endswith(".py")), *_words_to_reviewers(text))


def _words(text: str, *, is_python: bool) -> list[Use]:
    """Read a text that has no syntax tree, line by line."""
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.lstrip().startswith("#"):
            continue
        lowered = line.lower()
        if not is_python and rules.INSTALLS.search(line):
            found.append(Use("refuse", "installs packages", line.strip()[:60], number))
        found += [
            Use("refuse", why, word, number)
            for word, why in rules.REFUSED_WORDS.items()
            if word in lowered
        ]
        if is_python:
            found += _python_words(line, number)
    return found


def _python_words(line: str, number: int) -> list[Use]:
    named = {name: why for name, (severity, why) in rules.USES.items() if severity == "refuse"}
    named |= rules.ATTRIBUTES
    found = []
    for name, why in named.items():
        pattern = rf"(?<![\w.]){re.escape(name)}\b" if "." in name else rf"\b{re.escape(name)}\b"
        # Bare module names are words of English too: only an import of them counts.
        if "." not in name and name not in rules.ATTRIBUTES:
            pattern = rf"\bimport\s+{re.escape(name)}\b|\bfrom\s+{re.escape(name)}\b"
        if re.search(pattern, line):
            found.append(Use("refuse", why, name, number))
    for name in rules.HIDING_CALLS:
        if re.search(rf"(?<![\w.]){name}\s*\(", line):
            found.append(Use("refuse", "runs text that cannot be read", name, number))
    clock = re.search(r"\b(time|torch\.cuda)\.\w+\s*=[^=]", line)
    if clock:
        found.append(Use("refuse", "replaces what training or its clock relies on", clock[0], 0))
    return found


def _words_to_reviewers(text: str) -> list[Use]:
    return [
        Use("note", "speaks to whoever reviews it", match.group(0)[:60], 0)
        for pattern in rules.TO_REVIEWERS
        for match in re.finditer(pattern, text, re.IGNORECASE)
    ]


def _some(places: list[tuple[str, Use]]) -> str:
    words = [
        f"{use.what} at {path}" + (f", line {use.line}" if use.line else "")
        for path, use in places[:_LISTED]
    ]
    more = f" and {len(places) - _LISTED} more" if len(places) > _LISTED else ""
    return "; ".join(dict.fromkeys(words)) + more
