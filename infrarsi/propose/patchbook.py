"""Run the recipes of a patchbook over a repository's sources."""

from __future__ import annotations

import hashlib
import importlib
import sys
import types
from collections.abc import Callable, Mapping
from pathlib import Path

import yaml
from pydantic import ValidationError

from infrarsi.edits import edits_between
from infrarsi.edits.combine import is_python
from infrarsi.errors import UsageError
from infrarsi.propose.imports import reachable_files
from infrarsi.propose.recipe import DoesNotApply, Recipe
from infrarsi.records.base import Record
from infrarsi.records.candidate import Edit, Patch
from infrarsi.records.task import Numerics

_BOM = "\ufeff"


class Declined(Record):
    """A recipe that gave no patch, and why."""

    recipe: str
    because: str


class Proposals(Record):
    """What a patchbook proposes for one repository."""

    patches: tuple[Patch, ...]
    declined: tuple[Declined, ...]


def default_book() -> Path:
    """Find the shipped patchbook: inside the installed package, or beside it in a checkout.

    Raises
    ------
    UsageError
        There is none.
    """
    package = Path(__file__).resolve().parent.parent
    for place in (package / "_patches", package.parent / "patches"):
        if any(place.glob("*/recipe.yaml")):
            return place
    raise UsageError(
        "the patchbook that ships with InfraRSI is missing",
        hint="Install InfraRSI again, or name a folder of recipes.",
    )


def read_recipe(folder: Path) -> Recipe:
    """Read and check one recipe's ``recipe.yaml``.

    Raises
    ------
    UsageError
        It cannot be read, or says something that a recipe must not.
    """
    path = folder / "recipe.yaml"
    try:
        recipe = Recipe.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, yaml.YAMLError, ValidationError) as error:
        raise UsageError(
            f"the recipe {path} cannot be read: {error}", hint="Mend or remove the recipe."
        ) from error
    if recipe.name != folder.name:
        raise UsageError(
            f"the recipe {path} calls itself {recipe.name!r}",
            hint="Give the recipe its folder's name.",
        )
    return recipe


def propose_patches(
    files: Mapping[str, bytes],
    *,
    numerics: Numerics,
    book: Path,
    readonly: Mapping[str, bytes] | None = None,
    entry: str | None = None,
) -> Proposals:
    """Try every recipe of a book on the editable files.

    Parameters
    ----------
    files
        The editable files, by path. Only ``*.py`` files are looked at.
    numerics
        The contract's numerics: a recipe that brings in a precision it does not allow is
        declined.
    book
        A folder with one folder per recipe.
    readonly
        Files that a recipe may read, to see how code is used, but not change.
    entry
        Path of the script that the command runs. With it, only files that it imports, directly
        or not, are looked at: other scripts of the repository neither hinder nor invite.

    Raises
    ------
    UsageError
        The book holds no recipe, or one that cannot be read.
    """
    folders = sorted(path.parent for path in book.glob("*/recipe.yaml"))
    if not folders:
        raise UsageError(
            f"there is no recipe in {book}",
            hint="Name a folder that holds <recipe>/recipe.yaml and <recipe>/codemod.py.",
        )
    sources = _texts({**(readonly or {}), **files})
    if entry is not None:
        used = reachable_files(sources, entry)
        sources = {path: text for path, text in sources.items() if path in used}
    patches, declined = [], []
    for folder in folders:
        recipe = read_recipe(folder)
        answer = _answer(recipe, folder, files, sources, numerics)
        if isinstance(answer, Patch):
            patches.append(answer)
        else:
            declined.append(Declined(recipe=recipe.name, because=answer))
    return Proposals(patches=tuple(patches), declined=tuple(declined))


def _answer(
    recipe: Recipe,
    folder: Path,
    files: Mapping[str, bytes],
    sources: Mapping[str, str],
    numerics: Numerics,
) -> Patch | str:
    """Give the patch, or the reason why there is none."""
    allowed = {"same", *numerics.matmul} | ({"tf32"} if numerics.tf32 else set())
    if recipe.precision not in allowed:
        return f"the contract does not allow {recipe.precision} matmul operands"
    if not sources:
        return "there is no Python source to change"
    changed = _transformed(folder, sources)
    if isinstance(changed, str):
        return changed
    edits: list[Edit] = []
    for path in sorted(changed):
        if changed[path] == sources.get(path):
            continue
        if path not in files:
            return f"it would have to change {path}, which is not editable"
        after = ((_BOM if files[path].startswith(_BOM.encode()) else "") + changed[path]).encode()
        if not is_python(path, after):
            return f"what it makes of {path} is not valid Python"
        edits += edits_between(path, files[path], after)
    if not edits:
        return "nothing in the sources has the shape that it looks for"
    return Patch(
        name=recipe.name,
        proposer="patchbook",
        edits=tuple(edits),
        summary=recipe.summary,
        precision=recipe.precision,
        conflicts=recipe.conflicts,
        log_time=recipe.log_time,
        log_memory=recipe.log_memory,
        cold_start_s=recipe.cold_start_s,
    )


def _texts(files: Mapping[str, bytes]) -> dict[str, str]:
    """Read the Python files that are UTF-8 and compile, without their byte order mark."""
    texts = {}
    for path, content in files.items():
        if path.endswith(".py") and is_python(path, content):
            try:
                texts[path] = content.decode("utf-8").removeprefix(_BOM)
            except UnicodeDecodeError:
                continue
    return texts


def _transformed(folder: Path, sources: Mapping[str, str]) -> dict[str, str] | str:
    from libcst import CSTValidationError, ParserSyntaxError

    transform = load_codemod(folder)
    try:
        return dict(transform(sources))
    except DoesNotApply as answer:
        return answer.because
    # Code that nobody has foreseen must cost one idea, not the search: these are what
    # tree surgery raises on it.
    except (
        ParserSyntaxError, CSTValidationError, SyntaxError, RecursionError, LookupError,
        AttributeError, TypeError, ValueError, AssertionError, ArithmeticError, NameError,
        RuntimeError,
    ) as error:  # fmt: skip
        return f"the codemod cannot read this code ({type(error).__name__}: {error})"


def load_codemod(folder: Path) -> Callable[[Mapping[str, str]], Mapping[str, str]]:
    """Import a recipe's codemod; it may import modules that stand beside it."""
    mark = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:12]
    package = f"infrarsi_recipe_{folder.name}_{mark}"
    if package not in sys.modules:
        module = types.ModuleType(package)
        module.__path__ = [str(folder)]
        sys.modules[package] = module
    codemod = importlib.import_module(f"{package}.codemod")
    transform: Callable[[Mapping[str, str]], Mapping[str, str]] = codemod.transform
    return transform
