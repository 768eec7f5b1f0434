"""Run one recipe on sources, and the Python that comes out of it."""

from __future__ import annotations

import sys
import textwrap
import types
from collections.abc import Callable
from itertools import count

import pytest

from infrarsi.propose.patchbook import default_book, load_codemod
from infrarsi.propose.recipe import DoesNotApply

_NUMBER = count()


@pytest.fixture
def transform() -> Callable[..., str]:
    """Give the changed text of ``a.py`` (or of a file by name) after one recipe."""

    def run(recipe: str, text: str, *, name: str = "a.py", **others: str) -> str:
        sources = {name: textwrap.dedent(text)}
        sources |= {f"{key}.py": textwrap.dedent(value) for key, value in others.items()}
        changed = {**sources, **load_codemod(default_book() / recipe)(sources)}
        for path, content in changed.items():
            compile(content, path, "exec")
        return changed[name] if not others else changed  # type: ignore[return-value]

    return run


@pytest.fixture
def declines(transform: Callable[..., str]) -> Callable[..., str]:
    """Give the reason for which a recipe does not apply."""

    def run(recipe: str, text: str, **others: str) -> str:
        with pytest.raises(DoesNotApply) as caught:
            transform(recipe, text, **others)
        return caught.value.because

    return run


@pytest.fixture
def module() -> Callable[[str], types.ModuleType]:
    """Execute a source as a module of its own."""

    def run(text: str) -> types.ModuleType:
        made = types.ModuleType(f"specimen_{next(_NUMBER)}")
        sys.modules[made.__name__] = made
        exec(compile(textwrap.dedent(text), f"{made.__name__}.py", "exec"), made.__dict__)
        return made

    return run
