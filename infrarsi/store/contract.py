"""The contract file and its lock."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

import yaml
from pydantic import ValidationError

from infrarsi.errors import ContractError
from infrarsi.records.plan import Contract, Lock

CONTRACT_FILE = "infrarsi.yaml"


def read_contract(path: Path) -> Contract:
    """Read a contract from YAML.

    Raises
    ------
    ContractError
        The file is missing or does not say what a contract must.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError as error:
        raise ContractError(
            f"there is no contract at {path}",
            hint="draft one with `infrarsi init -- python train.py ...`",
        ) from error
    return parse_contract(content, name=path.name)


def parse_contract(content: bytes, *, name: str) -> Contract:
    """Read a contract from the bytes of its file.

    Raises
    ------
    ContractError
        It does not say what a contract must; the message names the file.
    """
    try:
        loaded = yaml.safe_load(content.decode("utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ContractError(
            f"{name} is not valid YAML: {' '.join(str(error).split())}",
            hint="correct the line that it names",
        ) from error
    try:
        return Contract.model_validate(loaded)
    except ValidationError as error:
        raise ContractError(
            f"{name}: {_in_words(error)}", hint=f"correct that in {name}, then repeat"
        ) from error


def _in_words(error: ValidationError) -> str:
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"]) or "the file"
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return f"{place}: {first['msg'].removeprefix('Value error, ')}{more}"


def hash_files(root: Path, paths: Iterable[str]) -> dict[str, str]:
    """Give the SHA-256 of each file below a root; a missing file reads ``missing``.

    A symbolic link is hashed as the link that it is, and a folder by all that it holds.
    """
    return {path: _hash_path(root / path) for path in sorted(paths)}


def stamp_files(root: Path, paths: Iterable[str]) -> dict[str, str]:
    """Give a digest of the sizes and the times of change of all that stands at each path.

    No content is read: this is for prepared data, which is too large to hash at every launch.
    """
    return {path: _stamp_path(root / path) for path in sorted(paths)}


def _stamp_path(place: Path) -> str:
    below = sorted(place.rglob("*")) if place.is_dir() else []
    rows = []
    for each in (place, *below):
        found = each.stat() if each.exists() else None
        told = (found.st_size, found.st_mtime_ns) if found and not each.is_dir() else None
        rows.append(f"{each.relative_to(place)}\0{told}\n")
    return hashlib.sha256("".join(rows).encode("utf-8", "surrogateescape")).hexdigest()


def _hash_path(place: Path) -> str:
    if place.is_symlink():
        return hashlib.sha256(b"link:" + str(place.readlink()).encode()).hexdigest()
    if place.is_dir():
        held = sorted(each for each in place.rglob("*") if not each.is_dir() or each.is_symlink())
        rows = (f"{each.relative_to(place)}\0{_hash_path(each)}\n" for each in held)
        return hashlib.sha256("".join(rows).encode()).hexdigest()
    if not place.is_file():
        return "missing"
    with place.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_lock(root: Path, contract: Contract, lock: Lock) -> None:
    """Refuse where something that was locked has changed since.

    Raises
    ------
    ContractError
        The Task, a protected file or an input differs; the message names it.
    """
    again = "undo the change, or lock the new state with `infrarsi init --relock`"
    if contract.task.digest() != lock.task_digest:
        raise ContractError(f"the task in {CONTRACT_FILE} was changed after the lock", hint=again)
    for kind, locked in (("protected file", lock.protected), ("input", lock.inputs)):
        present = hash_files(root, locked)
        changed = [path for path in locked if present[path] != locked[path]]
        if changed:
            more = f" (and {len(changed) - 1} more)" if len(changed) > 1 else ""
            verb = "is missing" if present[changed[0]] == "missing" else "was changed"
            raise ContractError(f"the {kind} {changed[0]} {verb} after the lock{more}", hint=again)


_HEADER = """\
# The contract of an InfraRSI search. `task` is locked by `infrarsi init`; after that any change
# to it is refused (lock a new state with `infrarsi init --relock`). `plan` may change at any time.
"""

_COMMENTS = {
    "command": "the reference launch: what is trained, and what a candidate must train too",
    "workload": "what must stay the same: seed, tokens, and git-ignored inputs locked by hash",
    "window": "which updates are timed",
    "objective": "the smallest relative speedup worth having",
    "numerics": "what is compared with the reference, and the dtypes allowed where",
    "surface": "what may change: files by glob, and knobs; everything else is protected",
    "memory": "what a trial may use, and how that is measured",
}


def write_contract(path: Path, contract: Contract) -> None:
    """Write a contract for a person to read, each part with a line on what it is."""
    loaded = contract.model_dump(mode="json")
    text = _HEADER + yaml.safe_dump(
        {"schema_version": loaded["schema_version"], "name": loaded["name"]}, sort_keys=False
    )
    text += "\ntask:\n"
    for key, value in loaded["task"].items():
        comment = f"  # {_COMMENTS[key]}\n" if key in _COMMENTS else ""
        block = yaml.safe_dump({key: value}, sort_keys=False, allow_unicode=True, width=96)
        text += comment + "".join(f"  {line}\n" for line in block.splitlines())
    text += "\n" + yaml.safe_dump({"plan": loaded["plan"]}, sort_keys=False)
    draft = path.with_name(f".{path.name}.draft")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)
