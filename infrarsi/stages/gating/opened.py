"""What the gate looks at: a change between two trees, and the bundle laid open beside it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

from infrarsi.errors import BundleError
from infrarsi.execute.git_trees import Entries, commit_of, differing, entries_of, merge_base
from infrarsi.execute.repository import Repository
from infrarsi.records.baseline import Baseline
from infrarsi.records.plan import Contract
from infrarsi.records.statement import FOLDER
from infrarsi.records.verdict import Verdict
from infrarsi.stages.confirming.bundle import Place, PromotedFiles, promoted_files
from infrarsi.stages.confirming.sessions import Sitting, judge_rows
from infrarsi.stages.doctor import baseline_of
from infrarsi.stages.gating.bundle import Bundle, open_bundle
from infrarsi.stages.history import History
from infrarsi.stages.judging import Court, reference_of
from infrarsi.stages.workspace import Workspace, sources_at

_PROMOTE = "promote again with `infrarsi apply`"


@dataclass(frozen=True)
class Change:
    """Two commits, and what the second one brings: trees and digests, never commit ids."""

    repository: Repository
    base: str
    head: str
    at_base: Entries
    at_head: Entries
    at_fork: Entries
    """Where the head's line of history left the base's."""

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """What the head changes."""
        return differing(self.at_fork, self.at_head)

    @property
    def is_nothing(self) -> bool:
        """Whether base and head hold the same."""
        return self.at_base == self.at_head

    @property
    def touches_a_bundle(self) -> bool:
        """Whether the head brings, changes or takes away a bundle."""
        return any(path.startswith(f"{FOLDER}/") for path in self.paths)

    def at_base_content(self, path: str) -> bytes | None:
        """Give a file as it stands at the base; ``None`` where there is no such plain file."""
        entry = self.at_base.get(path)
        return self.repository.blob(entry.object_id) if entry and entry.is_file else None


def read_change(repository: Repository, base: str, head: str) -> Change:
    """Read what a head brings to a base.

    Raises
    ------
    UsageError
        One of them is no commit here, or they have no history in common.
    """
    left, right = commit_of(repository, base), commit_of(repository, head)
    fork = merge_base(repository, left, right)
    trees = {commit: entries_of(repository, commit) for commit in {left, right, fork}}
    return Change(repository, left, right, trees[left], trees[right], trees[fork])


@dataclass(frozen=True)
class Opened:
    """A bundle laid open beside the change that brings it, under the base's contract."""

    change: Change
    contract: Contract
    bundle: Bundle
    workspace: Workspace
    """The bundle's own ledger and artifacts."""
    history: History
    objects: Path
    """Where git objects are made that no repository shall keep."""

    @cached_property
    def files(self) -> PromotedFiles:
        """What the bundle's patches and knobs give, applied to the reference's sources."""
        said, task = self.bundle.predicate, self.contract.task
        sources = sources_at(self.change.repository, said.base_tree, task.surface)
        patches = [self.history.patches[name] for name in said.candidate.patches]
        return promoted_files(
            task, said.candidate, patches, sources=sources, environ=said.launch.environment
        )

    @cached_property
    def place(self) -> Place:
        """The trees between which the promotion lies."""
        base = self.bundle.predicate.base_tree
        promoted = self.change.repository.expected_tree(
            base, self.files.all, objects=self.objects, without=(FOLDER,)
        )
        return Place(base, promoted)

    @cached_property
    def ran(self) -> str:
        """The tree that the winner's launches must have run."""
        base = self.bundle.predicate.base_tree
        return self.change.repository.expected_tree(base, self.files.ran, objects=self.objects)

    @cached_property
    def at_promoted(self) -> Entries:
        """The promoted tree, file by file."""
        repository = self.change.repository
        ours = repository.git("rev-parse", "--path-format=absolute", "--git-path", "objects")
        env = {"GIT_OBJECT_DIRECTORY": str(self.objects), "GIT_ALTERNATE_OBJECT_DIRECTORIES": ours}
        return entries_of(repository, self.place.promoted, env=env)

    @cached_property
    def baseline(self) -> Baseline:
        """What calibration's launches give by today's rules: the stated one is not believed.

        But for its controls, whose launches a bundle does not hold.
        """
        history = self.history
        stated, machine = history.baseline, history.machine
        if stated is None or machine is None or stated.peak_flops is None:
            raise BundleError("the bundle holds no calibration", hint=_PROMOTE)
        aa = [history.trials[name] for name in stated.trials]
        nulls = [history.trials[name] for name in stated.null_trials]
        found = baseline_of(self.workspace, machine, aa, nulls, peak_flops=stated.peak_flops)
        return found.model_copy(update={"controls": stated.controls})

    @cached_property
    def judged(self) -> tuple[Verdict, float]:
        """The verdict on the bundle's evidence under today's rules, and what it must exceed."""
        said, history = self.bundle.predicate, self.history
        rows = [
            (each.session, each.order, [history.trials[name] for name in each.trials])
            for each in said.blocks
        ]
        reference = reference_of(self.workspace, history, self.baseline)
        sitting = Sitting(
            attempt=said.attempt, blocks=self.planned_blocks, sessions=said.sessions,
            gap_s=said.session_gap_s,
        )  # fmt: skip
        return judge_rows(
            self.workspace, Court(self.contract.task, self.baseline, reference), said.candidate,
            rows, sitting=sitting, history=history, patches=history.patches,
        )  # fmt: skip

    @property
    def planned_blocks(self) -> int:
        """How many blocks each session was to have."""
        said = self.bundle.predicate
        due = len(said.blocks) // said.sessions
        return int(self.history.confirmations[0].body.get("planned_blocks", due))


@contextmanager
def laid_open(change: Change, contract: Contract, bundle: Bundle) -> Iterator[Opened]:
    """Lay a bundle open, for as long as it is looked at.

    Raises
    ------
    BundleError
        Its archive cannot be used, or holds no confirmation or more than one.
    """
    with open_bundle(change.repository, contract, bundle) as workspace, TemporaryDirectory() as own:
        history = History.of(workspace.ledger.events)
        if len(history.confirmations) != 1 or history.baseline is None:
            raise BundleError(
                "the bundle does not hold one calibration and one confirmation",
                hint="promote again with `infrarsi apply`",
            )
        yield Opened(change, contract, bundle, workspace, history, Path(own))
