"""Installed packages around a launch: what it changed, what it imported, whether that is new."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from infrarsi.execute.packages import Distribution, changes, installed, states
from infrarsi.judge.facts import PackageFacts
from infrarsi.records.baseline import Baseline
from infrarsi.records.evidence import Evidence
from infrarsi.stages.workspace import Workspace

_OURS = "infrarsi"
"""The witness comes from where InfraRSI is installed, if that is where the training runs."""


@dataclass(frozen=True)
class Measured:
    """What was installed, and what the reference imported of it, when it was measured."""

    packages: Mapping[str, str]
    imports: tuple[str, ...]


def packages_now(workspace: Workspace) -> dict[str, Distribution]:
    """Give what is installed where the training interpreter imports from."""
    return installed(workspace.interpreter.search_path)


def imports_of(evidence: Evidence) -> tuple[str, ...]:
    """Give the entries of package folders that a launch imported, but for our own."""
    return tuple(each for each in evidence.packages or () if each != _OURS)


def measured_packages(workspace: Workspace) -> Measured | None:
    """Give what this search's baseline says; ``None`` where it says nothing of packages."""
    for event in reversed(workspace.ledger.events):
        if event.kind == "baseline":
            said = event.body["baseline"]
            packages = said.get("packages")
            return Measured(packages, tuple(said.get("imports") or ())) if packages else None
        if event.kind == "locked":
            break  # what stands before it is of another search
    return None


def package_facts(
    workspace: Workspace, evidence: Evidence, *, before: Mapping[str, Distribution]
) -> PackageFacts:
    """Gather what is true of installed packages after a launch.

    Parameters
    ----------
    workspace
        Its ledger says what was installed when the reference was measured.
    evidence
        What the launch imported.
    before
        What was installed before it.
    """
    after = packages_now(workspace)
    owners = {name: _owners(name, after.values()) for name in imports_of(evidence)}
    measured = measured_packages(workspace)
    why = {name: _strange(name, owners[name], measured) for name in owners} if measured else {}
    names = (each.top_levels for each in after.values() if not each.is_editable)
    return PackageFacts(
        changed=changes(states(before), states(after)), num_installed=len(after),
        installed=tuple(sorted(frozenset().union(*names) - {_OURS})),
        owners={
            name: ", ".join(f"{each.name} {each.version}" for each in found)
            for name, found in owners.items()
            if found
        },
        strange={name: reason for name, reason in why.items() if reason},
    )  # fmt: skip


def packages_changed(workspace: Workspace, baseline: Baseline) -> tuple[str, ...]:
    """Say which packages that the reference imports have changed since it was measured."""
    now = packages_now(workspace) if baseline.packages else {}
    mine = {each.name for name in baseline.imports for each in _owners(name, now.values())}
    shared = mine & set(baseline.packages)
    return changes(
        {name: baseline.packages[name] for name in shared},
        {name: now[name].state for name in shared},
    )


def _owners(top_level: str, among: Iterable[Distribution]) -> list[Distribution]:
    return [each for each in among if top_level in each.top_levels]


def _strange(top_level: str, owners: list[Distribution], measured: Measured) -> str | None:
    """Say what is not as it was when the reference was measured; ``None`` where all is."""
    beyond = top_level not in measured.imports
    if not owners:
        return "it belongs to no installed distribution" if beyond else None
    for each in owners:
        known = measured.packages.get(each.name)
        if known is None:
            return f"{each.name} was not installed then"
        if known != each.state:
            (change,) = changes({each.name: known}, {each.name: each.state})
            return change
        altered = each.altered(top_level) if beyond else None
        if altered is not None:
            return f"{altered} is not the file that {each.name} {each.version} installed"
    return None
