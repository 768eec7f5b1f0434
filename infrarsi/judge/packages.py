"""Layer 1, of installed packages: a change of the source adds none, and changes none.

Speed that comes from another build of a library is none of the patch's, and a branch cannot carry
it. What a candidate imports beyond the reference is named; it must have been installed, in this
very state, when the reference was measured.
"""

from __future__ import annotations

from collections.abc import Iterable

from infrarsi.judge.case import Case
from infrarsi.judge.facts import PackageFacts
from infrarsi.judge.findings import fails, passes, unsure
from infrarsi.records.verdict import Finding, Layer

_LAYER: Layer = "integrity"
_LISTED = 8


def judge_packages(case: Case) -> list[Finding]:
    """Check that the launch left installed packages alone, and imported none that is new.

    Parameters
    ----------
    case : Case
        ``case.candidate.source.packages`` holds the facts.

    Notes
    -----
    When not to trust it: what is imported after the window's last mark is not seen, and what is
    loaded past Python's import (a library opened by hand) is the audit's to see. Launches from
    before packages were looked at pass, and say so.
    """
    source = case.candidate.source
    facts = source.packages if source is not None else None
    if facts is None:
        return [passes(_LAYER, "packages", "installed packages were not looked at in this launch")]
    assert source is not None
    contained = source.checkout is None
    return [_judge_installed(facts, contained=contained), _judge_imports(case, facts)]


def _judge_installed(facts: PackageFacts, *, contained: bool) -> Finding:
    words = (
        "installed packages are not what they were before the launch: "
        f"{_some(facts.changed)}; none may change"
    )
    if facts.changed and contained:
        return unsure(
            _LAYER, "packages", f"{words}, and a contained launch cannot have changed them",
            hint="somebody else did: measure the reference anew once they are done",
        )  # fmt: skip
    if facts.changed:
        return fails(
            _LAYER, "packages", words,
            hint="leave the environment alone: a branch carries source and settings, no packages",
        )  # fmt: skip
    return passes(
        _LAYER, "packages",
        f"the {facts.num_installed} installed distributions are what they were before the launch",
    )  # fmt: skip


def _judge_imports(case: Case, facts: PackageFacts) -> Finding:
    mine, theirs = case.candidate.evidence, case.reference.evidence
    stand_ins = sorted(set(mine.own_modules) & set(facts.installed) - set(theirs.own_modules))
    if stand_ins:
        return fails(
            _LAYER, "imports",
            f"modules of the tree were loaded in place of installed packages: {_some(stand_ins)}; "
            "the reference loads none of them from there",
            hint="import the installed package, or give the module a name of its own",
        )  # fmt: skip
    if mine.packages is None or theirs.packages is None:
        return passes(_LAYER, "imports", "what packages were imported was not told")
    beyond = sorted(set(mine.packages) - set(theirs.packages))
    odd = [f"{name} ({facts.strange[name]})" for name in beyond if name in facts.strange]
    if odd:
        return fails(
            _LAYER, "imports",
            f"it imports packages that the reference does not, and that are not as they were when "
            f"the reference was measured: {_some(odd)}",
            hint="a patch may import what was installed then; install it, then run doctor again",
        )  # fmt: skip
    shared = [f"{each} ({why})" for each, why in sorted(facts.strange.items())]
    if shared:
        return unsure(
            _LAYER, "imports",
            f"packages have changed since the reference was measured: {_some(shared)}",
            hint="put them back, or measure the reference anew with `infrarsi doctor --fresh`",
        )  # fmt: skip
    if not beyond:
        return passes(_LAYER, "imports", "it imports no package that the reference does not")
    named = [facts.owners.get(each, each) for each in beyond]
    return passes(
        _LAYER, "imports",
        f"beyond what the reference imports: {_some(dict.fromkeys(named))}; installed as they were "
        "when the reference was measured",
    )  # fmt: skip


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - _LISTED} more" if len(listed) > _LISTED else ""
    return ", ".join(listed[:_LISTED]) + more
