"""Layer 1: what ran is what was meant to run, and nothing else was touched."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Sequence

from infrarsi.judge.case import Case
from infrarsi.judge.facts import SourceFacts
from infrarsi.judge.findings import fails, passes, unsure
from infrarsi.judge.packages import judge_packages
from infrarsi.records.evidence import Evidence
from infrarsi.records.verdict import Finding, Layer

_LAYER: Layer = "integrity"
_AT_START = frozenset({"sitecustomize", "usercustomize", "conftest"})
_OFTEN_SHADOWED = frozenset({"torch", "numpy", "triton", "transformers", "accelerate", "deepspeed"})
_LISTED = 5


def judge_integrity(case: Case) -> list[Finding]:
    """Check the source, the loaded modules, the environment and the witness's channel.

    Parameters
    ----------
    case : Case
        ``case.candidate.source`` holds the facts; without them every check that needs them
        is inconclusive.

    Notes
    -----
    When not to trust it: a program that changes a file and changes it back before the launch
    ends leaves equal digests. Read-only mounts stop that; digests do not.
    """
    source = case.candidate.source
    findings = judge_channel(case)
    if source is None:
        return [
            unsure(
                _LAYER, "source", "nobody recorded what source ran",
                hint="run the trial again; its facts about the source are missing",
            ),
            *findings,
        ]  # fmt: skip
    return [
        _judge_protected(source),
        _judge_tree(source),
        *_judge_surface(source),
        _judge_leftovers(source),
        _judge_loaded(source, case.candidate.evidence, case.reference.evidence),
        *judge_packages(case),
        *findings,
    ]


def judge_channel(case: Case) -> list[Finding]:
    """Check that the channel carried the witness's events and nothing else.

    The witness numbers its updates and says the values of each once; a program that writes
    to the channel itself, or says an update twice, leaves events that do not fit.
    """
    evidence = case.candidate.evidence
    odd = evidence.malformed
    if odd == 0:
        return [passes(_LAYER, "channel", "every line on the witness's channel was an event")]
    reason = (
        f"{odd} lines on the witness's channel, of a launch of {len(evidence.updates)} updates, "
        "were no events of the witness, or repeated one; none is allowed, and one may be torn"
    )
    if odd == 1:
        hint = "run the trial again; if it recurs, the program writes to the channel"
        return [unsure(_LAYER, "channel", reason, hint=hint)]
    return [fails(_LAYER, "channel", f"{reason}: events were forged or duplicated")]


def _judge_protected(source: SourceFacts) -> Finding:
    before, after = source.protected_before, source.protected_after
    if after is None:
        return unsure(
            _LAYER, "protected", "the protected files were not hashed after the launch",
            hint="run the trial again",
        )  # fmt: skip
    changed = [path for path in sorted(before) if after.get(path) != before[path]]
    added = sorted(set(after) - set(before))
    if changed or added:
        told = [
            f"{path} ({before[path][:12]} -> {after.get(path, 'gone')[:12]})" for path in changed
        ]
        return fails(
            _LAYER, "protected",
            "files that must be the same before and after the launch differ (SHA-256 before -> "
            f"after): {_some([*told, *(f'{path} (new)' for path in added)])}",
        )  # fmt: skip
    return passes(_LAYER, "protected", f"{len(before)} protected files are as they were locked")


def _judge_tree(source: SourceFacts) -> Finding:
    if source.tree_expected is None or source.tree_ran is None:
        return unsure(
            _LAYER, "tree", "the digest of the tree that ran is not known", hint="run it again"
        )
    if source.tree_expected != source.tree_ran:
        return fails(
            _LAYER, "tree",
            f"the tree that ran ({source.tree_ran[:12]}) is not the locked commit with this "
            f"candidate's changes ({source.tree_expected[:12]})",
        )  # fmt: skip
    return passes(_LAYER, "tree", f"the tree that ran is {source.tree_ran[:12]}, as expected")


def _judge_surface(source: SourceFacts) -> list[Finding]:
    findings = []
    if source.outside_surface:
        reason = (
            "changes files that the contract's surface does not name: "
            f"{_some(source.outside_surface)}"
        )
        findings.append(fails(_LAYER, "surface", reason))
    if source.odd_entries:
        reason = f"changes entries that are no plain files: {_some(source.odd_entries)}"
        findings.append(fails(_LAYER, "surface", reason))
    if source.environment_differences:
        reason = (
            "the environment differs from the reference's beyond its knobs: "
            f"{_some(source.environment_differences)}"
        )
        findings.append(fails(_LAYER, "environment", reason))
    return findings or [
        passes(_LAYER, "surface", f"all {len(source.changed_paths)} changed paths may change")
    ]


def _judge_leftovers(source: SourceFacts) -> Finding:
    if source.leftovers is None:
        return unsure(
            _LAYER, "leftovers", "nobody looked for what the launch left behind",
            hint="run it again",
        )  # fmt: skip
    if source.leftovers:
        reason = f"the launch left behind what it must end: {_some(source.leftovers)}"
        return fails(_LAYER, "leftovers", reason)
    return passes(_LAYER, "leftovers", "the launch left nothing behind")


def _judge_loaded(source: SourceFacts, candidate: Evidence, reference: Evidence) -> Finding:
    theirs = _of_checkout(source, candidate)
    if theirs:
        return fails(
            _LAYER, "loaded_files",
            f"modules were loaded from the user's checkout, not from the trial's tree: "
            f"{_some(theirs)}",
        )  # fmt: skip
    known = set(reference.loaded_files)
    strange = [file for file in candidate.loaded_files if file not in known]
    outside = [file for file in strange if _inside(file, source.allowed_roots) is None]
    if outside:
        return fails(
            _LAYER, "loaded_files",
            f"{len(outside)} modules were loaded from outside the trial's tree and the "
            f"interpreter, and the reference loads none of them: {_some(outside)}",
        )  # fmt: skip
    written = [file for file in strange if _is_new_in_tree(file, source, known)]
    if written:
        return fails(
            _LAYER, "loaded_files",
            f"modules were loaded that were not in the tree when the launch began, so that nobody "
            f"read them: {_some(written)}",
        )  # fmt: skip
    hidden = set(candidate.own_modules) - set(reference.own_modules)
    if hidden & sys.stdlib_module_names:
        return fails(
            _LAYER, "loaded_files",
            "modules of its own stand in for the interpreter's: "
            f"{_some(sorted(hidden & sys.stdlib_module_names))}",
        )  # fmt: skip
    # A file of the same name in the reference's own tree is the repository's, not a shadow.
    names = {file.rsplit("/", 1)[-1] for file in known}
    shadows = [
        file for file in strange
        if _shadows(file, source.allowed_roots) and file.rsplit("/", 1)[-1] not in names
    ]  # fmt: skip
    if shadows:
        return fails(
            _LAYER, "loaded_files",
            f"modules were loaded that stand in for the interpreter's own: {_some(shadows)}",
        )  # fmt: skip
    return passes(
        _LAYER, "loaded_files",
        f"all {len(candidate.loaded_files)} modules came from the trial's tree or the interpreter",
    )  # fmt: skip


def _is_new_in_tree(file: str, source: SourceFacts, known: Collection[str]) -> bool:
    """Tell whether a loaded file came into the trial's tree after it was laid out.

    What the reference's own launches make and load, such as generated code, is the repository's.
    """
    below = _inside(file, source.allowed_roots[:1])
    if below is None:
        return False
    if "__pycache__/" in below:  # bytecode stands for its source
        below = below.replace("__pycache__/", "").split(".", 1)[0] + ".py"
    if below in source.protected_before:
        return False
    return not any(each.endswith(f"/{below}") for each in known)


def _of_checkout(source: SourceFacts, candidate: Evidence) -> list[str]:
    """Give the loaded files of the checkout that the trial should have had its own copies of."""
    if source.checkout is None:
        return []
    here = [file for file in candidate.loaded_files if _inside(file, (source.checkout,))]
    return [file for file in here if _inside(file, source.allowed_roots) is None]


def _inside(file: str, roots: Sequence[str]) -> str | None:
    """Give the path below the first root that holds the file, ``None`` if no root does."""
    if "/../" in file:
        return None
    for root in roots:
        stem = root.rstrip("/") + "/"
        if file.startswith(stem):
            return file[len(stem) :]
    return None


def _shadows(file: str, roots: Sequence[str]) -> bool:
    """Tell whether a loaded file starts by itself, is bare bytecode, or hides a module."""
    below = _inside(file, roots) or ""
    parts = below.split("/")
    name = parts[-1].split(".", 1)[0]
    if name in _AT_START or (below.endswith(".pyc") and "__pycache__" not in parts):
        return True
    top = name if len(parts) == 1 else parts[0]
    is_module = len(parts) == 1 or parts[1:] == ["__init__.py"]
    return is_module and hides_a_module(top)


def hides_a_module(name: str) -> bool:
    """Tell whether a top-level module of this name hides one that training relies on."""
    return name in sys.stdlib_module_names or name in _OFTEN_SHADOWED


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - _LISTED} more" if len(listed) > _LISTED else ""
    return ", ".join(listed[:_LISTED]) + more
