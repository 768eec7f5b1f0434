"""A kept state and its replay, on real training: what honest and cheating variants come to."""

import json
import os
import sys
from pathlib import Path

import pytest

from infrarsi.execute.keeping import Keep, lay_out, take_kept
from infrarsi.execute.launch import LaunchPlan, launch
from infrarsi.execute.sandbox import Room, Tier
from infrarsi.execute.scratch import prepare_scratch
from infrarsi.judge.case import Block, Confirmation, Launch, Replay
from infrarsi.judge.facts import LaunchFacts
from infrarsi.judge.replay import judge_replay
from infrarsi.records.baseline import Band, Baseline
from infrarsi.records.estimate import Estimate
from infrarsi.records.evidence import read_evidence
from infrarsi.records.replayed import ReplaySlot
from infrarsi.records.task import Memory, Surface, Task, Window
from infrarsi.records.trial import Outcome
from infrarsi.records.verdict import Ruling
from infrarsi.witness import ENTRY

pytestmark = pytest.mark.training

PROGRAM = Path(__file__).parent / "programs" / "variants.py"
VARIANTS = (
    "plain", "foreach", "forges losses", "skips steps", "stale gradients", "renamed",
)  # fmt: skip
"""The first is the reference of all."""
STOP, UPDATE, SCORES = 6, 32, 2
WINDOW = Window(warmup_updates=2, measured_updates=3)


