"""Replays of a synthetic confirmation: as a witness would tell of them."""

from dataclasses import replace

from synthetic_training import Clock, Recipe, evidence_of, facts_of, launch_of

from infrarsi.judge.case import Block, Replay
from infrarsi.records.replayed import KeptSeen, ReplaySeen, ReplaySlot, TensorReplayed

UPDATES = (17, 20)
ULPS = (1.0, 4.0)
NAMES = ("embed", "first", "second", "head")
EVIDENCE = {}


def tensor(name, *, apart=1e-6, moved=0.1, said=None, size=5.0):
    said = moved if said is None else said
    return TensorReplayed(name=name, apart=apart * moved, moved=moved, said=said, size=size)


def replay_seen(update, *, tensors=None, **changes):
    rows = tensors if tensors is not None else [tensor(name) for name in NAMES]
    return ReplaySeen(update=update, tensors=tuple(rows), **changes)


def replay_launch(trial_id, seen, *, recipe=None, evidence=None):
    """A launch of the reference's own code that replayed updates."""
    recipe = recipe or Recipe()
    if recipe not in EVIDENCE:
        EVIDENCE[recipe] = evidence_of(recipe, Clock())
    evidence = (evidence or EVIDENCE[recipe]).model_copy(update={"replayed": tuple(seen)})
    return launch_of(evidence=evidence, facts=facts_of(trial_id=trial_id))


def first_of(confirmation, block, letter):
    return confirmation.blocks[block].order.index(letter)


def with_launch(confirmation, block, place, launch):
    """The confirmation with one of its launches another one."""
    old = confirmation.blocks[block]
    launches = (*old.launches[:place], launch, *old.launches[place + 1 :])
    blocks = list(confirmation.blocks)
    blocks[block] = Block(old.order, launches)
    return replace(confirmation, blocks=tuple(blocks))


def keeping(launch, trial_id, update, why=None):
    """The same launch under a name, having answered the request to keep its state."""
    kept = (KeptSeen(update=update, num_bytes=100, why=why),)
    return replace(
        launch, evidence=launch.evidence.model_copy(update={"kept": kept}),
        facts=launch.facts.model_copy(update={"trial_id": trial_id}),
    )  # fmt: skip


def with_replay(confirmation, *, of_winner=None, of_reference=None, why=None):
    """Have two launches of each arm keep a state, and replay them.

    ``of_winner`` and ``of_reference`` map an update to what its replay told, where it is not the
    usual.
    """
    slots = []
    for block, update in enumerate(UPDATES):
        for arm, letter in (("winner", "B"), ("reference", "A")):
            place = first_of(confirmation, block, letter)
            launch = confirmation.blocks[block].launches[place]
            said = why if arm == "winner" else None
            kept = keeping(launch, f"{arm}{block}", update, said)
            confirmation = with_launch(confirmation, block, place, kept)
        slots.append(
            ReplaySlot(
                update=update, winner=f"winner{block}", reference=f"reference{block}",
                ulps=ULPS[block], scores=2,
            )
        )  # fmt: skip
    mine, theirs = (
        [(told or {}).get(update, replay_seen(update)) for update in UPDATES]
        for told in (of_winner, of_reference)
    )
    return replace(
        confirmation,
        replay=Replay(
            tuple(slots), replay_launch("replay-w", mine), replay_launch("replay-r", theirs)
        ),
    )
