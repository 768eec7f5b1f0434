"""From what a model gave to patches and settings: each idea is checked as any patch is."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from infrarsi.edits import apply_edits, incompatible_pairs, within_surface
from infrarsi.edits.combine import is_python
from infrarsi.errors import EditError
from infrarsi.propose.language.redact import MARK
from infrarsi.propose.language.reply import GivenEdit, GivenIdea, GivenSetting, Parsed
from infrarsi.records.asked import DeclinedIdea, Setting
from infrarsi.records.base import Scalar
from infrarsi.records.candidate import Candidate, Edit, Effect, Patch
from infrarsi.records.constraint import constraint_holds
from infrarsi.records.task import Knob, Numerics, Surface, same_scalar

PROPOSER = "language"
_SPREAD = {"low": 0.45, "medium": 0.35, "high": 0.25}
"""Standard deviation of a log effect by the model's own word on how sure it is. Wide: measured
against the truth, such predictions have been no better than chance."""
_LARGEST_EFFECT = math.log(4)
"""Claims beyond this factor are taken for this factor."""
_LARGEST_FILE = 1_000_000
_HALF_OPEN = re.compile(r"^(?:<{5,9} ?(?:SEARCH|ORIGINAL|HEAD)|>{5,9} ?(?:REPLACE|UPDATED))", re.M)


@dataclass(frozen=True)
class Ground:
    """What ideas are checked against."""

    files: Mapping[str, bytes]
    """Regular files that may be edited, at the locked commit."""
    surface: Surface
    numerics: Numerics
    tracked: frozenset[str] = frozenset()
    """All paths of the locked commit."""
    links: frozenset[str] = frozenset()
    """Of these, symbolic links and submodules."""
    patches: Mapping[str, Patch] = field(default_factory=dict)
    """Patches that are known already."""


@dataclass(frozen=True)
class Accepted:
    """What a reply is worth."""

    patches: tuple[Patch, ...] = ()
    settings: tuple[Setting, ...] = ()
    declined: tuple[DeclinedIdea, ...] = ()
    incompatible: tuple[tuple[str, str], ...] = ()
    """Of all patches, known and new: the pairs that must not stand together."""


def accept_ideas(parsed: Parsed, ground: Ground) -> Accepted:
    """Turn a reply's ideas into patches and its settings into candidates, or decline them.

    A bad idea is declined whole, with a reason specific enough to mend it; the others stand.
    """
    declined = list(parsed.declined)
    results = {name: apply_edits(ground.files, p.edits) for name, p in ground.patches.items()}
    patches: dict[str, Patch] = {}
    for idea in parsed.ideas:
        try:
            after = _applied(idea, ground)
            same = next((name for name, known in results.items() if known == after), None)
            if same is not None:
                raise EditError(f"it changes the same as {same}", hint="Propose something else.")
        except EditError as error:
            declined.append(_declined(idea.name, error))
            continue
        name = _free_name(idea.name, taken={*ground.patches, *patches})
        results[name] = after
        patches[name] = _patch_of(idea, name)
    known = {**ground.patches, **patches}
    incompatible = incompatible_pairs(ground.files, known.values())
    settings = []
    for given in parsed.settings:
        try:
            settings.append(_setting_of(given, ground, known, incompatible))
        except EditError as error:
            declined.append(_declined(given.name or "a setting", error))
    return Accepted(tuple(patches.values()), tuple(settings), tuple(declined), incompatible)


def _declined(name: str, error: EditError) -> DeclinedIdea:
    return DeclinedIdea(name=name[:80], because=f"{error}. {error.hint}")


def _applied(idea: GivenIdea, ground: Ground) -> dict[str, bytes]:
    """Give the files as an idea leaves them.

    Raises
    ------
    EditError
        It breaks a rule; the message and the hint say which, and how to keep it.
    """
    allowed = {"same", *ground.numerics.matmul, *(("tf32",) if ground.numerics.tf32 else ())}
    if idea.precision not in allowed:
        raise EditError(
            f"the contract does not allow {idea.precision} matmul operands",
            hint="Keep the precision of the reference.",
        )
    edits = [_edit_of(given, ground) for given in idea.edits]
    after = apply_edits(ground.files, edits)
    if not after:
        raise EditError("its edits change nothing", hint="Give a replacement that differs.")
    for path, content in after.items():
        before = ground.files.get(path)
        if len(content) > _LARGEST_FILE:
            raise EditError(f"it makes {path} larger than 1 MB", hint="Give a smaller change.")
        was_fine = before is None or is_python(path, before)
        if path.endswith(".py") and was_fine and not is_python(path, content):
            raise EditError(
                f"what it makes of {path} is not valid Python{_where(path, content)}",
                hint="Check the indentation, and that the edits quote whole statements.",
            )
    return after


def _where(path: str, content: bytes) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(content, path, "exec", dont_inherit=True)
        except SyntaxError as error:
            return f": line {error.lineno}: {error.msg}"
        except ValueError as error:
            return f": {error}"
    return ""


def _edit_of(given: GivenEdit, ground: Ground) -> Edit:
    path = given.path.removeprefix("./")
    _check_path(path, ground)
    for text in (given.search, given.replace):
        if _HALF_OPEN.search(text):
            raise EditError(
                f"an edit of {path} holds a mark of a search/replace block that is half open",
                hint="Put the plain text to be found in search, and the plain text that takes its "
                "place in replace, without marks.",
            )
        if MARK in text:
            raise EditError(
                f"an edit of {path} quotes {MARK}, which stands for a secret taken out",
                hint="Leave such lines out of search and replace.",
            )
    return Edit(path=path, search=given.search, replace=given.replace)


def _check_path(path: str, ground: Ground) -> None:
    """Refuse a path that is not a regular file, or a place for a new one, on the surface."""
    shown = path.encode("unicode_escape").decode()[:200]
    parts = PurePosixPath(path).parts
    if path.startswith(("/", "~")) or ".." in parts or "\\" in path or path[1:2] == ":":
        raise EditError(
            f"the path {shown} is absolute, or leads out of the repository",
            hint="Give paths relative to the root of the repository, as they are shown.",
        )
    steps = ["/".join(parts[: i + 1]) for i in range(len(parts))]
    link = next((step for step in steps if step in ground.links), None)
    if link is not None:
        raise EditError(
            f"{shown} leads through {link}, which is a symbolic link or a submodule",
            hint="Edit the file that it points to, where that is shown.",
        )
    if not within_surface(path, ground.surface):
        editable = ", ".join(ground.surface.editable) or "no file"
        protected = ", ".join(ground.surface.protected)
        hint = f"Editable: {editable}" + (f"; protected: {protected}" if protected else "")
        raise EditError(f"{shown} is not a file that may be edited", hint=f"{hint}.")
    if path in ground.files:
        return
    folder = next((step for step in steps[:-1] if step in ground.tracked), None)
    if folder is not None:
        raise EditError(
            f"{shown} lies below {folder}, which is a file", hint="Give a path that can exist."
        )
    if path in ground.tracked or any(each.startswith(f"{path}/") for each in ground.tracked):
        raise EditError(f"{shown} is not a regular file", hint="Edit a file that is shown.")


def _patch_of(idea: GivenIdea, name: str) -> Patch:
    edits = tuple(
        Edit(path=each.path.removeprefix("./"), search=each.search, replace=each.replace)
        for each in idea.edits
    )
    summary = " ".join(f"{idea.summary.strip()} {idea.reason.strip()}".split())
    return Patch(
        name=name, proposer=PROPOSER, edits=edits, summary=summary[:600] or name,
        precision=idea.precision, conflicts=tuple(slug_of(each) for each in idea.conflicts),
        log_time=effect_of(idea.time_ratio, idea.confidence),
        log_memory=effect_of(idea.memory_ratio, idea.confidence),
        cold_start_s=min(idea.cold_start_s, 3600.0),
    )  # fmt: skip


def effect_of(ratio: float, confidence: str) -> Effect:
    """Give the prior that a predicted ratio makes: bounded, and never narrow."""
    mean = max(-_LARGEST_EFFECT, min(_LARGEST_EFFECT, math.log(ratio)))
    return Effect(mean=mean, sd=_SPREAD[confidence])


def slug_of(name: str) -> str:
    """Give the name that a patch gets for what a model called it."""
    plain = re.sub(r"[^a-z0-9]+", "_", name.casefold()).strip("_")[:40].strip("_")
    return plain if re.match(r"[a-z]", plain) else f"idea_{plain}".rstrip("_")


def _free_name(name: str, *, taken: set[str]) -> str:
    slug = slug_of(name)
    number = 2
    free = slug
    while free in taken:
        free, number = f"{slug}_{number}", number + 1
    return free


def _setting_of(
    given: GivenSetting,
    ground: Ground,
    known: Mapping[str, Patch],
    incompatible: Sequence[tuple[str, str]],
) -> Setting:
    knobs = ground.surface.default_knobs()
    by_name = {knob.name: knob for knob in ground.surface.knobs}
    for each in given.knobs:
        if each.name not in by_name:
            names = ", ".join(by_name) or "there are none"
            raise EditError(f"{each.name} is not a knob", hint=f"Knobs: {names}.")
        knobs[each.name] = _value_of(by_name[each.name], each.value)
    patches = tuple(dict.fromkeys(slug_of(name) for name in given.patches))
    _check_patches(patches, known, incompatible)
    candidate = Candidate.of(knobs, patches)
    if candidate == Candidate.of(ground.surface.default_knobs()):
        raise EditError("it is the reference itself", hint="Give a value that differs.")
    for constraint in ground.surface.constraints:
        if not _holds(constraint, knobs):
            raise EditError(
                f"it breaks the constraint {constraint}", hint="Give values that keep it."
            )
    return Setting(
        candidate=candidate, reason=" ".join(given.reason.split())[:400],
        log_time=effect_of(given.time_ratio, given.confidence),
        log_memory=effect_of(given.memory_ratio, given.confidence),
    )  # fmt: skip


def _check_patches(
    patches: tuple[str, ...], known: Mapping[str, Patch], incompatible: Sequence[tuple[str, str]]
) -> None:
    for name in patches:
        if name not in known:
            raise EditError(
                f"{name} is not a patch that is known, or it was declined",
                hint=f"Patches: {', '.join(known) or 'there are none'}.",
            )
    clash = next((p for p in incompatible if set(p) <= set(patches)), None)
    if clash is not None:
        raise EditError(f"{clash[0]} and {clash[1]} do not go together", hint="Leave one out.")


def _value_of(knob: Knob, value: Scalar) -> Scalar:
    """Give the knob's own value that a model means: ``"8"`` may stand for ``8``."""
    exact = [each for each in knob.values if same_scalar(each, value)]
    meant = [each for each in knob.values if str(each).casefold() == str(value).casefold()]
    equal = [
        each
        for each in knob.values
        if not isinstance(value, str | bool) and not isinstance(each, bool) and each == value
    ]
    for found in (exact, meant, equal):
        if found:
            return found[0]
    values = ", ".join(str(each) for each in knob.values)
    raise EditError(f"{knob.name} cannot be {value!r}", hint=f"Its values: {values}.")


def _holds(constraint: str, knobs: Mapping[str, Scalar]) -> bool:
    try:
        return constraint_holds(constraint, knobs)
    except ValueError:
        return False  # it can be read, but not for these values