def launched(folder, variants, *, keep=None, replay=None, place=None):
    """Launch variants side by side; give the evidence of each as that of a launch of its own."""
    scratch = folder / "scratch"
    prepare_scratch(scratch, cache=None)
    if place is not None:
        lay_out(place, scratch, name="0")
        replay = [{"folder": str(scratch / "replay" / "0"), **replay}]
    options = {"schema": 1, "marks": [0, 2, 5], "sketch_seed": 1, "sketch_elements": 8,
               "perturb": None, "replay": replay}  # fmt: skip
    stop = STOP if keep else UPDATE + SCORES
    done = launch(
        LaunchPlan(
            mark=f"test-{os.getpid()}-{folder.name}/", tier=Tier.PROCESS_GROUP, folder=".",
            argv=(sys.executable, str(PROGRAM), json.dumps(list(variants))),
            room=Room(tree=PROGRAM.parent, root=PROGRAM.parent, scratch=scratch), witness=ENTRY,
            witness_options=options, stop_update=stop, values_until=stop, deadline_s=90.0,
            env={"OMP_NUM_THREADS": "1"}, keep=keep,
        )
    )  # fmt: skip
    assert done.outcome is Outcome.OK, done.log.decode()
    events = [json.loads(line) for line in done.events.splitlines()]
    each = [[] for _ in variants]
    for line in events:
        each[line["event"]["rank"]].append(
            json.dumps({**line, "event": {**line["event"], "rank": 0}})
        )
    return [read_evidence(lines) for lines in each]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Every variant's own launch, its replay by its reference's code, and that of nudged states."""
    kept, mine, null = (tmp_path_factory.mktemp(name) for name in ("kept", "mine", "null"))
    keep = Keep(UPDATE, ahead=20, most_bytes=10**7)
    variants = launched(kept, VARIANTS, keep=keep)
    place = kept / "place"
    take_kept(kept / "scratch", place)
    told = {"update": UPDATE, "scores": SCORES, "seed": 1}
    replays = launched(mine, ["plain"] * len(VARIANTS), replay=told, place=place)
    (nudged,) = launched(null, ["plain"], replay={**told, "ulps": 4.0}, place=place)
    return {name: (variants[i], variants[0], replays[i], nudged) for i, name in enumerate(VARIANTS)}


def as_launch(evidence, name):
    return Launch(evidence, LaunchFacts(trial_id=name, outcome=Outcome.OK, stop_update=STOP))


def findings(trained, name):
    """What the judge says of a variant by layer 6 alone."""
    winner, reference, mine, null = map(as_launch, trained[name], ("b", "a", "of b", "of a"))
    one = Estimate(low=0.9, point=1.0, high=1.1)
    baseline = Baseline(
        task_digest="t", machine_digest="m", trials=(), null_trials=(), update_s=one,
        cold_start_s=1.0, launch_s=1.0, peak_bytes=1, phase_share={}, noise_sd=0.01, bias=0.0,
        least_detectable=0.01, bands=(Band(metric="loss", limit=1e-5, source="a test"),),
        nondeterministic=False, reference_trial="a", wall_s=1.0,
    )  # fmt: skip
    task = Task(
        command=("python", "train.py"), window=WINDOW, surface=Surface(editable=("train.py",)),
        memory=Memory(capacity_bytes=1 << 30),
    )  # fmt: skip
    slot = ReplaySlot(update=UPDATE, winner="b", reference="a", ulps=4.0, scores=SCORES)
    confirmation = Confirmation(
        subject=name, task=task, baseline=baseline, reference=reference, planned_blocks=1,
        blocks=(Block("ABBA", (reference, winner, winner, reference)),),
        replay=Replay((slot,), mine, null),
    )  # fmt: skip
    return {each.check: each for each in judge_replay(confirmation)}


@pytest.mark.parametrize("name", ["plain", "foreach"])
def test_an_honest_variant_is_repeated_by_the_references_code(trained, name):
    said = findings(trained, name)
    assert {each.ruling for each in said.values()} == {Ruling.PASS}, said
    assert set(said) == {"replayed", "batches", "loss", "grad_norm", "one_update", "unseen"}
    assert "stayed" not in said["replayed"].reason, "all of the state was put in place"


def test_the_reference_replays_its_own_update_to_the_bit(trained):
    (seen,) = trained["plain"][2].replayed
    assert seen.why is None
    assert {row.name for row in seen.tensors} >= {"embed.weight", "block.up.bias", "head.weight"}
    assert all(row.apart == 0.0 for row in seen.tensors)
    assert all(row.moved > 0 for row in seen.tensors)


def test_a_nudged_state_is_replayed_nearly_alike(trained):
    (seen,) = trained["plain"][3].replayed
    shares = [row.apart / row.moved for row in seen.tensors]
    assert max(shares) < 0.05
    assert min(shares) > 0


@pytest.mark.parametrize(
    ("name", "checks"),
    [
        ("skips steps", {"one_update"}),
        ("stale gradients", {"one_update", "grad_norm"}),
        ("forges losses", {"loss"}),
    ],
)
def test_what_begins_after_the_window_is_refused(trained, name, checks):
    said = findings(trained, name)
    failing = {check for check, each in said.items() if each.ruling is Ruling.FAIL}
    assert failing - {"unseen"} == checks, said
    assert all(f"update {UPDATE}" in said[check].reason for check in checks)


def test_a_parameter_that_does_not_move_is_named(trained):
    reason = findings(trained, "skips steps")["one_update"].reason
    assert "reference's code moves" in reason
    assert "moved it by 0," in reason
    assert "7 movements in 1 of 1 updates" in reason


def test_a_renamed_parameter_is_a_doubt(trained):
    (said,) = findings(trained, "renamed").values()
    assert said.ruling is Ruling.INCONCLUSIVE
    assert "head.weight" in said.reason
    assert "top.weight" in said.reason
    assert "state_mapping" in said.hint


def test_keeping_a_state_changes_nothing_in_the_window(trained):
    """Until the request nothing differs; and the training goes on the same after it."""
    kept, _, replayed, _ = trained["plain"]
    pairs = zip(kept.updates[: UPDATE - 1], replayed.updates, strict=False)
    assert all(one.loss == two.loss for one, two in pairs)
    assert kept.updates[UPDATE - 1].loss == replayed.updates[UPDATE - 1].loss
