"""Layer 6: the reference's own code, started from the winner's states, does what the winner did.

After the last timed update, at updates that no program can know beforehand, launches of both arms
keep what one update started from and what it came to. A launch of the reference's own source then
starts that update from the winner's state, on the same batch, and should come to the same. Another
does so from the reference's states, nudged by a few units in the last place: these are the nulls.

What the layers of the window cannot see and this one does: code that begins to cheat after the
window, losses and norms that are said and not computed, an update that only looks like one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from infrarsi.judge.case import Case, Confirmation
from infrarsi.judge.findings import fails, gravest, passes, unsure
from infrarsi.judge.movement import Gap, Limits, Movement, Replayed, replayed_of
from infrarsi.judge.replay_numbers import judge_said, judge_unseen
from infrarsi.judge.workload import judge_batches
from infrarsi.records.verdict import Finding, Layer

_LAYER: Layer = "replay"
_PLAIN = 0.25
"""A difference by this share of a parameter's movement is no rounding, whatever else it is."""
_PLAIN_IF_LEFT = 0.5
"""The same where part of the state could not be put in place."""
_NEXT = "confirm again with `infrarsi apply`"


def judge_replay(confirmation: Confirmation) -> list[Finding]:
    """Check single updates of the winner, and what it learnt, through the reference's code.

    Parameters
    ----------
    confirmation : Confirmation
        ``confirmation.replay`` holds the replays; they are made once nothing else speaks against
        the winner, so that without them this layer is inconclusive.

    Returns
    -------
    list of Finding
        What was replayed; its batches; the loss and the gradient norm that the winner said; each
        parameter's movement; and the loss on batches that the states have not seen.

    Notes
    -----
    A parameter's limit is the Student prediction limit of the nulls, Bonferroni over the
    parameters, and never below what arithmetic and the rounding of stored numbers explain. It is
    enough for a refusal that one update differs by a quarter of its movement, or that most of the
    updates leave their limit; one smaller difference in one update (a token routed to another
    expert) is a doubt. When not to trust it: it sees the updates that were drawn, few of many;
    state that optimizers keep beside their parameters' own stays the reference's, and is named.
    """
    replay = confirmation.replay
    if replay is None or not replay.slots:
        return [_absent(confirmation)]
    found, gaps = replayed_of(confirmation, replay)
    presence = _judge_presence(found, gaps)
    if not found:
        return [presence]
    return [
        presence, _judge_batches(confirmation, found), *judge_said(confirmation, found),
        _judge_movement(confirmation, found), judge_unseen(confirmation, found),
    ]  # fmt: skip


def _absent(confirmation: Confirmation) -> Finding:
    winners = [launch for block in confirmation.blocks for launch in block.arm("B")]
    whys = [kept.why for launch in winners for kept in launch.evidence.kept if kept.why]
    if whys:
        return unsure(
            _LAYER, "replayed",
            f"no update was replayed: no state of the winner was kept, {whys[0]}",
            hint=_NEXT,
        )  # fmt: skip
    return unsure(
        _LAYER, "replayed", "no update of the winner was replayed by the reference's code",
        hint=f"that is done last, once nothing else speaks against the winner: {_NEXT}",
    )  # fmt: skip


def _judge_presence(found: Sequence[Replayed], gaps: Sequence[Gap]) -> Finding:
    of_winner = [gap for gap in gaps if gap.of_winner]
    if of_winner or not found:
        gap = (of_winner or list(gaps))[0]
        named = "names" in gap.why or "shape" in gap.why
        return unsure(
            _LAYER, "replayed", f"the winner's update {gap.update} was not replayed: {gap.why}",
            hint="have the patch say which parameters of the reference it renames or fuses "
            "(state_mapping)" if named else _NEXT,
        )  # fmt: skip
    updates = ", ".join(str(each.slot.update) for each in found)
    without = "".join(f"; update {gap.update} could not be: {gap.why}" for gap in gaps)
    left = dict.fromkeys(name for each in found for name in each.left)
    beside = f"; the reference's own stayed in place of {', '.join(left)}" if left else ""
    return passes(
        _LAYER, "replayed",
        f"the reference's code replayed update {updates} from the winner's state{without}{beside}",
    )  # fmt: skip


def _judge_batches(confirmation: Confirmation, found: Sequence[Replayed]) -> Finding:
    """Check that the kept updates, and all before them, saw the reference's batches."""
    findings = [
        judge_batches(
            Case(
                subject=confirmation.subject, task=confirmation.task,
                baseline=confirmation.baseline, candidate=each.kept_by, reference=each.replayed_by,
            )
        )
        for each in found
    ]  # fmt: skip
    return gravest(findings).model_copy(update={"layer": _LAYER, "check": "batches"})


@dataclass(frozen=True)
class _Beyond:
    """A parameter whose movement left its limit."""

    each: Replayed
    name: str
    movement: Movement
    share: float
    limit: float
    source: str

    @property
    def is_plain(self) -> bool:
        """Whether nothing but another update explains it."""
        return self.share >= (_PLAIN_IF_LEFT if self.each.left else _PLAIN)

    @property
    def reason(self) -> str:
        """What differed, where, by how much, and what was allowed."""
        m = self.movement
        return (
            f"from the winner's own state and batch of update {self.each.slot.update}, the "
            f"reference's code moves {self.name} by {m.moved:.3g}; the winner moved it by "
            f"{m.said:.3g}, and the two differ by {self.share:.2g} of it; allowed "
            f"{self.limit:.2g} ({self.source})"
        )


def _judge_movement(confirmation: Confirmation, found: Sequence[Replayed]) -> Finding:
    """Compare every parameter's movement in the kept updates with the reference code's."""
    limits = Limits(found, confirmation.task.numerics)
    beyond: list[_Beyond] = []
    largest, seeing, whole = 0.0, 0.0, 0.0
    for each in found:
        for name, movement in each.movements.items():
            share = movement.share(limits.epsilon)
            limit, source = limits.of(name, movement)
            largest = max(largest, share)
            whole += movement.moved**2
            seeing += movement.moved**2 if limit < _PLAIN else 0.0
            if share > limit:
                beyond.append(_Beyond(each, name, movement, share, limit, source))
    updates = {b.each.slot.update for b in beyond}
    if beyond:
        worst = max(beyond, key=lambda b: b.share)
        reason = (
            f"{worst.reason}; {len(beyond)} movements in {len(updates)} of {len(found)} updates "
            "left their limits"
        )
        many = 2 * len(updates) > len(found) and not worst.each.left
        if worst.is_plain or many:
            return fails(_LAYER, "one_update", reason)
        return unsure(
            _LAYER, "one_update", reason,
            hint=f"a token may have been routed otherwise, or state was left: {_NEXT}",
        )  # fmt: skip
    if seeing <= whole / 2:
        return unsure(
            _LAYER, "one_update",
            f"{1 - seeing / whole if whole else 1:.0%} of the movement is of parameters that the "
            "reference's own code does not move alike when its state is nudged",
            hint="turn off nondeterministic kernels and unpaired randomness, and allow no less "
            "precision than is needed",
        )  # fmt: skip
    count = sum(len(each.movements) for each in found)
    return passes(
        _LAYER, "one_update",
        f"the reference's code repeats {len(found)} updates of the winner: {count} movements of "
        f"parameters differ by at most {largest:.2g} of theirs, each within its own limit",
    )  # fmt: skip
