"""Which launches of a confirmation keep a state, and the two that replay what was kept.

Drawn are the blocks, and the updates after the hidden stops. A launch is asked through the
witness's channel, after its stop; nothing that it could read before tells it apart. Both arms keep
at the same updates, so that both are scored on the same batches.
"""

from __future__ import annotations

import math
import random
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from infrarsi.execute.disk import FLOOR_BYTES, free_bytes
from infrarsi.execute.keeping import Keep, digests_of
from infrarsi.records.candidate import Candidate, Patch
from infrarsi.records.replayed import ReplaySlot
from infrarsi.records.trial import Trial
from infrarsi.stages.confirming.starts import Start
from infrarsi.stages.history import History
from infrarsi.stages.launching.trial import Request, perform_trial
from infrarsi.stages.workspace import Workspace

NULL_ULPS = (1.0, 4.0, 16.0)
"""How far the reference's states are nudged, in units in the last place: one pair each."""
_SCORES = 2
"""Batches after each replayed update that its result is scored on."""
_JITTER = 3
_NOTICE_S = 0.2
"""How long before its update a request is sent: the parent may be slow to wake."""
_MOST_AHEAD = 40
LETTERS = {"winner": "B", "reference": "A"}


@dataclass(frozen=True)
class Pair:
    """One launch of each arm that keep their state at the same update."""

    update: int
    ahead: int
    """Updates before it at which the request is sent."""
    ulps: float
    launches: Mapping[str, int]
    """The launch's number within the confirmation, by arm."""


def draw_pairs(
    workspace: Workspace,
    schedule: Sequence[str],
    *,
    update_s: float,
    chance: random.Random,
    first: int = 0,
) -> tuple[Pair, ...]:
    """Draw the launches that keep a state, and the updates at which they do.

    Parameters
    ----------
    workspace
        Its window and hidden stops bound the updates from below.
    schedule
        The order of each block, as it will run.
    update_s
        The reference's steady seconds an update.
    chance
        Where the draws come from. A real confirmation's must not be foreseeable.
    first
        The number of the first launch within the confirmation: sessions before it had theirs.
    """
    # Of each arm every block has one launch that stops early: of an even number.
    blocks = sorted(chance.sample(range(len(schedule)), min(len(NULL_ULPS), len(schedule))))
    chosen = [
        {arm: first + _early(schedule[block], letter, block) for arm, letter in LETTERS.items()}
        for block in blocks
    ]  # fmt: skip
    ahead = 2 + min(_MOST_AHEAD, math.ceil(_NOTICE_S / update_s))
    stops = [
        workspace.stop_update(number, arm=f"confirm/{arm}")
        for each in chosen
        for arm, number in each.items()
    ]
    updates: list[int] = []
    last = workspace.contract.task.window.last_update
    for index in range(len(chosen)):
        earliest = updates[-1] + _SCORES + 1 if updates else max(stops) + ahead
        far = chance.randrange(last // 2 + 1) if index == len(chosen) - 1 else 0
        updates.append(earliest + chance.randrange(_JITTER) + far)
    chance.shuffle(chosen)
    return tuple(
        Pair(update, ahead, ulps, launches)
        for update, ulps, launches in zip(updates, NULL_ULPS, chosen, strict=False)
    )


def _early(order: str, letter: str, block: int) -> int:
    """Give the number of a block's launch of an arm that stops at the earlier of its two stops."""
    return next(4 * block + i for i, each in enumerate(order) if each == letter and i % 2 == 0)


def keep_for(workspace: Workspace, pairs: Sequence[Pair], *, number: int, arm: str) -> Keep | None:
    """Give what a launch of a confirmation is asked to keep, if anything."""
    for pair in pairs:
        if pair.launches[arm] == number:
            room = free_bytes(workspace.folder) - 2 * FLOOR_BYTES
            return Keep(pair.update, pair.ahead, most_bytes=max(0, room) // (2 * len(pairs) + 1))
    return None


def replay_kept(
    workspace: Workspace,
    history: History,
    candidate: Candidate,
    trials: Mapping[int, Trial],
    *,
    pairs: Sequence[Pair],
    remarks: Mapping[str, int],
    tell: Callable[[str], None],
) -> None:
    """Launch the reference twice, to replay what each arm's launches have kept.

    Where nothing was kept of the winner nothing is launched, and the judge says why.
    """
    slots = tuple(_slot(workspace, pair, trials) for pair in pairs)
    reference = Candidate.of(workspace.contract.task.surface.default_knobs())
    mapping = mapping_of(candidate, history.patches)
    for arm in LETTERS:
        starts = _starts(workspace, slots, arm, mapping=mapping if arm == "winner" else {})
        if not starts:
            return
        tell(f"the reference's code replays {len(starts)} updates of the {arm}")
        request = Request(
            candidate=reference, purpose="replay", arm=arm, starts=starts, capped=False,
            stop_update=max(start.update for start in starts) + _SCORES,
            remarks={**remarks, "slots": [slot.model_dump(mode="json") for slot in slots]},
        )  # fmt: skip
        perform_trial(workspace, request, patches={})


def mapping_of(candidate: Candidate, patches: Mapping[str, Patch]) -> dict[str, tuple[str, ...]]:
    """Give the parameters that a candidate's patches rename or fuse."""
    return {
        name: held
        for patch in candidate.patches
        for name, held in patches[patch].state_mapping.items()
    }


def _slot(workspace: Workspace, pair: Pair, trials: Mapping[int, Trial]) -> ReplaySlot:
    names = {arm: trials[pair.launches[arm]].trial_id for arm in LETTERS}
    return ReplaySlot(
        update=pair.update, winner=names["winner"], reference=names["reference"], ulps=pair.ulps,
        scores=_SCORES,
        digests={
            arm: digests_of(workspace.kept / name) for arm, name in names.items()
        },
    )  # fmt: skip


def _starts(
    workspace: Workspace,
    slots: Sequence[ReplaySlot],
    arm: str,
    *,
    mapping: Mapping[str, tuple[str, ...]],
) -> tuple[Start, ...]:
    return tuple(
        Start(
            update=slot.update,
            place=workspace.kept / (slot.winner if arm == "winner" else slot.reference),
            ulps=0.0 if arm == "winner" else slot.ulps, seed=index, scores=slot.scores,
            mapping=mapping,
        )
        for index, slot in enumerate(slots)
        if {"before.0", "after.0"} <= slot.digests[arm].keys()
    )  # fmt: skip


def forget_kept(workspace: Workspace) -> None:
    """Take the kept states away: what came of them stands in the evidence of the replays."""
    shutil.rmtree(workspace.kept, ignore_errors=True)
