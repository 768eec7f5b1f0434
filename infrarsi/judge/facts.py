"""Plain facts that the hands report and the judge reads: no file is opened in this room."""

from __future__ import annotations

from infrarsi.records.base import Record
from infrarsi.records.trial import Outcome


class ChangedFile(Record):
    """One text that a candidate changes: a whole file, or the two sides of one edit."""

    path: str
    """Relative to the repository's root."""
    before: str | None
    """``None`` where the file did not exist."""
    after: str | None
    """``None`` where the file is taken away."""


class PackageFacts(Record):
    """What was true of installed packages around one launch."""

    changed: tuple[str, ...] = ()
    """What is not as it was before the launch, in words."""
    num_installed: int = 0
    """Distributions along the training interpreter's path."""
    installed: tuple[str, ...] = ()
    """Names that these are imported by, which nothing of the tree may stand in for."""
    owners: dict[str, str] = {}
    """By top-level name that was loaded: its distribution and version."""
    strange: dict[str, str] = {}
    """Of what was loaded, what is not as it was when the reference was measured, and why."""


class SourceFacts(Record):
    """What was true of the source around one launch. ``None`` means that nobody looked."""

    protected_before: dict[str, str]
    """SHA-256 of every protected file and locked input, by path, as locked."""
    protected_after: dict[str, str] | None
    """The same files, hashed where the launch ran, after it ended."""
    tree_expected: str | None
    """Digest of the locked tree with this candidate's changes applied."""
    tree_ran: str | None
    """Digest of the tree as it stood when the launch started."""
    changed_paths: tuple[str, ...] = ()
    """Paths that differ from the locked commit."""
    changed_files: tuple[ChangedFile, ...] | None = None
    """The files that patches change, whole."""
    outside_surface: tuple[str, ...] = ()
    """Those of ``changed_paths`` that the contract's surface does not name."""
    odd_entries: tuple[str, ...] = ()
    """Changed entries that are no plain files: symlinks, gitlinks, modes, compiled files."""
    allowed_roots: tuple[str, ...] = ()
    """Absolute folders that modules may be loaded from: the trial's tree and its caches."""
    leftovers: tuple[str, ...] | None = ()
    """Processes still alive and files written outside the trial's folders, in words."""
    environment_differences: tuple[str, ...] = ()
    """Variables that differ from the reference launch and that no knob accounts for."""
    checkout: str | None = None
    """The user's checkout, from which an uncontained trial must load nothing; contained, its tree
    stands there."""
    packages: PackageFacts | None = None


class LaunchFacts(Record):
    """How one launch went, as the parent saw it."""

    trial_id: str
    outcome: Outcome
    reason: str = ""
    """For every outcome but ok: what happened."""
    stop_update: int | None
    """The hidden update at which the parent stopped it."""
    wall_s: float | None = None
    """Wall seconds from start to the end of the kill, by the parent's clock."""
    sandbox: str = ""
    """The tier that contained it; empty: not on record."""
