"""Reading the settings of a committed program, for the draft of its contract."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from infrarsi.edits.combine import is_python
from infrarsi.execute.repository import Repository
from infrarsi.frameworks.catalogue import draft_knobs
from infrarsi.frameworks.config_keys import config_files_named, group_files, hydra_files
from infrarsi.frameworks.huggingface import Drafted, draft_huggingface, joined_drafts
from infrarsi.frameworks.program import Setting
from infrarsi.frameworks.reading import files_by_default, read_settings
from infrarsi.frameworks.sources import Sources
from infrarsi.propose.imports import reachable_files
from infrarsi.records.command import split_command


@dataclass(frozen=True)
class Program:
    """What a command runs, as far as the repository's commit shows."""

    settings: tuple[Setting, ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict)
    """The entry script and what it imports, by path."""
    configured: Mapping[str, bytes] = field(default_factory=dict)
    """The configuration files that the command names, by path."""


def read_program(
    repository: Repository, commit: str, command: Sequence[str], *, folder: str, script: str | None
) -> Program:
    """Read the source and the configuration that a command names.

    Parameters
    ----------
    repository, commit
        Where to read; only what is committed counts.
    command
        The reference launch.
    folder
        Where it runs, relative to the root.
    script
        The script that it runs, from the root; ``None`` where that is not in the repository.
    """
    tracked = frozenset(repository.tracked(commit))
    files = config_files_named(command, folder, tracked)
    if script is None:
        sources, texts, named = Sources({}, ""), dict[str, str](), dict[str, str]()
    else:
        texts = _imported(repository, commit, tracked, script)
        sources = Sources(texts, script)
        named = {path: texts[path] for path in texts} | _named_scripts(
            repository, commit, command, folder=folder, tracked=tracked
        )
    files += files_by_default(sources, command, folder=folder, tracked=tracked)
    configured = repository.read(commit, dict.fromkeys(files))
    composed = _composed(repository, commit, command, sources=sources, tracked=tracked)
    settings = read_settings(
        sources, command, texts=named, configured=configured, composed=composed, folder=folder
    )
    return Program(settings, texts, configured)


def draft_settings(
    program: Program,
    command: Sequence[str],
    *,
    folder: str,
    device: str,
    torch: str,
    environ: Mapping[str, str],
) -> Drafted:
    """Draft knobs and constraints from what a program declares, and from what its library does.

    Parameters
    ----------
    program
        What :func:`read_program` found.
    command, folder
        The reference launch, and where it runs, relative to the root.
    device, torch
        ``cpu`` or ``cuda``, and the version of torch in the training interpreter.
    environ
        The environment of the reference launch.
    """
    general = draft_knobs(program.settings, command, device=device, environ=environ)
    library = draft_huggingface(
        program.texts, command, configured=program.configured, folder=folder, device=device,
        torch=torch,
    )  # fmt: skip
    return joined_drafts(general, library)


class _Committed(Mapping[str, str]):
    """The Python files of a commit, each read when it is asked for; what is no Python is empty."""

    def __init__(self, repository: Repository, commit: str, paths: Sequence[str]) -> None:
        self._repository, self._commit = repository, commit
        self._texts: dict[str, str | None] = dict.fromkeys(paths)

    def __getitem__(self, path: str) -> str:
        known = self._texts[path]
        if known is None:
            content = self._repository.read(self._commit, [path]).get(path, b"")
            text = content.decode("utf-8", "replace").removeprefix("\ufeff")
            known = text if is_python(path, content) else ""
            self._texts[path] = known
        return known

    def __contains__(self, path: object) -> bool:
        return path in self._texts

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)


def _imported(
    repository: Repository, commit: str, tracked: frozenset[str], script: str
) -> dict[str, str]:
    paths = sorted({path for path in tracked if path.endswith(".py")} | {script})
    committed = _Committed(repository, commit, paths)
    return {path: committed[path] for path in sorted(reachable_files(committed, script))}


def _named_scripts(
    repository: Repository,
    commit: str,
    command: Sequence[str],
    *,
    folder: str,
    tracked: frozenset[str],
) -> dict[str, str]:
    """Read the Python files among a program's arguments: configurations, as nanoGPT has them."""
    words = [word for word in split_command(command).arguments if word.endswith(".py")]
    paths = [word if folder == "." else f"{folder}/{word}" for word in words]
    found = repository.read(commit, [path for path in paths if path in tracked])
    return {path: content.decode("utf-8", "replace") for path, content in found.items()}


def _composed(
    repository: Repository,
    commit: str,
    command: Sequence[str],
    *,
    sources: Sources,
    tracked: frozenset[str],
) -> dict[str, tuple[str, bytes]]:
    """Read the files that Hydra composes, by the prefix of their keys."""
    primary = hydra_files(sources, command, tracked=tracked)
    contents = repository.read(commit, list(primary.values()))
    files = dict(primary)
    for file in primary.values():
        files |= group_files(file, contents[file], command, tracked=tracked)
    contents = repository.read(commit, sorted(set(files.values())))
    return {prefix: (file, contents[file]) for prefix, file in files.items() if file in contents}
